"""Connections of HiveServer2's clients: who comes in, who is too slow or too many, and what is left when they go."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparksql.gateway.frontends.thrift.server import ConnectionLimits, ThriftServer
from sparksql.gateway.sessions.callers import Callers
from sparksql.gateway.sessions.service import SessionService
from sparksql.protocols.hiveserver2 import messages as m
from sparksql.protocols.hiveserver2.codec import Reader, Struct, TMessageType, encode, header
from sparksql.protocols.hiveserver2.sasl import MAX_DISCARDED_BYTES, MAX_FRAME_BYTES
from sparksql.protocols.slots import LEAST
from tests.unit.gateway.thrift.thrift_fakes import FakeService

TOKEN = "the-token"
DEADLINE = 60.0
SHORT = 0.3  # of the one time that a test is about; the others are as they are
KEEPS_ALIVE = ConnectionLimits(keep_alive_seconds=0.02)
COMPLETE, BAD = 5, 3


class Client:
    """Raw bytes to and from the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def negotiate(self, status: int, payload: bytes) -> None:
        self.writer.write(struct.pack(">bi", status, len(payload)) + payload)

    async def negotiated(self) -> tuple[int, str]:
        async with asyncio.timeout(DEADLINE):
            status, size = struct.unpack(">bi", await self.reader.readexactly(5))
            return status, (await self.reader.readexactly(size)).decode()

    async def log_in(self, token: str = TOKEN) -> tuple[int, str]:
        self.negotiate(1, b"PLAIN")
        self.negotiate(2, b"\0ada\0" + token.encode())
        return await self.negotiated()

    def send(self, method: str, request: Struct) -> None:
        self.send_frame(header(method, TMessageType.CALL, 1) + b"\x0c\0\1" + encode(request) + b"\0")

    def send_frame(self, frame: bytes) -> None:
        self.writer.write(struct.pack(">i", len(frame)) + frame)

    async def frame(self) -> bytes:
        async with asyncio.timeout(DEADLINE):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def call(self, method: str, request: Struct, answer: type[Struct]) -> Any:
        self.send(method, request)
        return reply(await self.frame(), answer)

    async def open(self) -> m.TSessionHandle:
        assert await self.log_in() == (COMPLETE, "")
        opened = await self.call("OpenSession", m.TOpenSessionReq(9, "ada"), m.TOpenSessionResp)
        assert opened.status.status_code == 0, opened
        return cast(m.TSessionHandle, opened.session_handle)

    async def has_ended(self) -> bool:
        """Reads until the server has closed."""
        try:
            async with asyncio.timeout(DEADLINE):
                while await self.reader.read(1 << 16):
                    pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True


def reply(frame: bytes, answer: type[Struct]) -> Any:
    reader = Reader(frame)
    _, kind, _ = reader.header()
    if kind is TMessageType.EXCEPTION:
        return reader.message(m.TApplicationException)
    assert reader._fixed(3) == 12 and reader._fixed(6) == 0, frame  # type: ignore[arg-type]  the field `success`
    return reader.message(answer)


class Frontend:
    def __init__(self, service: FakeService, server: ThriftServer, port: int) -> None:
        self.service = service
        self.server = server
        self.port = port

    async def connect(self) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", self.port))

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.service.until(condition, DEADLINE)


@asynccontextmanager
async def frontend(limits: ConnectionLimits) -> AsyncIterator[Frontend]:
    service = FakeService()
    server = ThriftServer(cast(SessionService, service), Callers(TOKEN, None), limits)
    await server.listen("127.0.0.1", 0, None)
    try:
        yield Frontend(service, server, server.port)
    finally:
        await server.close()
        assert (server.connections, server.sessions, service.sessions) == (0, 0, {})


@pytest.fixture
async def opened() -> AsyncIterator[Frontend]:
    async with frontend(ConnectionLimits()) as made:
        yield made


async def test_rows_come_in_pages_from_one_cursor(opened: Frontend) -> None:
    client = await opened.connect()
    session = await client.open()
    ran = await client.call("ExecuteStatement", m.TExecuteStatementReq(session, "SELECT"), m.OperationResponse)
    found = []
    for orientation in (0, 0, 0, 4, 0):
        client.send("FetchResults", m.TFetchResultsReq(ran.operation_handle, orientation, 20))
        frame = await client.frame()
        found.append((frame.count(b"\0\0\0\x14"), struct.unpack_from(">q", frame, frame.index(b"\x0a\0\1") + 3)[0]))
    assert [first for _, first in found] == [0, 20, 25, 0, 20], found


async def test_the_next_page_is_read_while_a_client_that_goes_on_takes_one_in(opened: Frontend) -> None:
    client = await opened.connect()
    session = await client.open()
    ran = await client.call("ExecuteStatement", m.TExecuteStatementReq(session, "SELECT"), m.OperationResponse)
    frames, read = [], []
    for _ in range(5):
        client.send("FetchResults", m.TFetchResultsReq(ran.operation_handle, 0, 7))
        frames.append(await client.frame())
        # Answered after what the fetch has begun: that is a task of the same loop, which waits for nothing.
        await client.call(
            "GetOperationStatus", m.TGetOperationStatusReq(ran.operation_handle), m.TGetOperationStatusResp
        )
        read.append(list(opened.service.read))
    assert [struct.unpack_from(">q", frame, frame.index(b"\x0a\0\1") + 3)[0] for frame in frames] == [0, 7, 14, 21, 25]
    assert read == [[0], [0, 7, 14], *[[0, 7, 14, 21]] * 3]


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ((1, b"GSSAPI"), None, "PLAIN only"),
        ((1, b"PLAIN"), (2, b"\0ada\0wrong"), "the password is not this session's token"),
        ((1, b"PLAIN"), (2, b"no"), "not that of SASL PLAIN"),
        ((1, b"PLAIN"), (3, b"sorry"), "broken off"),
        ((2, b"\0ada\0the-token"), None, "must start"),
        ((0x50, b"OST"), None, "speaks HiveServer2's binary protocol with SASL"),
        ((1, b"x" * 20_000), None, "at most"),
    ],
)
async def test_whoever_may_not_come_in_is_told_why(
    opened: Frontend, first: tuple[int, bytes], second: tuple[int, bytes] | None, told: str
) -> None:
    client = await opened.connect()
    client.negotiate(*first)
    if second is not None:
        client.negotiate(*second)
    status, message = await client.negotiated()
    assert status == BAD and told in message
    assert TOKEN not in message
    client.writer.close()
    await opened.until(lambda: opened.server.connections == 0)


async def test_a_client_of_another_protocol_is_refused_and_disconnected(opened: Frontend) -> None:
    for hello in (b"GET / HTTP/1.1\r\n\r\n", b"\x80\1\0\1\0\0\0\x0bOpenSession\0\0\0\0", b"\x16\3\1\2\0\1\0\1\xfc\3\3"):
        client = await opened.connect()
        client.writer.write(hello)
        assert (await client.negotiated())[0] == BAD
        assert await client.has_ended()


async def test_a_refusal_reaches_a_client_that_has_sent_more(opened: Frontend) -> None:
    client = await opened.connect()
    client.negotiate(1, b"KERBEROS")
    client.negotiate(2, b"x" * 10_000)
    assert (await client.negotiated())[0] == BAD


async def test_silence_ends_a_negotiation() -> None:
    async with frontend(ConnectionLimits(negotiation_seconds=SHORT)) as opened:
        for begin in (b"", b"\1", b"\1\0\0\0\5PLAIN"):
            client = await opened.connect()
            client.writer.write(begin)
            assert await client.has_ended()


async def test_a_request_that_does_not_come_ends_the_connection() -> None:
    async with frontend(ConnectionLimits(frame_seconds=SHORT)) as opened:
        client = await opened.connect()
        await client.open()
        client.writer.write(struct.pack(">i", 100) + b"x")
        assert await client.has_ended()
        await opened.until(lambda: not opened.service.sessions)


async def test_an_idle_connection_stays_and_keeps_its_sessions() -> None:
    async with frontend(KEEPS_ALIVE) as opened:
        client = await opened.connect()
        session = await client.open()
        before = opened.service.uses
        await opened.until(lambda: opened.service.uses > before + 3)
        closed = await client.call("CloseSession", m.SessionRequest(session), m.StatusResponse)
        assert closed.status.status_code == 0


async def test_after_a_long_time_without_calls_a_connection_keeps_nothing() -> None:
    async with frontend(replace(KEEPS_ALIVE, idle_calls_seconds=0)) as opened, frontend(KEEPS_ALIVE) as other:
        client = await opened.connect()
        await client.open()
        before = opened.service.uses
        later = await other.connect()
        await later.open()
        kept = other.service.uses
        await other.until(lambda: other.service.uses > kept + 3)  # one that began after it has been kept so often
        assert opened.service.uses == before


async def test_a_client_that_takes_no_reply_is_cut_off() -> None:
    async with frontend(ConnectionLimits(send_seconds=SHORT)) as opened:
        client = await opened.connect()
        session = await client.open()
        ran = await client.call("ExecuteStatement", m.TExecuteStatementReq(session, "BIG"), m.OperationResponse)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(8):
            client.send("FetchResults", m.TFetchResultsReq(ran.operation_handle, 4, 1))
        await opened.until(lambda: opened.server.connections == 0 and not opened.service.sessions)


async def test_sessions_end_with_their_connection(opened: Frontend) -> None:
    client = await opened.connect()
    await client.open()
    other = await opened.connect()
    kept = await other.open()
    client.writer.close()
    await opened.until(lambda: len(opened.service.sessions) == 1)
    told = await other.call("GetInfo", m.TGetInfoReq(kept, 17), m.TGetInfoResp)
    assert told.info_value.string_value == "Spark SQL"


@pytest.mark.parametrize("run_async", [True, False])
async def test_a_client_that_vanishes_stops_its_statement(opened: Frontend, run_async: bool) -> None:
    client = await opened.connect()
    session = await client.open()
    client.send("ExecuteStatement", m.TExecuteStatementReq(session, "WAIT", run_async=run_async))
    await opened.until(lambda: bool(opened.service.operations))
    client.writer.transport.abort()
    await opened.until(lambda: len(opened.service.stopped) == 1 and not opened.service.sessions)


async def test_a_statement_ends_with_the_connection_that_waits_for_it(opened: Frontend) -> None:
    """The session is another connection's, which stays."""
    owner, helper = await opened.connect(), await opened.connect()
    session = await owner.open()
    assert await helper.log_in() == (COMPLETE, "")
    helper.send("ExecuteStatement", m.TExecuteStatementReq(session, "WAIT"))
    await opened.until(lambda: bool(opened.service.operations))
    helper.writer.transport.abort()
    await opened.until(lambda: len(opened.service.stopped) == 1)
    assert len(opened.service.sessions) == 1


async def test_a_foreign_or_malformed_thrift_handle_is_invalid(opened: Frontend) -> None:
    client = await opened.connect()
    session = await client.open()
    for identifier in (
        replace(session.session_id, secret=b"x" * 16),
        replace(session.session_id, guid=b"y" * 16),
        m.THandleIdentifier(b"short", b""),
    ):
        told = await client.call("GetTypeInfo", m.SessionRequest(m.TSessionHandle(identifier)), m.OperationResponse)
        assert told.status.status_code == 3 and told.status.error_message.startswith("Invalid SessionHandle")
        handle = m.TOperationHandle(identifier)
        told = await client.call("CloseOperation", m.OperationRequest(handle), m.StatusResponse)
        assert told.status.status_code == 3 and told.status.error_message.startswith("Invalid OperationHandle")


async def test_listings_of_a_thrift_session_have_a_bound(opened: Frontend) -> None:
    client = await opened.connect()
    session = await client.open()
    made = [
        (await client.call("GetTypeInfo", m.SessionRequest(session), m.OperationResponse)).operation_handle
        for _ in range(20)
    ]
    codes = [
        (
            await client.call("GetOperationStatus", m.TGetOperationStatusReq(one), m.TGetOperationStatusResp)
        ).status.status_code
        for one in made
    ]
    assert codes == [3] * 4 + [0] * 16


async def test_a_new_connection_takes_the_place_of_a_stranger() -> None:
    async with frontend(ConnectionLimits(connections=3)) as opened:
        strangers = [await opened.connect() for _ in range(LEAST)]
        await opened.until(lambda: opened.server.connections == LEAST)
        client = await opened.connect()
        await client.open()
        assert await strangers[0].has_ended()
        assert opened.server.connections == LEAST


async def test_clients_beyond_the_limit_are_told_the_limit() -> None:
    async with frontend(ConnectionLimits(connections=2)) as opened:
        held = [await opened.connect() for _ in range(2)]
        for client in held:
            await client.open()
        late = await opened.connect()
        status, message = await late.log_in()
        assert status == BAD and "2 connections" in message
        held[0].writer.close()
        await opened.until(lambda: opened.server.connections <= 1)
        await (await opened.connect()).open()


async def test_a_request_that_is_too_large_is_refused_and_the_next_one_served(opened: Frontend) -> None:
    client = await opened.connect()
    session = await client.open()
    client.send_frame(b"\0" * (MAX_FRAME_BYTES + 1))
    refused = reply(await client.frame(), m.StatusResponse)
    assert refused == m.TApplicationException(f"a request has at most {MAX_FRAME_BYTES} bytes", 7)
    closed = await client.call("CloseSession", m.SessionRequest(session), m.StatusResponse)
    assert closed.status.status_code == 0


@pytest.mark.parametrize("size", [-1, MAX_DISCARDED_BYTES + 1])
async def test_lengths_that_no_client_means_end_the_connection(opened: Frontend, size: int) -> None:
    client = await opened.connect()
    await client.open()
    client.writer.write(struct.pack(">i", size))
    assert await client.has_ended()
    await opened.until(lambda: not opened.service.sessions)


async def test_unknown_calls_and_bad_arguments_do_not_end_the_connection(opened: Frontend) -> None:
    client = await opened.connect()
    session = await client.open()
    unknown = await client.call("UploadData", m.SessionRequest(session), m.StatusResponse)
    assert (unknown.type, "UploadData" in unknown.message) == (1, True)
    client.send_frame(header("GetInfo", TMessageType.CALL, 1) + b"\x0c\0\1\x0c\0\1")
    broken = reply(await client.frame(), m.StatusResponse)
    assert broken.type == 7 and broken.message.startswith("GetInfo: ")
    told = await client.call("GetDelegationToken", m.SessionRequest(session), m.TGetDelegationTokenResp)
    assert told.status.sql_state == "0A000"


async def test_a_refused_session_leaves_nothing(opened: Frontend) -> None:
    client = await opened.connect()
    await client.log_in()
    request = m.TOpenSessionReq(9, "ada", {"refused": "1"})
    told = await client.call("OpenSession", request, m.TOpenSessionResp)
    assert (told.status.status_code, told.status.sql_state, told.session_handle) == (3, "42501", None)
    assert opened.server.sessions == 0


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_garbage_ends_in_an_answer_or_an_end(data: bytes, authenticated: bool) -> None:
    async with frontend(ConnectionLimits(frame_seconds=SHORT)) as opened:
        client = await opened.connect()
        if authenticated:
            assert await client.log_in() == (COMPLETE, "")
            client.send_frame(data)
            client.writer.write(data)
        else:
            client.writer.write(data)
        client.writer.write_eof()
        assert await client.has_ended()
        await opened.until(lambda: opened.server.connections == 0)


async def test_statements_that_nobody_closes_are_forgotten_once_they_have_expired(opened: Frontend) -> None:
    client = await opened.connect()
    session = await client.open()
    request = m.TExecuteStatementReq(session, "SELECT")
    running = await client.call(
        "ExecuteStatement", replace(request, statement="WAIT", run_async=True), m.OperationResponse
    )
    kept = opened.service.operations.copy()
    for _ in range(3_000):
        assert (await client.call("ExecuteStatement", request, m.OperationResponse)).status.status_code == 0
        opened.service.operations = kept.copy()
    assert len(opened.server._handles._operations) < 2_100
    status = await client.call(
        "GetOperationStatus", m.TGetOperationStatusReq(running.operation_handle), m.TGetOperationStatusResp
    )
    assert (status.status.status_code, status.operation_state) == (0, 1)
