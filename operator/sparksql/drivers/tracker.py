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
    """Holds what is known of one driver: `seq` and `boot_id` as its stream last had them, `views` of operations by id."""

    session: Key
    client: GatewayClient
    task: asyncio.Task[None] | None = None
    boot_id: str | None = None
    seq: int = 0
    info: GatewayInfo | None = None
    views: dict[str, OperationView] = field(default_factory=dict)


class Subscriber(Protocol):
    """Receives what the drivers say."""

    def driver_changed(self, session: Key, before: GatewayInfo | None, after: GatewayInfo) -> None:
        """The session's driver says `after` of itself; `before` is None the first time."""

    def operation_changed(self, before: OperationView | None, after: OperationView) -> None:
        """A driver says `after` of an operation, unasked; `before` is None the first time."""

    def operation_arrived(self, session: Key) -> None:
        """The session's driver has an operation that it was not known to have."""


class DriverTracker:
    """All drivers that are followed. `is_awaited` tells of an operation id whether a statement waits for its end."""

    def __init__(self, http: aiohttp.ClientSession, is_awaited: Callable[[str], bool]) -> None:
        self._http = http
        self._is_awaited = is_awaited
        self._subscribers: list[Subscriber] = []
        self._connections: dict[str, DriverConnection] = {}
        self._sessions: dict[Key, str] = {}

    @property
    def http(self) -> aiohttp.ClientSession:
        """Returns the session by which drivers are asked."""
        return self._http

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tells `subscriber` of each change from now on."""
        self._subscribers.append(subscriber)

    def follow(self, session: Key, address: Address) -> None:
        """Follows the driver at `address` for `session`; a driver that the session had before is let go."""
        pod_uid = self._sessions.get(session)
        if pod_uid == address.pod_uid:
            return
        if pod_uid is not None:
            self.unfollow(session)
        connection = DriverConnection(session, GatewayClient(self._http, address))
        connection.task = asyncio.create_task(self._follow(connection), name=f"follow {session}")
        self._connections[address.pod_uid] = connection
        self._sessions[session] = address.pod_uid

    def unfollow(self, session: Key) -> None:
        """Ends the session's event stream, if there is one. What its driver said last of operations stays until `forget`."""
        pod_uid = self._sessions.pop(session, None)
        connection = self._connections.pop(pod_uid, None) if pod_uid is not None else None
        if connection is not None and connection.task is not None:
            connection.task.cancel()
            if connection.views:  # they may not be in a status yet
                self._connections[connection.client.address.pod_uid] = connection

    def followed_pod(self, session: Key) -> str | None:
        """Returns the UID of the pod whose driver is followed for the session."""
        return self._sessions.get(session)

    def info(self, session: Key) -> GatewayInfo | None:
        """Returns what the session's driver last said of itself; None before it said anything."""
        connection = self._connections.get(self._sessions.get(session, ""))
        return connection.info if connection else None

    def client(self, pod_uid: str) -> GatewayClient | None:
        """Returns the way to the gateway in that pod, None if it is not followed."""
        connection = self._connections.get(pod_uid)
        return connection.client if connection else None

    def view(self, pod_uid: str, operation_id: str) -> OperationView | None:
        """Returns the last view of the operation by the driver in that pod, None if it has said nothing of it."""
        connection = self._connections.get(pod_uid)
        return connection.views.get(operation_id) if connection else None

    def update_view(self, pod_uid: str, view: OperationView) -> None:
        """Takes in a view that came as an answer; an older one than what is known is dropped."""
        connection = self._connections.get(pod_uid)
        if connection is not None:
            self._keep(connection, view)

    def forget(self, pod_uid: str, operation_id: str) -> None:
        """Drops the view of an operation that nobody waits for any more."""
        connection = self._connections.get(pod_uid)
        if connection is None:
            return
        connection.views.pop(operation_id, None)
        if not connection.views and self._sessions.get(connection.session) != pod_uid:
            del self._connections[pod_uid]

    def update_info(self, pod_uid: str, info: GatewayInfo) -> None:
        """Takes in what a driver answered of itself."""
        connection = self._connections.get(pod_uid)
        if connection is not None:
            self._set_info(connection, info)

    async def close(self) -> None:
        """Ends all event streams."""
        tasks = [connection.task for connection in self._connections.values() if connection.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._connections.clear()
        self._sessions.clear()

    async def _follow(self, connection: DriverConnection) -> None:
        failures = 0
        while True:
            try:
                async for event in connection.client.events(connection.seq):
                    failures = 0
                    await self._take(connection, event)
            except (GatewayUnreachable, GatewayRefused) as error:
                logger.debug("gateway stream ended", extra=log_extra(connection.session, error=type(error).__name__))
            failures += 1
            await asyncio.sleep(exponential(failures, FIRST_RETRY_SECONDS, MOST_RETRY_SECONDS))

    async def _take(self, connection: DriverConnection, event: Event) -> None:
        if event.kind == "hello":
            if connection.boot_id not in (None, event.boot_id):
                connection.seq, connection.views = 0, {}
            connection.boot_id = event.boot_id
            self._set_info(connection, await connection.client.info())
        elif event.kind == "info" and event.info is not None:
            self._set_info(connection, event.info)
        elif event.kind == "operation" and event.operation is not None:
            connection.seq = max(connection.seq, event.operation.seq)
            self._operation(connection, event.operation)

    def _set_info(self, connection: DriverConnection, info: GatewayInfo) -> None:
        before, connection.info = connection.info, info
        for subscriber in self._subscribers:
            subscriber.driver_changed(connection.session, before, info)

    def _operation(self, connection: DriverConnection, view: OperationView) -> None:
        if not self._is_awaited(view.operation_id):
            return
        before = connection.views.get(view.operation_id)
        if self._keep(connection, view):
            for subscriber in self._subscribers:
                subscriber.operation_changed(before, view)

    def _keep(self, connection: DriverConnection, view: OperationView) -> bool:
        before = connection.views.get(view.operation_id)
        if before is not None and before.seq >= view.seq:
            return False
        connection.views[view.operation_id] = view
        if before is None:
            for subscriber in self._subscribers:
                subscriber.operation_arrived(connection.session)
        return True
