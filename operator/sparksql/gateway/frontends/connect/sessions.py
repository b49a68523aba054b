"""Connect's sessions and the client sessions of the gateway that stand behind them, one for one.

A client names its session itself and never opens one: the first request with a new name does. Invariants: no request reaches
Spark before its session is ours (a session that Connect made by itself would have the functions and settings that ours has
not); a name whose session was closed stays refused, unless the client released it to come again.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from sparksql.gateway.frontends.connect.backend import Backend, SessionKey
from sparksql.gateway.frontends.connect.errors import (
    ConnectError,
    bad_handle,
    malformed,
    refused_by_service,
    session_closed,
    session_not_found,
)
from sparksql.gateway.sessions.model import ClientError, Problem
from sparksql.gateway.sessions.service import SessionService
from sparksql.wire.control import ClientProtocol

log = logging.getLogger(__name__)

MAX_CLOSED = 10_000  # names remembered; Spark itself remembers 1,000
MAX_USER_CHARS = 256
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class ConnectSessions:
    """Pairs clients' sessions of Connect with sessions of the gateway."""

    def __init__(self, service: SessionService, backend: Backend, pool: ThreadPoolExecutor) -> None:
        self._service = service
        self._backend = backend
        self._pool = pool
        self._opening: dict[SessionKey, asyncio.Task[str]] = {}
        self._handles: dict[SessionKey, str] = {}
        self._closed: OrderedDict[SessionKey, None] = OrderedDict()
        self._may_return: set[SessionKey] = set()
        self._closing: dict[SessionKey, asyncio.Future[None]] = {}

    async def handle(self, key: SessionKey, name: str, properties: Mapping[str, str]) -> str:
        """Returns the client session behind a name, opened if the name is new. Counts as use. Raises ConnectError."""
        if key not in self._handles:
            self._check(key)
            if key not in self._opening:
                opening = asyncio.create_task(self._open(key, name, properties))
                self._opening[key] = opening
                opening.add_done_callback(lambda _: self._opening.pop(key, None))
            return await asyncio.shield(self._opening[key])  # a client that hangs up must not leave half a session
        return self.known(key)

    def is_open(self, key: SessionKey) -> bool:
        """Returns whether a name is that of an open session; no use of it."""
        return key in self._handles

    def known(self, key: SessionKey) -> str:
        """Returns the client session behind a name that is in use. Counts as use. Raises ConnectError."""
        handle = self._handles.get(key)
        if handle is None:
            raise session_closed(key.session_id) if key in self._closed else session_not_found(key.session_id)
        try:
            self._service.session(handle)
        except ClientError as error:
            raise _refused(error, key) from None
        return handle

    async def release(self, key: SessionKey, *, may_return: bool) -> None:
        """Closes a session that the client is done with. Unknown names change nothing."""
        handle = self._handles.get(key)
        if handle is None:
            return
        if may_return:
            self._may_return.add(key)
        try:
            await self._service.close(handle)
        except ClientError:
            self._ended(key)

    async def _open(self, key: SessionKey, name: str, properties: Mapping[str, str]) -> str:
        if key in self._closing:  # or the end of the earlier session would be that of this one
            await asyncio.wait([self._closing[key]])
        try:
            handle = (await self._service.open(ClientProtocol.CONNECT, name, properties)).handle
        except ClientError as error:
            raise _refused(error, key) from None
        try:
            await self._service.with_session(handle, lambda _, session: self._backend.adopt(key, session))
            self._service.on_close(handle, lambda _: self._ended(key))
        except ClientError as error:
            raise _refused(error, key) from None
        except Exception:
            await self._service.close(handle)
            raise
        self._handles[key] = handle
        return handle

    def _ended(self, key: SessionKey) -> None:
        if self._handles.pop(key, None) is None:
            return
        if key in self._may_return:
            self._may_return.discard(key)
        else:
            self._closed[key] = None
            if len(self._closed) > MAX_CLOSED:
                self._closed.popitem(last=False)
        closing = asyncio.get_running_loop().run_in_executor(self._pool, self._backend.close_session, key)
        self._closing[key] = closing
        closing.add_done_callback(lambda done: self._has_closed(key, done))

    def _has_closed(self, key: SessionKey, closing: asyncio.Future[None]) -> None:
        del self._closing[key]
        if not closing.cancelled() and closing.exception() is not None:
            log.warning("Connect did not close a session cleanly: %s", type(closing.exception()).__name__)

    def _check(self, key: SessionKey) -> None:
        if key in self._closed:
            raise session_closed(key.session_id)
        if len(key.user_id) > MAX_USER_CHARS:
            raise malformed(f"user_id has more than {MAX_USER_CHARS} characters")
        if _UUID.fullmatch(key.session_id) is None:
            raise bad_handle(key.session_id)


def _refused(error: ClientError, key: SessionKey) -> ConnectError:
    if error.problem is Problem.UNKNOWN_SESSION:
        return session_closed(key.session_id)
    return refused_by_service(error)
