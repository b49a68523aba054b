"""Programs that take as much as a server of clients lets them: each holds what it got until its block ends.

They know a server by where it listens, and work against the front, a driver, and a cluster alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc

AT_ONCE = 50  # a machine that serves and attacks needs its time
STEP_SECONDS = 20.0
ADD_ARTIFACTS = "/spark.connect.SparkConnectService/AddArtifacts"
CONFIG = "/spark.connect.SparkConnectService/Config"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class At:
    """Where a port is. `certificate` is what its clients trust."""

    host: str
    port: int
    certificate: str

    async def open(self, *, with_tls: bool = True) -> Streams:
        context = ssl.create_default_context(cadata=self.certificate) if with_tls else None
        if context is not None:
            context.check_hostname = False
        return await asyncio.open_connection(
            self.host, self.port, ssl=context, server_hostname="localhost" if with_tls else None, limit=1 << 16
        )


@asynccontextmanager
async def _held(count: int, begin: Callable[[], Awaitable[Streams]]) -> AsyncIterator[int]:
    """Yields how many of so many connections could be opened, and holds them."""
    held: list[Streams] = []

    async def one() -> None:
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(STEP_SECONDS):
                held.append(await begin())

    try:
        for start in range(0, count, AT_ONCE):
            await asyncio.gather(*(one() for _ in range(min(AT_ONCE, count - start))))
        yield len(held)
    finally:
        for _, writer in held:
            writer.transport.abort()


def half_open(at: At, count: int) -> contextlib.AbstractAsyncContextManager[int]:
    """Connections whose clients begin a handshake and go no further."""

    async def begin() -> Streams:
        reader, writer = await at.open(with_tls=False)
        writer.write(b"\x16\x03\x01\x02\x00\x01")
        return reader, writer

    return _held(count, begin)


def silent(at: At, count: int) -> contextlib.AbstractAsyncContextManager[int]:
    """Connections with TLS on which nothing is sent."""
    return _held(count, at.open)


def unfinished_bodies(at: At, token: str, count: int, size: int) -> contextlib.AbstractAsyncContextManager[int]:
    """REST requests whose bodies lack their last byte."""

    async def begin() -> Streams:
        reader, writer = await at.open()
        writer.write(post_head(token, "/v3/sessions", size))
        await _sent(writer, size - 1)
        return reader, writer

    return _held(count, begin)


def post_head(token: str, path: str, size: int) -> bytes:
    """The head of a request whose body is to have so many bytes."""
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Length: {size}\r\n\r\n"
    return head.encode()


def idle_logins(at: At, token: str, count: int) -> contextlib.AbstractAsyncContextManager[int]:
    """Connections of HiveServer2 that have logged in and open no session."""

    async def begin() -> Streams:
        return await _logged_in(at, token)

    return _held(count, begin)


def unfinished_frames(at: At, token: str, count: int, size: int) -> contextlib.AbstractAsyncContextManager[int]:
    """Requests of HiveServer2 that lack their last byte."""

    async def begin() -> Streams:
        reader, writer = await _logged_in(at, token)
        writer.write(struct.pack(">i", size))
        await _sent(writer, size - 1)
        return reader, writer

    return _held(count, begin)


async def _logged_in(at: At, token: str) -> Streams:
    reader, writer = await at.open()
    plain = b"\0somebody\0" + token.encode()
    writer.write(struct.pack(">bi", 1, 5) + b"PLAIN" + struct.pack(">bi", 2, len(plain)) + plain)
    await reader.readexactly(5)
    return reader, writer


async def _sent(writer: asyncio.StreamWriter, size: int) -> None:
    """Sends so many bytes, or what is taken of them in a while."""
    piece = bytes(1 << 16)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(3):
            for sent in range(0, size, len(piece)):
                writer.write(piece[: size - sent])
                await writer.drain()


@asynccontextmanager
async def channel(at: At) -> AsyncIterator[Any]:
    """A connection of gRPC of its own."""
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))
    own = (*options, ("grpc.ssl_target_name_override", "localhost"))
    credentials = grpc.ssl_channel_credentials(at.certificate.encode())
    async with grpc.aio.secure_channel(f"{at.host}:{at.port}", credentials, options=own) as opened:
        yield opened


@asynccontextmanager
async def large_messages(
    at: At, token: str, count: int, size: int, compression: Any = grpc.Compression.NoCompression
) -> AsyncIterator[int]:
    """Messages of Spark Connect, each by a connection of its own."""
    message = bytes(size)

    async def one() -> None:
        async with channel(at) as opened:
            with contextlib.suppress(grpc.aio.AioRpcError):
                call = opened.unary_unary(CONFIG)
                await call(message, metadata=_bearer(token), timeout=STEP_SECONDS, compression=compression)

    async with _background([one() for _ in range(count)]):
        yield count


@asynccontextmanager
async def open_calls(at: At, token: str, connections: int, each: int) -> AsyncIterator[int]:
    """Calls of Spark Connect that send no message."""

    async def nothing() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async def one() -> None:
        async with channel(at) as opened:
            upload = opened.stream_unary(ADD_ARTIFACTS)
            calls = [upload(nothing(), metadata=_bearer(token)) for _ in range(each)]
            await asyncio.gather(*calls, return_exceptions=True)
            await asyncio.Event().wait()

    async with _background([one() for _ in range(connections)]):
        yield connections * each


@asynccontextmanager
async def _background(works: list[Any]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, timeout=5)  # they are under way
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)
