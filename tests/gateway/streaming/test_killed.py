"""A driver that is killed while a stream is at its first batch, or while a state is rewritten: the next one goes on, each row comes once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sparksql.gateway.streaming.sinks import MARK, SINK_LOG
from sparksql.wire.control import OperationState, OperationView, RestoreOptions
from tests.support.process import GatewayProcess

from ..client import GatewayClient, connect
from ..streams import Streams

# A batch that never ends: the join has no row for hours.
NEVER = "JOIN range(0, 100000000000, 1, 1) r ON sha2(CAST(r.id AS STRING), 512) < CAST(s.id AS STRING)"
TABLES = (
    "CREATE TABLE IF NOT EXISTS $.src (id INT) USING parquet LOCATION '@/src'",
    "CREATE TABLE IF NOT EXISTS $.dst (id INT) USING parquet LOCATION '@/dst'",
)
TABLES_OF_GROUPS = (
    "CREATE TABLE IF NOT EXISTS $.seen (k BIGINT, v BIGINT, ts TIMESTAMP) USING parquet LOCATION '@/seen'",
    "CREATE TABLE IF NOT EXISTS $.sums (k BIGINT, n BIGINT, m BIGINT) USING parquet LOCATION '@/sums'",
    "CREATE TABLE IF NOT EXISTS $.totals (k BIGINT, total BIGINT) USING parquet LOCATION '@/totals'",
)
GROUPS = 50_000  # so many that a kill finds them being written


async def streams_of(client: GatewayClient, folder: Path, tables: Sequence[str] = TABLES) -> Streams:
    """Tables in places that a driver leaves to the next one; their names are gone with it."""
    await client.until_started()
    await client.ok("CREATE DATABASE killed")
    made = Streams(client, folder, "killed")
    await made.ok(*(table.replace("@", folder.as_uri()) for table in tables))
    return made


async def until(condition: Callable[[], bool], what: str) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 120
    while not condition():
        assert loop.time() < deadline, f"not yet: {what}"
        await asyncio.sleep(0.05)


@pytest.mark.thorough
async def test_a_killed_first_batch_comes_again(own_gateway: Callable[..., GatewayProcess], tmp_path: Path) -> None:
    log = tmp_path / "dst" / SINK_LOG
    insert = "INSERT INTO $.dst SELECT s.id FROM STREAM $.src s"
    async with connect(own_gateway()) as client:
        streams = await streams_of(client, tmp_path)
        await streams.ok("INSERT INTO $.src VALUES (1), (2)")
        stuck = await streams.endless(f"{insert} {NEVER}")
        assert stuck.state is OperationState.RUNNING, stuck
        await until((tmp_path / "c" / "offsets" / "0").exists, "batch 0 is planned")
        client.gateway.process.kill()
        client.gateway.process.wait()
    assert log.is_dir() and list(log.glob("[0-9]*")) == []
    assert (log.parent / MARK).exists()

    async with connect(own_gateway()) as client:
        streams = await streams_of(client, tmp_path)
        batch = await client.run("INSERT INTO killed.dst VALUES (9)")
        assert batch.error is not None and "TRUNCATE TABLE" in batch.error.message, batch
        ended: OperationView = await streams.drained(insert)
        assert ended.progress is not None and ended.progress.stream is not None, ended
        assert await streams.rows("SELECT id FROM $.dst ORDER BY id") == [(1,), (2,)]
        client.gateway.process.kill()
        client.gateway.process.wait()

    async with connect(own_gateway()) as client:
        streams = await streams_of(client, tmp_path)
        await streams.ok("INSERT INTO $.src VALUES (3)")
        await streams.drained(insert)
        assert await streams.rows("SELECT id FROM $.dst ORDER BY id") == [(1,), (2,), (3,)]


async def test_a_stream_begins_whose_driver_died_as_it_wrote_down_its_first_batch(
    streams: Streams, tmp_path: Path
) -> None:
    """Spark's own start refuses the folder with the file that was never renamed."""
    await streams.ok("CREATE TABLE $.begun (id INT) USING parquet")
    offsets = tmp_path / "c" / "offsets"
    offsets.mkdir(parents=True)
    left = [offsets / name for name in (".0.0d9f0f0e-7c42-4f0e-9a53-0c9b9f7f0001.tmp", "0.crc")]
    for file in left:
        file.write_text("v1")
    ended = await streams.drained("INSERT INTO $.begun SELECT id FROM STREAM $.src")
    assert ended.state is OperationState.FINISHED, ended
    assert [file for file in left if file.exists()] == []


@pytest.mark.thorough
async def test_a_state_killed_while_it_is_made_anew_leaves_the_old_one_and_is_made_again(
    own_gateway: Callable[..., GatewayProcess], tmp_path: Path
) -> None:
    """Rewritten for one text, and for another computed from history: the kill finds both in the middle."""
    counting = (
        "INSERT INTO $.sums (k, n) SELECT k, count(*) FROM STREAM $.seen WATERMARK ts DELAY OF INTERVAL 1 SECOND "
        "GROUP BY k, window(ts, '1 hour')"
    )
    summing = counting.replace("(k, n)", "(k, n, m)").replace("count(*)", "count(*), max(v)")
    into_totals = counting.replace("sums (k, n)", "totals (k, total)")
    totals = into_totals.replace("count(*)", "sum(v)")
    stuck = totals.replace("1 SECOND ", f"1 SECOND s {NEVER.replace('s.id', 's.v')} ").replace(" k", " s.k")
    conf = {"spark.sql.shuffle.partitions": "2"}

    def of(place: str) -> dict[str, object]:
        return {
            "rewrites": True,
            "restore": RestoreOptions(location=(tmp_path / place).as_uri(), query_id="", rewrite=True),
        }

    rewritten, rebuilt = of("c"), {**of("d"), "rebuilds": True}

    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for old in "cd" for path in (tmp_path / old).rglob("*") if path.is_file()}

    async with connect(own_gateway()) as client:
        streams = await streams_of(client, tmp_path, TABLES_OF_GROUPS)
        # By one task, which reading history forever takes then as well: another one is free.
        await streams.ok(f"INSERT INTO $.seen SELECT id, 1, timestamp_seconds(1) FROM range(0, {GROUPS}, 1, 1)")
        await streams.drained(counting, "c", conf=conf)
        await streams.drained(into_totals, "d", conf=conf)
        before = files()
        computing = await streams.put(stuck, "computed", conf=conf, **rebuilt)
        await until((tmp_path / "computed/_rebuilt/offsets/0").exists, "history is being read")
        view = await streams.put(summing, "new", conf=conf, **rewritten)
        await until((tmp_path / "new/_rewritten").exists, "the new state is being written")
        client.gateway.process.kill()
        client.gateway.process.wait()
    assert (view.state, computing.state) == (OperationState.PENDING, OperationState.PENDING)
    assert not any((tmp_path / place / "metadata").exists() for place in ("new", "computed"))
    assert files() == before

    async with connect(own_gateway()) as client:
        streams = await streams_of(client, tmp_path, TABLES_OF_GROUPS)
        await streams.ok(
            f"INSERT INTO $.seen SELECT id, 2, timestamp_seconds(2) FROM range({GROUPS // 2})",
            "INSERT INTO $.seen VALUES (-1, 0, timestamp_seconds(9000))",
        )
        await streams.drained(summing, "new", conf=conf, **rewritten)
        await streams.drained(totals, "computed", conf=conf, **rebuilt)
        assert files() == before
        assert await streams.rows("SELECT count(*), sum(n), count(m), max(m) FROM $.sums") == [
            (GROUPS, GROUPS + GROUPS // 2, GROUPS // 2, 2)
        ]
        assert await streams.rows("SELECT count(*), sum(total), max(total) FROM $.totals") == [
            (GROUPS, GROUPS + GROUPS // 2 * 2, 3)
        ]
