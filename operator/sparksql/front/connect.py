"""Spark Connect's clients: each request says who and which session by its metadata, and is passed on to that session's driver.

Nothing of a request is decoded but, where each client has a session of its own, its session id. A session that starts or wakes
holds a request for a while; then it ends with UNAVAILABLE, after which clients come again by themselves.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc

from sparksql.front import naming
from sparksql.front.limits import FrontLimits
from sparksql.front.metrics import FrontMetrics
from sparksql.front.model import FrontError, Refusal, Target, User
from sparksql.front.reviews import Reviews
from sparksql.front.sessions import FrontSessions
from sparksql.protocols.budget import Budget, OverBudgetError
from sparksql.protocols.call_status import CallStatus, with_statuses
from sparksql.protocols.connect_port import ConnectPort
from sparksql.protocols.grpc_messages import LateMessageError, Messages
from sparksql.protocols.passages import Reading
from sparksql.protocols.slots import Slots
from sparksql.protocols.spark_connect import (
    CHANNEL_OPTIONS,
    METHODS,
    Kind,
    Relay,
    RelayedError,
    path,
)
from sparksql.wire.control import ClientProtocol
from sparksql.wire.driver import CONNECT_PORT
from sparksql.wire.front import SESSION_HEADER, USER_HEADER, written_user

log = logging.getLogger(__name__)

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
    """The port and its way to drivers. Belongs to the event loop."""

    def __init__(
        self,
        sessions: FrontSessions,
        reviews: Reviews,
        limits: FrontLimits,
        metrics: FrontMetrics,
        budget: Budget,
        slots: Slots,
    ) -> None:
        self._sessions = sessions
        self._reviews = reviews
        self._limits = limits
        self._metrics = metrics
        self._budget = budget
        self._port = ConnectPort(self, slots, budget)
        self._channels = Channels()
        # Of the kind that reads nothing before its handler does.
        self._methods = {path(name): grpc.stream_stream_rpc_method_handler(self._handler(name)) for name in METHODS}

    async def listen(self, address: str, port: int, credentials: Any) -> int:
        """Begins to listen, without `credentials` speaking no TLS, and returns the port. Raises OSError when it is taken."""
        return await self._port.listen(address, port, credentials)

    async def renew(self, credentials: Any) -> None:
        """Serves new connections with another certificate, see `ConnectPort`."""
        await self._port.renew(credentials)

    async def close(self, seconds: float) -> None:
        """Takes no new request; those under way may end within so many seconds."""
        await self._port.close(seconds)
        await self._channels.close()

    async def tidy(self) -> None:
        """Closes channels that nobody uses."""
        await self._channels.close_idle()

    def service(self, details: Any) -> Any:
        """The handler of a method, None for one that does not exist: gRPC asks for it."""
        return self._methods.get(details.method)

    def _handler(self, method: str) -> Callable[[Any, Any], Awaitable[Any]]:
        return with_statuses(lambda _, context: self._answer(method, context), self._status_of)

    def _status_of(self, failure: Exception) -> CallStatus:
        match failure:
            case FrontError():
                return self._refused(failure)
            case LateMessageError():
                return self._refused(FrontError(Refusal.NOT_READY, str(failure)))
            case OverBudgetError():
                return CallStatus(grpc.StatusCode.RESOURCE_EXHAUSTED, str(failure))
            case RelayedError():
                return CallStatus(failure.code, str(failure), failure.trailing)
            case _:
                log.error("a request failed", exc_info=failure)
                return CallStatus(grpc.StatusCode.INTERNAL, type(failure).__name__)

    def _refused(self, refusal: FrontError) -> CallStatus:
        self._metrics.refused("connect", refusal)
        return CallStatus(_CODES[refusal.refusal], str(refusal))

    async def _answer(self, method: str, context: Any) -> None:
        """Finds out who asks and whether they may before anything is read."""
        passage = self._port.passage(context)
        if passage is None:
            raise FrontError(
                Refusal.UNAVAILABLE, "the connection is being closed, or did not arrive through the front's port"
            )
        with passage.call(), passage.read() as reading:
            with passage.unknown():
                caller = await self._caller(context)
            passage.claim(caller.user.name)
            with self._budget.calls.lease(caller.user.name, 1):
                await self._sessions.check(caller.user, caller.asked)
                await self._pass(method, caller, context, reading)

    async def _caller(self, context: Any) -> _Caller:
        given = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        scheme, _, token = given.get("authorization", "").partition(" ")
        if scheme != "Bearer":
            token = ""
        user = await self._reviews.user(token.encode(errors="surrogateescape"))
        return _Caller(user, naming.parse(given.get(SESSION_HEADER)))

    async def _pass(self, method: str, caller: _Caller, context: Any, reading: Reading) -> None:
        requests = Messages(context, reading, is_upload=METHODS[method] is Kind.UPLOAD)
        if not await requests.read():
            raise FrontError(Refusal.INVALID, "the request holds no message")
        connection = f"connect-{session_id_of(requests.waiting)}"
        with self._metrics.opening("connect"):
            target = await self._sessions.open(
                caller.user, caller.asked, ClientProtocol.CONNECT, self._limits.connect_hold_seconds, connection
            )
        held = self._channels.take(target)
        try:
            work = _relay(held, target, caller).pass_on(method, requests, context)
            await self._sessions.while_allowed(caller.user, target.key, work, self._limits.allowed_seconds)
        finally:
            self._channels.give_back(held)
        if method == "ReleaseSession":
            await self._sessions.end(target)


def session_id_of(request: bytes) -> str:
    """Returns a request's session id: in every message of the service it is field 1, which stands first. Empty if it does not."""
    if len(request) < 2 or request[0] != 0x0A or request[1] > _SESSION_ID_BYTES:
        return ""
    return request[2 : 2 + request[1]].decode("ascii", errors="replace")


def _relay(held: _Channel, target: Target, caller: _Caller) -> Relay:
    own = (("authorization", f"Bearer {target.token}"), (USER_HEADER, written_user(caller.user.name)))
    return Relay(held.channel, lambda: own, _OWN_METADATA.__contains__, RelayedError)
