"""Sessions of clients: isolation, order, limits, expiry, and that nothing of them stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from sparksql.api.gateway_settings import PREFIX
from tests.support.client_session import call, open_rest, rest_http
from tests.support.process import GatewayProcess, running

from .client import API, GatewayClient, connect

LONG = "SELECT count(*) FROM range(1000000000000) a JOIN range(1000000)"
# Two gateways: in one numbers and sizes are small, in the other times are short. Where both are, a test of a number fails as
# soon as it takes longer than one of the times.
SMALL = {"session.max-num": "4", "operation.max-num": "5", "session.result.max-size": "2m"}
HASTY = {"session.idle-timeout": "10s", "session.check-interval": "1s", "operation.idle-timeout": "5s"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with small limits, a temporary view of its own and a setting, both made by init."""
    with running(
        tmp_path_factory.mktemp("small"),
        spark_conf={PREFIX + key: value for key, value in SMALL.items()},
        init=[
            {"sql": "CREATE TEMPORARY VIEW shared AS SELECT 7 AS seven", "origin": "init[0].sql"},
            {"sql": "SET spark.sql.shuffle.partitions=3", "origin": "init[1].sql"},
        ],
        clients={"maxQueued": 3},
        max_concurrent_statements=2,
    ) as started:
        yield started


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that soon gives up what is not used, and statements that wait."""
    with running(
        tmp_path_factory.mktemp("hasty"),
        spark_conf={PREFIX + key: value for key, value in HASTY.items()},
        clients={"queueSeconds": 8},
        max_concurrent_statements=2,
    ) as started:
        yield started


@pytest.fixture
async def control(small: GatewayProcess) -> AsyncIterator[GatewayClient]:
    async with connect(small) as client:
        await client.until_started()
        yield client


@pytest.fixture
async def http(small: GatewayProcess, control: GatewayClient) -> AsyncIterator[aiohttp.ClientSession]:
    """An HTTP session; what a test leaves open is closed after it."""
    async with rest_http(small) as session:
        yield session
        await close_all(session, control)


@pytest.fixture
async def hasty_control(hasty: GatewayProcess) -> AsyncIterator[GatewayClient]:
    async with connect(hasty) as client:
        await client.until_started()
        await client.ok("SELECT 1")  # the first statement takes longer to be read, which counts as waiting
        yield client


@pytest.fixture
async def hasty_http(hasty: GatewayProcess, hasty_control: GatewayClient) -> AsyncIterator[aiohttp.ClientSession]:
    async with rest_http(hasty) as session:
        yield session
        await close_all(session, hasty_control)


async def close_all(http: aiohttp.ClientSession, control: GatewayClient) -> None:
    for seen in (await clients(control))["sessions"]:
        await call(http, "DELETE", f"/v4/sessions/{seen['handle']}")
    await until_nothing_is_left(control)


async def clients(control: GatewayClient) -> Any:
    async with control.http.get(f"{API}/clients") as response:
        return await response.json()


async def until_nothing_is_left(control: GatewayClient) -> None:
    deadline = asyncio.get_running_loop().time() + 90
    while True:
        info, seen = await control.info(), await clients(control)
        left = (info.client_sessions, info.client_pending, info.client_running, len(seen["operations"]))
        if left == (0, 0, 0, 0):
            return
        assert asyncio.get_running_loop().time() < deadline, f"{left} are left: {seen}"
        await asyncio.sleep(0.1)


async def gauge(control: GatewayClient, name: str) -> float:
    async with control.http.get("/metrics") as response:
        lines = (await response.text()).splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"sparksql_gateway_{name}"))


async def test_two_sessions_do_not_see_each_others_settings_and_views(http: aiohttp.ClientSession) -> None:
    one, other = await open_rest(http), await open_rest(http)
    await one.rows("SET spark.sql.shuffle.partitions=9")
    await one.rows("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")
    assert await one.rows("SET spark.sql.shuffle.partitions") == [["spark.sql.shuffle.partitions", "9"]]
    assert await other.rows("SET spark.sql.shuffle.partitions") == [["spark.sql.shuffle.partitions", "3"]]
    assert "TABLE_OR_VIEW_NOT_FOUND" in await other.error("SELECT * FROM mine")


async def test_a_session_sees_tables_and_on_request_the_temporary_views(
    http: aiohttp.ClientSession, control: GatewayClient
) -> None:
    await control.ok("CREATE TABLE IF NOT EXISTS common USING parquet AS SELECT 5 AS five")
    plain = await open_rest(http)
    sharing = await open_rest(http, **{f"{PREFIX}session.share-views": "true"})
    assert await plain.rows("SELECT * FROM common") == [[5]]
    assert "TABLE_OR_VIEW_NOT_FOUND" in await plain.error("SELECT * FROM shared")
    assert await sharing.rows("SELECT * FROM shared") == [[7]]


async def test_properties_are_set_in_spark_and_refused_by_the_policy(http: aiohttp.ClientSession) -> None:
    session = await open_rest(http, **{"spark.sql.shuffle.partitions": "5"})
    assert await session.rows("SET spark.sql.shuffle.partitions") == [["spark.sql.shuffle.partitions", "5"]]
    status, body = await call(http, "POST", "/v4/sessions", {"properties": {"spark.jars": "x.jar"}})
    assert status != 200 and "spark.jars" in str(body)


async def test_statement_conf_stays_with_the_statement_and_denied_keys_are_refused(http: aiohttp.ClientSession) -> None:
    session = await open_rest(http)
    key = "spark.sql.shuffle.partitions"
    assert await session.rows(f"SET {key}", **{key: "11", "table.dml-sync": "true"}) == [[key, "11"]]
    assert await session.rows(f"SET {key}") == [[key, "3"]]
    assert "is never allowed" in await session.error("SELECT 1", **{"spark.jars": "x"})


async def test_statements_of_one_session_run_one_by_one_and_submitting_never_waits(
    http: aiohttp.ClientSession,
) -> None:
    session = await open_rest(http)
    long = await session.submit(LONG)
    await session.until(long, "RUNNING")
    waiting = await session.submit("SELECT 1")  # it would wait for ever
    assert await session.until(waiting, "PENDING") == "PENDING"
    other = await open_rest(http)
    assert await other.rows("SELECT 2") == [[2]], "another session has a slot of its own"
    assert (await session.cancel(long))[0] == 200
    await session.until(long, "CANCELED")
    await session.until(waiting, "FINISHED")


async def test_an_ended_operation_cannot_be_cancelled_and_a_cancelled_one_has_no_result(
    http: aiohttp.ClientSession,
) -> None:
    session = await open_rest(http)
    ended = await session.submit("SELECT 1")
    await session.until(ended, "FINISHED")
    status, body = await session.cancel(ended)
    assert status >= 400 and "FINISHED" in str(body)
    running = await session.submit(LONG)
    await session.until(running, "RUNNING")
    await session.cancel(running)
    await session.until(running, "CANCELED")
    status, body = await session.page(running, 0)
    assert status == 500 and "CANCELED" in str(body)


async def test_an_execution_timeout_ends_in_timeout_and_the_limit_holds_without_one(
    http: aiohttp.ClientSession,
) -> None:
    session = await open_rest(http)
    assert await session.until(await session.submit(LONG, timeout_ms=700), "TIMEOUT") == "TIMEOUT"
    assert await session.rows("SELECT 1") == [[1]]


@pytest.mark.thorough
async def test_a_statement_queued_longer_than_allowed_times_out(hasty_http: aiohttp.ClientSession) -> None:
    session = await open_rest(hasty_http)
    await session.until(await session.submit(LONG), "RUNNING")
    waiting = await session.submit("SELECT 1")
    assert await session.until(waiting, "TIMEOUT") == "TIMEOUT"
    status, body = await session.page(waiting, 0)
    assert status == 500 and "waited for its turn" in str(body)


async def test_more_statements_than_may_wait_are_refused(http: aiohttp.ClientSession) -> None:
    session = await open_rest(http)
    answers = [await session.try_submit(LONG) for _ in range(5)]
    refused = [body for status, body in answers if status != 200]
    assert refused and all("wait" in str(body) for body in refused), answers


async def test_more_sessions_than_the_limit_are_refused_until_one_is_closed(
    http: aiohttp.ClientSession, control: GatewayClient
) -> None:
    sessions = [await open_rest(http) for _ in range(4)]
    status, body = await call(http, "POST", "/v4/sessions", {})
    assert status != 200 and "4 sessions" in str(body)
    assert await gauge(control, "client_sessions{") == 4
    assert await gauge(control, "client_sessions_refused_total") >= 1
    await sessions[0].close()
    await open_rest(http)


@pytest.mark.thorough
async def test_an_idle_session_expires_and_one_in_use_does_not(
    hasty_http: aiohttp.ClientSession, hasty_control: GatewayClient
) -> None:
    http, control = hasty_http, hasty_control
    busy = await open_rest(http)
    await busy.submit(LONG)
    idle, kept = await open_rest(http), await open_rest(http)
    deadline = asyncio.get_running_loop().time() + 90
    while idle.handle in {seen["handle"] for seen in (await clients(control))["sessions"]}:
        assert asyncio.get_running_loop().time() < deadline, "the idle session does not expire"
        assert (await call(http, "POST", f"{kept.path}/heartbeat"))[0] == 200
        await asyncio.sleep(0.3)
    left = {seen["handle"] for seen in (await clients(control))["sessions"]}
    assert {kept.handle, busy.handle} <= left
    status, body = await idle.try_submit("SELECT 1")
    assert status != 200 and "does not exist" in str(body)
    assert await gauge(control, "client_sessions_expired_total") >= 1


async def test_an_operation_that_is_never_closed_expires(
    hasty_http: aiohttp.ClientSession, hasty_control: GatewayClient
) -> None:
    http = hasty_http
    session = await open_rest(http)
    operation = await session.submit("SELECT id, repeat(uuid(), 10) AS text FROM range(3000)")
    await session.until(operation, "FINISHED")
    deadline = asyncio.get_running_loop().time() + 90
    while await gauge(hasty_control, "client_result_bytes ") > 0:  # a look at the operation would be a use of it
        assert asyncio.get_running_loop().time() < deadline, "the operation does not expire"
        assert (await call(http, "POST", f"{session.path}/heartbeat"))[0] == 200
        await asyncio.sleep(0.3)
    status, body = await call(http, "GET", f"{session.path}/operations/{operation}/status")
    assert status != 200 and operation in str(body)


async def test_a_query_over_a_stream_that_nobody_fetches_is_closed(
    hasty_http: aiohttp.ClientSession, hasty_control: GatewayClient
) -> None:
    session = await open_rest(hasty_http)
    await session.rows("CREATE TABLE unread (v INT) USING parquet")
    operation = await session.submit("SELECT v FROM STREAM unread")
    status, body = await session.page(operation, 0)
    assert (status, body["resultType"]) == (200, "PAYLOAD"), body
    deadline = asyncio.get_running_loop().time() + 90
    while (await clients(hasty_control))["operations"]:
        assert asyncio.get_running_loop().time() < deadline, "the query goes on"
        assert (await call(hasty_http, "POST", f"{session.path}/heartbeat"))[0] == 200
        await asyncio.sleep(0.5)

    status, body = await session.page(operation, 1)
    assert status != 200 and operation in str(body), body


async def test_a_session_keeps_no_more_operations_than_the_limit(http: aiohttp.ClientSession) -> None:
    session = await open_rest(http)
    operations = []
    for _ in range(5):
        operations.append(await session.submit("SELECT 1"))
        await session.until(operations[-1], "FINISHED")
    status, body = await session.try_submit("SELECT 1")
    assert status != 200 and "5 operations" in str(body)
    await session.close_operation(operations[0])
    assert (await session.try_submit("SELECT 1"))[0] == 200


@pytest.mark.thorough
async def test_results_that_are_too_large_together_are_refused_and_closing_makes_room(
    http: aiohttp.ClientSession, control: GatewayClient
) -> None:
    session = await open_rest(http)
    wide = "SELECT id, repeat(uuid(), 10) AS text FROM range(3000)"
    first = await session.submit(wide)
    await session.until(first, "FINISHED")
    assert await gauge(control, "client_result_bytes ") > 1_000_000
    assert "ResultTooLarge" in await session.error(wide) or "bytes" in await session.error(wide)
    await session.close_operation(first)
    again = await session.submit(wide)
    assert await session.until(again, "FINISHED") == "FINISHED"


async def test_a_session_that_is_closed_leaves_nothing(http: aiohttp.ClientSession, control: GatewayClient) -> None:
    session = await open_rest(http, name="passing")
    running, waiting = await session.submit(LONG), await session.submit("SELECT 1")
    await session.until(running, "RUNNING")
    seen = await clients(control)
    assert [shown["name"] for shown in seen["sessions"] if shown["handle"] == session.handle] == ["passing"]
    assert {shown["operationId"] for shown in seen["operations"]} >= {running, waiting}
    assert (await session.close())[0] == 200
    await until_nothing_is_left(control)
    assert await gauge(control, "client_result_bytes ") == 0
    assert (await session.close())[0] != 200


async def test_the_control_api_cancels_a_clients_statement(http: aiohttp.ClientSession, control: GatewayClient) -> None:
    session = await open_rest(http)
    running = await session.submit(LONG)
    await session.until(running, "RUNNING")
    await control.cancel(running)
    await session.until(running, "CANCELED")


async def test_clients_statements_are_in_no_event_but_in_the_counts(
    http: aiohttp.ClientSession, control: GatewayClient
) -> None:
    session = await open_rest(http)
    await session.rows("SELECT 1")
    view = await control.ok("SELECT 2")
    async with control.events() as events:
        async for event in events:
            if event.operation is not None:
                assert event.operation.protocol is None
                if event.operation.operation_id == view.operation_id:
                    break
    assert (await control.info()).client_sessions == 1
