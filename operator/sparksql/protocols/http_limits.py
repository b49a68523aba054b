"""Bounds on what connections may hold: their number, the time of a head, of a body, and of an answer that nobody reads.

aiohttp itself bounds the sizes of heads and bodies, and closes a connection that idles. What it does not have is here:

- A request's head must be complete in HEAD_SECONDS from the connection's start, or from its first byte on a kept connection.
- A request's body must be complete in BODY_SECONDS; it is read before the handler runs, and after authentication.
- An answer of which the client takes less than WRITE_BYTES in WRITE_SECONDS is cut off with its connection.
- Connections have slots (`slots`), from before their handshake on; one that serves a request makes room for none.

Everything belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from sparksql.protocols.bounds import MAX_OPENING_BYTES
from sparksql.protocols.budget import Budget, Holder, Lease, OverBudgetError
from sparksql.protocols.gate import Tls, open_gate, port_of
from sparksql.protocols.slots import Slot, Slots

HEAD_SECONDS = 15.0
BODY_SECONDS = 30.0
WRITE_SECONDS = 30.0
WRITE_BYTES = 64 << 10
IDLE_SECONDS = 75.0  # above the 60 s that Flink's clients and most proxies keep an unused connection
RETRY_SECONDS = 2
LINGER_SECONDS = 2.0  # for the rest of a body that was refused
MAX_HEAD_LINE_BYTES = 8_190
MAX_HEADERS = 64


Extent = Callable[[web.Request, bytes], Awaitable[int]]
"""Returns how many bytes a body may have, by its first ones. Raises what refuses the request."""


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
    connection = _connection_of(request)
    if connection is None:
        return await handler(request)
    connection.begin_request()
    try:
        return await handler(request)
    finally:
        connection.end_request()


def claim(request: web.Request, holder: Holder) -> None:
    """Makes a request's connection its user's. For authentication to call.

    Raises 429 when all of the user's connections serve requests, and 503 when all do that users may have.
    """
    if (connection := _connection_of(request)) is not None:
        try:
            connection.slot.claim(holder)
        except OverBudgetError as over:
            raise refused(over) from None


def _connection_of(request: web.Request) -> _Connection | None:
    """The connection, None for one that is not of a BoundedSite (tests) or has ended."""
    protocol = None if request.transport is None else request.transport.get_protocol()
    return protocol if isinstance(protocol, _Connection) else None


def read_body(budget: Budget, holder_of: Callable[[web.Request], Holder], extent: Extent | None = None) -> Middleware:
    """Makes the middleware that reads a request's body, which handlers find read, and counts the request as a call.

    With an `extent`, no more than MAX_OPENING_BYTES are read before it returns how large the body may be.

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
                    await _read(request, held, extent)
            except OverBudgetError as over:
                raise refused(over) from None
            except TimeoutError:
                raise web.HTTPRequestTimeout(headers={"Connection": "close"}) from None
            except web.RequestPayloadError:
                raise web.HTTPBadRequest(reason="The body does not match its headers") from None
            return await handler(request)

    return middleware


def refused(over: OverBudgetError) -> web.HTTPException:
    """Returns the HTTP error for a bound that is met."""
    headers = {"Retry-After": str(RETRY_SECONDS)}
    if over.is_own:
        return web.HTTPTooManyRequests(reason=str(over), headers=headers)
    return web.HTTPServiceUnavailable(reason=str(over), headers=headers)


async def _read(request: web.Request, held: Lease, extent: Extent | None) -> None:
    """Reads a body as `request.read()` does, which takes nothing from a budget and unpacks large pieces at once."""
    body, most = bytearray(), request.client_max_size if extent is None else MAX_OPENING_BYTES
    while piece := await request.content.readany():
        held.grow(len(piece))
        body.extend(piece)
        if len(body) > most and extent is not None:
            most, extent = await extent(request, bytes(body)), None
        if len(body) > most:
            raise _too_large(most)
    request._read_bytes = bytes(body)  # where request.read() has it


def _too_large(most: int) -> web.HTTPException:
    """aiohttp's own exception has no room for a reason."""
    if most > MAX_OPENING_BYTES:
        return web.HTTPRequestEntityTooLarge(most)
    reason = f"a request that opens a session has at most {most} bytes: send its name and properties alone"
    return web.HTTPRequestEntityTooLarge(most, reason=reason)


class BoundedSite(web.BaseSite):
    """Listens for a runner's application, with the bounds of this module."""

    def __init__(self, runner: web.AppRunner, host: str, port: int, tls: ssl.SSLContext | None, slots: Slots) -> None:
        """`slots` may be shared with other ports of the process."""
        super().__init__(runner, ssl_context=tls)
        self._host = host
        self._port = port
        self._slots = slots

    @property
    def name(self) -> str:
        """Returns the address that it listens on, as aiohttp shows it."""
        return f"{'http' if self._ssl_context is None else 'https'}://{self._host}:{self._port}"

    @property
    def port(self) -> int:
        """Returns the port that it listens on, once it does."""
        assert isinstance(self._server, asyncio.Server)
        return port_of(self._server)

    async def start(self) -> None:
        """Begins to listen. Raises OSError when the port is taken."""
        await super().start()
        make_protocol = self._runner.server
        assert make_protocol is not None
        tls = None if self._ssl_context is None else Tls(self._ssl_context)

        def enter(_: asyncio.Transport, slot: Slot) -> asyncio.Protocol:
            return _Connection(make_protocol, slot)

        self._server = await open_gate(self._slots, enter, self._host, self._port, tls)


class _Connection(asyncio.Protocol):
    """Stands between a transport and aiohttp's protocol, and keeps the times."""

    def __init__(self, make_protocol: Callable[[], asyncio.Protocol], slot: Slot) -> None:
        self.slot = slot
        self._protocol = make_protocol()
        self._transport: asyncio.Transport | None = None
        self._head: asyncio.TimerHandle | None = None
        self._write: asyncio.TimerHandle | None = None
        self._serving = False

    def begin_request(self) -> None:
        self._serving = True
        self.slot.works()
        self._stop_head()

    def end_request(self) -> None:
        """The answer is made; a client that takes it slowly counts as one that idles."""
        self._serving = False
        self.slot.idles()

    def cut(self) -> None:
        """Ends the connection at once."""
        self.slot.close()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._await_head()
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._serving:
            self._await_head()
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head()
        self._stop_write()
        self.slot.close()
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._await_progress()
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._stop_write()
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
