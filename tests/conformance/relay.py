"""A way from a port of this machine to a server: what `kubectl port-forward` is for users, but one that a test can cut.

With `tls` it is the near end of a tunnel, for clients that have no usable TLS of their own.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")


class Relay:
    """Belongs to a loop in a thread of its own; `port` is on loopback."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self) -> int:
        """Resets every connection as a lost network would; new ones are let through. Returns how many there were."""

        async def reset() -> int:
            count = len(self._writers)
            for writer in tuple(self._writers):
                writer.transport.abort()
            return count

        return self._call(reset())

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for writer in tuple(self._writers):
                writer.transport.abort()

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            name = "localhost" if self._tls else None
            far_reader, far_writer = await asyncio.open_connection(
                self._host, self._port, ssl=self._tls, server_hostname=name
            )
        except OSError:
            self._drop(writer)
            return
        self._writers.add(far_writer)
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        self._drop(writer)

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.close()


@contextmanager
def relay(host: str, port: int, tls: ssl.SSLContext | None = None) -> Iterator[Relay]:
    made = Relay(host, port, tls)
    try:
        yield made
    finally:
        made.close()
