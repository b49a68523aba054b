"""The port before a gRPC server: what a client sends before the server's connection is there."""

from __future__ import annotations

import asyncio
from asyncio import selector_events
from collections.abc import Callable
from typing import Any

import pytest

from sparksql.protocols.budget import Budget
from sparksql.protocols.grpc_gate import GrpcGate
from sparksql.protocols.slots import SlotLimits, Slots

DEADLINE = 30.0
EARLY = b"the first bytes of a handshake"


def add_reader_of_python_3_11_2(self: Any, descriptor: int, callback: Callable[..., None], *arguments: object) -> None:
    """Replaces `_add_reader` of newer versions: the version in the images ignores a pause within `connection_made`."""
    if not self._closing:
        self._loop._add_reader(descriptor, callback, *arguments)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1024):
        writer.write(data)
    writer.close()


async def echoed(port: int) -> None:
    """Sends bytes to a server and waits for them: meanwhile the loop reads what other connections have sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(EARLY)
    assert await reader.readexactly(len(EARLY)) == EARLY
    writer.transport.abort()


@pytest.mark.parametrize("python", ["this version", "3.11.2"])
async def test_bytes_sent_before_the_connection_to_the_server_reach_the_server(
    monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    if python == "3.11.2":
        monkeypatch.setattr(selector_events._SelectorTransport, "_add_reader", add_reader_of_python_3_11_2)  # type: ignore[attr-defined]
    server, other = [await asyncio.start_server(echo, "127.0.0.1", 0) for _ in range(2)]
    inner_port, other_port = [each.sockets[0].getsockname()[1] for each in (server, other)]
    gate = GrpcGate(Slots(SlotLimits(10, 10, 10)), Budget.of())
    port = await gate.listen("127.0.0.1", 0, inner_port)
    loop, may_connect = asyncio.get_running_loop(), asyncio.Event()
    create_connection = loop.create_connection

    async def create_later(factory: Any, host: str, to_port: int, **options: Any) -> Any:
        if to_port == inner_port:
            await may_connect.wait()
        return await create_connection(factory, host, to_port, **options)

    monkeypatch.setattr(loop, "create_connection", create_later)
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(EARLY)
        await echoed(other_port)
        may_connect.set()
        assert await reader.readexactly(len(EARLY)) == EARLY
    writer.transport.abort()
    gate.close()
    server.close()
    other.close()
