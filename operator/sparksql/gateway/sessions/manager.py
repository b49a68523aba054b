"""FLIP-91's session manager: opens, finds, expires and closes the sessions of clients.

Invariants: there are never more sessions than the limit; a session with a statement or a request under way is in use, one that
nobody has used for the idle timeout is closed; a closed session leaves nothing behind. A query without end is in use as long as
its client takes rows. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sparksql.api.gateway_settings import SHARE_VIEWS
from sparksql.gateway.lifecycle import Lifecycle, Spark
from sparksql.gateway.operations import audit
from sparksql.gateway.sessions.callers import current
from sparksql.gateway.sessions.executor import open_session
from sparksql.gateway.sessions.model import ClientError, Problem
from sparksql.gateway.sessions.promises import BrokenPromises, checked
from sparksql.gateway.sessions.session import ClientOperation, ClientSession
from sparksql.gateway.spark.pools import pool_of_session
from sparksql.gateway.sql.errors import StatementError
from sparksql.wire.control import AnyClientProtocol, ClientProtocol, GatewayState
from sparksql.wire.front import handle_prefix, new_handle

log = logging.getLogger(__name__)

MAX_NAME_CHARS = 128


@dataclass(frozen=True)
class Usage:
    """Counts what has happened since the start, for metrics."""

    opened: Mapping[str, int]
    expired: int
    refused: int


class SessionManager:
    """Opens, finds, expires and closes sessions. `retire` closes one operation of a session."""

    def __init__(self, lifecycle: Lifecycle, retire: Callable[[ClientSession, ClientOperation], None]) -> None:
        self._lifecycle = lifecycle
        self._settings = lifecycle.settings.gateway
        self._retire = retire
        self._sessions: dict[str, ClientSession] = {}
        self._opening = 0
        self._on_close: dict[str, Callable[[str], None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._opened: Counter[str] = Counter(dict.fromkeys(ClientProtocol, 0))
        self._expired = 0
        self._refused = 0
        self.broken_promises = BrokenPromises()

    def __iter__(self) -> Iterator[ClientSession]:
        return iter(list(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def usage(self) -> Usage:
        """Returns the counts so far."""
        return Usage(dict(self._opened), self._expired, self._refused)

    def spark(self, *, taking: bool = False) -> Spark:
        """Returns Spark, once it is there. `taking` for what begins something new. Raises ClientError NOT_READY."""
        spark = self._lifecycle.spark
        if spark is None or (taking and self._lifecycle.state is not GatewayState.READY):
            raise ClientError(Problem.NOT_READY, f"the session's driver is {self._lifecycle.state}; try again later")
        return spark

    async def open(
        self, protocol: AnyClientProtocol, name: str, properties: Mapping[str, str], promised: str | None = None
    ) -> ClientSession:
        """Opens a session with its own JVM session. Raises ClientError NOT_READY, TOO_MANY_SESSIONS, NOT_ALLOWED, INVALID.

        `promised` is the handle that its client has already; one that is open under it is returned.
        """
        uid = self._lifecycle.settings.config.session_uid
        handle = new_handle(uid) if promised is None else checked(promised, handle_prefix(uid))
        if handle in self._sessions:
            return self.use(handle)
        with self.broken_promises.recorded(promised):
            return await self._open(handle, protocol, name, properties)

    async def _open(
        self, handle: str, protocol: AnyClientProtocol, name: str, properties: Mapping[str, str]
    ) -> ClientSession:
        spark, policy = self.spark(taking=True), self._lifecycle.settings.config.policy
        most = self._settings.session_max_num
        if 0 < most <= len(self._sessions) + self._opening:
            self._refused += 1
            message = f"this driver has {most} sessions of clients already; close one that is done"
            raise ClientError(Problem.TOO_MANY_SESSIONS, message)
        own = {key: value for key, value in properties.items() if key != SHARE_VIEWS}
        share = properties.get(SHARE_VIEWS, str(self._settings.session_share_views)).strip().lower() == "true"

        def make() -> Any:
            made = open_session(spark.executor.driver, policy, own, share_views=share)
            if protocol is ClientProtocol.CONNECT:  # whose statements Spark runs in threads of its own
                spark.executor.pools.give(pool_of_session(handle), made)
            return made

        self._opening += 1
        try:
            made = await spark.threads.run(make)
        except StatementError as refused:
            raise ClientError(Problem.NOT_ALLOWED, refused.error.message) from None
        except Exception as failed:
            raise ClientError(Problem.INVALID, f"Spark refuses a property of the session: {failed}") from None
        finally:
            self._opening -= 1
        now = self._lifecycle.clock()
        session = ClientSession(
            handle=handle,
            protocol=protocol,
            name=name[:MAX_NAME_CHARS],
            opened=now,
            last_used=now,
            used=monotonic(),
            spark=made,
            properties=dict(properties),
            user=current.get().user,
        )
        self._sessions[session.handle] = session
        self._opened[protocol] += 1
        spark.operations.record_activity()
        self._lifecycle.changes.notify()
        audit.session("opened", session.handle, protocol, session.name, session.user)
        return session

    def use(self, handle: str) -> ClientSession:
        """Returns a session, which is used now. Raises ClientError UNKNOWN_SESSION."""
        spark = self.spark()
        session = self._sessions.get(handle)
        if session is None:
            self.broken_promises.check(handle)
        if session is None or not current.get().may_use(session.user):
            raise ClientError(Problem.UNKNOWN_SESSION, f"Session '{handle}' does not exist.")
        session.used, session.last_used = monotonic(), self._lifecycle.clock()
        spark.operations.record_activity()
        return session

    @contextmanager
    def using(self, handle: str) -> Iterator[ClientSession]:
        """Yields a session, which is used until the block ends. Raises ClientError UNKNOWN_SESSION."""
        session = self.use(handle)
        session.uses += 1
        try:
            yield session
        finally:
            session.uses -= 1
            session.used, session.last_used = monotonic(), self._lifecycle.clock()

    def on_close(self, session: ClientSession, on_closed: Callable[[str], None]) -> None:
        """Calls `on_closed` with the handle once the session is closed or has expired."""
        self._on_close[session.handle] = on_closed

    def close(self, session: ClientSession, event: str = "closed") -> None:
        """Takes a session out; its Spark session goes when its last statement has ended."""
        audit.session(event, session.handle, session.protocol, session.name, session.user)
        del self._sessions[session.handle]
        live = session.live
        for operation in list(session.operations.values()):
            self._retire(session, operation)
        task = asyncio.create_task(self._free(session, live))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._lifecycle.changes.notify()
        on_closed = self._on_close.pop(session.handle, None)
        if on_closed is not None:
            on_closed(session.handle)

    def expire(self) -> None:
        """Closes sessions and ended operations that have been idle for too long."""
        now = monotonic()
        for session in self:
            if session.has_bounded_work or session.uses:
                session.used = now
            elif 0 < self._settings.session_idle_timeout <= now - session.used:
                self._expired += 1
                self.close(session, "expired")
            else:
                for operation in list(session.operations.values()):
                    if 0 < self._settings.operation_idle_timeout <= now - operation.used:
                        self._retire(session, operation)

    async def _free(self, session: ClientSession, live: list[ClientOperation]) -> None:
        for operation in live:
            await operation.ended.wait()
        spark = self.spark()
        try:
            await spark.threads.run(spark.executor.driver.close_session, session.spark)
            if session.protocol is ClientProtocol.CONNECT:
                await spark.threads.run(spark.executor.pools.remove, pool_of_session(session.handle))
        except Exception as failed:
            log.warning("a client's session left something behind: %s", type(failed).__name__)
        session.spark = None


def monotonic() -> float:
    """Returns the seconds of the event loop's clock."""
    return asyncio.get_running_loop().time()
