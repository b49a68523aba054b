"""The port of HiveServer2's clients: TLS, connections and their limits.

Invariants: a connection that has not authenticated in time is closed; what a client sends is read while its call is answered,
so that one that leaves is noticed at once, its call given up and its sessions closed; a client that reads or writes too slowly
holds no thread and, after a time, no connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from dataclasses import dataclass

from sparksql.gateway.frontends.thrift.calls import Calls
from sparksql.gateway.frontends.thrift.codec import ProtocolError
from sparksql.gateway.frontends.thrift.dispatch import answer, exception
from sparksql.gateway.frontends.thrift.fetching import FetchedAhead
from sparksql.gateway.frontends.thrift.messages import ApplicationError
from sparksql.gateway.frontends.thrift.operations import Handles
from sparksql.gateway.frontends.thrift.sasl import (
    MAX_FRAME_BYTES,
    NegotiationError,
    NegotiationStatus,
    authenticate,
    frame_head,
    negotiation_message,
    read_frame,
)
from sparksql.gateway.sessions.service import SessionService
from sparksql.gateway.settings import Settings

log = logging.getLogger(__name__)

_READ_BUFFER_BYTES = 1 << 20
_LINGER_SECONDS = 1.0
_KEEP_ALIVE_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


@dataclass(frozen=True)
class ConnectionLimits:
    """Bounds what clients may take: a number of connections, and seconds.

    When there are too many connections, the one that has negotiated for longest makes room for a new one. `frame_seconds` is
    from a request's length to its last byte, `send_seconds` until a reply is taken. Every `keep_alive_seconds` an open connection
    counts as use of its sessions, for `idle_calls_seconds` after its last call: Hive's clients know no heartbeat and expect a
    session to live as long as their connection.
    """

    connections: int = 1000
    negotiation_seconds: float = 10.0
    frame_seconds: float = 60.0
    send_seconds: float = 120.0
    keep_alive_seconds: float = 60.0
    idle_calls_seconds: float = 3600.0

    @classmethod
    def within(cls, idle_timeout: float) -> ConnectionLimits:
        """Returns the limits for sessions that expire after so many seconds without use; 0 is never."""
        return cls(keep_alive_seconds=min(cls.keep_alive_seconds, idle_timeout / 3)) if idle_timeout > 0 else cls()


class ThriftServer:
    """The listening port and its connections. Belongs to the event loop."""

    def __init__(self, service: SessionService, token: str, limits: ConnectionLimits) -> None:
        self._service = service
        self._token = token
        self._limits = limits
        self._handles = Handles()
        self._ahead = FetchedAhead()
        self._connections: set[asyncio.Task[None]] = set()
        self._strangers: dict[asyncio.Task[None], None] = {}  # have not authenticated; the oldest first
        self._server: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        """Returns the number of open connections."""
        return len(self._connections)

    @property
    def sessions(self) -> int:
        """Returns the number of open sessions."""
        return len(self._handles)

    async def listen(self, address: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Begins to listen; without `tls` it speaks none. Raises OSError when the port is taken."""
        self._server = await asyncio.start_server(
            self._accept,
            address,
            port,
            ssl=tls,
            ssl_handshake_timeout=self._limits.negotiation_seconds if tls else None,
            limit=_READ_BUFFER_BYTES,
        )
        log.info("listening for clients of HiveServer2 on port %d", port)

    async def close(self) -> None:
        """Ends every connection and closes its sessions."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_full = len(self._connections) >= self._limits.connections
        if is_full and self._strangers:
            is_full = False
            oldest = next(iter(self._strangers))
            oldest.cancel()
            self._remove(oldest)
        task = asyncio.get_running_loop().create_task(self._serve_to_the_end(reader, writer, is_full=is_full))
        self._connections.add(task)
        self._strangers[task] = None
        task.add_done_callback(self._remove)

    def _remove(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._strangers.pop(task, None)

    async def _serve_to_the_end(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_full: bool
    ) -> None:
        try:
            await self._serve(reader, writer, is_full=is_full)
        except (EOFError, TimeoutError, OSError):
            pass  # the client has left, or was too slow
        except (NegotiationError, ProtocolError) as refusal:
            log.info("a client of HiveServer2 is refused: %s", refusal)
        except Exception:
            log.exception("a connection failed")
        finally:
            writer.transport.abort()  # a mere close would wait until the client has taken all that was written

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_full: bool) -> None:
        for option in _KEEP_ALIVE_OPTIONS:
            writer.get_extra_info("socket").setsockopt(*option)
        async with asyncio.timeout(self._limits.negotiation_seconds):
            try:
                if is_full:
                    most = self._limits.connections
                    raise NegotiationError(f"this driver has {most} connections already; close one that is done")
                user = await authenticate(reader, writer, self._token)
            except NegotiationError as refusal:
                writer.write(negotiation_message(NegotiationStatus.BAD, str(refusal).encode()))
                await writer.drain()
                await self._linger(reader)
                raise
        if (task := asyncio.current_task()) is not None:
            self._strangers.pop(task, None)
        calls = Calls(self._service, self._handles, self._ahead, user)
        await _Connection(reader, writer, calls, self._limits).run()

    async def _linger(self, reader: asyncio.StreamReader) -> None:
        """Until the client leaves: what it has sent and nobody has read would make the system throw the refusal away."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                while await reader.read(_READ_BUFFER_BYTES):
                    pass


class _Connection:
    """An authenticated client: reads its requests while it answers the one before."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, calls: Calls, limits: ConnectionLimits
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._calls = calls
        self._limits = limits
        self._requests: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        self._last_call = 0.0

    async def run(self) -> None:
        """Until the client leaves or breaks a rule. Raises what the first of its tasks raised."""
        tasks = [asyncio.create_task(work) for work in (self._read(), self._answer(), self._keep_alive())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._calls.close()

    async def _read(self) -> None:
        while True:
            await self._requests.put(await read_frame(self._reader, self._limits.frame_seconds))

    async def _answer(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            request = await self._requests.get()
            self._last_call = loop.time()
            if request is None:
                reply = exception(
                    "", 0, ApplicationError.PROTOCOL_ERROR, f"a request has at most {MAX_FRAME_BYTES} bytes"
                )
            else:
                reply = await answer(self._calls, request)
            self._writer.writelines([frame_head(sum(map(len, reply))), *reply])
            async with asyncio.timeout(self._limits.send_seconds):
                await self._writer.drain()

    async def _keep_alive(self) -> None:
        loop = asyncio.get_running_loop()
        self._last_call = loop.time()
        while True:
            await asyncio.sleep(self._limits.keep_alive_seconds)
            if loop.time() - self._last_call < self._limits.idle_calls_seconds:
                self._calls.keep_alive()


async def serve_thrift(service: SessionService, settings: Settings) -> ThriftServer:
    """Listens on the configured port; the caller closes the server. Raises OSError when the port is taken."""
    server = ThriftServer(service, settings.token, ConnectionLimits.within(settings.gateway.session_idle_timeout))
    await server.listen(settings.listen_address, settings.config.endpoints.thrift_port, settings.tls)
    return server
