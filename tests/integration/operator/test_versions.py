"""Drivers of other versions than the operator: what runs goes on, nothing restarts, and the session says so."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.kube.resources import EVENTS, SESSIONS, STATEMENTS
from sparksql.wire import versions
from sparksql.wire.versions import OLDEST_OPERATOR, PROTOCOL_VERSION
from tests.integration.operator.environment import Environment, message_of

Object = dict[str, Any]
NEWER = (PROTOCOL_VERSION + 1, OLDEST_OPERATOR)
TOO_NEW = (PROTOCOL_VERSION + 2, PROTOCOL_VERSION + 1)


def skew(session: Object) -> Object | None:
    return next((c for c in session["status"]["conditions"] if c["type"] == "VersionSkew"), None)


async def says(env: Environment, reason: str) -> Object:
    """The session once its condition has this reason."""
    found = await env.wait(SESSIONS, "s", f"says {reason}", lambda o: (skew(o) or {}).get("reason") == reason)

    async def is_told() -> bool:
        return reason in await env.event_reasons("s")

    await env.until("an event says so", is_told)
    return found


async def test_driver_of_a_later_version_that_says_more_than_is_known_is_worked_with(env: Environment) -> None:
    env.ledger.versions, env.ledger.says_more = NEWER, True
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.session_ready()
        session = await says(env, "NewerDriver")
        await env.create_statement("one", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "one", "Running")
        env.ledger.release("one")
        await env.finished("one")
    assert f"version {PROTOCOL_VERSION + 1}" in (skew(session) or {})["message"]
    assert len(env.ledger.ran("one")) == 1


async def test_operator_upgrade_keeps_drivers_and_their_running_statements(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await env.create_class()
    before = await env.create_session()
    async with env.operator():
        await env.session_ready()
        await env.create_statement("one", "INSERT HOLD")
        running = await env.in_phase(STATEMENTS, "one", "Running")
        before = await env.get(SESSIONS, "s")
        assert skew(before) is None
    monkeypatch.setattr(versions, "PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
    async with env.operator():
        await says(env, "OlderDriver")
        env.ledger.release("one")
        done = await env.finished("one")
        await env.create_statement("two", "INSERT")
        await env.finished("two")
        after = await env.get(SESSIONS, "s")
    async with env.operator():  # and another one of its version: it is told once
        await env.create_statement("three", "INSERT")
        await env.finished("three")
        events = [
            e["count"]
            for e in (await env.client.list(EVENTS, env.namespace)).items
            if e["reason"] == "OlderDriver" and e["involvedObject"]["name"] == "s"
        ]
    assert events == [1]
    assert (after["status"]["phase"], after["status"]["driver"]) == ("Ready", before["status"]["driver"])
    assert done["status"]["attempt"] == running["status"]["attempt"] == 1
    assert [len(env.ledger.ran(name)) for name in ("one", "two", "three")] == [1, 1, 1]
    assert len(env.kubelet.started) == 1


async def test_incompatible_driver_gets_no_new_statement_and_keeps_the_running_one(
    env: Environment,
) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        gateway = await env.session_ready()
        await env.create_statement("one", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "one", "Running")
    env.ledger.versions = TOO_NEW
    async with env.operator():
        await says(env, "IncompatibleDriver")
        await env.create_statement("two", "INSERT")
        waits = await env.wait(STATEMENTS, "two", "says why", lambda o: "upgrade the operator" in message_of(o))
        env.ledger.release("one")
        await env.finished("one")
        assert (await env.get(SESSIONS, "s"))["status"]["phase"] == "Ready"
        assert waits["status"]["phase"] == "Initialized"
        assert env.ledger.ran("two") == []
        await env.patch(SESSIONS, "s", {"restartNonce": "1"})  # the next driver is of the operator's version
        await env.until("it is let go", lambda: gateway.pod not in env.kubelet.drivers)
        env.ledger.versions = (PROTOCOL_VERSION, OLDEST_OPERATOR)
        await env.finished("two")
