"""Sessions and statements that clients of REST have before their driver is Ready: opened and submitted ahead, PENDING until then.

A promised handle says when it was given (`sparksql.wire.front`), so that every replica knows that its session is to come, and
nothing is kept for it but the requests themselves, by the replica that has taken them: it hands them over, in order, once the
driver is Ready. If that replica goes before, nothing has begun, and the client is told that there is no such session. The same
holds for what a user may not do any more once the driver is Ready: token and right are checked again then.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from sparksql.front.dialing import dialled
from sparksql.front.driver_http import DriverHttp
from sparksql.front.limits import FrontLimits
from sparksql.front.metrics import FrontMetrics
from sparksql.front.model import FrontError, Refusal, SessionKey, Target, User
from sparksql.front.sessions import FrontSessions
from sparksql.protocols.budget import Budget, Lease, OverBudgetError
from sparksql.wire.control import ClientProtocol
from sparksql.wire.front import promise_age, promised_handle, promised_handle_beside

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 1.0  # a page that is asked for is held so long, as by a driver
GRACE_SECONDS = 10.0  # after the longest wait for a session, for the handing over
_SESSIONS = ClientProtocol.REST


class _Opening(BaseModel):
    """What of a request to open a session can be promised; a driver says what is wrong with any other."""

    model_config = ConfigDict(extra="forbid")
    sessionName: StrictStr | None = None
    properties: dict[str, StrictStr | None] | None = None
    jars: list[StrictStr] | None = None


class _Statement(BaseModel):
    """What of a request to submit a statement can be promised."""

    model_config = ConfigDict(extra="forbid")
    statement: StrictStr = Field(repr=False)
    executionTimeout: StrictInt | None = None
    executionConfig: dict[str, StrictStr | None] | None = None


class Promises:
    """Gives handles for what is to come, and hands over what clients have asked for. Belongs to the event loop."""

    def __init__(
        self,
        sessions: FrontSessions,
        drivers: DriverHttp,
        limits: FrontLimits,
        metrics: FrontMetrics,
        budget: Budget,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sessions = sessions
        self._drivers = drivers
        self._limits = limits
        self._metrics = metrics
        self._budget = budget
        self._clock = clock
        self._last: dict[str, asyncio.Task[None]] = {}  # by session: its requests follow each other
        self._carried = 0

    def holds(self, handle: str) -> bool:
        """Tells whether what a handle stands for may still be to come."""
        try:
            age = promise_age(handle, self._clock())
        except ValueError:
            return False  # no handle: a driver says so
        return age is not None and age <= self._limits.hold_seconds + GRACE_SECONDS

    def open(self, request: web.Request, user: User, key: SessionKey, uid: str, body: bytes) -> web.Response | None:
        """Promises a session; None where its driver has to be waited for."""
        if not _fits(_Opening, body or b"{}"):
            return None
        handle = promised_handle(uid, self._clock())

        async def find(seconds: float) -> Target:
            return await self._sessions.ready(user, key, _SESSIONS, seconds)

        async def dial(target: Target) -> int:
            return (await self._drivers.opened(request, user, target, body, handle)).status

        async def carry() -> None:
            with self._metrics.opening("rest"):
                target, status = await dialled(find, dial, self._limits.hold_seconds)
            if status != 200:
                await self._sessions.end(target)

        return _json({"sessionHandle": handle}) if self._begin(handle, user, key, carry, len(body)) else None

    async def answer(
        self, request: web.Request, user: User, key: SessionKey, handle: str, rest: tuple[str, ...], body: bytes
    ) -> web.Response | None:
        """Answers a request in a session whose driver is on its way; None where the driver has to be waited for.

        Raises FrontError for a session that will not come by itself.
        """
        match (request.method, rest):
            case ("POST", ("heartbeat",)):
                return _json({})
            case ("POST", ("statements",)) if _fits(_Statement, body):
                return self._submitted(request, user, key, handle, body)
            case ("GET", ("operations", operation, "status")) if self.holds(operation):
                return None if _is_first_version(request) else _json({"status": "PENDING"})
            case ("GET", ("operations", operation, "result", _)) if self.holds(operation):
                return None if _is_first_version(request) or await self._comes(user, key) else _not_ready(request)
            case _:
                return None

    def _submitted(
        self, request: web.Request, user: User, key: SessionKey, handle: str, body: bytes
    ) -> web.Response | None:
        operation = promised_handle_beside(handle, self._clock())

        async def carry() -> None:
            target = await self._sessions.ready(user, key, _SESSIONS, self._limits.hold_seconds)
            await self._drivers.submitted(request, user, target, body, operation)

        return _json({"operationHandle": operation}) if self._begin(handle, user, key, carry, len(body)) else None

    async def _comes(self, user: User, key: SessionKey) -> bool:
        """Whether the driver serves in a moment."""
        try:
            await self._sessions.ready(user, key, _SESSIONS, PATIENCE_SECONDS)
        except FrontError as late:
            if late.refusal is not Refusal.NOT_READY:
                raise
            return False
        return True

    def _begin(self, handle: str, user: User, key: SessionKey, carry: Callable[[], Awaitable[None]], size: int) -> bool:
        """Takes a request ahead, unless so many wait here that its client has to wait by itself."""
        if self._carried >= self._limits.promises:
            return False
        try:
            kept = self._budget.bytes.lease(user.name, size)
        except OverBudgetError:
            return False
        task = asyncio.create_task(self._carry(self._last.get(handle), key, carry))
        self._carried += 1
        self._last[handle] = task
        task.add_done_callback(lambda done: self._ended(handle, done, kept))
        return True

    def _ended(self, handle: str, task: asyncio.Task[None], kept: Lease) -> None:
        self._carried -= 1
        kept.end()
        if self._last.get(handle) is task:
            del self._last[handle]

    async def _carry(
        self, before: asyncio.Task[None] | None, key: SessionKey, carry: Callable[[], Awaitable[None]]
    ) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            await carry()
        except (FrontError, aiohttp.ClientError, OSError, TimeoutError, EOFError) as failed:
            fields = {"namespace": key.namespace, "name": key.name, "error": type(failed).__name__}
            log.warning("an early request was not handed over", extra={"fields": fields})


def _fits(model: type[BaseModel], body: bytes) -> bool:
    try:
        model.model_validate_json(body)
    except ValidationError:
        return False
    return True


def _is_first_version(request: web.Request) -> bool:
    """Clients of version 1 take an operation that waits for one that is done: they are held."""
    return "v1" in request.path.split("/")[:3]


def _not_ready(request: web.Request) -> web.Response:
    answer = _json({"resultType": "NOT_READY", "nextResultUri": request.path_qs})
    if request.query.get("rowFormat", "").upper() == "ARROW":
        answer.headers.update({"X-Result-Type": "NOT_READY", "X-Next-Token": "0"})
    return answer


def _json(content: Any) -> web.Response:
    return web.Response(body=json.dumps(content).encode(), headers={"Content-Type": "application/json; charset=UTF-8"})
