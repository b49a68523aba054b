"""The listening port of a protocol: a connection is counted when it is accepted, before anything of it is read.

The TLS handshake follows, within a time, and only then the protocol itself begins. Invariants: a connection has a slot from
its acceptance to its end; what one may buffer within TLS is bounded by this module and not by asyncio's defaults, which are
256 KiB at once and 1.3 MiB at most, a connection. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import Callable
from dataclasses import dataclass

from sparksql.protocols.slots import Slot, Slots

HANDSHAKE_SECONDS = 10.0
TLS_END_SECONDS = 5.0
TLS_BUFFER_BYTES = 16 << 10  # a record of TLS
READ_BYTES = 64 << 10  # encrypted bytes that wait for a protocol that reads slowly
WRITE_BYTES = 64 << 10  # that wait for a client that reads slowly
BACKLOG = 1_024

Enter = Callable[[asyncio.Transport, Slot], asyncio.Protocol]
"""Makes the protocol of a connection whose handshake is done; `connection_made` is called on it next."""


@dataclass(frozen=True)
class Tls:
    """Says how a port speaks TLS."""

    context: ssl.SSLContext
    handshake_seconds: float = HANDSHAKE_SECONDS


async def open_gate(slots: Slots, enter: Enter, address: str, port: int, tls: Tls | None) -> asyncio.Server:
    """Begins to listen. Raises OSError when the port is taken."""
    _bound_tls_buffers()
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Entering(slots, enter, tls), address, port, backlog=BACKLOG)


def port_of(server: asyncio.Server) -> int:
    """Returns the port that a server listens on."""
    bound: int = server.sockets[0].getsockname()[1]
    return bound


def _bound_tls_buffers() -> None:
    """Sets what each TLS connection of this process allocates at once, for which asyncio has no argument."""
    sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES


class _Entering(asyncio.Protocol):
    """A connection from its acceptance until its protocol begins."""

    def __init__(self, slots: Slots, enter: Enter, tls: Tls | None) -> None:
        self._slots = slots
        self._enter = enter
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._slot: Slot | None = None
        self._shaking: asyncio.Task[None] | None = None
        self._early: list[bytes] = []  # came between the handshake's end and the protocol's begin
        self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._slot = self._slots.admit(str(peer[0]) if peer else "", self._cut)
        loop = asyncio.get_running_loop()
        if self._tls is None:
            # After this call: a transport of Python 3.11.2 reads on when the protocol pauses it within this call.
            loop.call_soon(self._begin, transport, self._slot)
        else:
            self._shaking = loop.create_task(self._shake(transport, self._slot, self._tls))

    def data_received(self, data: bytes) -> None:
        self._early.append(data)

    def eof_received(self) -> bool | None:
        self._has_ended = True
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_ended = True
        if self._slot is not None:
            self._slot.close()

    def _cut(self) -> None:
        self._has_ended = True
        if self._transport is not None:
            self._transport.abort()

    async def _shake(self, raw: asyncio.Transport, slot: Slot, tls: Tls) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(
                raw,
                self,
                tls.context,
                server_side=True,
                ssl_handshake_timeout=tls.handshake_seconds,
                ssl_shutdown_timeout=TLS_END_SECONDS,
            )
        except (OSError, ValueError):  # ValueError: OpenSSL's objects of a connection that was aborted
            secured = None
        if secured is None or self._has_ended:  # one that was cut ends its handshake without an error
            slot.close()
            raw.abort()
            return
        secured.set_write_buffer_limits(high=WRITE_BYTES)
        if (bound_reads := getattr(secured, "set_read_buffer_limits", None)) is not None:  # no method of the base class
            bound_reads(high=READ_BYTES)
        self._begin(secured, slot)

    def _begin(self, transport: asyncio.Transport, slot: Slot) -> None:
        if self._has_ended:  # closed by `_cut` since it was accepted
            return
        self._transport = transport
        protocol = self._enter(transport, slot)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        for data in self._early:
            protocol.data_received(data)
        self._early.clear()
