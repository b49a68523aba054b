"""A port with TLS before a protocol that counts: connections within their handshake, their memory, and who makes room."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparksql.kube.tls import self_signed, ssl_context
from sparksql.protocols.gate import Tls, open_gate, port_of
from sparksql.protocols.slots import Slot, SlotLimits, Slots

CERTIFICATE, KEY = self_signed(("localhost",), datetime.now(UTC))
DEADLINE = 60.0


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    pair = tmp_path_factory.mktemp("tls") / "pair.pem"
    pair.write_text(CERTIFICATE + KEY)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair)
    return context


class Echo(asyncio.Protocol):
    def __init__(self, slot: Slot) -> None:
        self.slot = slot

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.slot.close()


@asynccontextmanager
async def opened(slots: Slots, tls: Tls | None) -> AsyncIterator[int]:
    server = await open_gate(slots, lambda _, slot: Echo(slot), "127.0.0.1", 0, tls)
    yield port_of(server)
    server.close()


async def until_count(slots: Slots, count: int) -> None:
    async with asyncio.timeout(DEADLINE):
        while len(slots) != count:
            await asyncio.sleep(0.01)


async def echoed(port: int, secured: bool, text: bytes = b"x") -> bytes:
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            port,
            ssl=ssl_context(CERTIFICATE) if secured else None,
            server_hostname="localhost" if secured else None,
        )
        writer.write(text)
        try:
            return await reader.readexactly(len(text))
        finally:
            writer.transport.abort()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("secured", [True, False])
async def test_bytes_of_a_client_reach_the_protocol_whole(tls: ssl.SSLContext, secured: bool) -> None:
    slots = Slots(SlotLimits(10, 10, 10))
    async with opened(slots, Tls(tls) if secured else None) as port:
        text = bytes(range(256)) * 2_000
        assert await echoed(port, secured, text) == text
        await until_count(slots, 0)


async def test_a_connection_is_counted_before_its_handshake_and_the_oldest_makes_room(tls: ssl.SSLContext) -> None:
    slots = Slots(SlotLimits(10, 10, 4))
    async with opened(slots, Tls(tls)) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        await until_count(slots, 4)
        assert await echoed(port, secured=True) == b"x"
        async with asyncio.timeout(DEADLINE):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await silent[0][0].readexactly(1)
        for _, writer in silent:
            writer.transport.abort()
        await until_count(slots, 0)


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_handshake_that_fails_or_takes_too_long_leaves_nothing(tls: ssl.SSLContext, sent: bytes) -> None:
    slots = Slots(SlotLimits(10, 10, 4))
    async with opened(slots, Tls(tls, handshake_seconds=0.3)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        await until_count(slots, 1)
        async with asyncio.timeout(DEADLINE):
            try:
                while await reader.read(1000):
                    pass
            except ConnectionResetError:
                pass
        await until_count(slots, 0)
        writer.transport.abort()


async def test_a_thousand_half_open_connections_take_less_than_96_mib(tls: ssl.SSLContext) -> None:
    slots = Slots(SlotLimits(10, 10, 1_000))
    async with opened(slots, Tls(tls)) as port:
        before = resident_bytes()
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(1_000)]
        await until_count(slots, 1_000)
        taken = resident_bytes() - before
        assert taken < 96 << 20, taken  # with the ends of the clients
        assert await echoed(port, secured=True) == b"x"
        for _, writer in silent:
            writer.transport.abort()
        await until_count(slots, 0)
