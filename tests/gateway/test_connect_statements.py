"""Statements of Connect's clients take their turn, end when they are told to, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest

from tests.support.client_session import call, open_rest, rest_http
from tests.support.connect_client import (
    ENDLESS,
    ConnectSession,
    Failed,
    Failure,
    Relation,
    Stream,
    connect_channel,
    relations,
    running_jobs,
    sql_command,
    sql_relation,
    until,
)
from tests.support.ports import free_port
from tests.support.process import GatewayProcess, running

from .client import GatewayClient, connect

SLOTS = 2


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with running(
        tmp_path_factory.mktemp("connect"),
        endpoints={"connect": True, "connect_port": free_port()},
        max_concurrent_statements=SLOTS,
        clients={"max_queued": 3},
        spark_conf={"spark.sql.gateway.operation.max-num": "20"},
    ) as started:
        yield started


@pytest.fixture
async def channel(gateway: GatewayProcess) -> AsyncIterator[grpc.aio.Channel]:
    async with connect_channel(gateway) as connected:
        yield connected


@pytest.fixture
async def control(gateway: GatewayProcess) -> AsyncIterator[GatewayClient]:
    async with connect(gateway) as connected:
        yield connected


@pytest.fixture
async def session(channel: grpc.aio.Channel, control: GatewayClient) -> AsyncIterator[ConnectSession]:
    made = ConnectSession(channel)
    yield made
    with contextlib.suppress(Failed):
        await made.interrupt()
    await until("nothing of the test is left", lambda: nothing(control))


async def live(control: GatewayClient, state: str | None = None) -> list[dict[str, Any]]:
    """Statements of clients that have not ended."""
    async with control.http.get("/control/v1/clients") as response:
        operations = (await response.json())["operations"]
    return [operation for operation in operations if state in (None, operation["state"])]


async def nothing(control: GatewayClient) -> bool:
    return not await live(control)


async def endless(session: ConnectSession, **options: Any) -> asyncio.Task[Stream]:
    """A query that only ends when it is stopped."""
    task = asyncio.create_task(session.execute(root=sql_relation(ENDLESS), **options))
    # A test that fails does not ask how it ended. asyncio tells of that when the task is collected, which breaks a parse of
    # Python's that is under way: "AST constructor recursion depth mismatch" (CPython 3.11).
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return task


async def fill(session: ConnectSession, control: GatewayClient) -> list[asyncio.Task[Stream]]:
    tasks = [await endless(session) for _ in range(SLOTS)]

    async def full() -> bool:
        return len(await live(control, "Running")) == SLOTS

    await until("all slots are taken", full)
    return tasks


async def failure(task: Any) -> Failure:
    with pytest.raises(Failed) as failed:
        await task
    return failed.value.failure


async def all_fail(tasks: list[asyncio.Task[Stream]]) -> set[str | None]:
    return {(await failure(task)).condition for task in tasks}


async def test_a_statement_waits_for_a_slot_and_is_shown(session: ConnectSession, control: GatewayClient) -> None:
    running = await fill(session, control)
    waiting = asyncio.create_task(session.execute(root=sql_relation("SELECT count(*) AS n FROM range(3)")))
    await until("one waits", lambda: live(control, "Pending"))

    async def is_read() -> bool:
        return [(o["door"], o.get("statementType")) for o in await live(control, "Pending")] == [("connect", "SELECT")]

    await until("it is shown with its type", is_read)
    assert await session.schema(sql_relation("SELECT 1 AS a")), "analysing takes no slot"
    assert (await session.sql("SELECT 2")).relation, "a query alone executes nothing"
    assert not waiting.done()
    await session.interrupt(operation_id=operations_of(running, 0))
    assert (await waiting).rows == [(3,)]
    await session.interrupt()
    assert await all_fail(running) == {"OPERATION_CANCELED"}


def operations_of(tasks: list[asyncio.Task[Stream]], index: int) -> str:
    frame = tasks[index].get_coro().cr_frame  # type: ignore[union-attr]
    return str(frame.f_locals["stream"].operation_id)


async def test_a_waiting_statement_is_interrupted_by_its_tag(session: ConnectSession, control: GatewayClient) -> None:
    running = await fill(session, control)
    operation_id = str(uuid.uuid4())
    waiting = await endless(session, tags=["mine"], operation_id=operation_id)
    await until("one waits", lambda: live(control, "Pending"))
    assert await session.interrupt(tag="other") == set()
    assert await session.interrupt(tag="mine") == {operation_id}
    ended = await failure(waiting)
    assert (ended.condition, ended.sql_state) == ("OPERATION_CANCELED", "HY008")
    assert len(await live(control, "Running")) == SLOTS
    assert len(await session.interrupt()) == SLOTS
    assert await all_fail(running) == {"OPERATION_CANCELED"}


async def test_the_queue_has_an_end(session: ConnectSession, control: GatewayClient) -> None:
    tasks = await fill(session, control)
    tasks += [await endless(session) for _ in range(3)]

    async def queued() -> bool:
        return len(await live(control, "Pending")) == 3

    await until("the queue is full", queued)
    refused = await failure(session.execute(root=sql_relation("SELECT 1")))
    assert refused.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(await session.interrupt()) == SLOTS + 3
    assert await all_fail(tasks) == {"OPERATION_CANCELED"}


async def test_a_statement_that_takes_too_long_is_stopped_and_says_why(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """In a gateway of its own: the limit is for every statement, and those of other tests may take long."""
    with running(
        tmp_path_factory.mktemp("limited"),
        endpoints={"connect": True, "connect_port": free_port()},
        clients={"max_execution_seconds": 2},
    ) as gateway:
        async with connect_channel(gateway) as channel:
            ended = await failure(await endless(ConnectSession(channel)))
    assert ended.condition == "OPERATION_CANCELED"
    assert "2 s" in ended.message


async def test_closing_the_session_stops_its_statements(
    session: ConnectSession, control: GatewayClient, channel: grpc.aio.Channel
) -> None:
    leaving = ConnectSession(channel, user="leaving")
    tasks = await fill(leaving, control)
    await leaving.close()
    ended = [await failure(task) for task in tasks]
    assert {failed.condition for failed in ended} == {"OPERATION_CANCELED"}, ended
    await until("nothing is left", lambda: nothing(control))


async def test_no_job_outlives_an_interrupt(session: ConnectSession, gateway: GatewayProcess) -> None:
    shuffled = """
        SELECT count(*) FROM (SELECT id % 1000 AS k, count(*) AS n FROM range(0, 400000000, 1, 4) GROUP BY 1) a
        JOIN (SELECT id % 1000 AS k FROM range(0, 400000000, 1, 4)) b USING (k)"""
    for attempt in range(10):
        task = asyncio.create_task(session.execute(root=sql_relation(shuffled)))
        await asyncio.sleep(0.1 + 0.07 * attempt)  # at another moment of planning and running each time
        while not await session.interrupt() and not task.done():
            await asyncio.sleep(0.01)  # it has not come to the gateway yet
        with contextlib.suppress(Failed):
            await task

    async def quiet() -> bool:
        return not await running_jobs(gateway)

    await until("no job runs", quiet)


async def test_a_client_that_breaks_off_and_comes_back_loses_nothing(session: ConnectSession) -> None:
    rows = Relation(range=relations.Range(end=3_000_000, step=1, num_partitions=8))
    request = session.request(root=rows)
    stream = Stream(request.operation_id)
    call = session.begin(request)
    async for response in call:
        stream.responses.append(response)
        if response.HasField("arrow_batch"):
            break
    call.cancel()
    await session.read(session.reattach(stream.operation_id, stream.responses[-1].response_id), stream)
    assert stream.complete
    assert [row[0] for row in stream.rows] == list(range(3_000_000))
    await session.release(stream.operation_id)


async def test_a_client_that_reconnects_while_its_statement_waits_keeps_its_place(
    session: ConnectSession, control: GatewayClient
) -> None:
    running = await fill(session, control)
    request = session.request(root=sql_relation("SELECT sum(id) FROM range(43) WHERE id = 42"))
    first = session.begin(request)
    first_read = asyncio.ensure_future(first.read())
    await until("one waits", lambda: live(control, "Pending"))
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
        await first_read
    again = asyncio.create_task(session.read(session.reattach(request.operation_id), Stream(request.operation_id)))
    repeated = asyncio.create_task(session.read(session.begin(request), Stream(request.operation_id)))
    assert await session.schema(sql_relation("SELECT 7")), "a later request, which takes no turn, has been answered"
    assert len(await live(control, "Pending")) == 1
    await session.interrupt(operation_id=operations_of(running, 0))
    ended = await asyncio.gather(again, repeated, return_exceptions=True)
    done = [stream for stream in ended if isinstance(stream, Stream)]
    assert any(stream.complete and stream.rows == [(42,)] for stream in done), ended
    await session.interrupt()
    await all_fail(running)


async def test_a_client_without_reattach_that_breaks_off_frees_its_slot_at_once(
    session: ConnectSession, control: GatewayClient, gateway: GatewayProcess
) -> None:
    call = session.begin(session.request(root=sql_relation(ENDLESS), reattachable=False))
    reading = asyncio.ensure_future(call.read())
    await until("it runs", lambda: live(control, "Running"))
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
        await reading
    await until("the slot is free", lambda: nothing(control))


async def test_a_deadline_of_the_client_s_is_kept(session: ConnectSession, control: GatewayClient) -> None:
    request = session.request(root=sql_relation(ENDLESS), reattachable=False)
    late = await failure(session.read(session.begin(request, timeout=2), Stream(request.operation_id)))
    assert late.code is grpc.StatusCode.DEADLINE_EXCEEDED
    await until("the slot is free", lambda: nothing(control))


async def test_a_result_that_nobody_reads_holds_no_slot(session: ConnectSession, control: GatewayClient) -> None:
    request = session.request(root=Relation(range=relations.Range(end=2_000_000, step=1)))
    stream = Stream(request.operation_id)
    call = session.begin(request)
    responses = aiter(call)
    stream.responses.append(await anext(responses))
    await until("Spark has executed it", lambda: nothing(control))
    await session.read(responses, stream)
    assert stream.complete
    assert len(stream.rows) == 2_000_000
    await session.release(request.operation_id)


async def test_many_statements_leave_room_for_more(session: ConnectSession) -> None:
    for _ in range(60):  # the service keeps few of one session
        await asyncio.gather(*(session.execute(root=sql_relation("VALUES (1)")) for _ in range(SLOTS)))


async def test_ended_statements_are_counted(session: ConnectSession, control: GatewayClient) -> None:
    async def ended(state: str) -> float:
        async with control.http.get("/metrics") as response:
            lines = (await response.text()).splitlines()
        return sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith("sparksql_gateway_statements_ended") and f'"{state}"' in line and '"connect"' in line
        )

    finished, failed = await ended("Finished"), await ended("Error")
    await session.execute(command=sql_command("CREATE TABLE counted (a INT)"))
    assert (await failure(session.rows("SELECT raise_error('x')"))).condition == "USER_RAISED_EXCEPTION"
    await until("both are counted", lambda: _is(ended, finished + 1, failed + 1))


async def _is(ended: Any, finished: float, failed: float) -> bool:
    return (await ended("Finished"), await ended("Error")) == (finished, failed)


async def test_a_session_does_not_expire_under_a_request(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(
        tmp_path_factory.mktemp("hasty"),
        endpoints={"connect": True, "connect_port": free_port()},
        spark_conf={"spark.sql.gateway.session.idle-timeout": "4s", "spark.sql.gateway.session.check-interval": "1s"},
    ) as gateway:
        async with connect_channel(gateway) as channel, connect(gateway) as control, rest_http(gateway) as http:
            await control.until_started()

            async def used() -> dict[str, str]:
                """When sessions were last used, by their names."""
                async with control.http.get("/control/v1/clients") as response:
                    return {each["name"]: each["lastUsedTime"] for each in (await response.json())["sessions"]}

            session = ConnectSession(channel, user="ann")
            assert await session.rows("SELECT 0") == [(0,)]
            before, other = (await used())["ann"], await open_rest(http, "other")

            async def has_come() -> bool:
                return (await used())["ann"] > before

            async def has_expired() -> bool:
                return "other" not in await used()

            with gateway.jvm_held():
                task = asyncio.create_task(session.rows("SELECT 1"))
                await until("the request has come", has_come)
                assert (await call(http, "POST", f"{other.path}/heartbeat"))[0] == 200
                await until("a session that was used later has expired", has_expired)
                assert "ann" in await used()
                assert not task.done()
            assert await task == [(1,)]


@pytest.mark.thorough
async def test_idle_sessions_expire_busy_ones_stay_and_the_gateway_ends_in_time(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running(
        tmp_path_factory.mktemp("ending"),
        endpoints={"connect": True, "connect_port": free_port()},
        drain_seconds=1,
        spark_conf={"spark.sql.gateway.session.idle-timeout": "8s", "spark.sql.gateway.session.check-interval": "1s"},
    ) as gateway:
        async with connect_channel(gateway) as channel, connect(gateway) as control:
            busy, idle = ConnectSession(channel, user="busy"), ConnectSession(channel, user="idle")
            assert await idle.rows("SELECT 1") == [(1,)]
            task = await endless(busy)

            async def users() -> set[str]:
                async with control.http.get("/control/v1/clients") as response:
                    return {session["name"] for session in (await response.json())["sessions"]}

            async def only_the_busy_one() -> bool:
                return await users() == {"busy"}

            await until("the idle session has expired", only_the_busy_one)
            closed = await failure(idle.rows("SELECT 1"))
            assert (closed.condition, closed.sql_state) == ("INVALID_HANDLE.SESSION_CLOSED", "HY000")
            assert not task.done()
            gateway.terminate()
            assert await asyncio.to_thread(gateway.wait, 90) == 0
            with pytest.raises((Failed, AssertionError)):
                await task
