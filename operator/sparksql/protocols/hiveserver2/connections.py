"""Connections of a port of HiveServer2: how many there are, who makes room for whom, and how one ends.

When there are too many, the one that has negotiated for longest makes room for a new one: clients that only connect keep nobody
out. Whatever ends a connection, nothing of it is left. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable

from sparksql.protocols.hiveserver2.codec import ProtocolError
from sparksql.protocols.hiveserver2.sasl import NegotiationError

log = logging.getLogger(__name__)

_LINGER_SECONDS = 1.0
_LINGER_BYTES = 1 << 16
_KEEP_ALIVE_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bool], Awaitable[None]]
"""Serves a connection to its end; the third argument tells that there are too many, which is to be told to the client."""


class Connections:
    """The listening port and its connections, `most` at a time. `changed` is called with their number when that changes."""

    def __init__(self, most: int, serve: Serve, changed: Callable[[int], None] = lambda _: None) -> None:
        self._most = most
        self._serve = serve
        self._changed = changed
        self._open: set[asyncio.Task[None]] = set()
        self._strangers: dict[asyncio.Task[None], None] = {}  # have not authenticated; the oldest first
        self._server: asyncio.Server | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def listen(
        self, address: str, port: int, tls: ssl.SSLContext | None, handshake_seconds: float, buffer_bytes: int
    ) -> int:
        """Begins to listen, without `tls` speaking none, and returns the port. Raises OSError when it is taken."""
        handshake = handshake_seconds if tls else None
        self._server = await asyncio.start_server(
            self._accept, address, port, ssl=tls, ssl_handshake_timeout=handshake, limit=buffer_bytes
        )
        return self.port

    @property
    def port(self) -> int:
        """Returns the port that it listens on, once it does."""
        assert self._server is not None
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

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

    def authenticated(self) -> None:
        """Tells that the client of the calling task has authenticated: its connection makes room for none."""
        if (task := asyncio.current_task()) is not None:
            self._strangers.pop(task, None)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_full = len(self._open) >= self._most
        if is_full and self._strangers:
            is_full = False
            oldest = next(iter(self._strangers))
            oldest.cancel()
            self._remove(oldest)
        task = asyncio.get_running_loop().create_task(self._serve_to_the_end(reader, writer, is_full))
        self._open.add(task)
        self._strangers[task] = None
        task.add_done_callback(self._remove)
        self._changed(len(self._open))

    def _remove(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        self._strangers.pop(task, None)
        self._changed(len(self._open))

    async def _serve_to_the_end(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_full: bool
    ) -> None:
        try:
            keep_alive(writer)
            await self._serve(reader, writer, is_full)
        except (EOFError, TimeoutError, OSError):
            pass  # the client has left, or was too slow
        except (NegotiationError, ProtocolError) as refusal:
            # Without its text, which may quote what the client has sent; the client has it.
            log.debug("a client of HiveServer2 is refused", extra={"fields": {"error": type(refusal).__name__}})
        except Exception:
            log.exception("a connection failed")
        finally:
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
