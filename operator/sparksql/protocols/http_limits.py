"""Bounds on what connections may hold: their number, the time of a head, of a body, and of an answer that nobody reads.

aiohttp itself bounds the sizes of heads and bodies, and closes a connection that idles. What it does not have is here:

- A request's head must be complete in HEAD_SECONDS from the connection's start, or from its first byte on a kept connection.
- A request's body must be complete in BODY_SECONDS; it is read before the handler runs, and after authentication.
- An answer of which the client takes less than WRITE_BYTES in WRITE_SECONDS is cut off with its connection.
- No more connections than the setting says: a new one takes the place of the one that has been without a request for
  longest; while all serve requests it is told 503 at once. So clients that only connect cannot keep the operator out.

Everything belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from sparksql.protocols.budget import Budget, Holder, Lease, OverBudgetError

HEAD_SECONDS = 15.0
BODY_SECONDS = 30.0
WRITE_SECONDS = 30.0
WRITE_BYTES = 64 << 10
IDLE_SECONDS = 75.0  # above the 60 s that Flink's clients and most proxies keep an unused connection
HANDSHAKE_SECONDS = 10.0
TLS_END_SECONDS = 5.0
RETRY_SECONDS = 2
LINGER_SECONDS = 2.0  # for the rest of a body that was refused
MAX_HEAD_LINE_BYTES = 8_190
MAX_HEADERS = 64
BACKLOG = 1_024
_FULL_BODY = b'{"errors":["This server has as many connections as it may have; try again later."]}'
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=UTF-8\r\nRetry-After: 2\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_FULL_BODY), _FULL_BODY)
)


def make_runner(app: web.Application) -> web.AppRunner:
    """Makes a runner of the application with the bounds that aiohttp has itself."""
    return web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=1.0,
        keepalive_timeout=IDLE_SECONDS,
        lingering_time=LINGER_SECONDS,
        max_line_size=MAX_HEAD_LINE_BYTES,
        max_field_size=MAX_HEAD_LINE_BYTES,
        max_headers=MAX_HEADERS,
    )


@web.middleware
async def mark_busy(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Marks a request's connection as busy while it is served: its head is complete, and it does not idle.

    Must be the outermost middleware.
    """
    transport = request.transport
    connection = None if transport is None else transport.get_protocol()
    if not isinstance(connection, _Connection):
        return await handler(request)
    connection.begin_request()
    try:
        return await handler(request)
    finally:
        connection.end_request()


def read_body(budget: Budget, holder_of: Callable[[web.Request], Holder]) -> Middleware:
    """Makes the middleware that reads a request's body, which handlers find read, and counts the request as a call.

    Each piece is taken from its holder's share of the budget before it is kept, and given back when the handler has ended.
    Must be the innermost middleware, behind authentication. It raises 400 for a body that is not what its headers say, 408
    for one that takes longer than BODY_SECONDS, and 413 for one that is too large; 429 when the holder has taken its share, and
    503 when all is taken.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        holder = holder_of(request)
        with budget.calls.lease(holder) as call, budget.bytes.lease(holder) as held:
            try:
                call.grow(1)
                async with asyncio.timeout(BODY_SECONDS):
                    await _read(request, held)
            except OverBudgetError as over:
                raise refused(over) from None
            except TimeoutError:
                raise web.HTTPRequestTimeout(headers={"Connection": "close"}) from None
            except web.RequestPayloadError:
                raise web.HTTPBadRequest(reason="The body is not what its headers say") from None
            return await handler(request)

    return middleware


def refused(over: OverBudgetError) -> web.HTTPException:
    """Returns the HTTP error for a bound that is met."""
    headers = {"Retry-After": str(RETRY_SECONDS)}
    if over.is_own:
        return web.HTTPTooManyRequests(reason=str(over), headers=headers)
    return web.HTTPServiceUnavailable(reason=str(over), headers=headers)


async def _read(request: web.Request, held: Lease) -> None:
    """Reads a body as `request.read()` does, which takes nothing from a budget and unpacks large pieces at once."""
    body, most = bytearray(), request.client_max_size
    while piece := await request.content.readany():
        held.grow(len(piece))
        body.extend(piece)
        if len(body) > most:
            raise web.HTTPRequestEntityTooLarge(most)
    request._read_bytes = bytes(body)  # where request.read() has it


class BoundedSite(web.BaseSite):
    """Listens for a runner's application, with the bounds of this module."""

    def __init__(
        self, runner: web.AppRunner, host: str, port: int, tls: ssl.SSLContext | None, max_connections: int
    ) -> None:
        """`max_connections` 0 means no bound."""
        super().__init__(runner, ssl_context=tls, backlog=BACKLOG)
        self._host = host
        self._port = port
        self.connections = Connections(max_connections)

    @property
    def name(self) -> str:
        """Returns the address that it listens on, as aiohttp shows it."""
        return f"{'http' if self._ssl_context is None else 'https'}://{self._host}:{self._port}"

    @property
    def port(self) -> int:
        """Returns the port that it listens on, once it does."""
        assert isinstance(self._server, asyncio.Server)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def start(self) -> None:
        """Begins to listen. Raises OSError when the port is taken."""
        await super().start()
        make_protocol = self._runner.server
        assert make_protocol is not None
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(make_protocol, self.connections),
            self._host,
            self._port,
            ssl=self._ssl_context,
            backlog=self._backlog,
            ssl_handshake_timeout=None if self._ssl_context is None else HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=None if self._ssl_context is None else TLS_END_SECONDS,
        )


class Connections:
    """The open connections, and those among them that serve no request now, longest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[_Connection] = set()
        self._idle: OrderedDict[_Connection, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: _Connection) -> bool:
        """Counts a new connection and returns whether it may stay."""
        if 0 < self._most <= len(self._open):
            if not self._idle:
                return False
            next(iter(self._idle)).cut()
        self._open.add(connection)
        self.idles(connection)
        return True

    def idles(self, connection: _Connection) -> None:
        """Notes that an open connection serves no request now."""
        if connection in self._open:
            self._idle[connection] = None

    def works(self, connection: _Connection) -> None:
        """Notes that a connection serves a request."""
        self._idle.pop(connection, None)

    def remove(self, connection: _Connection) -> None:
        """Forgets a connection that is closed."""
        self._idle.pop(connection, None)
        self._open.discard(connection)


class _Connection(asyncio.Protocol):
    """Stands between a transport and aiohttp's protocol, and keeps the times."""

    def __init__(self, make_protocol: Callable[[], asyncio.Protocol], connections: Connections) -> None:
        self._make_protocol = make_protocol
        self._connections = connections
        self._protocol: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._head: asyncio.TimerHandle | None = None
        self._write: asyncio.TimerHandle | None = None
        self._serving = False

    def begin_request(self) -> None:
        self._serving = True
        self._connections.works(self)
        self._stop_head()

    def end_request(self) -> None:
        """The answer is made; a client that takes it slowly counts as one that idles."""
        self._serving = False
        self._connections.idles(self)

    def cut(self) -> None:
        """Ends the connection at once."""
        self._connections.remove(self)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._connections.admit(self):
            transport.write(_FULL)
            transport.close()
            return
        self._await_head()
        self._protocol = self._make_protocol()
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._protocol is None:
            return
        if not self._serving:
            self._await_head()
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._protocol is None else self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head()
        self._stop_write()
        self._connections.remove(self)
        if self._protocol is not None:
            self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._await_progress()
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._stop_write()
        if self._protocol is not None:
            self._protocol.resume_writing()

    def _await_head(self) -> None:
        """Starts the time of a head, unless it runs."""
        if self._head is None:
            self._head = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.cut)

    def _stop_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _await_progress(self) -> None:
        self._stop_write()
        held = self._held()
        self._write = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._check_progress, held)

    def _check_progress(self, held: int) -> None:
        if held - self._held() < WRITE_BYTES:
            self.cut()
        else:
            self._await_progress()

    def _stop_write(self) -> None:
        if self._write is not None:
            self._write.cancel()
            self._write = None

    def _held(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()
