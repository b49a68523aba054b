"""Clients that are slow, silent or too many, against a real server on loopback; the one time that a test is about is short."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sparksql.protocols import http_limits
from sparksql.protocols.budget import Budget
from sparksql.protocols.http_limits import BoundedSite, claim, make_runner, mark_busy, read_body
from sparksql.protocols.slots import SlotLimits, Slots

DEADLINE = 60.0
SHORT = 0.3
HOLDER = "ada"
BIG = b"x" * (32 << 20)


class Server:
    """A started application. `/wait` answers when `release` is set, `/big` at once with 32 MiB."""

    def __init__(self, slots: Slots, port: int, release: asyncio.Event) -> None:
        self.slots = slots
        self.port = port
        self.release = release
        self.waiting = 0

    async def connect(self) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 16))


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> bytes:
        """The head of the next answer and what has come of its body; empty if the connection has ended."""
        async with asyncio.timeout(DEADLINE):
            with suppress(ConnectionResetError):
                return await self.reader.read(1 << 16)
        return b""

    async def ended(self) -> bool:
        """Reads until the server has closed; False if it has not in time."""
        try:
            async with asyncio.timeout(DEADLINE):
                while await self.reader.read(1 << 16):
                    pass
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return True


GET = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"


@asynccontextmanager
async def serving(most: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    release, budget = asyncio.Event(), Budget.of()
    server: Server | None = None

    async def wait(request: web.Request) -> web.Response:
        assert server is not None
        server.waiting += 1
        await release.wait()
        return web.Response(text="waited")

    async def big(request: web.Request) -> web.Response:
        return web.Response(body=BIG)

    async def echo(request: web.Request) -> web.Response:
        return web.Response(text=f"read {len(await request.read())}")

    @web.middleware
    async def known(request: web.Request, handler: Handler) -> web.StreamResponse:
        claim(request, request.headers.get("X-User", HOLDER))
        return await handler(request)

    app = web.Application(middlewares=[mark_busy, known, read_body(budget, lambda _: HOLDER)], client_max_size=1_000)
    app.router.add_get("/wait", wait)
    app.router.add_get("/big", big)
    app.router.add_post("/echo", echo)
    runner = make_runner(app)
    await runner.setup()
    slots = Slots(SlotLimits(most=2 * most, each=most, strangers=10))
    site = BoundedSite(runner, "127.0.0.1", 0, tls, slots)
    await site.start()
    server = Server(slots, runner.addresses[0][1], release)
    try:
        yield server
    finally:
        release.set()
        await runner.cleanup()
        assert (budget.bytes.taken, budget.calls.taken) == (0, 0)


@pytest.fixture
def short_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "HEAD_SECONDS", SHORT)


@pytest.fixture
def short_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "BODY_SECONDS", SHORT)
    monkeypatch.setattr(http_limits, "LINGER_SECONDS", SHORT)


@pytest.fixture
def short_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "WRITE_SECONDS", SHORT)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0.01)


async def drip(client: Client, data: bytes) -> None:
    """Sends a byte at a time, for ever, until the connection is gone."""
    with suppress(ConnectionError):
        for index in range(10_000):
            client.send(data[index % len(data) :][:1])
            await client.writer.drain()
            await asyncio.sleep(0.02)


@pytest.mark.usefixtures("short_head")
async def test_a_connection_without_a_head_ends() -> None:
    async with serving(10) as server:
        client = await server.connect()
        assert await client.ended()
        await until(lambda: len(server.slots) == 0)


@pytest.mark.usefixtures("short_head")
async def test_a_head_that_drips_is_not_waited_for() -> None:
    async with serving(10) as server:
        client = await server.connect()
        client.send(b"GET /echo HTTP/1.1\r\nX-Drip: ")
        dripping = asyncio.create_task(drip(client, b"a"))
        assert await client.ended()
        dripping.cancel()


async def test_a_second_head_that_drips_is_not_waited_for_either(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(10) as server:
        client = await server.connect()
        client.send(GET % b"/wait")
        await until(lambda: server.waiting == 1)
        monkeypatch.setattr(http_limits, "HEAD_SECONDS", SHORT)  # now that the first head is there
        server.release.set()
        assert b"waited" in await client.answer()
        later = await server.connect()
        assert await later.ended(), "a later connection has had the time of a head"
        assert not client.reader.at_eof(), "idling for longer than a head may take is no fault"
        dripping = asyncio.create_task(drip(client, b"GET /"))
        assert await client.ended()
        dripping.cancel()


@pytest.mark.usefixtures("short_body")
async def test_a_body_that_drips_is_told_so_and_ends() -> None:
    async with serving(10) as server:
        client = await server.connect()
        client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n")
        dripping = asyncio.create_task(drip(client, b"a"))
        assert (await client.answer()).startswith(b"HTTP/1.1 408 ")
        assert await client.ended()
        dripping.cancel()


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with serving(10) as server:
        client = await server.connect()
        client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n" + b"a" * 1001)
        assert (await client.answer()).startswith(b"HTTP/1.1 413 ")


async def test_a_head_that_is_too_large_is_refused() -> None:
    async with serving(10) as server:
        for head in (b"X-Long: " + b"a" * 9_000, b"\r\n".join(b"X-%d: a" % number for number in range(200))):
            client = await server.connect()
            client.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n")
            assert (await client.answer()).startswith(b"HTTP/1.0 400 ")


async def test_a_request_takes_the_place_of_the_users_connection_that_idles_longest() -> None:
    async with serving(2) as server:
        first, second = await server.connect(), await server.connect()
        for client in (first, second, first):  # so that the second idles longer
            client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
            assert b"read 0" in await client.answer()
        third = await server.connect()
        third.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        assert b"read 0" in await third.answer()
        assert await second.ended()
        first.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na")
        assert b"read 1" in await first.answer()
        assert len(server.slots) == 2


async def test_while_all_connections_of_a_user_serve_a_further_request_is_refused_and_another_user_served() -> None:
    async with serving(2) as server:
        clients = [await server.connect(), await server.connect()]
        for client in clients:
            client.send(GET % b"/wait")
        await until(lambda: server.waiting == 2)
        refused, other = await server.connect(), await server.connect()
        refused.send(GET % b"/wait")
        told = await refused.answer()
        assert told.startswith(b"HTTP/1.1 429 your share of 2 connections") and b"Retry-After: " in told
        other.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nX-User: bob\r\nContent-Length: 0\r\n\r\n")
        assert b"read 0" in await other.answer()
        server.release.set()
        for client in clients:
            assert b"waited" in await client.answer()


@pytest.mark.usefixtures("short_write")
async def test_a_client_that_takes_no_answer_is_cut_off() -> None:
    async with serving(10) as server:
        client = await server.connect()
        client.send(GET % b"/big")
        await until(lambda: len(server.slots) == 1)
        await until(lambda: len(server.slots) == 0)


async def test_a_client_that_takes_its_answer_slowly_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "WRITE_SECONDS", 2.0)  # many times a pause: a busy machine makes them longer
    async with serving(10) as server:
        client, stuck = await server.connect(), await server.connect()
        for each in (client, stuck):
            each.send(GET % b"/big")
        await until(lambda: len(server.slots) == 2)
        received = 0
        async with asyncio.timeout(DEADLINE):
            while received < len(BIG):
                read = len(await client.reader.read(1 << 16))
                assert read, f"cut off after {received} bytes"
                received += read
                if len(server.slots) == 2:  # until one that began no earlier has stood still for too long
                    await asyncio.sleep(0.02)
        assert await stuck.ended()
        assert len(server.slots) == 1


async def test_a_client_that_vanishes_leaves_nothing() -> None:
    async with serving(10) as server:
        clients = [await server.connect() for _ in range(5)]
        for client in clients[:3]:
            client.send(GET % b"/wait")
        await until(lambda: server.waiting == 3)
        for client in clients:
            client.writer.transport.abort()
        await until(lambda: len(server.slots) == 0)


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server with a self-signed certificate, and of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "pair.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    trusting = ssl.create_default_context(cadata=certificate.public_bytes(serialization.Encoding.PEM).decode())
    return server, trusting


async def test_a_request_over_tls_may_take_longer_than_the_deadline_of_its_head(
    tls: tuple[ssl.SSLContext, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HEAD_SECONDS", 2.0)  # short for the request, long for its head

    async with serving(2, tls[0]) as server:

        async def connect() -> Client:
            at = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls[1], server_hostname="localhost")
            return Client(*at)

        clients = [await connect()]
        clients[0].send(GET % b"/wait")
        await until(lambda: server.waiting == 1)
        silent = await connect()
        assert await silent.ended()  # at its deadline, and that of the first connection was before
        clients.append(await connect())
        clients[1].send(GET % b"/wait")
        await until(lambda: server.waiting == 2)
        refused = await connect()
        refused.send(GET % b"/wait")
        assert (await refused.answer()).startswith(b"HTTP/1.1 429 ")
        server.release.set()
        for client in clients:
            assert b"waited" in await client.answer()


@pytest.mark.usefixtures("short_head")
async def test_over_tls_too_a_head_that_does_not_come_is_not_waited_for(
    tls: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async with serving(10, tls[0]) as server:
        stream = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls[1], server_hostname="localhost")
        assert await Client(*stream).ended()
        await until(lambda: len(server.slots) == 0)
