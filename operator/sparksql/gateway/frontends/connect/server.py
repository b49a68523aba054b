"""The gRPC server of the Connect frontend: TLS, token, limits; everything else is the proxy's.

Invariants: a request without the session's token is answered before any of its body is read; only the methods of Spark's
Connect service exist.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc

from sparksql.gateway.frontends.connect.backend import Backend
from sparksql.gateway.frontends.connect.decoding import Decoder
from sparksql.gateway.frontends.connect.executions import Executions
from sparksql.gateway.frontends.connect.proxy import ConnectProxy
from sparksql.gateway.frontends.connect.sessions import ConnectSessions
from sparksql.gateway.frontends.connect.statuses import with_statuses
from sparksql.gateway.frontends.connect.upstream import SERVICE, Upstream
from sparksql.gateway.sessions.service import SessionService
from sparksql.gateway.settings import Settings
from sparksql.gateway.spark.connect_conf import MAX_MESSAGE_BYTES
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.wire.driver import SqlPolicy

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 1000
MAX_STREAMS = 200  # of one connection
MAX_RPCS = 2000
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),
    ("grpc.max_metadata_size", 64 << 10),
    ("grpc.absolute_max_metadata_size", 64 << 10),
    ("grpc.server_handshake_timeout_ms", 10_000),
    # By default gRPC cancels some of a thousand calls that come at once, without a word; ours are told that there are too many.
    ("grpc.server.max_pending_requests", 4 * MAX_RPCS),
    ("grpc.server.max_pending_requests_hard_limit", 4 * MAX_RPCS),
    # A client that is not there any more is noticed; one that pings more often than this is told to stop.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.so_reuseport", 0),
)


@dataclass(frozen=True)
class ConnectSettings:
    """Tells where the proxy listens and who may pass. `certificate` and `key` are PEM; without them it speaks no TLS."""

    address: str
    port: int
    token: str = field(repr=False)
    policy: SqlPolicy
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)

    @property
    def credentials(self) -> Any:
        """Returns gRPC's TLS, of version 1.2 and up with HTTP/2 negotiated; None without a certificate."""
        if self.certificate is None or self.key is None:
            return None
        return grpc.ssl_server_credentials(((self.key, self.certificate),))


def connect_settings(settings: Settings) -> ConnectSettings:
    """Makes the frontend's settings from those of the process."""
    pair = settings.tls_pair
    return ConnectSettings(
        address=settings.listen_address,
        port=settings.config.endpoints.connect_port,
        token=settings.token,
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


async def serve_connect(service: SessionService, driver: SparkDriver, settings: ConnectSettings) -> ConnectServer:
    """Starts Spark's own service on loopback and the proxy before it. Raises OSError when the port is taken."""
    pool = ThreadPoolExecutor(4, thread_name_prefix="connect")
    backend = await asyncio.get_running_loop().run_in_executor(pool, Backend.start, driver)
    upstream, decoder = Upstream(backend), Decoder()
    executions = Executions(service, backend, pool)
    sessions = ConnectSessions(service, backend, pool)
    proxy = ConnectProxy(service, settings.policy, backend, upstream, sessions, executions, decoder)
    server, port = open_server(proxy, settings.token, settings.address, settings.port, settings.credentials)
    await server.start()
    log.info("Connect listens on port %d", port)
    return ConnectServer(server, upstream, executions, decoder, pool)


def open_server(proxy: ConnectProxy, token: str, address: str, port: int, credentials: Any = None) -> tuple[Any, int]:
    """Makes a server that is not started yet, and its port. Raises OSError when that is taken."""
    server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=MAX_RPCS)
    server.add_generic_rpc_handlers((_Handlers(proxy, token),))
    where = f"{address}:{port}"
    try:
        if credentials is None:
            return server, server.add_insecure_port(where)
        return server, server.add_secure_port(where, credentials)
    except RuntimeError as failed:
        raise OSError(f"Connect cannot listen on {where}: {failed}") from None


class _Handlers:
    """gRPC asks it for the handler of each request, by path and metadata."""

    def __init__(self, proxy: ConnectProxy, token: str) -> None:
        self._expected = f"Bearer {token}".encode()
        self._methods: dict[str, Any] = {
            **{
                f"/{SERVICE}/{name}": grpc.unary_unary_rpc_method_handler(with_statuses(handler))
                for name, handler in {
                    "AnalyzePlan": proxy.analyze,
                    "Config": proxy.config,
                    "ArtifactStatus": proxy.artifact_status,
                    "Interrupt": proxy.interrupt,
                    "ReleaseExecute": proxy.release_execute,
                    "ReleaseSession": proxy.release_session,
                    "FetchErrorDetails": proxy.fetch_error_details,
                    "CloneSession": proxy.clone_session,
                }.items()
            },
            f"/{SERVICE}/ExecutePlan": grpc.unary_stream_rpc_method_handler(with_statuses(proxy.execute)),
            f"/{SERVICE}/ReattachExecute": grpc.unary_stream_rpc_method_handler(with_statuses(proxy.reattach)),
            f"/{SERVICE}/AddArtifacts": grpc.stream_unary_rpc_method_handler(with_statuses(proxy.add_artifacts)),
        }
        # Of the kind that reads nothing before its handler does.
        self._unauthenticated = grpc.stream_stream_rpc_method_handler(_refuse)

    def service(self, details: Any) -> Any:
        """The handler, None for a method that does not exist."""
        given = next((value for key, value in details.invocation_metadata if key == "authorization"), "")
        given = given if isinstance(given, bytes) else given.encode(errors="surrogateescape")
        if not hmac.compare_digest(given, self._expected):
            return self._unauthenticated
        return self._methods.get(details.method)


async def _refuse(requests: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the request has not this session's token")
