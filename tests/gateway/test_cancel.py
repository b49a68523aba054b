"""Cancel and timeouts: they end what would run for hours, in every phase, and leave no job of the statement behind."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from sparksql.wire.control import ErrorReason, OperationState

from .client import GatewayClient

RUNNING = "SELECT count(*) FROM range(0, 100000000000, 1, 8) WHERE sha2(CAST(id AS STRING), 512) < '0'"
# Many joins: most of the first second goes into analysis, planning and code generation.
_TABLES = 9
PLANNING = (
    "SELECT count(*) FROM "
    + ", ".join(f"(SELECT id AS k{i}, id % 7 AS v{i} FROM range(1000)) t{i}" for i in range(_TABLES))
    + " WHERE "
    + " AND ".join(f"k{i} = k{i + 1} AND v{i} + v{(i + 3) % _TABLES} > -{i}" for i in range(_TABLES - 1))
)


PATIENCE_SECONDS = 60.0


async def running_groups(client: GatewayClient) -> set[str]:
    """Job groups with a running job, as Spark's own REST API tells."""
    application = (await client.info()).spark_application_id
    url = f"http://127.0.0.1:{client.gateway.ui_port}/api/v1/applications/{application}/jobs?status=running"
    async with aiohttp.ClientSession() as http, http.get(url) as response:
        assert response.status == 200, await response.text()
        return {job.get("jobGroup", "") for job in await response.json()}


@pytest.mark.parametrize("planning", [False, True], ids=["running", "planning"])
async def test_cancel_ends_a_statement_at_any_moment_and_leaves_no_job(client: GatewayClient, planning: bool) -> None:
    for round_ in range(12):
        view = await client.put(PLANNING if planning else RUNNING)
        await client.until_state(view.operation_id, OperationState.RUNNING)
        await asyncio.sleep(0.04 * round_)  # a different moment in each round
        answered = await client.cancel(view.operation_id)
        if answered.state is OperationState.FINISHED:
            assert planning, "it cannot have ended"
            continue
        async with asyncio.timeout(PATIENCE_SECONDS):
            while f"sparksql-{view.operation_id}" in await running_groups(client):
                await asyncio.sleep(0.05)
        ended = await client.end(view)
        assert ended.state is OperationState.CANCELED or planning, ended
        assert ended.error is None
        assert f"sparksql-{view.operation_id}" not in await running_groups(client), f"round {round_}"


async def test_a_cancelled_statement_has_stopped_its_tasks(client: GatewayClient) -> None:
    view = await client.put(RUNNING)
    await client.until(view.operation_id, lambda seen: bool(seen.progress and seen.progress.tasks_total))
    await client.cancel(view.operation_id)
    ended = await client.end(view)
    assert ended.state is OperationState.CANCELED
    # The cores are free: of tasks that went on, each would hold one for hours.
    assert await client.rows("SELECT count(*) FROM range(0, 1000, 1, 2)") == [(1000,)]
    assert ended == await client.get(view.operation_id)


async def test_cancel_while_queued_and_cancel_again(client: GatewayClient) -> None:
    running = [await client.put(RUNNING) for _ in range(4)]
    queued = await client.put("SELECT sum(id) FROM range(3)")
    assert queued.state is OperationState.PENDING
    ended = await client.cancel(queued.operation_id, OperationState.TIMED_OUT, "waited too long")
    assert ended.state is OperationState.TIMED_OUT
    assert ended.error is not None
    assert ended.error.message == "waited too long"
    for view in running:
        await client.cancel(view.operation_id, OperationState.CLOSED)
        await client.cancel(view.operation_id)  # the first wish holds
    for view in running:
        assert (await client.end(view)).state is OperationState.CLOSED
    assert (await client.cancel(queued.operation_id)).state is OperationState.TIMED_OUT


async def test_a_finished_statement_stays_finished(client: GatewayClient) -> None:
    view = await client.ok("SELECT 1")
    assert await client.cancel(view.operation_id) == view


async def test_an_execution_timeout_is_truthful(client: GatewayClient) -> None:
    view = await client.run(RUNNING, execution_seconds=1)
    assert view.state is OperationState.TIMED_OUT
    assert view.error is not None
    assert view.error.reason is ErrorReason.EXECUTION_TIMEOUT
    assert view.error.message == "the statement ran longer than 1 s"
    assert view.start_time is not None
    assert view.completion_time is not None


async def test_a_cancelled_script_runs_no_further_statement(client: GatewayClient) -> None:
    view = await client.put(
        f"CREATE TABLE reached (a INT) USING parquet; {RUNNING}; CREATE TABLE missed (a INT) USING parquet"
    )
    await client.until(view.operation_id, lambda seen: bool(seen.progress and seen.progress.statement_index == 2))
    await client.cancel(view.operation_id)
    assert (await client.end(view)).state is OperationState.CANCELED
    assert [row[1] for row in await client.rows("SHOW TABLES LIKE 'reached|missed'")] == ["reached"]


async def test_progress_is_told_while_a_statement_runs(client: GatewayClient) -> None:
    # So many tasks, of which each is soon done, that it does not end before its progress has been seen.
    view = await client.put("SELECT max(sha2(CAST(id AS STRING), 512)) FROM range(0, 20000000000, 1, 100000)")
    seen = await client.until(
        view.operation_id, lambda v: v.state.is_terminal or bool(v.progress and v.progress.tasks_done)
    )
    assert seen.state is OperationState.RUNNING, seen
    await client.cancel(view.operation_id)
    await client.end(view)
    ended = await client.ok("SELECT max(sha2(CAST(id AS STRING), 512)) FROM range(0, 12000, 1, 12)")
    assert ended.progress is not None
    assert ended.progress.tasks_done == ended.progress.tasks_total >= 12
    assert ended.progress.stages_done == ended.progress.stages_total >= 1
