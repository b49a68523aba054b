"""Connections of a port of HiveServer2: each has a slot (`slots`) and a task, and both end with it.

Whatever ends a connection, nothing of it is left. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable

from sparksql.protocols.gate import Tls, open_gate, port_of
from sparksql.protocols.hiveserver2.codec import ProtocolError
from sparksql.protocols.hiveserver2.sasl import NegotiationError
from sparksql.protocols.slots import Slot, Slots

log = logging.getLogger(__name__)

_LINGER_SECONDS = 1.0
_LINGER_BYTES = 1 << 16
_KEEP_ALIVE_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Slot], Awaitable[None]]
"""Serves a connection to its end; its slot is to be claimed for a client that has authenticated."""


class Connections:
    """The listening port and its connections. `changed` is called with their number when that changes."""

    def __init__(self, slots: Slots, serve: Serve, changed: Callable[[int], None] = lambda _: None) -> None:
        self._slots = slots
        self._serve = serve
        self._changed = changed
        self._open: set[asyncio.Task[None]] = set()
        self._buffer_bytes = 0
        self._server: asyncio.Server | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def listen(self, address: str, port: int, tls: Tls | None, buffer_bytes: int) -> int:
        """Begins to listen, without `tls` speaking none, and returns the port. Raises OSError when it is taken."""
        self._buffer_bytes = buffer_bytes
        self._server = await open_gate(self._slots, self._enter, address, port, tls)
        return self.port

    @property
    def port(self) -> int:
        """Returns the port that it listens on, once it does."""
        assert self._server is not None
        return port_of(self._server)

    async def close(self, seconds: float = 0.0) -> None:
        """Takes no new connection, lets those that are open go on for so long, then ends them."""
        if self._server is not None:
            self._server.close()
        if self._open and seconds > 0:
            await asyncio.wait(self._open, timeout=seconds)
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _enter(self, transport: asyncio.Transport, slot: Slot) -> asyncio.Protocol:
        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(self._serve_to_the_end(reader, writer, slot))
            self._open.add(task)
            task.add_done_callback(self._ended)
            self._changed(len(self._open))

        reader = asyncio.StreamReader(limit=self._buffer_bytes)
        return asyncio.StreamReaderProtocol(reader, begin)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        self._changed(len(self._open))

    async def _serve_to_the_end(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, slot: Slot) -> None:
        try:
            keep_alive(writer)
            await self._serve(reader, writer, slot)
        except (EOFError, TimeoutError, OSError):
            pass  # the client has left, or was too slow
        except (NegotiationError, ProtocolError) as refusal:
            # Without its text, which may quote what the client has sent; the client has it.
            log.debug("a client of HiveServer2 is refused", extra={"fields": {"error": type(refusal).__name__}})
        except Exception:
            log.exception("a connection failed")
        finally:
            slot.close()
            writer.transport.abort()  # a mere close would wait until the client has taken all that was written


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Has the system notice within two minutes that the other side is not there any more."""
    for option in _KEEP_ALIVE_OPTIONS:
        writer.get_extra_info("socket").setsockopt(*option)


async def linger(reader: asyncio.StreamReader) -> None:
    """Waits until the client leaves: what it has sent and nobody has read would make the system throw a refusal away."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while await reader.read(_LINGER_BYTES):
                pass
