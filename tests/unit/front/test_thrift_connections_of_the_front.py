"""HiveServer2's clients of the front, before a real frontend with a scripted service: who gets through, and what is left behind."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparksql.front import thrift
from sparksql.front.limits import FrontLimits
from sparksql.front.metrics import FrontMetrics
from sparksql.front.model import FrontError, Refusal, SessionKey, Target, User
from sparksql.front.naming import Asked
from sparksql.front.reviews import Reviews
from sparksql.front.sessions import FrontSessions
from sparksql.front.thrift import ThriftFront
from sparksql.gateway.frontends.thrift.server import ConnectionLimits, ThriftServer
from sparksql.gateway.sessions.callers import Callers
from sparksql.gateway.sessions.model import ClientError, Problem
from sparksql.gateway.sessions.service import SessionService
from sparksql.kube.tls import self_signed, ssl_context
from sparksql.protocols.budget import BYTES, Budget
from sparksql.protocols.hiveserver2 import messages as m
from sparksql.protocols.slots import SlotLimits, Slots
from tests.unit.gateway.thrift.test_thrift_connections import BAD, COMPLETE, SHORT, Client
from tests.unit.gateway.thrift.thrift_fakes import FakeService

T = TypeVar("T")
USER, TOKEN, FRONT_TOKEN = "ada@example.com", "users-token", "front-token"
OTHER_USER, OTHER_TOKEN = "bob@example.com", "others-token"
CERTIFICATE, CERTIFICATE_KEY = self_signed(("localhost",), datetime.now(UTC))
LIMITS = FrontLimits(hold_seconds=60)
SLOTS = SlotLimits.of_users(100)


class FakeReviews:
    async def user(self, token: bytes) -> User:
        name = {TOKEN.encode(): USER, OTHER_TOKEN.encode(): OTHER_USER}.get(token)
        if name is None:
            raise FrontError(Refusal.UNAUTHENTICATED, "the cluster does not know this token")
        return User(name)


@dataclass
class FakeSessions:
    """Every session is the one driver, but those that `refused` names."""

    asked: list[Asked] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    ended: int = 0

    async def open(self, user: User, asked: Asked, *_: Any) -> Target:
        self.asked.append(asked)
        if asked.name in self.refused:
            raise FrontError(Refusal.FORBIDDEN, f"user {user.name} may not connect")
        tls = ssl_context(CERTIFICATE)
        return Target(SessionKey("a", "b"), "u", "127.0.0.1", "localhost", CERTIFICATE, FRONT_TOKEN, tls)

    async def is_allowed(self, user: User, key: SessionKey) -> bool:
        return not self.refused

    async def while_allowed(self, user: User, key: SessionKey, work: Coroutine[Any, Any, T], seconds: float) -> T:
        return await FrontSessions.while_allowed(cast(FrontSessions, self), user, key, work, seconds)

    async def end(self, _: Target) -> None:
        self.ended += 1


@dataclass
class Running:
    service: FakeService
    driver: ThriftServer
    sessions: FakeSessions
    front: ThriftFront
    port: int

    async def connect(self) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", self.port))


def driver_tls() -> ssl.SSLContext:
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder, "pair.pem")
        pair.write_text(CERTIFICATE + CERTIFICATE_KEY)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair)
    return context


TLS = driver_tls()


@asynccontextmanager
async def running(
    limits: FrontLimits = LIMITS, slot_limits: SlotLimits = SLOTS, budget: Budget | None = None
) -> AsyncIterator[Running]:
    budget, slots = budget or Budget.of(), Slots(slot_limits)
    service, sessions = FakeService(), FakeSessions()
    driver = ThriftServer(cast(SessionService, service), Callers("session-token", FRONT_TOKEN), ConnectionLimits())
    await driver.listen("127.0.0.1", 0, TLS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thrift, "THRIFT_PORT", driver.port)
        front = ThriftFront(
            cast(FrontSessions, sessions), cast(Reviews, FakeReviews()), limits, FrontMetrics(), budget, slots
        )
        port = await front.listen("127.0.0.1", 0, None)
        try:
            yield Running(service, driver, sessions, front, port)
        finally:
            await front.close(0)
            await service.until(lambda: driver.connections == 0)
            await driver.close()
            assert service.sessions == {}
            assert (budget.bytes.taken, len(slots)) == (0, 0)


@pytest.fixture
async def opened() -> AsyncIterator[Running]:
    async with running() as made:
        yield made


async def test_a_client_works_with_the_driver_of_its_session(opened: Running) -> None:
    client = await opened.connect()
    assert await client.log_in(TOKEN) == (COMPLETE, "")
    request = m.TOpenSessionReq(9, "somebody", {"use:database": "a/b"})
    session = (await client.call("OpenSession", request, m.TOpenSessionResp)).session_handle
    ran = await client.call("ExecuteStatement", m.TExecuteStatementReq(session, "SELECT"), m.OperationResponse)
    client.send("FetchResults", m.TFetchResultsReq(ran.operation_handle, 0, 20))
    assert len(await client.frame()) > 20
    assert opened.sessions.asked == [Asked("a", "b")]
    client.writer.close()
    await opened.service.until(lambda: opened.service.sessions == {})
    assert opened.sessions.ended == 1


async def test_a_wrong_token_is_told_at_the_login(opened: Running) -> None:
    client = await opened.connect()
    assert await client.log_in("wrong") == (BAD, "the cluster does not know this token")
    assert opened.sessions.asked == []


async def test_a_refused_session_is_told_and_another_one_may_follow(opened: Running) -> None:
    opened.sessions.refused = {"secret"}
    client = await opened.connect()
    await client.log_in(TOKEN)
    refused = await client.call(
        "OpenSession", m.TOpenSessionReq(9, "", {"use:database": "a/secret"}), m.TOpenSessionResp
    )
    assert (refused.status.status_code, refused.status.sql_state) == (3, "42501")
    assert refused.status.error_message == f"user {USER} may not connect"
    before = await client.call("GetInfo", m.TGetInfoReq(m.TSessionHandle(), 18), m.TGetInfoResp)
    assert "no session yet" in before.message
    assert (await client.call("OpenSession", m.TOpenSessionReq(9, ""), m.TOpenSessionResp)).status.status_code == 0


async def test_a_driver_that_drains_is_asked_again(opened: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    good, calls = opened.service.open, 0

    async def first_not(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ClientError(Problem.NOT_READY, "the session's driver is Draining")
        return await good(*arguments)

    monkeypatch.setattr(opened.service, "open", first_not)
    client = await opened.connect()
    await client.log_in(TOKEN)
    assert (await client.call("OpenSession", m.TOpenSessionReq(9, ""), m.TOpenSessionResp)).status.status_code == 0
    assert len(opened.sessions.asked) == 2


async def test_a_driver_that_is_away_is_told_after_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(FrontLimits(hold_seconds=0.2)) as opened:
        monkeypatch.setattr(thrift, "THRIFT_PORT", 1)
        client = await opened.connect()
        await client.log_in(TOKEN)
        told = (await client.call("OpenSession", m.TOpenSessionReq(9, ""), m.TOpenSessionResp)).status
        assert told.sql_state == "08001" and "does not answer" in told.error_message


async def test_the_end_of_the_driver_ends_the_connection(opened: Running) -> None:
    client = await opened.connect()
    await client.log_in(TOKEN)
    await client.call("OpenSession", m.TOpenSessionReq(9, ""), m.TOpenSessionResp)
    await opened.driver.close()
    assert await client.has_ended()


async def test_a_connection_ends_with_the_right_of_its_user() -> None:
    async with running(FrontLimits(allowed_seconds=0.05)) as opened:
        client = await opened.connect()
        await client.log_in(TOKEN)
        await client.call("OpenSession", m.TOpenSessionReq(9, ""), m.TOpenSessionResp)
        opened.sessions.refused = {"everything"}
        assert await client.has_ended()


async def test_the_oldest_stranger_makes_room_and_further_clients_are_told_the_limit() -> None:
    async with running(slot_limits=SlotLimits(most=4, each=2, strangers=1)) as opened:
        known = await opened.connect()
        await known.log_in(TOKEN)
        stranger = await opened.connect()
        await asyncio.sleep(0)
        second = await opened.connect()
        assert await second.log_in(TOKEN) == (COMPLETE, "")
        assert await stranger.has_ended()
        for client in (known, second):
            await client.call("OpenSession", m.TOpenSessionReq(9, ""), m.TOpenSessionResp)
        status, told = await (await opened.connect()).log_in(TOKEN)
        assert (status, "your share of 2 connections" in told) == (BAD, True)
        other = await opened.connect()
        assert await other.log_in(OTHER_TOKEN) == (COMPLETE, "")


async def test_a_users_own_connection_without_a_session_makes_room() -> None:
    async with running(slot_limits=SlotLimits(most=4, each=2, strangers=1)) as opened:
        clients = []
        for _ in range(3):
            clients.append(await opened.connect())
            assert await clients[-1].log_in(TOKEN) == (COMPLETE, "")
        assert await clients[0].has_ended()
        for client in clients[1:]:
            await client.call("OpenSession", m.TOpenSessionReq(9, ""), m.TOpenSessionResp)


async def test_a_connection_that_opens_no_session_in_time_ends() -> None:
    async with running(FrontLimits(opening_seconds=SHORT)) as opened:
        client = await opened.connect()
        assert await client.log_in(TOKEN) == (COMPLETE, "")
        assert await client.has_ended()


async def test_a_request_beyond_the_users_share_is_refused_and_the_next_one_served() -> None:
    async with running(budget=Budget.of(replace(BYTES, each=1_000))) as opened:
        client = await opened.connect()
        await client.log_in(TOKEN)
        client.send_frame(bytes(2_000))
        assert b"your share of 1000 bytes of requests" in await client.frame()
        assert (await client.call("OpenSession", m.TOpenSessionReq(9, ""), m.TOpenSessionResp)).status.status_code == 0


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), authenticated=st.booleans())
async def test_garbage_from_clients_ends_in_an_answer_or_an_end(data: bytes, authenticated: bool) -> None:
    async with running(FrontLimits(frame_seconds=SHORT)) as opened:
        client = await opened.connect()
        if authenticated:
            assert await client.log_in(TOKEN) == (COMPLETE, "")
            client.send_frame(data)
        client.writer.write(data)
        client.writer.write_eof()
        assert await client.has_ended()
