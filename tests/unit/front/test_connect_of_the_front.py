"""Spark Connect's clients of the front, before a scripted driver: who is read, what is passed on, and what is never held."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import grpc
import pytest

from sparksql.front import connect
from sparksql.front.certificates import Certificates
from sparksql.front.connect import ConnectFront
from sparksql.front.limits import FrontLimits
from sparksql.front.metrics import FrontMetrics
from sparksql.front.model import FrontError, Refusal, SessionKey, Target, User
from sparksql.front.naming import Asked
from sparksql.front.reviews import Reviews
from sparksql.front.sessions import FrontSessions
from sparksql.kube.tls import self_signed, ssl_context
from sparksql.protocols import passages
from sparksql.protocols.budget import CALLS, Budget, Share
from sparksql.protocols.slots import SlotLimits, Slots
from sparksql.protocols.spark_connect import SERVICE
from tests.unit.front.test_thrift_connections_of_the_front import (
    CERTIFICATE,
    CERTIFICATE_KEY,
    FRONT_TOKEN,
    OTHER_TOKEN,
    TOKEN,
    USER,
    FakeReviews,
)

SESSION_ID = b"\n\x03abc"
MIB = 1 << 20
SLOTS = SlotLimits(most=20, each=10, strangers=4)
SMALL = Share(most=4 * MIB, each=MIB, unknown=0, spared=MIB, modest=256 << 10)


T = TypeVar("T")


class Sessions:
    """One session, that `forbidden` users may not have."""

    def __init__(self) -> None:
        self.forbidden: set[str] = set()
        self.connections: list[str] = []
        self.ended = 0

    async def check(self, user: User, asked: Asked) -> None:
        if user.name in self.forbidden:
            raise FrontError(Refusal.FORBIDDEN, f"user {user.name} may not connect")

    async def open(self, user: User, asked: Asked, protocol: Any, seconds: float, connection: str) -> Target:
        self.connections.append(connection)
        tls = ssl_context(CERTIFICATE)
        return Target(SessionKey("a", "b"), "u", "127.0.0.1", "localhost", CERTIFICATE, FRONT_TOKEN, tls)

    async def while_allowed(self, _user: User, _key: SessionKey, work: Coroutine[Any, Any, T], _seconds: float) -> T:
        return await work

    async def end(self, _: Target) -> None:
        self.ended += 1


@dataclass
class Driver:
    """Takes what comes, and answers with its size; `hold` makes calls wait."""

    sizes: list[int] = field(default_factory=list)
    metadata: list[dict[str, Any]] = field(default_factory=list)
    hold: asyncio.Event = field(default_factory=asyncio.Event)

    def service(self, details: Any) -> Any:
        answers = 3 if details.method.endswith("ExecutePlan") else 1

        async def answer(_: Any, context: Any) -> None:
            await self._answer(context, answers)

        return grpc.stream_stream_rpc_method_handler(answer)

    async def _answer(self, context: Any, answers: int) -> None:
        self.metadata.append(dict(context.invocation_metadata()))
        total = 0
        while (message := await context.read()) is not grpc.aio.EOF:
            self.sizes.append(len(message))
            total += len(message)
            if message.endswith(b"hold"):
                await self.hold.wait()
            if message.endswith(b"refuse"):
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not this", (("why", "so"),))
        for _ in range(answers):
            await context.write(b"%d" % total)


@dataclass
class Running:
    driver: Driver
    sessions: Sessions
    budget: Budget
    slots: Slots
    port: int
    front: ConnectFront

    @asynccontextmanager
    async def channel(
        self, *options: tuple[str, Any], port: int | None = None, certificate: str = CERTIFICATE
    ) -> AsyncIterator[grpc.aio.Channel]:
        own = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1), *options)
        credentials = grpc.ssl_channel_credentials(certificate.encode())
        async with grpc.aio.secure_channel(f"localhost:{port or self.port}", credentials, options=own) as channel:
            yield channel


def certificates_in(folder: Path, certificate: str = CERTIFICATE, key: str = CERTIFICATE_KEY) -> Certificates:
    (folder / "tls.crt").write_text(certificate)
    (folder / "tls.key").write_text(key)
    return Certificates(folder)


@asynccontextmanager
async def running(budget: Budget | None = None, slots: SlotLimits = SLOTS) -> AsyncIterator[Running]:
    driver, sessions = Driver(), Sessions()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        certificates = certificates_in(Path(folder))
        server = grpc.aio.server(options=(("grpc.max_receive_message_length", -1),))
        server.add_generic_rpc_handlers((cast(Any, driver),))
        patch.setattr(connect, "CONNECT_PORT", server.add_secure_port("127.0.0.1:0", certificates.credentials()))
        await server.start()
        parts = (cast(FrontSessions, sessions), cast(Reviews, FakeReviews()), FrontLimits(), FrontMetrics())
        made = Running(driver, sessions, budget or Budget.of(), Slots(slots), 0, cast(ConnectFront, None))
        made.front = ConnectFront(*parts, made.budget, made.slots)
        made.port = await made.front.listen("127.0.0.1", 0, certificates.credentials())
        try:
            yield made
        finally:
            driver.hold.set()
            await made.front.close(0)
            await server.stop(0)
            async with asyncio.timeout(60):
                while len(made.slots) or made.budget.bytes.taken or made.budget.calls.taken:
                    await asyncio.sleep(0.01)


@pytest.fixture
async def opened() -> AsyncIterator[Running]:
    async with running() as made:
        yield made


def authorization(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


async def asked(channel: grpc.aio.Channel, data: bytes = SESSION_ID, method: str = "Config", token: str = TOKEN) -> Any:
    call = channel.unary_unary(f"/{SERVICE}/{method}")
    return await call(data, metadata=authorization(token), timeout=60)


async def refusal(channel: grpc.aio.Channel, data: bytes = SESSION_ID, **how: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await asked(channel, data, **how)
    return failed.value


async def test_calls_of_each_kind_are_passed_on_with_their_errors(opened: Running) -> None:
    async with opened.channel() as channel:
        large = SESSION_ID + bytes(2 * MIB)
        assert await asked(channel, large) == b"%d" % len(large)
        stream = channel.unary_stream(f"/{SERVICE}/ExecutePlan")(SESSION_ID, metadata=authorization(TOKEN))
        assert [answer async for answer in stream] == [b"5"] * 3
        upload = channel.stream_unary(f"/{SERVICE}/AddArtifacts")
        parts = [SESSION_ID + bytes(MIB)] * 5
        assert await upload(iter(parts), metadata=authorization(TOKEN)) == b"%d" % sum(map(len, parts))
        failed = await refusal(channel, SESSION_ID + b"refuse")
        assert (failed.code(), failed.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "not this")
        assert dict(failed.trailing_metadata())["why"] == "so"
        assert await asked(channel, method="ReleaseSession") is not None
    assert opened.sessions.ended == 1
    assert set(opened.sessions.connections) == {"connect-abc"}
    assert opened.driver.metadata[0]["authorization"] == f"Bearer {FRONT_TOKEN}"
    assert opened.driver.metadata[0]["x-sparksql-user"] == "ada%40example.com"


@pytest.mark.parametrize("token", ["wrong", TOKEN])
async def test_a_message_of_who_may_not_come_is_not_read(opened: Running, token: str) -> None:
    opened.sessions.forbidden.add(USER)
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(100):
            sent += 1
            yield bytes(MIB)

    async with opened.channel() as channel:
        upload = channel.stream_unary(f"/{SERVICE}/AddArtifacts")(endless(), metadata=authorization(token), timeout=60)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await upload
        # gRPC's client may report its broken upload instead of the server's answer.
        refusals = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INTERNAL)
        assert failed.value.code() in refusals
        assert sent < 10 and opened.driver.sizes == []
        assert (await refusal(channel, bytes(20 * MIB), token=token)).code() in refusals


async def test_a_packed_message_is_refused(opened: Running) -> None:
    async with opened.channel() as channel:
        call = channel.unary_unary(f"/{SERVICE}/Config")
        packed = SESSION_ID + bytes(MIB)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await call(packed, metadata=authorization(TOKEN), timeout=60, compression=grpc.Compression.Gzip)
        assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert opened.driver.sizes == []


async def test_strangers_make_room_and_users_stay() -> None:
    async with running() as opened, opened.channel() as channel:
        assert await asked(channel) == b"5"
        silent = [await asyncio.open_connection("127.0.0.1", opened.port) for _ in range(12)]
        async with opened.channel() as other:
            assert await asked(other, token=OTHER_TOKEN) == b"5"
        assert await asked(channel) == b"5"
        assert opened.slots.strangers <= 4
        for _, writer in silent:
            writer.transport.abort()


async def test_a_stranger_that_sends_much_is_read_no_further(opened: Running) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", opened.port)
    writer.transport.set_write_buffer_limits(high=1)
    sent = 0
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(3):
            writer.write(b"\x16\x03\x01\x40\x00")
            while True:
                writer.write(bytes(64 << 10))
                sent += 64 << 10
                await writer.drain()
    assert sent < 16 * MIB  # what the system's buffers take
    writer.transport.abort()


async def test_calls_beyond_a_users_share_are_refused_and_another_user_served() -> None:
    calls = Share(most=20, each=4, unknown=4, spared=4, modest=1)
    async with running(Budget.of(calls=calls)) as opened, opened.channel() as channel, opened.channel() as other:
        held = [asyncio.create_task(asked(channel, SESSION_ID + b"hold")) for _ in range(4)]
        async with asyncio.timeout(60):
            while len(opened.driver.sizes) < 4:
                await asyncio.sleep(0.01)
        failed = await refusal(channel)
        assert failed.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "your share of 4 calls" in str(failed.details())
        assert await asked(other, token=OTHER_TOKEN) == b"5"
        opened.driver.hold.set()
        assert await asyncio.gather(*held) == [b"9"] * 4


async def test_large_messages_come_one_at_a_time_and_small_ones_between_them() -> None:
    async with running(Budget.of(SMALL, CALLS)) as opened, opened.channel() as channel, opened.channel() as other:
        over = asyncio.Event()

        async def stalls() -> AsyncIterator[bytes]:
            yield SESSION_ID + bytes(3 * MIB) + b"hold"  # the driver takes no more
            for _ in range(8):
                yield SESSION_ID + bytes(3 * MIB)
            await over.wait()

        upload = channel.stream_unary(f"/{SERVICE}/AddArtifacts")(stalls(), metadata=authorization(TOKEN))
        async with asyncio.timeout(60):
            while not opened.driver.sizes:
                await asyncio.sleep(0.01)
        for _ in range(20):
            assert await asked(other, SESSION_ID + bytes(100_000), token=OTHER_TOKEN) == b"100005"
        opened.driver.hold.set()
        large = SESSION_ID + bytes(8 * MIB)
        assert await asked(other, large, token=OTHER_TOKEN) == b"%d" % len(large)
        over.set()
        await upload


async def test_a_turn_that_is_not_used_ends_with_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "TURN_SECONDS", 0.5)
    async with running(Budget.of(SMALL, CALLS)) as opened, opened.channel() as channel, opened.channel() as other:
        upload = channel.stream_unary(f"/{SERVICE}/AddArtifacts")

        async def stalls() -> AsyncIterator[bytes]:
            yield SESSION_ID + bytes(3 * MIB) + b"hold"
            for _ in range(100):
                yield SESSION_ID + bytes(3 * MIB)

        with pytest.raises(grpc.aio.AioRpcError):
            await upload(stalls(), metadata=authorization(TOKEN), timeout=60)
        opened.driver.hold.set()
        assert await asked(other, SESSION_ID + bytes(2 * MIB), token=OTHER_TOKEN) == b"%d" % (2 * MIB + 5)


async def test_a_new_certificate_is_for_new_connections_and_calls_under_way_go_on(
    opened: Running, tmp_path: Path
) -> None:
    certificate, key = self_signed(("localhost",), datetime.now(UTC))
    async with opened.channel() as channel:
        held = asyncio.create_task(asked(channel, SESSION_ID + b"hold"))
        async with asyncio.timeout(60):
            while not opened.driver.sizes:
                await asyncio.sleep(0.01)
        renewed = certificates_in(tmp_path, certificate, key)
        await opened.front.renew(renewed.credentials())
        async with opened.channel(certificate=certificate) as other:
            assert await asked(other, token=OTHER_TOKEN) == b"5"
        opened.driver.hold.set()
        assert await held == b"9"


async def test_handshakes_that_are_broken_off_do_not_end_the_process(opened: Running) -> None:
    for _ in range(300):
        _, writer = await asyncio.open_connection("127.0.0.1", opened.port)
        writer.write(b"\x16\x03\x01\x02\x00\x01")
    async with opened.channel() as channel:
        assert await asked(channel) == b"5"


async def test_a_call_past_the_gate_is_refused(opened: Running) -> None:
    inner = opened.front._port._gate._inner_port
    async with opened.channel(port=inner) as channel:
        failed = await refusal(channel)
        assert failed.code() is grpc.StatusCode.UNAVAILABLE and opened.driver.sizes == []


async def test_more_connections_than_a_user_may_have_take_the_place_of_idle_ones() -> None:
    async with (
        running(slots=SlotLimits(most=20, each=2, strangers=4)) as opened,
        opened.channel() as first,
        opened.channel() as second,
        opened.channel() as third,
    ):
        for channel in (first, second, third):
            assert await asked(channel) == b"5"
        assert opened.slots.owned <= 2
        assert await asked(first) == b"5"  # its client connects anew
