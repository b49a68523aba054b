"""The gRPC server of the Connect frontend: TLS, token, limits; everything else is the proxy's.

Invariants: a request without the session's token, or the front's, is answered before any of its body is read; only the methods of
Spark's Connect service exist.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc

from sparksql.gateway.frontends.connect.backend import Backend
from sparksql.gateway.frontends.connect.decoding import Decoder
from sparksql.gateway.frontends.connect.executions import Executions
from sparksql.gateway.frontends.connect.proxy import ConnectProxy
from sparksql.gateway.frontends.connect.sessions import ConnectSessions
from sparksql.gateway.frontends.connect.statuses import with_statuses
from sparksql.gateway.frontends.connect.upstream import Upstream
from sparksql.gateway.sessions.callers import Caller, Callers, current
from sparksql.gateway.sessions.service import SessionService
from sparksql.gateway.settings import Settings
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.protocols.spark_connect import HANDLER_OF, MAX_RPCS, METHODS, path, server_options
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
        self, server: Any, upstream: Upstream, executions: Executions, decoder: Decoder, pool: ThreadPoolExecutor
    ) -> None:
        self._server = server
        self._upstream = upstream
        self._executions = executions
        self._decoder = decoder
        self._pool = pool
        self._watch = asyncio.create_task(executions.watch())

    async def stop(self, grace: float) -> None:
        """Takes no new request; those under way may end within `grace` seconds."""
        await self._server.stop(grace)
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
        self._server = await serve_connect(self._context.sessions, driver, settings)

    async def close(self) -> None:
        """Ends its streams, after a moment for those whose statements have ended."""
        if self._server is not None:
            await self._server.stop(GRACE_SECONDS)


async def serve_connect(service: SessionService, driver: SparkDriver, settings: ConnectSettings) -> ConnectServer:
    """Starts Spark's own service on loopback and the proxy before it. Raises OSError when the port is taken."""
    pool = ThreadPoolExecutor(4, thread_name_prefix="connect")
    backend = await asyncio.get_running_loop().run_in_executor(pool, Backend.start, driver)
    upstream, decoder = Upstream(backend), Decoder()
    executions = Executions(service, backend, pool)
    sessions = ConnectSessions(service, backend, pool)
    proxy = ConnectProxy(service, settings.policy, backend, upstream, sessions, executions, decoder)
    server, port = open_server(proxy, settings.callers, settings.address, settings.port, settings.credentials)
    await server.start()
    log.info("Connect listens on port %d", port)
    return ConnectServer(server, upstream, executions, decoder, pool)


def open_server(
    proxy: ConnectProxy, callers: Callers, address: str, port: int, credentials: Any = None
) -> tuple[Any, int]:
    """Makes a server that is not started yet, and its port. Raises OSError when that is taken."""
    server = grpc.aio.server(options=server_options(MAX_CONNECTIONS), maximum_concurrent_rpcs=MAX_RPCS)
    server.add_generic_rpc_handlers((_Handlers(proxy, callers),))
    where = f"{address}:{port}"
    try:
        if credentials is None:
            return server, server.add_insecure_port(where)
        return server, server.add_secure_port(where, credentials)
    except RuntimeError as failed:
        raise OSError(f"Connect cannot listen on {where}: {failed}") from None


class _Handlers:
    """gRPC asks it for the handler of each request, by path and metadata."""

    def __init__(self, proxy: ConnectProxy, callers: Callers) -> None:
        self._callers = callers
        handlers: dict[str, Callable[[Any, Any], Awaitable[Any]]] = {
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
        self._methods = {path(name): HANDLER_OF[kind](self._answered(handlers[name])) for name, kind in METHODS.items()}
        # Of the kind that reads nothing before its handler does.
        self._unauthenticated = grpc.stream_stream_rpc_method_handler(_refuse)

    def _answered(self, handler: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        """The handler with its caller known and its failures told."""
        told = with_statuses(handler)

        async def answer(request: Any, context: Any) -> Any:
            caller = caller_of(context.invocation_metadata(), self._callers)
            if caller is None:
                return await _refuse(request, context)
            current.set(caller)
            return await told(request, context)

        return answer

    def service(self, details: Any) -> Any:
        """The handler, None for a method that does not exist."""
        if caller_of(details.invocation_metadata, self._callers) is None:
            return self._unauthenticated
        return self._methods.get(details.method)


def caller_of(metadata: Any, callers: Callers) -> Caller | None:
    """Returns who asks, by a request's metadata; None for one that is not let in."""
    given = {key: value for key, value in metadata or () if isinstance(value, str)}
    scheme, _, token = given.get("authorization", "").partition(" ")
    user = given.get(USER_HEADER)
    found = callers.identify(token.encode(errors="surrogateescape"), None if user is None else read_user(user))
    return found if scheme == "Bearer" else None


async def _refuse(requests: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the request has not this session's token")
