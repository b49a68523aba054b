"""The front in a process of its own while each of its bounds is full: it stays within its memory and serves another user."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import aiohttp
import grpc
import pytest
from aiohttp import web

from sparksql.api.conf_policy import KEYS_FILE
from sparksql.front.certificates import Certificates
from sparksql.gateway.frontends.thrift.server import ConnectionLimits, ThriftServer
from sparksql.gateway.sessions.callers import Callers
from sparksql.gateway.sessions.service import SessionService
from sparksql.kube.tls import self_signed, ssl_context
from sparksql.protocols.bounds import MAX_OPENING_BYTES
from sparksql.protocols.hiveserver2 import messages as m
from sparksql.protocols.hiveserver2.codec import STOP, Struct, TMessageType, TType, encode, field_header, header
from tests.attack import fill
from tests.attack.fill import At
from tests.attack.front_process import FRONT_TOKEN
from tests.support.thorough import thorough_but
from tests.unit.gateway.thrift.test_thrift_connections import COMPLETE, Client, reply
from tests.unit.gateway.thrift.thrift_fakes import FakeService

ANSWER_SECONDS = 20.0  # less than the front waits for a body
LIMIT_BYTES = 512 << 20  # of the chart
SERVED_SECONDS = (
    2.0  # and ten times what a server answers in that is not attacked: attackers and other tests share the cores
)
GOOD, NO_RIGHT, WRONG = "user-ada", "user-mallory", "wrong"
MIB = 1 << 20
CERTIFICATE, KEY = self_signed(("localhost",), datetime.now(UTC))


@dataclass
class Ports:
    rest: At
    thrift: At
    connect: At


@dataclass
class Front:
    """A front, and the drivers behind it, to which other clients connect directly."""

    pid: int
    ports: Ports
    drivers: Ports
    peak: int = 0
    slowest: dict[str, float] = field(default_factory=dict)
    slowest_driver: float = 0.0

    def sample(self) -> None:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        self.peak = max(self.peak, pages * resource.getpagesize())

    async def serves(self) -> None:
        """Another user's request by each protocol."""
        ports = self.ports
        requests = (
            ("rest", self._rest, ports.rest),
            ("thrift", self._thrift, ports.thrift),
            ("connect", self._connect, ports.connect),
        )
        for name, request, at in requests:
            self.slowest[name] = max(self.slowest.get(name, 0), await seconds_of(request(at)))
            self.sample()
        for other in (self._rest(self.drivers.rest), self._connect(self.drivers.connect)):
            self.slowest_driver = max(self.slowest_driver, await seconds_of(other))

    async def _rest(self, at: At) -> None:
        headers = {"Authorization": f"Bearer {GOOD}"}
        url = f"https://localhost:{at.port}/v3/sessions"
        tls = ssl_context(CERTIFICATE)
        async with aiohttp.ClientSession() as http, http.post(url, ssl=tls, headers=headers, json={}) as answer:
            assert answer.status == 200, await answer.text()

    async def _thrift(self, at: At) -> None:
        client = Client(*await at.open())
        try:
            assert await client.log_in(GOOD) == (COMPLETE, "")
            opened = await client.call("OpenSession", m.TOpenSessionReq(9, ""), m.TOpenSessionResp)
            assert opened.status.status_code == 0
        finally:
            client.writer.transport.abort()

    async def _connect(self, at: At) -> None:
        async with fill.channel(at) as channel:
            call = channel.unary_unary(fill.CONFIG)
            assert await call(b"\n\x01a", metadata=(("authorization", f"Bearer {GOOD}"),), timeout=30) == b"answer"


async def seconds_of(request: Awaitable[None]) -> float:
    began = time.monotonic()
    async with asyncio.timeout(30):
        await request
    return time.monotonic() - began


class ConnectDriver:
    def service(self, _: Any) -> Any:
        async def answer(_: Any, context: Any) -> None:
            while await context.read() is not grpc.aio.EOF:
                pass
            await context.write(b"answer")

        return grpc.stream_stream_rpc_method_handler(answer)


@asynccontextmanager
async def drivers(certificates: Certificates) -> AsyncIterator[tuple[int, int, int]]:
    async def answer(request: web.Request) -> web.Response:
        sent = await request.read()
        if request.path == "/cliservice" and b"OpenSession" in sent:
            opened = encode(m.TOpenSessionResp(configuration={"sessionHandle": "a"}))
            body = header("OpenSession", TMessageType.REPLY, 7) + field_header(TType.STRUCT, 0) + opened + STOP
            return web.Response(body=body)
        return web.json_response({"sessionHandle": "a"})

    app = web.Application(client_max_size=64 * MIB)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificates.context).start()
    service = cast(SessionService, FakeService())
    thrift = ThriftServer(service, Callers("session-token", FRONT_TOKEN), ConnectionLimits())
    await thrift.listen("127.0.0.1", 0, certificates.context)
    server = grpc.aio.server(options=(("grpc.max_receive_message_length", -1),))
    server.add_generic_rpc_handlers((cast(Any, ConnectDriver()),))
    connect = server.add_secure_port("127.0.0.1:0", certificates.credentials())
    await server.start()
    try:
        yield runner.addresses[0][1], thrift.port, connect
    finally:
        await server.stop(0)
        await thrift.close()
        await runner.cleanup()


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    (tmp_path / "tls.crt").write_text(CERTIFICATE)
    (tmp_path / "tls.key").write_text(KEY)
    async with drivers(Certificates(tmp_path)) as ports:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.attack.front_process", str(tmp_path), *map(str, ports),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            own = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
            at = {name: At("127.0.0.1", port, CERTIFICATE) for name, port in own.items()}
            made = Front(process.pid, Ports(**at), Ports(*(At("127.0.0.1", port, CERTIFICATE) for port in ports)))
            await made.serves()  # the first use loads code
            made.slowest.clear()
            made.slowest_driver = 0.0
            yield made
        finally:
            process.kill()
            await process.wait()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def attack(name: str, ports: Ports) -> AbstractAsyncContextManager[int]:
    match name:
        case "half-open handshakes":
            return fill.half_open(ports.rest, 2_500)
        case "half-open handshakes of HiveServer2":
            return fill.half_open(ports.thrift, 2_500)
        case "half-open handshakes of Connect":
            return fill.half_open(ports.connect, 2_500)
        case "silent connections":
            return fill.silent(ports.rest, 600)
        case "silent connections of Connect":
            return fill.silent(ports.connect, 600)
        case "bodies of a user without a right":
            return fill.unfinished_bodies(ports.rest, NO_RIGHT, 120, 8 * MIB)
        case "logins without a session":
            return fill.idle_logins(ports.thrift, NO_RIGHT, 600)
        case "frames of a user without a right":
            return fill.unfinished_frames(ports.thrift, NO_RIGHT, 120, 8 * MIB)
        case "messages with a wrong token":
            return fill.large_messages(ports.connect, WRONG, 16, 70 * MIB)
        case "messages of a user without a right":
            return fill.large_messages(ports.connect, NO_RIGHT, 16, 70 * MIB)
        case "messages of a user with the right":
            return fill.large_messages(ports.connect, "user-eve", 6, 70 * MIB)
        case "packed messages":
            return fill.large_messages(ports.connect, "user-eve", 16, 70 * MIB, grpc.Compression.Gzip)
        case "open calls of a user without a right":
            return fill.open_calls(ports.connect, NO_RIGHT, 11, 200)
        case "open calls":
            return fill.open_calls(ports.connect, "user-eve", 11, 200)
        case _:
            raise AssertionError(name)


ATTACKS = [
    "half-open handshakes", "half-open handshakes of HiveServer2", "half-open handshakes of Connect", "silent connections",
    "silent connections of Connect", "bodies of a user without a right", "logins without a session",
    "frames of a user without a right", "messages with a wrong token", "messages of a user without a right",
    "messages of a user with the right", "packed messages", "open calls of a user without a right", "open calls",
]  # fmt: skip


# One of each port and of each bound.
DAILY = [
    *ATTACKS[2:4],
    *ATTACKS[5:7],
    "messages with a wrong token",
    "packed messages",
    "open calls of a user without a right",
]


@pytest.mark.parametrize("name", thorough_but(DAILY, ATTACKS))
async def test_the_front_stays_within_its_memory_and_serves_another_user(front: Front, name: str) -> None:
    base = front.peak
    async with attack(name, front.ports) as held:
        for _ in range(3):
            front.sample()
            await front.serves()
            await asyncio.sleep(0.2)
    seen = {each: round(seconds, 2) for each, seconds in front.slowest.items()}
    print(f"\n{name}: {held} held, {base >> 20} -> {front.peak >> 20} MiB, {seen}, drivers {front.slowest_driver:.2f}")
    assert front.peak < LIMIT_BYTES
    assert max(front.slowest.values()) < SERVED_SECONDS + 10 * front.slowest_driver, (seen, front.slowest_driver)


HANDLE = uuid.UUID("3b0e5a70-7c1a-4a57-9a53-6f8a2f0f4f11")
ABOUT_A_SESSION = m.TExecuteStatementReq(m.TSessionHandle(m.THandleIdentifier(HANDLE.bytes, b"s")), "x" * MIB)
REVIEWED_KEYS = [line for line in KEYS_FILE.read_text().splitlines() if line.startswith("spark.")]


def thrift_call(name: str, argument: Struct) -> bytes:
    return header(name, TMessageType.CALL, 7) + field_header(TType.STRUCT, 1) + encode(argument) + STOP


def opening(path: str, size: int) -> bytes:
    """A request to open a session with so many settings of a client, at the front's path."""
    settings = dict.fromkeys(REVIEWED_KEYS, "x" * size)
    if path == "/cliservice":
        of_hive = {f"set:hiveconf:{key}": value for key, value in settings.items()}
        return thrift_call("OpenSession", m.TOpenSessionReq(9, "ada", of_hive))
    return json.dumps({"sessionName": "mine", "properties": settings}).encode()


async def answered(at: At, token: str, path: str, sent: bytes, size: int) -> bytes:
    """What the front answers to a request of which only the first bytes are sent."""
    reader, writer = await at.open()
    try:
        writer.write(fill.post_head(token, path, size) + sent)
        async with asyncio.timeout(ANSWER_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.decode().lower().splitlines() if line.startswith("content-length"))
            return head + await reader.readexactly(int(length.partition(":")[2]))
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("path", ["/v3/sessions", "/cliservice", "/v3/info"])
async def test_opening_request_beyond_the_bound_is_refused_before_all_bytes_are_read(front: Front, path: str) -> None:
    begun = opening(path, 400)[: 2 * MAX_OPENING_BYTES]
    told = await answered(front.ports.rest, GOOD, path, begun, 8 * MIB)
    assert told.startswith(b"HTTP/1.1 413") and str(MAX_OPENING_BYTES) in told.decode(), told
    assert b"name and properties alone" in told


async def test_opening_frame_beyond_the_bound_is_refused(front: Front) -> None:
    client = Client(*await front.ports.thrift.open())
    assert await client.log_in(GOOD) == (COMPLETE, "")
    client.send_frame(opening("/cliservice", 400))
    refused = reply(await asyncio.wait_for(client.frame(), ANSWER_SECONDS), m.TApplicationException)
    assert str(MAX_OPENING_BYTES) in refused.message, refused
    client.writer.transport.abort()


@pytest.mark.parametrize("path", ["/v3/sessions", "/cliservice"])
async def test_session_with_all_reviewed_settings_is_opened(front: Front, path: str) -> None:
    request = opening(path, 40)
    assert MAX_OPENING_BYTES // 4 < len(request) < MAX_OPENING_BYTES
    told = await answered(front.ports.rest, GOOD, path, request, len(request))
    assert told.startswith(b"HTTP/1.1 200") and b"sessionHandle" in told, told


async def test_hiveserver2_call_without_a_right_is_refused_before_all_bytes_are_read(front: Front) -> None:
    whole = thrift_call("ExecuteStatement", ABOUT_A_SESSION)
    begun = whole[: 2 * MAX_OPENING_BYTES]
    told = await answered(front.ports.rest, NO_RIGHT, "/cliservice", begun, len(whole))
    assert told.startswith(b"HTTP/1.1 200") and f"Session '{HANDLE}' does not exist".encode() in told, told
    told = await answered(front.ports.rest, NO_RIGHT, "/cliservice", bytes(2 * MAX_OPENING_BYTES), 8 * MIB)
    assert told.startswith(b"HTTP/1.1 400"), told
    told = await answered(front.ports.rest, GOOD, "/cliservice", whole, len(whole))
    assert told.startswith(b"HTTP/1.1 200") and b"sessionHandle" in told, told
