"""How statements share executors, slots and the driver: pools by weight, and what needs no executor never waits for one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from sparksql.wire.control import OperationState, OperationView
from sparksql.wire.driver import CONFIG_FILE, DriverConfig
from tests.support.client_session import open_rest, rest_http
from tests.support.connect_client import ConnectSession, connect_channel, sql_relation, until
from tests.support.ports import free_port
from tests.support.process import GatewayProcess, running
from tests.support.thorough import thorough_but
from tests.support.thrift_client import ThriftClient

from .client import GatewayClient, connect
from .test_thrift_frontend import Session

SLOTS = 2
TASKS = "SELECT count(*) FROM range(0, {rows}, 1, {tasks}) WHERE hash(id, id + 1) = 5"
ENDLESS = TASKS.format(rows=10**14, tasks=400)  # whose tasks keep both cores
LONG = TASKS.format(rows=4 * 10**11, tasks=4000)  # whose tasks give a core back after about a second
PROBES = ["SELECT 1", "SELECT 3 AS n, current_date() AS d", "SHOW TABLES", "SELECT * FROM range(10) LIMIT 0"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with running(
        tmp_path_factory.mktemp("sharing"),
        optimised=True,  # tasks below are as long as they are for compiled code
        max_concurrent_statements=SLOTS,
        endpoints={"connect": True, "connect_port": free_port(), "thrift": True, "thrift_port": free_port()},
    ) as started:
        yield started


async def pools(gateway: GatewayProcess) -> dict[str, int]:
    """Weights of Spark's pools, by its own UI."""
    async with aiohttp.ClientSession(f"http://127.0.0.1:{gateway.ui_port}") as http, http.get("/stages/") as response:
        page = await response.text()
    cells = re.findall(r"pool\?poolname=([\w-]+)\"[^>]*>[^<]*</a>\s*</td>\s*<td>\d+</td>\s*<td>(\d+)</td>", page)
    assert cells, page
    return {name: int(weight) for name, weight in cells}


def tasks_done(view: OperationView) -> int:
    return 0 if view.progress is None else view.progress.tasks_done


def has_begun(view: OperationView) -> bool:
    return view.progress is not None and view.progress.tasks_total > 0


@asynccontextmanager
async def under_way(client: GatewayClient, *priorities: int, sql: str = ENDLESS) -> AsyncIterator[list[OperationView]]:
    """Statements that take cores and slots, one of each priority, stopped at the end."""
    views = [await client.put(sql, priority=priority) for priority in priorities]
    try:
        for view in views:
            await client.until(view.operation_id, has_begun)
        yield views
    finally:
        for view in views:
            await client.cancel(view.operation_id)
        for view in views:
            await client.end(view)


async def test_a_small_query_ends_long_before_a_large_query_submitted_earlier(client: GatewayClient) -> None:
    async with under_way(client, 0, sql=LONG) as (large,):
        small = await client.ok("SELECT sum(id) FROM range(0, 10, 1, 1)")
        seen = await client.get(large.operation_id)
        assert seen.state is OperationState.RUNNING, seen
        # In one pool it would have begun after all tasks of the large one.
        assert seen.progress is not None and tasks_done(seen) < seen.progress.tasks_total / 2, (seen, small)


async def test_tasks_are_shared_by_priority(own_gateway: Callable[..., GatewayProcess]) -> None:
    """Nine tasks at a time, of weights 8 and 64: one of the one and eight of the other."""
    gateway = own_gateway(optimised=True, spark_conf={"spark.master": "local[9]"})
    async with connect(gateway) as client:
        await client.until_started()
        async with under_way(client, 0, 3, sql=TASKS.format(rows=2 * 10**10, tasks=20_000)) as views:
            assert sorted((await pools(gateway)).values()) == [1, 8, 64]
            # What the first one began before the second was there is done by then.
            await client.until(views[1].operation_id, lambda seen: tasks_done(seen) >= 9)
            begin = [tasks_done(await client.get(view.operation_id)) for view in views]

            async def shares() -> list[int] | None:
                done = [tasks_done(await client.get(view.operation_id)) for view in views]
                gained = [now - before for now, before in zip(done, begin, strict=True)]
                return gained if sum(gained) >= 270 else None

            light, heavy = await until("270 tasks", shares)
    # 30 and 240 of them; counts of the two are read up to a second apart, in which either goes on.
    assert heavy >= 3 * light, (light, heavy)
    assert light > 0, "it is starved"


@pytest.mark.thorough
async def test_statements_take_turns_where_one_task_runs_at_a_time(own_gateway: Callable[..., GatewayProcess]) -> None:
    """Spark's own order would be that of their names, and these are drawn."""
    gateway = own_gateway(optimised=True, spark_conf={"spark.master": "local[1]"}, max_concurrent_statements=8)
    async with connect(gateway) as client:
        await client.until_started()
        async with under_way(client, 0, 0, 0, sql=TASKS.format(rows=4 * 10**10, tasks=4000)) as views:
            for _ in range(6):
                async with asyncio.timeout(60):
                    await client.ok("SELECT sum(id) FROM range(0, 10, 1, 1)")
            done = [tasks_done(await client.get(view.operation_id)) for view in views]
    assert min(done) > 0.5 * max(done), done


@pytest.mark.thorough
async def test_priority_counts_where_one_task_runs_at_a_time(own_gateway: Callable[..., GatewayProcess]) -> None:
    gateway = own_gateway(optimised=True, spark_conf={"spark.master": "local[1]"})
    async with connect(gateway) as client:
        await client.until_started()
        async with under_way(client, 0, 2, sql=TASKS.format(rows=4 * 10**10, tasks=4000)) as views:
            begin = [tasks_done(await client.get(view.operation_id)) for view in views]

            async def shares() -> list[int] | None:
                done = [tasks_done(await client.get(view.operation_id)) for view in views]
                gained = [now - before for now, before in zip(done, begin, strict=True)]
                return gained if sum(gained) >= 100 else None

            light, heavy = await until("100 tasks", shares)
    assert 2 * light <= heavy, (light, heavy)  # 20 and 80 of them
    assert light > 0, "it is starved"


async def test_no_pool_is_left_when_statements_have_ended(client: GatewayClient) -> None:
    await client.ok("SELECT sum(id) FROM range(10)")
    failed = await client.run("SELECT assert_true(id < 0) FROM range(10)")
    assert failed.state is OperationState.ERROR
    async with under_way(client, 0):
        assert len(await pools(client.gateway)) == 2
    async with rest_http(client.gateway) as http:
        session = await open_rest(http)
        await session.rows("SELECT count(*) FROM range(10)")
        await session.close()
    async with connect_channel(client.gateway) as channel:
        connected = ConnectSession(channel)
        assert await connected.rows("SELECT count(*) AS n FROM range(10)") == [(10,)]
        assert len(await pools(client.gateway)) == 2
        await connected.close()

    async def only_sparks_own() -> bool:
        return await pools(client.gateway) == {"default": 1}

    await until("all pools are gone", only_sparks_own)


async def test_a_connect_statement_does_not_wait_behind_a_large_one(client: GatewayClient) -> None:
    async with under_way(client, 0, sql=LONG), connect_channel(client.gateway) as channel:
        session = ConnectSession(channel)
        async with asyncio.timeout(60):
            assert await session.rows("SELECT count(*) AS n FROM range(0, 10, 1, 1)") == [(10,)]
        await session.close()


Ask = Callable[[str], Coroutine[Any, Any, Any]]


@asynccontextmanager
async def asking(protocol: str, client: GatewayClient) -> AsyncIterator[Ask]:
    """How a text is asked by a protocol, in a session that is there already."""
    match protocol:
        case "control":
            yield client.ok
        case "rest":
            async with rest_http(client.gateway) as http:
                session = await open_rest(http)
                yield session.rows
                await session.close()
        case "thrift":
            config = (client.gateway.folder / "config" / CONFIG_FILE).read_text()
            port = DriverConfig.model_validate_json(config).endpoints.thrift_port
            connection = await asyncio.to_thread(ThriftClient, port, client.gateway.client_tls())
            opened = await asyncio.to_thread(Session, connection)

            async def rows(sql: str) -> Any:
                return await asyncio.to_thread(opened.rows, sql)

            yield rows
            connection.socket.close()
        case _:
            async with connect_channel(client.gateway) as channel:
                connected = ConnectSession(channel)
                yield connected.rows
                await connected.close()


@pytest.mark.parametrize("protocol", thorough_but(["control", "connect"], ["control", "rest", "thrift", "connect"]))
async def test_a_query_that_needs_no_executor_is_answered_while_all_slots_are_taken(
    client: GatewayClient, protocol: str
) -> None:
    async with asking(protocol, client) as ask:
        for probe in PROBES:
            await ask(probe)  # the first look loads classes
        async with under_way(client, *[0] * SLOTS) as views:  # for hours
            for probe in PROBES:
                async with asyncio.timeout(60):
                    await ask(probe)
            states = [(await client.get(view.operation_id)).state for view in views]
            assert states == [OperationState.RUNNING] * SLOTS


async def test_a_probe_gives_the_same_answer_with_and_without_an_executor(client: GatewayClient) -> None:
    for sql, rows in {
        "SELECT 1": [(1,)],
        "SELECT 1 AS a, 'x' AS b WHERE 1 = 0": [],
        "SELECT upper('a') || 'b' AS c LIMIT 1": [("Ab",)],
        "SELECT * FROM (SELECT 2 AS a) t WHERE a > 1": [(2,)],
        "SELECT (SELECT max(id) FROM range(3)) AS m": [(2,)],
        "VALUES (1), (2)": [(1,), (2,)],
        "SELECT explode(array(1, 2))": [(1,), (2,)],
        "SELECT count(*)": [(1,)],
    }.items():
        assert await client.rows(sql) == rows, sql
    async with connect_channel(client.gateway) as channel:
        session = ConnectSession(channel)
        for sql in ("SELECT 1 AS a;", "SELECT 1 AS a -- probe", "SELECT 1 AS a WHERE true", "SELECT 1 AS a LIMIT 1"):
            assert await session.rows(sql) == [(1,)], sql
            assert (await session.schema(sql_relation(sql))).struct.fields[0].name == "a"
        await session.close()


@pytest.mark.thorough
async def test_sessions_of_clients_take_turns(client: GatewayClient) -> None:
    """One that asks for much waits for itself, not the others for it."""
    short, longer = TASKS.format(rows=10**6, tasks=1), TASKS.format(rows=10**9, tasks=1)
    async with rest_http(client.gateway) as http, under_way(client, 0, sql=LONG):
        greedy, modest = await open_rest(http, "greedy"), await open_rest(http, "modest")
        queue = [await greedy.submit(longer) for _ in range(6)]
        mine = await modest.submit(short)
        await modest.until(mine, "FINISHED")
        states = [await greedy.status(operation) for operation in queue]
        assert states.count("FINISHED") < len(queue), states
        await greedy.close()
        await modest.close()


@pytest.fixture
async def client(gateway: GatewayProcess) -> AsyncIterator[GatewayClient]:
    async with connect(gateway) as connected:
        await connected.until_started()
        yield connected
