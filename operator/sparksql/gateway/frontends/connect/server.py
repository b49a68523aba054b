"""The port of the Connect frontend: TLS, token, limits; everything else is the proxy's.

Invariants: a request without the session's token, or the front's, is answered before any of its body is read; what is read is of
its caller's share of the driver's budget; only the methods of Spark's Connect service exist.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc

from sparksql.gateway.frontends.connect.backend import Backend
from sparksql.gateway.frontends.connect.decoding import Decoder
from sparksql.gateway.frontends.connect.errors import malformed, unavailable
from sparksql.gateway.frontends.connect.executions import Executions
from sparksql.gateway.frontends.connect.proxy import ConnectProxy
from sparksql.gateway.frontends.connect.sessions import ConnectSessions
from sparksql.gateway.frontends.connect.statuses import status_of
from sparksql.gateway.frontends.connect.upstream import Upstream
from sparksql.gateway.sessions.callers import Caller, Callers, current
from sparksql.gateway.sessions.service import SessionService
from sparksql.gateway.settings import Settings
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.protocols.budget import DRIVER_CALLS, Bound, Budget, Pool
from sparksql.protocols.call_status import with_statuses
from sparksql.protocols.connect_port import ConnectPort
from sparksql.protocols.grpc_messages import Messages
from sparksql.protocols.slots import SlotLimits, Slots
from sparksql.protocols.spark_connect import METHODS, Kind, path
from sparksql.wire.driver import SqlPolicy
from sparksql.wire.front import USER_HEADER, read_user

if TYPE_CHECKING:
    from aiohttp import web

    from sparksql.gateway.frontends.frontends import FrontendContext

log = logging.getLogger(__name__)

GRACE_SECONDS = 1.0  # for streams whose statements have ended

MAX_CONNECTIONS = 1000


@dataclass(frozen=True)
class ConnectSettings:
    """Tells where the proxy listens and who may pass. `certificate` and `key` are PEM; without them it speaks no TLS."""

    address: str
    port: int
    callers: Callers = field(repr=False)
    policy: SqlPolicy
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)

    @property
    def credentials(self) -> Any:
        """Returns gRPC's TLS, of version 1.2 and up with HTTP/2 negotiated; None without a certificate."""
        if self.certificate is None or self.key is None:
            return None
        return grpc.ssl_server_credentials(((self.key, self.certificate),))


def connect_settings(settings: Settings, port: int) -> ConnectSettings:
    """Makes the frontend's settings from those of the process."""
    pair = settings.tls_pair
    return ConnectSettings(
        address=settings.listen_address,
        port=port,
        callers=Callers(settings.token, settings.front_token),
        policy=settings.config.policy,
        certificate=pair.certificate if pair else None,
        key=pair.key if pair else None,
    )


class ConnectServer:
    """A proxy that is open."""

    def __init__(
        self,
        port: DriverConnectPort,
        upstream: Upstream,
        executions: Executions,
        decoder: Decoder,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._port = port
        self._upstream = upstream
        self._executions = executions
        self._decoder = decoder
        self._pool = pool
        self._watch = asyncio.create_task(executions.watch())

    async def stop(self, grace: float) -> None:
        """Takes no new request; those under way may end within `grace` seconds."""
        await self._port.close(grace)
        self._watch.cancel()
        await self._executions.close()
        await self._upstream.close()
        self._decoder.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


class ConnectFrontend:
    """Spark Connect, at a port of its own."""

    def __init__(self, context: FrontendContext) -> None:
        self._context = context
        self._server: ConnectServer | None = None

    def add_routes(self, app: web.Application) -> None:
        """Adds none."""

    async def start(self, driver: SparkDriver) -> None:
        """Listens. Raises OSError when the port is taken."""
        settings = connect_settings(self._context.settings, self._context.port)
        # Calls of Connect wait long for their turn: with a bound of their own they leave room to those of other protocols.
        budget = Budget(self._context.control.budget.bytes, Pool(Bound.CALLS, DRIVER_CALLS))
        self._server = await serve_connect(self._context.sessions, driver, settings, budget)

    async def close(self) -> None:
        """Ends its streams, after a moment for those whose statements have ended."""
        if self._server is not None:
            await self._server.stop(GRACE_SECONDS)


async def serve_connect(
    service: SessionService, driver: SparkDriver, settings: ConnectSettings, budget: Budget
) -> ConnectServer:
    """Starts Spark's own service on loopback and the proxy before it. Raises OSError when the port is taken."""
    pool = ThreadPoolExecutor(4, thread_name_prefix="connect")
    backend = await asyncio.get_running_loop().run_in_executor(pool, Backend.start, driver)
    upstream, decoder = Upstream(backend), Decoder()
    executions = Executions(service, backend, pool)
    sessions = ConnectSessions(service, backend, pool)
    proxy = ConnectProxy(service, settings.policy, backend, upstream, sessions, executions, decoder)
    opened = DriverConnectPort(proxy, settings.callers, budget)
    port = await opened.listen(settings.address, settings.port, settings.credentials)
    log.info("Connect listens on port %d", port)
    return ConnectServer(opened, upstream, executions, decoder, pool)


class _SharedConnection(Enum):
    """Names the holder of connections that carry calls of several users."""

    FRONT = auto()


class DriverConnectPort:
    """The driver's port of Connect and the handlers of its calls, which gRPC finds by path and metadata."""

    def __init__(self, proxy: ConnectProxy, callers: Callers, budget: Budget) -> None:
        self._callers = callers
        self._budget = budget
        self._port = ConnectPort(self, Slots(SlotLimits.of_one_token(MAX_CONNECTIONS)), budget)
        handlers: dict[str, Callable[..., Awaitable[Any]]] = {
            "AnalyzePlan": proxy.analyze,
            "Config": proxy.config,
            "ArtifactStatus": proxy.artifact_status,
            "Interrupt": proxy.interrupt,
            "ReleaseExecute": proxy.release_execute,
            "ReleaseSession": proxy.release_session,
            "FetchErrorDetails": proxy.fetch_error_details,
            "CloneSession": proxy.clone_session,
            "ExecutePlan": proxy.execute,
            "ReattachExecute": proxy.reattach,
            "AddArtifacts": proxy.add_artifacts,
        }
        # Of the kind that reads nothing before its handler does.
        self._methods = {
            path(name): grpc.stream_stream_rpc_method_handler(self._answered(kind, handlers[name]))
            for name, kind in METHODS.items()
        }
        self._unauthenticated = next(iter(self._methods.values()))  # each of them refuses

    async def listen(self, address: str, port: int, credentials: Any = None) -> int:
        """Begins to listen, without `credentials` without TLS, and returns the port. Raises OSError when it is taken."""
        return await self._port.listen(address, port, credentials)

    async def close(self, seconds: float) -> None:
        """Takes no new request; those under way may end within so many seconds."""
        await self._port.close(seconds)

    def service(self, details: Any) -> Any:
        """Returns the handler of a call, None for a method that does not exist."""
        if caller_of(details.invocation_metadata, self._callers) is None:
            return self._unauthenticated
        return self._methods.get(details.method)

    def _answered(self, kind: Kind, handler: Callable[..., Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        """The handler with its caller known, its requests counted, and its failures as statuses."""
        return with_statuses(partial(self._answer, kind, handler), status_of)

    async def _answer(self, kind: Kind, handler: Callable[..., Awaitable[Any]], _: Any, context: Any) -> None:
        """Finds out who calls before anything is read."""
        passage = self._port.passage(context)
        if passage is None:
            raise unavailable("the connection is being closed, or has not come by the gateway's port")
        with passage.call(), passage.read() as reading:
            caller = caller_of(context.invocation_metadata(), self._callers)
            if caller is None:
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the request has not this session's token")
                return
            current.set(caller)
            holder = Caller(caller.user)
            passage.claim(holder if caller.user is None else _SharedConnection.FRONT)
            with self._budget.calls.lease(holder, 1):
                messages = Messages(context, reading, is_upload=kind is Kind.UPLOAD)
                await self._serve(kind, handler, holder, messages, context)

    async def _serve(
        self, kind: Kind, handler: Callable[..., Awaitable[Any]], holder: Caller, messages: Messages, context: Any
    ) -> None:
        if kind is Kind.UPLOAD:
            await context.write(await handler(messages, context))
            return
        if not await messages.read():
            raise malformed("the request holds no message")
        # A message beyond half of a share leaves its caller's other calls room.
        size = min(len(messages.waiting), self._budget.bytes.each // 2)
        request = [messages.take()]  # the handler's alone
        with self._budget.bytes.lease(holder, size) as held:
            if kind is Kind.UNARY:
                await context.write(await handler(request.pop(), context))
            else:
                await handler(request.pop(), context, held.end)


def caller_of(metadata: Any, callers: Callers) -> Caller | None:
    """Returns who asks, by a request's metadata; None for one that is not let in."""
    given = {key: value for key, value in metadata or () if isinstance(value, str)}
    scheme, _, token = given.get("authorization", "").partition(" ")
    user = given.get(USER_HEADER)
    found = callers.identify(token.encode(errors="surrogateescape"), None if user is None else read_user(user))
    return found if scheme == "Bearer" else None
