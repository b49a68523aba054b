"""Writers of path-based tables: no row is lost, whatever way the table is named."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sparksql.wire.control import OperationState
from tests.support.process import GatewayProcess

from .client import GatewayClient

# Writes nothing, for hours, on one of the two cores: it holds its table until it is cancelled.
ENDLESS = (
    "SELECT id, CAST(id AS STRING) AS s FROM range(0, 100000000000, 1, 1) WHERE sha2(CAST(id AS STRING), 512) < '0'"
)


async def insert_all(client: GatewayClient, statements: list[str]) -> None:
    views = await asyncio.gather(*(client.put(sql) for sql in statements))
    ended = [await client.end(view, 300) for view in views]
    failed = [view for view in ended if view.state is not OperationState.FINISHED]
    assert not failed, failed[:3]


@pytest.mark.thorough
@pytest.mark.parametrize("source", ["parquet", "json"])
async def test_sixty_inserts_at_once_lose_nothing(client: GatewayClient, gateway: GatewayProcess, source: str) -> None:
    count = 60 if source == "parquet" else 12
    table = f"many_{source}"
    await client.ok(f"CREATE TABLE {table} (id INT, v STRING) USING {source}")
    await insert_all(client, [f"INSERT INTO {table} VALUES ({i}, 'v{i}')" for i in range(count)])
    assert await client.rows(f"SELECT count(*), count(DISTINCT id), sum(id) FROM {table}") == [
        (count, count, sum(range(count)))
    ]
    assert not list((gateway.folder / "warehouse" / table).glob("_temporary"))


async def test_concurrent_inserts_into_two_tables_on_one_location_lose_no_row(
    client: GatewayClient, tmp_path: Path
) -> None:
    await client.ok(f"CREATE TABLE placed (id INT) USING parquet LOCATION 'file://{tmp_path}/placed'")
    await client.ok(f"CREATE TABLE placed_too (id INT) USING parquet LOCATION '{tmp_path}/./placed/'")
    await client.ok("INSERT INTO placed VALUES (-1)")
    statements = [f"INSERT INTO placed VALUES ({i})" for i in range(6)]
    statements += [f"INSERT INTO placed_too VALUES ({i})" for i in range(6, 12)]
    statements += [f"WITH w AS (SELECT {i} AS id) INSERT INTO placed SELECT id FROM w" for i in range(12, 15)]
    statements += [
        f"FROM (SELECT {i} AS id) s INSERT INTO placed SELECT id INSERT INTO placed SELECT id + 100" for i in (15,)
    ]
    await insert_all(client, statements)
    ids = [row[0] for row in await client.rows("SELECT id FROM placed ORDER BY id")]
    assert ids == [-1, *range(16), 115]


async def test_writers_of_different_tables_do_not_wait_for_each_other(client: GatewayClient) -> None:
    for name in ("free_a", "free_b"):
        await client.ok(f"CREATE TABLE {name} (id BIGINT, s STRING) USING parquet")
    first = await client.put(f"INSERT INTO free_a {ENDLESS}")
    await client.until_state(first.operation_id, OperationState.RUNNING)
    second = await client.put("INSERT INTO free_a VALUES (-1, 'x')")
    await client.ok("INSERT INTO free_b VALUES (-1, 'x')")  # while the first one runs
    assert (await client.get(first.operation_id)).state is OperationState.RUNNING
    waiting = await client.get(second.operation_id)
    assert (waiting.state, waiting.start_time) == (OperationState.PENDING, None), "two writers of one table run at once"
    await client.cancel(first.operation_id)
    assert (await client.end(second)).state is OperationState.FINISHED


async def test_a_waiting_writer_can_be_cancelled(client: GatewayClient) -> None:
    await client.ok("CREATE TABLE waited (id BIGINT, s STRING) USING parquet")
    first = await client.put(f"INSERT INTO waited {ENDLESS}")
    await client.until_state(first.operation_id, OperationState.RUNNING)
    second = await client.put("INSERT INTO waited VALUES (-1, 'x')")
    await client.cancel(second.operation_id)
    assert (await client.end(second)).state is OperationState.CANCELED
    await client.cancel(first.operation_id)
    assert (await client.end(first)).state is OperationState.CANCELED
    await client.ok("INSERT INTO waited VALUES (1, 'after')")
    assert await client.rows("SELECT id FROM waited WHERE id < 2 AND s IN ('x', 'after')") == [(1,)]


async def test_a_statement_reads_what_another_has_just_written(client: GatewayClient) -> None:
    await client.ok("CREATE TABLE fresh (id INT) USING parquet")
    for i in range(5):
        assert await client.rows("SELECT count(*) FROM fresh") == [(i,)]
        await client.ok(f"INSERT INTO fresh VALUES ({i})")
    await client.ok("INSERT OVERWRITE fresh VALUES (7)")
    assert await client.rows("SELECT * FROM fresh") == [(7,)]
