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


def reads_what_was_paused(self: Any, descriptor: int, callback: Callable[..., None], *arguments: object) -> None:
    """`_add_reader` of Python 3.11.2, which the images have: it does not heed a pause within `connection_made`."""
    if not self._closing:
        self._loop._add_reader(descriptor, callback, *arguments)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1024):
        writer.write(data)
    writer.close()


@pytest.mark.parametrize("heeds_pauses", [True, False], ids=["this-python", "python-3.11.2"])
async def test_bytes_sent_before_the_servers_connection_reach_the_server(
    monkeypatch: pytest.MonkeyPatch, heeds_pauses: bool
) -> None:
    if not heeds_pauses:
        monkeypatch.setattr(selector_events._SelectorTransport, "_add_reader", reads_what_was_paused)  # type: ignore[attr-defined]
    loop = asyncio.get_running_loop()
    dial = loop.create_connection

    async def dial_slowly(*arguments: Any, **options: Any) -> Any:
        await asyncio.sleep(0.2)
        return await dial(*arguments, **options)

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    gate = GrpcGate(Slots(SlotLimits(10, 10, 10)), Budget.of())
    port = await gate.listen("127.0.0.1", 0, server.sockets[0].getsockname()[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    monkeypatch.setattr(loop, "create_connection", dial_slowly)
    writer.write(EARLY)
    try:
        async with asyncio.timeout(DEADLINE):
            assert await reader.readexactly(len(EARLY)) == EARLY
    finally:
        writer.transport.abort()
        gate.close()
        server.close()
