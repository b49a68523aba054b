"""Two drivers and one checkpoint: the first stops before the second starts, and no row is lost or doubled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sparksql.gateway.streaming.checkpoints.fence import SUFFIX, TAKEN_OVER, WriterRecord
from sparksql.wire.control import OperationState, OperationView
from tests.support.process import GatewayProcess

from ..client import connect
from ..streams import Streams

SQL = "INSERT INTO $.dst SELECT id FROM STREAM $.src"


async def tables(streams: Streams) -> None:
    folder = streams.folder.as_uri()
    for table in ("src", "dst"):
        await streams.ok(f"CREATE TABLE $.{table} (id INT) USING parquet LOCATION '{folder}/{table}'")


@pytest.fixture
async def first(streams: Streams) -> Streams:
    await streams.ok("DROP TABLE $.src")
    await tables(streams)
    return streams


@pytest.fixture
async def second(own_gateway: Callable[..., GatewayProcess], first: Streams) -> AsyncIterator[Streams]:
    """The same tables in another driver."""
    async with connect(own_gateway()) as client:
        await client.until_started()
        await client.ok(f"CREATE DATABASE {first.database}")
        made = Streams(client, first.folder, first.database)
        await tables(made)
        yield made


def mark_of(folder: Path, checkpoint: str = "c") -> Path:
    return folder / f"{checkpoint}{SUFFIX}"


def waits(streams: Streams) -> int:
    """How often the driver has waited for another one, by its log; for how long is decided by a clock in `tests/unit`."""
    log = (streams.client.gateway.folder / "log").read_text(errors="replace")
    return log.count("waits for a driver that may still write the checkpoint")


def message_of(view: OperationView) -> str:
    assert view.error is not None, view
    return view.error.message


@pytest.mark.thorough
async def test_the_driver_that_may_still_run_stops_before_the_next_one_starts(first: Streams, second: Streams) -> None:
    await first.ok("INSERT INTO $.src VALUES (1), (2)")
    old = await first.committed(await first.endless(SQL), 0)
    new = await second.put(
        SQL, trigger="Interval", interval_millis=100, unconfirmed=(first.client.boot_id, "another-boot")
    )
    await second.ok("INSERT INTO $.src VALUES (3), (4)")
    ended = await first.client.end(old)
    assert (ended.state, message_of(ended)) == (OperationState.ERROR, TAKEN_OVER)
    going = await second.client.until_state(new.operation_id, OperationState.RUNNING)
    assert ended.completion_time is not None and going.start_time is not None
    assert ended.completion_time < going.start_time
    assert waits(second) == 1
    await second.ok("INSERT INTO $.src VALUES (5)")
    async with asyncio.timeout(300):  # either driver may have written the rows before
        while (5,) not in await second.rows("SELECT id FROM $.dst"):
            await second.ok("REFRESH TABLE $.dst")
    await second.stop(going)
    await second.ok("REFRESH TABLE $.dst")
    assert await second.rows("SELECT id FROM $.dst ORDER BY id") == [(n,) for n in (1, 2, 3, 4, 5)]
    assert not mark_of(first.folder).exists()


async def test_a_driver_that_is_known_to_be_over_is_not_waited_for(first: Streams) -> None:
    await first.ok("INSERT INTO $.src VALUES (1)")
    mark_of(first.folder).write_text(WriterRecord("a-boot-that-crashed", "its-operation").to_json())
    before = waits(first)
    await first.drained(SQL, unconfirmed=("another-boot",))
    assert waits(first) == before
    assert not mark_of(first.folder).exists()
