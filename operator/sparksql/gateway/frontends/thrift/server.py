"""The port of HiveServer2's clients: TLS, connections and their limits.

Invariants: a connection that has not authenticated in time is closed; what a client sends is read while its call is answered,
so that one that leaves is noticed at once, its call given up and its sessions closed; a client that reads or writes too slowly
holds no thread and, after a time, no connection.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from sparksql.gateway.frontends.thrift.calls import Calls
from sparksql.gateway.frontends.thrift.dispatch import answer, exception
from sparksql.gateway.frontends.thrift.fetching import FetchedAhead
from sparksql.gateway.frontends.thrift.operations import Handles
from sparksql.gateway.sessions.callers import Callers, current
from sparksql.gateway.sessions.service import SessionService
from sparksql.protocols.budget import DRIVER_BYTES, DRIVER_CALLS, Budget, Lease, OverBudgetError
from sparksql.protocols.gate import Tls
from sparksql.protocols.hiveserver2.codec import ProtocolError
from sparksql.protocols.hiveserver2.connections import Connections, linger
from sparksql.protocols.hiveserver2.http import HTTP_PATH, HTTP_TYPE, login_name
from sparksql.protocols.hiveserver2.messages import ApplicationError
from sparksql.protocols.hiveserver2.sasl import (
    NegotiationError,
    NegotiationStatus,
    RefusedFrameError,
    frame_head,
    negotiation_message,
    read_frame,
    read_plain,
)
from sparksql.protocols.slots import Slot, SlotLimits, Slots

if TYPE_CHECKING:
    from sparksql.gateway.frontends.frontends import FrontendContext
    from sparksql.gateway.spark.driver import SparkDriver

log = logging.getLogger(__name__)

_READ_BUFFER_BYTES = 1 << 20


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

    def __init__(
        self, service: SessionService, callers: Callers, limits: ConnectionLimits, budget: Budget | None = None
    ) -> None:
        """`budget` is what all ports of the driver take from; without one it has its own (tests)."""
        self._service = service
        self._callers = callers
        self._limits = limits
        self._handles = Handles()
        self._ahead = FetchedAhead()
        self._budget = budget or Budget.of(DRIVER_BYTES, DRIVER_CALLS)
        self._connections = Connections(Slots(SlotLimits.of_one_token(limits.connections)), self._serve)

    @property
    def connections(self) -> int:
        """Returns the number of open connections."""
        return len(self._connections)

    @property
    def sessions(self) -> int:
        """Returns the number of open sessions."""
        return len(self._handles)

    @property
    def port(self) -> int:
        """Returns the port that it listens on, once it does."""
        return self._connections.port

    async def listen(self, address: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Begins to listen; without `tls` it speaks none. Raises OSError when the port is taken."""
        secured = None if tls is None else Tls(tls, self._limits.negotiation_seconds)
        port = await self._connections.listen(address, port, secured, _READ_BUFFER_BYTES)
        log.info("listening for clients of HiveServer2 on port %d", port)

    async def close(self) -> None:
        """Ends every connection and closes its sessions."""
        await self._connections.close()

    async def answer(self, message: bytes, name: str) -> list[bytes]:
        """Answers one message that came by HTTP. What it opens stays until it is closed or nobody uses it.

        Raises ProtocolError when not even a reply can be addressed.
        """
        return await answer(Calls(self._service, self._handles, self._ahead, name), message)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, slot: Slot) -> None:
        async with asyncio.timeout(self._limits.negotiation_seconds):
            try:
                plain = await read_plain(reader)
                caller = self._callers.identify(plain.password, plain.name)
                if caller is None:
                    raise NegotiationError("the password is not this session's token")
                slot.claim(caller)
                writer.write(negotiation_message(NegotiationStatus.COMPLETE))
            except (NegotiationError, OverBudgetError) as refusal:
                writer.write(negotiation_message(NegotiationStatus.BAD, str(refusal).encode()))
                await writer.drain()
                await linger(reader)
                raise NegotiationError(str(refusal)) from refusal
        current.set(caller)
        calls = Calls(self._service, self._handles, self._ahead, plain.name)
        with self._budget.bytes.lease(caller) as held:
            await _Connection(reader, writer, calls, self._limits, held).run()


class _Connection:
    """An authenticated client: reads its requests while it answers the one before."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        calls: Calls,
        limits: ConnectionLimits,
        held: Lease,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._calls = calls
        self._limits = limits
        self._held = held
        self._requests: asyncio.Queue[bytes | RefusedFrameError] = asyncio.Queue(maxsize=1)
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
            try:
                frame: bytes | RefusedFrameError = await read_frame(
                    self._reader, self._limits.frame_seconds, self._held
                )
            except RefusedFrameError as refused:
                frame = refused
            await self._requests.put(frame)

    async def _answer(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            request = await self._requests.get()
            self._last_call = loop.time()
            if isinstance(request, RefusedFrameError):
                reply = exception("", 0, ApplicationError.PROTOCOL_ERROR, str(request))
            else:
                reply = await answer(self._calls, request)
                self._held.shrink(len(request))
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


class ThriftFrontend:
    """HiveServer2's protocol, at a port of its own, and by HTTP at the gateway's."""

    def __init__(self, context: FrontendContext) -> None:
        self._context = context
        self._server: ThriftServer | None = None

    def add_routes(self, app: web.Application) -> None:
        """Adds the path of the HTTP transport."""
        app.router.add_post(HTTP_PATH, self._serve)

    async def _serve(self, request: web.Request) -> web.Response:
        if self._server is None:
            return web.Response(status=503, text="the session's driver is starting; try again later")
        name = login_name(request.headers.get("Authorization", ""))
        try:
            reply = await self._server.answer(await request.read(), name)
        except ProtocolError as malformed:
            return web.Response(status=400, text=str(malformed))
        return web.Response(body=b"".join(reply), content_type=HTTP_TYPE)

    async def start(self, driver: SparkDriver) -> None:
        """Listens. Raises OSError when the port is taken."""
        context = self._context
        self._server = await serve_thrift(context, context.port)

    async def close(self) -> None:
        """Ends its connections."""
        if self._server is not None:
            await self._server.close()


async def serve_thrift(context: FrontendContext, port: int) -> ThriftServer:
    """Listens on the port; the caller closes the server. Raises OSError when the port is taken."""
    settings = context.settings
    limits = ConnectionLimits.within(settings.gateway.session_idle_timeout)
    server = ThriftServer(context.sessions, context.callers, limits, context.control.budget)
    await server.listen(settings.listen_address, port, settings.tls)
    return server
