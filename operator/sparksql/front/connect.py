"""Spark Connect's clients: each request says who and which session by its metadata, and is passed on to that session's driver.

Nothing of a request is decoded but, where each client has a session of its own, its session id. A session that starts or wakes
holds a request for a while; then it ends with UNAVAILABLE, after which clients come again by themselves.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc

from sparksql.front import naming
from sparksql.front.limits import FrontLimits
from sparksql.front.metrics import FrontMetrics
from sparksql.front.model import FrontError, Refusal, Target, User
from sparksql.front.reviews import Reviews
from sparksql.front.sessions import FrontSessions
from sparksql.protocols.spark_connect import (
    CHANNEL_OPTIONS,
    HANDLER_OF,
    MAX_RPCS,
    METHODS,
    ClientGoneError,
    Kind,
    Relay,
    RelayedError,
    path,
    server_options,
)
from sparksql.wire.control import ClientProtocol
from sparksql.wire.driver import CONNECT_PORT
from sparksql.wire.front import SESSION_HEADER, USER_HEADER, written_user

log = logging.getLogger(__name__)

T = TypeVar("T")

IDLE_CHANNEL_SECONDS = 300.0
_SESSION_ID_BYTES = 64
_OWN_METADATA = frozenset({SESSION_HEADER, USER_HEADER})
_CODES = {
    Refusal.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Refusal.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    Refusal.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Refusal.UNKNOWN_SESSION: grpc.StatusCode.NOT_FOUND,
    Refusal.TOO_MANY_SESSIONS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Refusal.NOT_SERVED: grpc.StatusCode.FAILED_PRECONDITION,
    Refusal.NOT_READY: grpc.StatusCode.UNAVAILABLE,
    Refusal.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
}


@dataclass
class _Channel:
    """A channel to a driver; `used` is when it was, by the loop's clock, and `calls` how many use it now."""

    channel: Any
    used: float
    calls: int = 0


@dataclass(frozen=True)
class _Caller:
    """Who a request is from, and which session it means."""

    user: User
    asked: naming.Asked = field(default_factory=naming.Asked)


class Channels:
    """Channels to drivers, kept while they are used."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, str], _Channel] = OrderedDict()

    def take(self, target: Target) -> _Channel:
        """Returns the channel to a driver; `give_back` must follow."""
        key = (target.host, target.certificate)
        held = self._open.get(key)
        if held is None:
            credentials = grpc.ssl_channel_credentials(target.certificate.encode())
            options = (*CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", target.server_name))
            address = f"{f'[{target.host}]' if ':' in target.host else target.host}:{CONNECT_PORT}"
            held = _Channel(grpc.aio.secure_channel(address, credentials, options=options), self._now())
            self._open[key] = held
        self._open.move_to_end(key)
        held.calls += 1
        return held

    def give_back(self, held: _Channel) -> None:
        """Ends one use of a channel."""
        held.calls -= 1
        held.used = self._now()

    async def close_idle(self) -> None:
        """Closes what nobody uses."""
        old = [
            key for key, held in self._open.items() if not held.calls and self._now() - held.used > IDLE_CHANNEL_SECONDS
        ]
        for key in old:
            await self._open.pop(key).channel.close()

    async def close(self) -> None:
        """Closes all."""
        while self._open:
            await self._open.popitem()[1].channel.close()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class ConnectFront:
    """The gRPC server and its way to drivers. Belongs to the event loop."""

    def __init__(self, sessions: FrontSessions, reviews: Reviews, limits: FrontLimits, metrics: FrontMetrics) -> None:
        self._sessions = sessions
        self._reviews = reviews
        self._limits = limits
        self._metrics = metrics
        self._channels = Channels()
        self._methods = {path(name): HANDLER_OF[kind](self._handler(name, kind)) for name, kind in METHODS.items()}
        self._server: Any = None

    async def listen(self, address: str, port: int, credentials: Any) -> int:
        """Begins to listen, without `credentials` speaking no TLS, and returns the port. Raises OSError when it is taken."""
        self._server = grpc.aio.server(
            options=server_options(self._limits.connections), maximum_concurrent_rpcs=MAX_RPCS
        )
        self._server.add_generic_rpc_handlers((self,))
        where = f"{address}:{port}"
        try:
            if credentials is None:
                bound: int = self._server.add_insecure_port(where)
            else:
                bound = self._server.add_secure_port(where, credentials)
        except RuntimeError as failed:
            raise OSError(f"Connect cannot listen on {where}: {failed}") from None
        await self._server.start()
        return bound

    async def close(self, seconds: float) -> None:
        """Takes no new request; those under way may end within so many seconds."""
        if self._server is not None:
            await self._server.stop(seconds)
        await self._channels.close()

    async def tidy(self) -> None:
        """Closes channels that nobody uses."""
        await self._channels.close_idle()

    def service(self, details: Any) -> Any:
        """The handler of a method, None for one that does not exist: gRPC asks for it."""
        return self._methods.get(details.method)

    def _handler(self, method: str, kind: Kind) -> Callable[[Any, Any], Awaitable[Any]]:
        async def answer(request: Any, context: Any) -> Any:
            try:
                caller = await self._caller(context)
                if kind is Kind.UPLOAD:
                    return await self._upload(method, caller, request, context)
                return await self._pass(method, kind, caller, request, context)
            except FrontError as refusal:
                self._metrics.refused("connect", refusal)
                return await context.abort(_CODES[refusal.refusal], str(refusal))
            except RelayedError as error:
                return await context.abort(error.code, str(error), error.trailing)
            except ClientGoneError:
                return None
            except grpc.aio.AbortError:
                raise
            except Exception as failed:
                log.exception("a request failed")
                return await context.abort(grpc.StatusCode.INTERNAL, type(failed).__name__)

        return answer

    async def _caller(self, context: Any) -> _Caller:
        given = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        scheme, _, token = given.get("authorization", "").partition(" ")
        if scheme != "Bearer":
            token = ""
        user = await self._reviews.user(token.encode(errors="surrogateescape"))
        return _Caller(user, naming.parse(given.get(SESSION_HEADER)))

    async def _pass(self, method: str, kind: Kind, caller: _Caller, request: bytes, context: Any) -> bytes | None:
        target = await self._target(caller, request)
        held = self._channels.take(target)
        try:
            relay = _relay(held, target, caller)
            if kind is Kind.STREAM:
                await self._while_allowed(caller, target, relay.relay(method, request, context, lambda _: None))
                return None
            answer = await self._while_allowed(caller, target, relay.unary(method, request, context))
        finally:
            self._channels.give_back(held)
        if method == "ReleaseSession":
            await self._sessions.end(target)
        return answer

    async def _upload(self, method: str, caller: _Caller, requests: AsyncIterator[bytes], context: Any) -> bytes:
        first = await anext(requests, None)
        if first is None:
            raise FrontError(Refusal.INVALID, "the request holds no artifact")
        target = await self._target(caller, first)
        held = self._channels.take(target)
        try:
            work = _relay(held, target, caller).upload(method, _chained(first, requests), context)
            return await self._while_allowed(caller, target, work)
        finally:
            self._channels.give_back(held)

    async def _while_allowed(self, caller: _Caller, target: Target, work: Coroutine[Any, Any, T]) -> T:
        return await self._sessions.while_allowed(caller.user, target.key, work, self._limits.allowed_seconds)

    async def _target(self, caller: _Caller, request: bytes) -> Target:
        connection = f"connect-{session_id_of(request)}"
        with self._metrics.opening("connect"):
            return await self._sessions.open(
                caller.user, caller.asked, ClientProtocol.CONNECT, self._limits.connect_hold_seconds, connection
            )


def session_id_of(request: bytes) -> str:
    """Returns a request's session id: in every message of the service it is field 1, which stands first. Empty if it does not."""
    if len(request) < 2 or request[0] != 0x0A or request[1] > _SESSION_ID_BYTES:
        return ""
    return request[2 : 2 + request[1]].decode("ascii", errors="replace")


def _relay(held: _Channel, target: Target, caller: _Caller) -> Relay:
    own = (("authorization", f"Bearer {target.token}"), (USER_HEADER, written_user(caller.user.name)))
    return Relay(held.channel, lambda: own, _OWN_METADATA.__contains__, RelayedError)


async def _chained(first: bytes, others: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for request in others:
        yield request
