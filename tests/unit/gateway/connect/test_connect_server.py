"""A real gRPC server of the frontend with scripted handlers: who gets in, what exists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
import pytest

from sparksql.gateway.frontends.connect import server
from sparksql.gateway.frontends.connect.errors import not_permitted
from sparksql.gateway.frontends.connect.proxy import ConnectProxy
from sparksql.gateway.frontends.connect.server import DriverConnectPort
from sparksql.gateway.sessions.callers import Callers, current
from sparksql.protocols.budget import DRIVER_BYTES, DRIVER_CALLS, Budget, Share
from sparksql.protocols.spark_connect import SERVICE
from sparksql.wire.front import USER_HEADER

TOKEN = "t0ken-of-a-test"
FRONT_TOKEN = "t0ken-of-the-front"
UNARY = (
    "AnalyzePlan", "Config", "ArtifactStatus", "Interrupt", "ReleaseExecute", "ReleaseSession", "FetchErrorDetails",
    "CloneSession",
)  # fmt: skip


class ScriptedProxy:
    """Answers with the name of what was called."""

    def __init__(self) -> None:
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        async def unary(data: bytes, context: Any) -> bytes:
            if data == b"refuse":
                raise not_permitted("not this")
            if data == b"who":
                return str(current.get().user).encode()
            if data == b"break":
                raise RuntimeError("secret detail")
            return name.encode()

        return unary

    async def execute(self, data: bytes, context: Any, _: Any) -> None:
        for _ in range(3):
            await context.write(data)

    reattach = execute

    async def add_artifacts(self, messages: AsyncIterator[bytes], context: Any) -> bytes:
        async for message in messages:
            self.read += len(message)
        return b"added"


@pytest.fixture
async def proxy() -> ScriptedProxy:
    return ScriptedProxy()


@asynccontextmanager
async def opened_with(proxy: ScriptedProxy, budget: Budget) -> AsyncIterator[grpc.aio.Channel]:
    opened = DriverConnectPort(cast(ConnectProxy, proxy), Callers(TOKEN, FRONT_TOKEN), budget)
    port = await opened.listen("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as connected:
        yield connected
    await opened.close(0)
    async with asyncio.timeout(60):
        while budget.bytes.taken or budget.calls.taken:
            await asyncio.sleep(0.01)


@pytest.fixture
async def channel(proxy: ScriptedProxy) -> AsyncIterator[grpc.aio.Channel]:
    async with opened_with(proxy, Budget.of(DRIVER_BYTES, DRIVER_CALLS)) as connected:
        yield connected


def authorization(token: str) -> tuple[tuple[str, bytes | str], ...]:
    return (("authorization", f"Bearer {token}".encode()),)


async def call(channel: grpc.aio.Channel, method: str, data: bytes = b"", token: str = TOKEN) -> bytes:
    return bytes(await channel.unary_unary(f"/{method}")(data, metadata=authorization(token), timeout=60))


async def status_of(channel: grpc.aio.Channel, method: str, data: bytes = b"", token: str = TOKEN) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call(channel, method, data, token)
    return failed.value.code()


@pytest.mark.parametrize("method", UNARY)
async def test_each_method_of_the_service_exists(channel: grpc.aio.Channel, method: str) -> None:
    assert (await call(channel, f"{SERVICE}/{method}")).decode().replace("_", "").lower() in (method.lower(), "analyze")


@pytest.mark.parametrize("method", [f"{SERVICE}/GetStatus", f"{SERVICE}/", "grpc.health.v1.Health/Check",
                                    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "x/Config"])  # fmt: skip
async def test_a_method_outside_the_connect_service_is_unimplemented(channel: grpc.aio.Channel, method: str) -> None:
    assert await status_of(channel, method) is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("token", ["", "t0ken", TOKEN + "x", TOKEN.upper()])
@pytest.mark.parametrize("method", [f"{SERVICE}/Config", "x/y"])
async def test_a_connect_call_without_the_token_is_unauthenticated(
    channel: grpc.aio.Channel, token: str, method: str
) -> None:
    assert await status_of(channel, method, token=token) is grpc.StatusCode.UNAUTHENTICATED


async def test_no_metadata_is_no_token(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await channel.unary_unary(f"/{SERVICE}/Config")(b"")
    assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_the_body_of_a_stranger_is_not_read(channel: grpc.aio.Channel, proxy: ScriptedProxy) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield bytes(1 << 20)

    upload = channel.stream_unary(f"/{SERVICE}/AddArtifacts")
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await upload(endless(), metadata=authorization("wrong"), timeout=60)
    # gRPC's client may tell of its broken upload instead of the server's answer.
    assert failed.value.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INTERNAL)
    assert proxy.read == 0
    assert await upload(iter([b"xx", b"x"]), metadata=authorization(TOKEN), timeout=60) == b"added"
    assert proxy.read == 3


async def test_streamed_answers_of_connect_come_whole(channel: grpc.aio.Channel) -> None:
    for method in ("ExecutePlan", "ReattachExecute"):
        answers = channel.unary_stream(f"/{SERVICE}/{method}")(b"x", metadata=authorization(TOKEN), timeout=60)
        assert [answer async for answer in answers] == [b"x"] * 3


async def test_refusals_have_details_and_faults_have_none(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(channel, f"{SERVICE}/Config", b"refuse")
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert refused.value.details() == "not this"
    assert any(key == "grpc-status-details-bin" for key, _ in refused.value.trailing_metadata())
    with pytest.raises(grpc.aio.AioRpcError) as broken:
        await call(channel, f"{SERVICE}/Config", b"break")
    assert broken.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in (broken.value.details() or "")


async def test_a_request_that_is_too_large_is_refused(channel: grpc.aio.Channel) -> None:
    assert await status_of(channel, f"{SERVICE}/Config", bytes(81 << 20)) is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_the_front_says_for_which_user_it_asks(channel: grpc.aio.Channel) -> None:
    as_front = (*authorization(FRONT_TOKEN), (USER_HEADER, "ada%40b%C3%A4r"))
    asked = channel.unary_unary(f"/{SERVICE}/Config")
    assert bytes(await asked(b"who", metadata=as_front, timeout=60)) == "ada@bär".encode()
    assert bytes(await asked(b"who", metadata=authorization(TOKEN), timeout=60)) == b"None"


async def test_nobody_else_says_who_a_user_is(channel: grpc.aio.Channel) -> None:
    claimed = (*authorization(TOKEN), (USER_HEADER, "ada"))
    assert bytes(await channel.unary_unary(f"/{SERVICE}/Config")(b"who", metadata=claimed, timeout=60)) == b"None"
    assert await status_of(channel, f"{SERVICE}/Config", token=FRONT_TOKEN) is grpc.StatusCode.UNAUTHENTICATED


async def test_packed_message_to_a_driver_is_unimplemented(channel: grpc.aio.Channel) -> None:
    packed = channel.unary_unary(f"/{SERVICE}/Config")
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await packed(bytes(1 << 20), metadata=authorization(TOKEN), timeout=60, compression=grpc.Compression.Gzip)
    assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_calls_beyond_the_share_of_a_user_are_refused_and_another_user_is_served() -> None:
    calls = Share(most=20, each=4, unknown=4, spared=4, modest=1)
    async with opened_with(ScriptedProxy(), Budget.of(DRIVER_BYTES, calls)) as channel:
        over = asyncio.Event()

        async def nothing() -> AsyncIterator[bytes]:
            await over.wait()
            for never in ():
                yield never

        upload = channel.stream_unary(f"/{SERVICE}/AddArtifacts")
        held = [upload(nothing(), metadata=authorization(TOKEN), timeout=60) for _ in range(6)]
        async with asyncio.timeout(60):
            while len([call for call in held if call.done()]) < 2:
                await asyncio.sleep(0.01)
        refused = [call for call in held if call.done()]
        assert {await call.code() for call in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert "your share of 4 calls" in str(await refused[0].details())
        as_front = (*authorization(FRONT_TOKEN), (USER_HEADER, "ada"))
        asked = channel.unary_unary(f"/{SERVICE}/Config")
        assert bytes(await asked(b"who", metadata=as_front, timeout=60)) == b"ada"
        over.set()
        assert [await call for call in held if call not in refused] == [b"added"] * 4


async def test_connections_without_a_token_make_room_and_those_with_one_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 64)
    port = DriverConnectPort(
        cast(ConnectProxy, ScriptedProxy()), Callers(TOKEN, FRONT_TOKEN), Budget.of(DRIVER_BYTES, DRIVER_CALLS)
    )
    number = await port.listen("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{number}") as channel:
        assert await call(channel, f"{SERVICE}/Config") == b"config"
        silent = [await asyncio.open_connection("127.0.0.1", number) for _ in range(100)]
        ends = [asyncio.create_task(reader.read()) for reader, _ in silent]
        done, _ = await asyncio.wait(ends, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert done
        assert await call(channel, f"{SERVICE}/Config") == b"config"
        for _, writer in silent:
            writer.transport.abort()
        await asyncio.gather(*ends, return_exceptions=True)
    await port.close(0)


async def test_large_message_waits_for_its_turn_and_is_served() -> None:
    data = Share(most=4 << 20, each=2 << 20, unknown=1 << 20, spared=1 << 20, modest=64 << 10)
    async with opened_with(ScriptedProxy(), Budget.of(data, DRIVER_CALLS)) as channel:
        assert await call(channel, f"{SERVICE}/Config", bytes(8 << 20)) == b"config"
