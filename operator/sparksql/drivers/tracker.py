"""What the drivers say: one follower a driver keeps its event stream open and the last view of each live operation.

Invariants
- A follower resumes from the last sequence number it has seen, so no change is lost over a broken connection.
- Views are kept only of operations that somebody waits for; the rest of a stream passes by.
- Who subscribed is told of each change when the tracker has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp

from sparksql.domain.backoff import exponential
from sparksql.drivers.client import Address, GatewayClient, GatewayRefused, GatewayUnreachable
from sparksql.engine.key import Key, log_extra
from sparksql.wire.control import Event, GatewayInfo, OperationView

FIRST_RETRY_SECONDS = 0.1
MOST_RETRY_SECONDS = 1.0

logger = logging.getLogger(__name__)


@dataclass
class DriverConnection:
    session: Key
    client: GatewayClient
    task: asyncio.Task[None] | None = None
    boot_id: str | None = None
    seq: int = 0
    info: GatewayInfo | None = None
    views: dict[str, OperationView] = field(default_factory=dict)


class Subscriber(Protocol):
    """Who is told what the drivers say."""

    def driver_changed(self, session: Key, before: GatewayInfo | None, after: GatewayInfo) -> None:
        """The session's driver says `after` of itself; `before` is None for its first word."""

    def operation_changed(self, before: OperationView | None, after: OperationView) -> None:
        """A driver says `after` of an operation, unasked; `before` is None for its first word."""

    def operation_arrived(self, session: Key) -> None:
        """The session's driver has an operation that it was not known to have."""


class DriverTracker:
    """All drivers that are followed. `is_awaited` tells of an operation id whether a statement waits for its end."""

    def __init__(self, http: aiohttp.ClientSession, is_awaited: Callable[[str], bool]) -> None:
        self._http = http
        self._is_awaited = is_awaited
        self._subscribers: list[Subscriber] = []
        self._links: dict[str, DriverConnection] = {}
        self._sessions: dict[Key, str] = {}

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tells `subscriber` of each change from now on."""
        self._subscribers.append(subscriber)

    def follow(self, session: Key, address: Address) -> None:
        """Follow the driver at `address` for `session`; a driver that the session had before is let go."""
        known = self._sessions.get(session)
        if known == address.pod_uid:
            return
        if known is not None:
            self.unfollow(session)
        follow = DriverConnection(session, GatewayClient(self._http, address))
        follow.task = asyncio.create_task(self._follow(follow), name=f"follow {session}")
        self._links[address.pod_uid] = follow
        self._sessions[session] = address.pod_uid

    def unfollow(self, session: Key) -> None:
        pod_uid = self._sessions.pop(session, None)
        follow = self._links.pop(pod_uid, None) if pod_uid is not None else None
        if follow is not None and follow.task is not None:
            follow.task.cancel()
            if follow.views:  # last words that may not be in a status yet
                self._links[follow.client.address.pod_uid] = follow

    def followed_pod(self, session: Key) -> str | None:
        return self._sessions.get(session)

    def info(self, session: Key) -> GatewayInfo | None:
        """What the session's driver last said of itself; None before its first word."""
        follow = self._links.get(self._sessions.get(session, ""))
        return follow.info if follow else None

    def client(self, pod_uid: str) -> GatewayClient | None:
        follow = self._links.get(pod_uid)
        return follow.client if follow else None

    def view(self, pod_uid: str, operation_id: str) -> OperationView | None:
        follow = self._links.get(pod_uid)
        return follow.views.get(operation_id) if follow else None

    def update_view(self, pod_uid: str, view: OperationView) -> None:
        """Take in a view that came as an answer; an older one than what is known is dropped."""
        follow = self._links.get(pod_uid)
        if follow is not None:
            self._keep(follow, view)

    def forget(self, pod_uid: str, operation_id: str) -> None:
        follow = self._links.get(pod_uid)
        if follow is None:
            return
        follow.views.pop(operation_id, None)
        if not follow.views and self._sessions.get(follow.session) != pod_uid:
            del self._links[pod_uid]

    def update_info(self, pod_uid: str, info: GatewayInfo) -> None:
        """Take in what a driver answered of itself."""
        follow = self._links.get(pod_uid)
        if follow is not None:
            self._set_info(follow, info)

    async def close(self) -> None:
        tasks = [follow.task for follow in self._links.values() if follow.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._links.clear()
        self._sessions.clear()

    async def _follow(self, follow: DriverConnection) -> None:
        failures = 0
        while True:
            try:
                async for event in follow.client.events(follow.seq):
                    failures = 0
                    await self._take(follow, event)
            except (GatewayUnreachable, GatewayRefused) as error:
                logger.debug("gateway stream ended", extra=log_extra(follow.session, error=type(error).__name__))
            failures += 1
            await asyncio.sleep(exponential(failures, FIRST_RETRY_SECONDS, MOST_RETRY_SECONDS))

    async def _take(self, follow: DriverConnection, event: Event) -> None:
        if event.kind == "hello":
            if follow.boot_id not in (None, event.boot_id):
                follow.seq, follow.views = 0, {}
            follow.boot_id = event.boot_id
            self._set_info(follow, await follow.client.info())
        elif event.kind == "info" and event.info is not None:
            self._set_info(follow, event.info)
        elif event.kind == "operation" and event.operation is not None:
            follow.seq = max(follow.seq, event.operation.seq)
            self._operation(follow, event.operation)

    def _set_info(self, link: DriverConnection, info: GatewayInfo) -> None:
        before, link.info = link.info, info
        for subscriber in self._subscribers:
            subscriber.driver_changed(link.session, before, info)

    def _operation(self, link: DriverConnection, view: OperationView) -> None:
        if not self._is_awaited(view.operation_id):
            return
        before = link.views.get(view.operation_id)
        if self._keep(link, view):
            for subscriber in self._subscribers:
                subscriber.operation_changed(before, view)

    def _keep(self, link: DriverConnection, view: OperationView) -> bool:
        known = link.views.get(view.operation_id)
        if known is not None and known.seq >= view.seq:
            return False
        link.views[view.operation_id] = view
        if known is None:
            for subscriber in self._subscribers:
                subscriber.operation_arrived(link.session)
        return True
