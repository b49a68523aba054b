"""Clients of Flink's SQL Gateway REST API: a session is opened in the driver that is meant, and its handle leads back there.

What needs no session is answered here; a path with a handle goes to the driver that has given the handle, request and answer as
they are. Every error has the body of the released API.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from sparksql.front import naming
from sparksql.front.dialing import dialled
from sparksql.front.driver_http import DriverHttp
from sparksql.front.limits import FrontLimits
from sparksql.front.metrics import FrontMetrics
from sparksql.front.model import FrontError, Refusal, Target, User
from sparksql.front.promises import Promises
from sparksql.front.reviews import Reviews
from sparksql.front.sessions import FrontSessions
from sparksql.front.thrift_http import AnsweredError, ThriftHttp
from sparksql.protocols.bounds import MAX_OPENING_BYTES
from sparksql.protocols.budget import Budget
from sparksql.protocols.hiveserver2.http import presented_token
from sparksql.protocols.http_limits import claim, mark_busy, read_body
from sparksql.wire.control import ClientProtocol
from sparksql.wire.front import SESSION_HEADER, SESSION_PROPERTY, UNKNOWN_OPERATION, UNKNOWN_SESSION
from sparksql.wire.target import BadTargetError, client_path, is_for_clients, is_thrift, read_target

MAX_BODY_BYTES = 8 << 20  # as a driver's
RETRY_SECONDS = 2
AT_ONCE_SECONDS = 2.0  # a driver of a warm pool is Ready sooner; a client that would wait for longer is given a promise
PRODUCT = {"productName": "Spark SQL", "version": "front"}
VERSIONS = {"versions": ["V1", "V2", "V3", "V4"]}
COMPAT_VERSIONS = {"versions": ["V1", "V2"]}
_HANDLE = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_STATUSES = {
    Refusal.UNAUTHENTICATED: 401,
    Refusal.FORBIDDEN: 403,
    Refusal.INVALID: 400,
    Refusal.UNKNOWN_SESSION: 404,
    Refusal.TOO_MANY_SESSIONS: 429,
    Refusal.NOT_SERVED: 409,
    Refusal.NOT_READY: 503,
    Refusal.UNAVAILABLE: 503,
}
_USER: web.RequestKey[User] = web.RequestKey("user", User)


class RestFront:
    """The application. `http` is the session by which drivers are asked; it is not closed here."""

    def __init__(
        self,
        sessions: FrontSessions,
        reviews: Reviews,
        limits: FrontLimits,
        metrics: FrontMetrics,
        budget: Budget,
        http: aiohttp.ClientSession,
    ) -> None:
        self._sessions = sessions
        self._reviews = reviews
        self._limits = limits
        self._metrics = metrics
        self._budget = budget
        self._drivers = DriverHttp(http, limits)
        self._promises = Promises(sessions, self._drivers, limits, metrics, budget)
        self._thrift = ThriftHttp(sessions, self._drivers, limits, metrics)

    def application(self) -> web.Application:
        """Makes the application, with the bounds that a driver's has."""
        body = read_body(self._budget, lambda request: request[_USER].name, self._extent)
        app = web.Application(
            client_max_size=MAX_BODY_BYTES,
            middlewares=[mark_busy, self._errors(), self._authentication(), self._right(), body],
        )
        app.router.add_route("*", "/{path:.*}", self._serve)
        return app

    def _errors(self) -> Middleware:
        @web.middleware
        async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                return await handler(request)
            except AnsweredError as answered:
                return answered.answer
            except FrontError as refusal:
                self._metrics.refused("rest", refusal)
                return _error(_STATUSES[refusal.refusal], str(refusal))
            except BadTargetError as malformed:
                return _error(400, str(malformed))
            except web.HTTPException as error:
                return _error(error.status, error.reason)

        return errors

    def _authentication(self) -> Middleware:
        @web.middleware
        async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
            token = presented_token(request.headers.get("Authorization", ""))
            user = request[_USER] = await self._reviews.user(token.encode(errors="surrogateescape"))
            claim(request, user.name)
            return await handler(request)

        return authenticate

    def _right(self) -> Middleware:
        """Makes the middleware that refuses a request before its body is read: a wrong path, or no right to its session."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            segments = read_target(request.raw_path).segments
            if not is_for_clients(segments):
                return _error(404, f"Not found: {request.path}")
            match client_path(segments).rest:
                case ("sessions", handle, *_) if _HANDLE.fullmatch(handle):
                    await self._sessions.check_handle(request[_USER], handle)
                case _:
                    pass
            return await handler(request)

        return check

    async def _extent(self, request: web.Request, begun: bytes) -> int:
        """How large a body may be: only the right to a session, which `_right` has checked or a message names, gives more."""
        segments = read_target(request.raw_path).segments
        if is_thrift(segments):
            return await self._thrift.extent(request[_USER], begun, MAX_BODY_BYTES)
        match client_path(segments).rest:
            case ("sessions", handle, *_) if _HANDLE.fullmatch(handle):
                return MAX_BODY_BYTES
            case _:
                return MAX_OPENING_BYTES

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        segments = read_target(request.raw_path).segments
        path = client_path(segments)
        match (request.method, path.rest):
            case ("POST", _) if is_thrift(segments):
                return await self._thrift.serve(request, request[_USER])
            case ("GET", ("info",)):
                return _json(200, PRODUCT)
            case ("GET", ("api_versions",)):
                return _json(200, COMPAT_VERSIONS if path.compat else VERSIONS)
            case ("POST", ("sessions",)):
                return await self._open(request)
            case ("GET", ("sessions",)):
                return await self._list(request)
            case (_, ("sessions", handle, *rest)) if _HANDLE.fullmatch(handle):
                return await self._in_session(request, handle, tuple(rest))
            case _:
                return _error(404, f"Not found: {request.path}")

    async def _in_session(self, request: web.Request, handle: str, rest: tuple[str, ...]) -> web.StreamResponse:
        user, body, to_come = request[_USER], await request.read(), set[str]()
        if self._promises.holds(handle):
            if (key := await self._sessions.coming(user, handle, ClientProtocol.REST)) is not None:
                if (early := await self._promises.answer(request, user, key, handle, rest, body)) is not None:
                    return early
                await self._sessions.ready(user, key, ClientProtocol.REST, self._limits.hold_seconds)
            to_come = {UNKNOWN_SESSION, *(UNKNOWN_OPERATION for each in rest if self._promises.holds(each))}
        target = await self._sessions.of_handle(user, handle, ClientProtocol.REST)
        work = self._drivers.forward(request, user, target, body, to_come)
        answer = await self._sessions.while_allowed(user, target.key, work, self._limits.allowed_seconds)
        if (request.method, rest) == ("DELETE", ()) and answer.status == 200:
            await self._sessions.end(target)
        return answer

    async def _open(self, request: web.Request) -> web.StreamResponse:
        user = request[_USER]
        asked, body = read_open(await request.read(), request.headers.get(SESSION_HEADER))
        connection = f"rest-{uuid.uuid4()}"
        promise = await self._promised(request, user, asked, connection, body)
        if promise is not None:
            return promise

        async def find(seconds: float) -> Target:
            return await self._sessions.open(user, asked, ClientProtocol.REST, seconds, connection)

        async def dial(target: Target) -> web.Response:
            return await self._drivers.opened(request, user, target, body)

        with self._metrics.opening("rest"):
            target, answer = await dialled(find, dial, self._limits.hold_seconds)
        if answer.status != 200:
            await self._sessions.end(target)
        return answer

    async def _promised(
        self, request: web.Request, user: User, asked: naming.Asked, connection: str, body: bytes
    ) -> web.Response | None:
        """The handle of a session whose driver will not serve in a moment."""
        key = await self._sessions.chosen(user, asked, connection)
        try:
            await self._sessions.ready(user, key, ClientProtocol.REST, min(AT_ONCE_SECONDS, self._limits.hold_seconds))
        except FrontError as late:
            if late.refusal is not Refusal.NOT_READY:
                raise
        entry = self._sessions.on_its_way(key, ClientProtocol.REST)
        return None if entry is None else self._promises.open(request, user, key, entry.uid, body)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        asked = naming.parse(request.query.get("session"))
        target = await self._sessions.own(request[_USER], asked, ClientProtocol.REST)
        if target is None:
            return _json(200, {"sessions": []})
        return await self._drivers.forward(request, request[_USER], target, b"")


def read_open(body: bytes, header: str | None) -> tuple[naming.Asked, bytes]:
    """Returns the session that a request to open one means, and the request without that. Raises FrontError INVALID.

    A property of the session names it, or else the `header`, for clients that can set headers but no properties.
    """
    if not body.strip():
        return naming.parse(header), body
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return naming.parse(header), body  # the driver says what is wrong with it
    properties = request.get("properties") if isinstance(request, dict) else None
    if not isinstance(properties, dict) or SESSION_PROPERTY not in properties:
        return naming.parse(header), body
    named = properties.pop(SESSION_PROPERTY)
    if named is not None and not isinstance(named, str):
        raise FrontError(Refusal.INVALID, f"property {SESSION_PROPERTY} is no text: name a session as NAMESPACE/NAME")
    return naming.parse(named), json.dumps(request).encode()


def _json(status: int, content: Any) -> web.Response:
    return web.Response(
        status=status, body=json.dumps(content).encode(), headers={"Content-Type": "application/json; charset=UTF-8"}
    )


def _error(status: int, message: str) -> web.Response:
    response = _json(status, {"errors": [message]})
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    return response
