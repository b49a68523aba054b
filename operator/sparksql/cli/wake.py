"""Wakes a session that hibernates, as a client that comes by its endpoints cannot: there is nobody who would hear it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime

from sparksql.api.names import ANNOTATION_WAKE
from sparksql.cli.console import Console
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.kubectl import Kubectl
from sparksql.cli.objects import SESSIONS, Session

WAKE_SECONDS = 300.0  # a start whose image has to be pulled takes its time
_ON_ITS_WAY = frozenset({"Hibernated", "Pending", "Starting", "Draining"})


async def awake(kubectl: Kubectl, console: Console, session: Session) -> Session:
    """Returns the session as it is, once it is Ready if it hibernates or is about to. Raises CliError if it does not wake."""
    if session.status.phase != "Hibernated" and session.reason != "Hibernating":
        return session
    console.note(f"session {session.name} hibernates: wakes it")
    wake = {"metadata": {"annotations": {ANNOTATION_WAKE: datetime.now(UTC).isoformat()}}}
    await kubectl.patch(SESSIONS, session.name, wake, session.namespace)
    try:
        async with asyncio.timeout(WAKE_SECONDS):
            return await _ready(kubectl, session)
    except TimeoutError:
        now = Session.of(await kubectl.get(SESSIONS, session.name, session.namespace))
        what = f"{now.status.phase} {now.reason}"
        raise CliError(
            f"session {session.name} is not Ready after {WAKE_SECONDS:g} s: {what}", Exit.INCOMPLETE
        ) from None


async def _ready(kubectl: Kubectl, session: Session) -> Session:
    while True:
        async with aclosing(kubectl.watch(SESSIONS, session.name, session.namespace)) as events:
            async for event in events:
                now = Session.of(event["object"])
                if event["type"] == "DELETED":
                    raise CliError(f"session {session.name} was deleted")
                if now.status.phase == "Ready":
                    return now
                if now.status.phase not in _ON_ITS_WAY:
                    raise CliError(f"session {session.name} did not wake: {now.status.phase} {now.reason}")
