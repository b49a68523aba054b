"""The port before a gRPC server, which can neither count a connection before its handshake nor end one.

Each connection is passed on, bytes as they are, TLS included, to the server at a port of loopback. The server knows from which
port there a call comes, and so of which connection it is; a call from any other port must be refused. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sparksql.protocols.budget import Budget
from sparksql.protocols.gate import open_gate, port_of
from sparksql.protocols.passages import Flow, Passage, Turns
from sparksql.protocols.slots import Slot, Slots

LOOPBACK = "127.0.0.1"
PIECE_BYTES = 64 << 10
DIAL_SECONDS = 5.0
LINGER_SECONDS = 5.0  # for the last bytes of a connection whose other end has gone
_piece = bytearray(PIECE_BYTES)  # of all connections: the loop fills it and the callback that follows empties it


class GrpcGate:
    """The listening port and its connections."""

    def __init__(self, slots: Slots, budget: Budget) -> None:
        self._slots = slots
        self._budget = budget
        self._turns = Turns()
        self._inner_port = 0
        self._passages: dict[str, Passage] = {}
        self._dialling: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, address: str, port: int, inner_port: int) -> int:
        """Begins to listen and returns the port. Raises OSError when it is taken."""
        self._inner_port = inner_port
        self._server = await open_gate(self._slots, self._enter, address, port, None)
        return port_of(self._server)

    def lead_to(self, inner_port: int) -> None:
        """Passes new connections on to another server."""
        self._inner_port = inner_port

    def close(self) -> None:
        """Takes no new connection; those that are there end with the server's."""
        if self._server is not None:
            self._server.close()

    def passage(self, peer: str) -> Passage | None:
        """Returns the connection of a call, by the peer that gRPC names; None for one that has not come by this gate."""
        return self._passages.get(peer)

    def _enter(self, transport: asyncio.Transport, slot: Slot) -> asyncio.Protocol:
        outer, inner = _End(), _End()
        outer.other, inner.other = inner, outer
        passage = Passage(slot, self._budget, self._turns, Flow(outer.hold, outer.release, outer.cut))
        outer.passage = passage
        task = asyncio.get_running_loop().create_task(self._dial(outer, inner, passage))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)
        return outer  # type: ignore[return-value]  # a BufferedProtocol, which transports take as well

    async def _dial(self, outer: _End, inner: _End, passage: Passage) -> None:
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                transport, _ = await asyncio.get_running_loop().create_connection(
                    lambda: inner, LOOPBACK, self._inner_port
                )
        except (OSError, TimeoutError):
            outer.cut()
            return
        peer = f"ipv4:{LOOPBACK}:{transport.get_extra_info('sockname')[1]}"
        self._passages[peer] = passage
        inner.ended = lambda: self._forget(peer)
        if outer.has_ended:
            inner.cut()
        outer.begin()

    def _forget(self, peer: str) -> None:
        self._passages.pop(peer, None)


class _End(asyncio.BufferedProtocol):
    """One end of a connection that is passed on.

    The outer one has the passage, and reads nothing until the inner one is there.
    """

    def __init__(self) -> None:
        self.other: _End | None = None
        self.passage: Passage | None = None
        self.ended: Callable[[], None] | None = None
        self.has_ended = False
        self._transport: asyncio.Transport | None = None
        self._is_full = False  # the other end takes nothing for now
        self._is_held = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=PIECE_BYTES)
        if self.passage is not None:
            self._is_full = True  # until the inner end is there
            transport.pause_reading()

    def get_buffer(self, sizehint: int) -> bytearray:
        return _piece

    def buffer_updated(self, nbytes: int) -> None:
        if self.other is None or self.other._transport is None:  # a cut connection is an error that the client sees
            self.cut()
            return
        self.other._transport.write(bytes(memoryview(_piece)[:nbytes]))
        if self.passage is not None:
            self.passage.came(nbytes)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other._is_full = True
            self.other._follow()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self.has_ended = True
        if self.ended is not None:
            self.ended()
        if self.passage is not None:
            self.passage.close()
        if self.other is not None and self.other._transport is not None:
            self.other._transport.close()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self.other._transport.abort)

    def begin(self) -> None:
        """Reads: the other end takes what comes."""
        self._is_full = False
        self._follow()

    def hold(self) -> None:
        """Reads no more for now."""
        self._is_held = True
        self._follow()

    def release(self) -> None:
        """Reads again, if the other end takes what comes."""
        self._is_held = False
        self._follow()

    def cut(self) -> None:
        """Ends the connection at once, both ends of it."""
        for end in (self, self.other):
            if end is not None and end._transport is not None:
                end._transport.abort()

    def _follow(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._is_full or self._is_held:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
