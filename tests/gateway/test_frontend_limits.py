"""Slow, vanishing and too many clients at the three frontends: others are served meanwhile, and nothing is held for longer than said."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2 as wire

from sparksql.api.gateway_settings import PREFIX
from sparksql.gateway.frontends.connect.server import MAX_CONNECTIONS
from sparksql.gateway.frontends.thrift.server import ConnectionLimits
from sparksql.protocols import http_limits
from sparksql.protocols.bounds import MAX_MESSAGE_BYTES
from sparksql.protocols.hiveserver2 import messages as m
from sparksql.protocols.spark_connect import MAX_RPCS, MAX_STREAMS
from sparksql.wire.driver import TLS_CERT_FILE
from tests.support.client_session import RestSession, open_rest, rest_http
from tests.support.connect_client import SERVICE, ConnectSession, Failed, connect_port, sql_command, until
from tests.support.ports import free_port
from tests.support.process import TOKEN, GatewayProcess, running
from tests.support.thrift_client import ThriftClient, rows_of

from .client import GatewayClient, connect

REST_CONNECTIONS = 40
KEPT_BYTES = 48 << 20
SLOTS = 2
SLACK_SECONDS = 60.0
# Far more than a small statement takes once each frontend has been used, no more than most deadlines of those that are slow.
SERVED_SECONDS = 30.0
HANDSHAKE_SECONDS = 10.0  # gRPC's, until a connection speaks HTTP/2
WIDE = "SELECT id, repeat(uuid(), 30) AS text FROM range({})"  # about a KiB a row
_OPEN_STATES = ("01", "08")  # established, or closed by the client alone


class SlowClient:
    """A connection that does nothing more. `dropped` is after how many seconds the gateway let go of it; it `began` before
    the gateway could know of it."""

    def __init__(self, port: int, began: float, connection: socket.socket, sent: bytes = b"") -> None:
        self.socket = connection
        self.ends = (port, connection.getsockname()[1])
        self.began = began
        self.dropped: float | None = None
        connection.sendall(sent)


def held_connections() -> set[tuple[int, int]]:
    """Ports (the gateway's, the client's) of connections that the gateway has not closed."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            local, remote, state = line.split()[1:4]
            if state in _OPEN_STATES:
                found.add((int(local.rpartition(":")[2], 16), int(remote.rpartition(":")[2], 16)))
    return found


class Crowd:
    """The gateway of this file with its slow clients: there from the start, and watched until they are dropped."""

    def __init__(self, gateway: GatewayProcess, thrift_port: int) -> None:
        self.gateway = gateway
        self.thrift_port, self.connect_port = thrift_port, connect_port(gateway)
        self.slow: dict[str, SlowClient] = {}
        self._over = threading.Event()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        try:
            yield
        finally:
            self._over.set()
            watcher.join()
            for client in self.slow.values():
                client.socket.close()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            held = held_connections()
            for client in self.slow.values():
                if client.dropped is None and client.ends not in held:
                    client.dropped = time.monotonic() - client.began

    def tls(self, port: int, receive_bytes: int = 0) -> socket.socket:
        raw = socket.socket()
        if receive_bytes:  # what is not read must soon not fit any more
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.settimeout(30)
        raw.connect(("127.0.0.1", port))
        context = self.gateway.client_tls()
        context.set_alpn_protocols(["h2"] if port == self.connect_port else ["http/1.1"])
        return context.wrap_socket(raw, server_hostname="localhost")

    def thrift(self) -> ThriftClient:
        return ThriftClient(self.thrift_port, self.gateway.client_tls())

    @contextlib.asynccontextmanager
    async def channel(self) -> AsyncIterator[grpc.aio.Channel]:
        """A connection of its own, where gRPC would share one."""
        certificate = (self.gateway.folder / "config" / TLS_CERT_FILE).read_bytes()
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 1000)]
        credentials = grpc.ssl_channel_credentials(certificate)
        async with grpc.aio.secure_channel(f"127.0.0.1:{self.connect_port}", credentials, options) as channel:
            yield channel

    async def serves(self, *protocols: str, seconds: float = SERVED_SECONDS) -> None:
        """Each frontend answers a new client's small statement in good time."""
        for protocol in protocols or ("rest", "thrift", "connect"):
            async with asyncio.timeout(seconds):
                match protocol:
                    case "rest":
                        async with rest_http(self.gateway) as http:
                            session = await open_rest(http)
                            assert await session.rows("SELECT 1") == [[1]]
                            await session.close()
                    case "thrift":
                        assert await asyncio.to_thread(self._thrift_rows) == [(1,)]
                    case _:
                        async with self.channel() as channel:
                            await channel.channel_ready()  # tries again
                            spark = ConnectSession(channel)
                            assert await spark.rows("SELECT 1") == [(1,)]
                            await spark.close()

    def _thrift_rows(self) -> list[tuple[Any, ...]]:
        with self.thrift() as client:
            operation = _executed(client, "SELECT 1")
            return rows_of(client.call("FetchResults", m.TFetchResultsReq(operation, 0, 10)))


def _executed(client: ThriftClient, sql: str) -> m.TOperationHandle:
    """A statement that has ended, in a session of its own."""
    session = client.call("OpenSession", m.TOpenSessionReq(9, "ada", {}))[3]
    handle = m.TSessionHandle(m.THandleIdentifier(session[1][1], session[1][2]))
    answer = client.call("ExecuteStatement", m.TExecuteStatementReq(handle, sql))
    assert answer[1] == {1: 0}, answer
    return m.TOperationHandle(m.THandleIdentifier(answer[2][1][1], answer[2][1][2]), answer[2][2])


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    sizes = {"result.max-size": str(KEPT_BYTES), "rest.max-connections": str(REST_CONNECTIONS)}
    thrift_port = free_port()
    with running(
        tmp_path_factory.mktemp("limits"),
        spark_conf={PREFIX + key: value for key, value in sizes.items()},
        endpoints={"thrift": True, "thrift_port": thrift_port, "connect": True, "connect_port": free_port()},
        max_concurrent_statements=SLOTS,
    ) as gateway:
        made = Crowd(gateway, thrift_port)
        with made.watched():
            asyncio.run(_begin(made))
            yield made


async def _begin(crowd: Crowd) -> None:
    """Waits for the frontends, then opens the slow clients."""
    async with connect(crowd.gateway) as control:
        await control.until_started()

    async def are_open() -> bool:
        ports = (crowd.thrift_port, crowd.connect_port)
        return all(socket.socket().connect_ex(("127.0.0.1", port)) == 0 for port in ports)

    await until("the frontends are open", are_open)
    await crowd.serves(seconds=600)  # the first use of a frontend takes longer
    async with rest_http(crowd.gateway) as http:
        session = await open_rest(http, "slow")
        operation = await session.submit(WIDE.format(8_000))
        await session.until(operation, "FINISHED")
    page = f"{session.path}/operations/{operation}/result/0?rowFormat=ARROW"
    crowd.slow = await asyncio.to_thread(_slow_clients, crowd, page)


def _slow_clients(crowd: Crowd, page: str) -> dict[str, SlowClient]:
    head = b"HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n"
    fetch = b"GET " + page.encode() + b" " + head + b"\r\n"
    rest, thrift, spark = crowd.gateway.port, crowd.thrift_port, crowd.connect_port

    def slow(port: int, sent: bytes = b"", receive_bytes: int = 0) -> SlowClient:
        return SlowClient(port, time.monotonic(), crowd.tls(port, receive_bytes), sent)

    return {
        "rest, silent": slow(rest),
        "rest, half a head": slow(rest, b"GET /v4/info HTTP/1.1\r\nHost: a\r\nX-Half"),
        "rest, half a body": slow(rest, b"POST /v4/sessions " + head + b"Content-Length: 100\r\n\r\n{"),
        "rest, unread": slow(rest, fetch * 8, receive_bytes=4096),
        "thrift, silent": slow(thrift),
        "thrift, half a negotiation": slow(thrift, struct.pack(">bi", 1, 5) + b"PLA"),
        "thrift, half a request": SlowClient(
            thrift, time.monotonic(), crowd.thrift().socket, struct.pack(">i", 100) + b"\x80"
        ),
        "thrift, unread": SlowClient(thrift, time.monotonic(), _leave_rows_unread(crowd)),
        "connect, silent": slow(spark),
        "connect, half a preface": slow(spark, b"PRI * HTTP/2.0\r\n"),
    }


def _leave_rows_unread(crowd: Crowd) -> socket.socket:
    client = crowd.thrift()
    operation = _executed(client, WIDE.format(8_000))
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for _ in range(8):
        client.send("FetchResults", m.TFetchResultsReq(operation, 4, 10_000))
    return client.socket


@pytest.fixture
async def control(crowd: Crowd) -> AsyncIterator[GatewayClient]:
    async with connect(crowd.gateway) as client:
        yield client


async def gauge(control: GatewayClient, name: str) -> float:
    async with control.http.get("/metrics") as response:
        lines = (await response.text()).splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"sparksql_gateway_{name}"))


@pytest.mark.thorough
async def test_slow_clients_keep_nobody_waiting_and_hold_no_thread(crowd: Crowd, control: GatewayClient) -> None:
    for _ in range(3):
        await crowd.serves()

    async def are_free() -> bool:
        return await gauge(control, "worker_threads_busy ") == 0

    await until("no thread is held", are_free)


DEADLINES = {
    "rest, silent": http_limits.HEAD_SECONDS,
    "rest, half a head": http_limits.HEAD_SECONDS,
    "rest, half a body": http_limits.BODY_SECONDS + http_limits.LINGER_SECONDS,
    "rest, unread": http_limits.WRITE_SECONDS,
    "thrift, silent": ConnectionLimits().negotiation_seconds,
    "thrift, half a negotiation": ConnectionLimits().negotiation_seconds,
    "connect, silent": HANDSHAKE_SECONDS,
    "connect, half a preface": HANDSHAKE_SECONDS,
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", DEADLINES)
async def test_a_slow_client_is_dropped_in_time_and_not_before(crowd: Crowd, name: str) -> None:
    client = crowd.slow[name]
    # It catches one that is not dropped; that it is not dropped before its time is the other half of the promise.
    most = client.began + DEADLINES[name] + SLACK_SECONDS - time.monotonic()

    async def is_dropped() -> bool:
        return client.dropped is not None

    await until(f"{name} is dropped", is_dropped, max(1.0, most))
    assert client.dropped is not None and client.dropped > 0.8 * DEADLINES[name]


async def test_clients_that_do_not_read_over_connect_keep_nobody_waiting(crowd: Crowd, control: GatewayClient) -> None:
    """More of them than statements may run at a time, each with a result that no window of HTTP/2 holds."""
    async with contextlib.AsyncExitStack() as stack:
        calls = []
        for _ in range(SLOTS + 1):
            session = ConnectSession(await stack.enter_async_context(crowd.channel()))
            command = await session.sql(WIDE.format(24_000))
            calls.append(session.begin(session.request(root=command.relation)))
            await calls[-1].read()
        await crowd.serves()
        for call in calls:
            call.cancel()

    async def are_gone() -> bool:
        info = await control.info()
        return (info.client_running, info.client_pending) == (0, 0)

    await until("nothing of them runs", are_gone)


async def test_more_connections_than_rest_may_have_take_the_place_of_idle_ones(crowd: Crowd) -> None:
    sockets = await asyncio.to_thread(lambda: [crowd.tls(crowd.gateway.port) for _ in range(2 * REST_CONNECTIONS)])
    try:
        await crowd.serves("rest")

        async def are_bounded() -> bool:
            return len([1 for port, _ in held_connections() if port == crowd.gateway.port]) <= REST_CONNECTIONS

        await until("no more are held than may be", are_bounded)
        await crowd.serves("thrift", "connect")
    finally:
        for opened in sockets:
            opened.close()


@pytest.mark.thorough
async def test_more_connections_than_connect_may_have_are_closed_and_the_frontend_works_again(crowd: Crowd) -> None:
    sockets = [socket.create_connection(("127.0.0.1", crowd.connect_port)) for _ in range(MAX_CONNECTIONS + 100)]
    try:

        async def are_bounded() -> bool:
            return len([1 for port, _ in held_connections() if port == crowd.connect_port]) <= MAX_CONNECTIONS

        await until("no more are held than may be", are_bounded)
        await crowd.serves("rest", "thrift")
        # Those that say nothing make room when their time for a handshake is over.
        await crowd.serves("connect", seconds=HANDSHAKE_SECONDS + SLACK_SECONDS)
    finally:
        for opened in sockets:
            opened.close()


def uploads(channel: grpc.aio.Channel, over: asyncio.Event) -> list[Any]:
    """As many calls as a connection may have, which send nothing until it is over."""

    async def nothing() -> AsyncIterator[bytes]:
        await over.wait()
        for never in ():
            yield never

    upload = channel.stream_unary(f"{SERVICE}/AddArtifacts")
    return [upload(nothing(), metadata=(("authorization", f"Bearer {TOKEN}"),)) for _ in range(MAX_STREAMS)]


async def test_more_streams_than_a_connection_may_have_wait_and_hold_no_other_connection(crowd: Crowd) -> None:
    over = asyncio.Event()
    async with crowd.channel() as channel:
        await channel.channel_ready()
        calls = uploads(channel, over)
        session = ConnectSession(channel)
        asked = wire.ReleaseSessionRequest(**session.own)

        async def is_full() -> bool:
            try:
                await session.call("ReleaseSession", asked, wire.ReleaseSessionResponse, timeout=1)
            except Failed as failed:
                return failed.failure.code is grpc.StatusCode.DEADLINE_EXCEEDED
            return False

        await until("the connection takes no more streams", is_full)
        await crowd.serves()
        over.set()
        assert {await call.code() for call in calls} == {grpc.StatusCode.INVALID_ARGUMENT}
        assert await ConnectSession(channel).rows("SELECT 1") == [(1,)]


async def test_more_calls_than_connect_may_have_are_told_so_and_the_frontend_works_again(crowd: Crowd) -> None:
    over, calls = asyncio.Event(), []
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(MAX_RPCS // MAX_STREAMS + 1):
            channel = await stack.enter_async_context(crowd.channel())
            await channel.channel_ready()
            calls += uploads(channel, over)

        async def refused() -> bool:
            return len([call for call in calls if call.done()]) >= len(calls) - MAX_RPCS

        await until("what is too much is refused", refused)
        assert {await call.code() for call in calls if call.done()} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        await crowd.serves("rest", "thrift")
        over.set()
        for call in calls:
            await call.code()
    await crowd.serves("connect")


async def test_a_message_that_is_too_large_is_told_so_and_the_connection_goes_on(crowd: Crowd) -> None:
    async with crowd.channel() as channel:
        session = ConnectSession(channel)
        with pytest.raises(Failed) as failed:
            await session.execute(command=sql_command("SELECT 1 -- " + "x" * MAX_MESSAGE_BYTES))
        assert failed.value.failure.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert str(MAX_MESSAGE_BYTES) in failed.value.failure.message
        assert await session.rows("SELECT 1") == [(1,)]


async def test_results_of_all_sessions_together_have_a_bound_and_closing_one_makes_room(
    crowd: Crowd, control: GatewayClient
) -> None:
    results = crowd.gateway.folder / "results"

    async def keep(session: RestSession) -> str | None:
        """Why a large result is not kept; None when it is."""
        operation = await session.submit(WIDE.format(10_000))
        status, body = await session.page(operation, 0)
        return None if status == 200 else str(body["errors"][-1])

    async with rest_http(crowd.gateway) as http:
        sessions: list[RestSession] = []
        refusal: str | None = None
        while refusal is None:
            kept, folders = await gauge(control, "client_result_bytes "), len(list(results.iterdir()))
            assert kept <= KEPT_BYTES
            sessions.append(await open_rest(http))
            refusal = await keep(sessions[-1])
        assert len(sessions) > 1, "the bound is not that of one session"
        assert "more than this session or driver can store" in refusal and "close finished operations" in refusal
        assert await gauge(control, "client_result_bytes ") == kept, "nothing is kept of a result that was refused"
        assert len(list(results.iterdir())) == folders
        await sessions[0].close()
        assert await keep(sessions[-1]) is None
        for session in sessions[1:]:
            await session.close()
