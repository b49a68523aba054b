"""A driver that dies after a batch is in the table and before Spark has noted so: the batch runs again, and is not there twice.

What such a death leaves is a checkpoint that has planned a batch, and has no commit of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparksql.api.execution import OutputMode, Upsert
from sparksql.gateway.streaming.checkpoints.fence import SUFFIX, TAKEN_OVER, WriterRecord
from sparksql.gateway.streaming.sinks import SINK_LOG
from sparksql.wire.control import OperationView
from tests.support.process import GatewayProcess
from tests.support.thorough import thorough_but

from ..streams import Streams

HISTORY = {
    "iceberg": "SELECT snapshot_id FROM lake.$.dst.snapshots ORDER BY committed_at",
    "delta": "DESCRIBE HISTORY $.dst",
}
TABLES = {"iceberg": "lake.$.dst", "delta": "$.dst", "parquet": "$.dst"}
ROWS = "SELECT id, name FROM STREAM $.src"
UPSERT = Upsert(keys=("id",))


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


class Crashing:
    """A stream into `dst` whose last commit can be forgotten."""

    def __init__(self, streams: Streams, format_: str) -> None:
        self.streams = streams
        self.format = format_
        self.dst = TABLES.get(format_, "$.dst")

    async def make(self) -> None:
        await self.streams.ok(f"CREATE TABLE {self.dst} (id INT, name STRING) USING {self.format}")

    async def write(self, values: str) -> None:
        await self.streams.ok(f"INSERT INTO $.src SELECT *, NULL FROM VALUES {values}")

    async def read(self, upsert: Upsert | None = None, query: str = ROWS) -> int:
        """Runs the stream over what is there; answers the number of the last batch."""
        more: dict[str, Any] = {"upsert": upsert, "output_mode": OutputMode.UPDATE} if upsert else {}
        view: OperationView = await self.streams.drained(f"INSERT INTO {self.dst} {query}", **more)
        assert view.progress is not None and view.progress.stream is not None, view
        assert view.progress.stream.committed_batch_id is not None, view
        return view.progress.stream.committed_batch_id

    def crash(self, batch: int) -> None:
        """Leaves the checkpoint as if the driver had died before the commit of its last batch."""
        forget(self.streams.folder / "c" / "commits", batch)

    @property
    def log(self) -> Path:
        """The sink's log of a table of files."""
        return self.streams.client.gateway.folder / "warehouse" / f"{self.streams.database}.db" / "dst" / SINK_LOG

    async def commits(self) -> int:
        """Number of the target's snapshots, or versions."""
        return len(await self.streams.rows(HISTORY[self.format]))

    async def rows(self) -> list[tuple[object, ...]]:
        return await self.streams.rows(f"SELECT id, name FROM {self.dst} ORDER BY id, name")


def forget(log: Path, batch: int) -> None:
    """Takes the last batch out of one of Spark's logs."""
    assert max(int(each.name) for each in log.glob("[0-9]*")) == batch
    (log / str(batch)).unlink()
    (log / f".{batch}.crc").unlink(missing_ok=True)


async def crashing(streams: Streams, format_: str) -> Crashing:
    made = Crashing(streams, format_)
    await made.make()
    return made


AGGREGATES = "SELECT id, max(name) AS name FROM STREAM $.src GROUP BY id"
MERGED = [(format_, query) for format_ in ("iceberg", "delta") for query in (ROWS, AGGREGATES)]


@pytest.mark.parametrize(("format_", "query"), thorough_but([("iceberg", AGGREGATES)], MERGED))
async def test_a_batch_is_not_merged_a_second_time(streams: Streams, format_: str, query: str) -> None:
    merging = await crashing(streams, format_)
    assert await merging.read(UPSERT, query) == 0
    await merging.write("(2, 'changed'), (3, 'c')")
    assert await merging.read(UPSERT, query) == 1
    merging.crash(1)
    # What another writer has done since would be undone by a second merge: the rows tell, too.
    await streams.ok(f"UPDATE {merging.dst} SET name = 'by hand' WHERE id = 3")
    before = await merging.commits()
    assert await merging.read(UPSERT, query) == 1
    assert await merging.commits() == before
    assert await merging.rows() == [(1, "a"), (2, "changed"), (3, "by hand")]
    await merging.write("(3, 'later'), (4, 'd')")
    assert await merging.read(UPSERT, query) == 2
    assert await merging.commits() == before + 1
    assert await merging.rows() == [(1, "a"), (2, "changed"), (3, "later"), (4, "d")]


@pytest.mark.parametrize("format_", thorough_but(["iceberg"], ["iceberg", "delta"]))
async def test_a_batch_that_was_planned_and_not_merged_is_merged(streams: Streams, format_: str) -> None:
    merging = await crashing(streams, format_)
    assert await merging.read(UPSERT) == 0
    await merging.write("(3, 'c'), (3, 'd')")
    failed = await streams.run(f"INSERT INTO {merging.dst} {ROWS}", upsert=UPSERT, output_mode=OutputMode.UPDATE)
    assert failed.error is not None and "add orderBy" in failed.error.message, failed
    before = await merging.commits()
    assert await merging.read(Upsert(keys=("id",), order_by="name")) == 1
    assert await merging.commits() == before + 1
    assert await merging.rows() == [(1, "a"), (2, "b"), (3, "d")]


@pytest.mark.parametrize("format_", thorough_but(["iceberg"], ["iceberg", "delta", "parquet"]))
async def test_a_batch_is_not_appended_a_second_time(streams: Streams, format_: str) -> None:
    appending = await crashing(streams, format_)
    assert await appending.read() == 0
    await appending.write("(3, 'c')")
    assert await appending.read() == 1
    appending.crash(1)
    assert await appending.read() == 1
    assert await appending.rows() == [(1, "a"), (2, "b"), (3, "c")]
    await appending.write("(3, 'c'), (4, 'd')")
    assert await appending.read() == 2
    assert await appending.rows() == [(1, "a"), (2, "b"), (3, "c"), (3, "c"), (4, "d")]


FILES = ["parquet", "orc", "json", "csv OPTIONS ('header' = 'true')", "avro", "parquet PARTITIONED BY (name)"]


@pytest.mark.parametrize("format_", thorough_but(["parquet PARTITIONED BY (name)"], FILES))
async def test_a_first_batch_comes_once_whenever_the_driver_died(streams: Streams, format_: str) -> None:
    """Before the first commit nothing but our own mark tells that the log in the table is this stream's."""
    appending = await crashing(streams, format_)
    insert = f"INSERT INTO {appending.dst} {ROWS}"
    assert await appending.read() == 0
    appending.crash(0)  # the batch is in the table
    assert await appending.read() == 0
    assert await appending.rows() == [(1, "a"), (2, "b")]

    appending.crash(0)
    forget(appending.log, 0)  # its files are written, and are not in the log
    assert await appending.rows() == []
    for problem in (
        await streams.client.run(f"INSERT INTO {streams.database}.dst VALUES (9, 'batch')"),
        await streams.run(insert, "another"),
    ):
        assert problem.error is not None and "TRUNCATE TABLE" in problem.error.message, problem
    assert await appending.read() == 0
    assert await appending.rows() == [(1, "a"), (2, "b")]

    appending.crash(0)
    forget(appending.log, 0)
    forget(streams.folder / "c" / "offsets", 0)  # it was not even planned
    assert await appending.read() == 0
    await appending.write("(3, 'c')")
    assert await appending.read() == 1
    assert await appending.rows() == [(1, "a"), (2, "b"), (3, "c")]
    other = await streams.run(insert, "another")
    assert other.error is not None and "another stream has written" in other.error.message, other


async def test_a_table_begun_by_a_lost_stream_takes_batch_inserts_once_truncated(streams: Streams) -> None:
    appending = await crashing(streams, "parquet")
    assert await appending.read() == 0
    appending.crash(0)
    forget(appending.log, 0)
    await streams.ok(f"TRUNCATE TABLE {appending.dst}", f"INSERT INTO {appending.dst} VALUES (9, 'batch')")
    assert await appending.rows() == [(9, "batch")]
    late = await streams.run(f"INSERT INTO {appending.dst} {ROWS}")
    assert late.error is not None and "rows that no stream has written" in late.error.message, late
    assert await appending.rows() == [(9, "batch")]


async def test_a_first_batch_that_fails_says_why_each_time_and_spoils_nothing(streams: Streams) -> None:
    appending = await crashing(streams, "parquet")
    # Each row fails, so that no task has written a file: those of a batch that is cut off stay, and the log with them.
    failing = f"INSERT INTO {appending.dst} SELECT CAST(10 DIV (id - id) AS INT), name FROM STREAM $.src"
    for _ in range(2):
        failed = await streams.run(failing)
        assert failed.error is not None and failed.error.condition == "DIVIDE_BY_ZERO", failed
    assert not appending.log.exists()
    assert [each.name for each in appending.log.parent.iterdir() if not each.name.startswith(".")] == []
    await streams.ok(f"INSERT INTO {appending.dst} VALUES (9, 'batch')")
    assert await appending.rows() == [(9, "batch")]


async def test_a_stream_whose_table_another_one_has_taken_meanwhile_stays_out(streams: Streams) -> None:
    """Its first batch was planned and failed; the number is another stream's now."""
    appending = await crashing(streams, "parquet")
    failed = await streams.run(
        # Each row fails: a task that ends before the other fails may leave a file, and the log is then not given up.
        f"INSERT INTO {appending.dst} SELECT CAST(10 DIV (id % 1) AS INT), name FROM STREAM $.src",
        "slow",
    )
    assert failed.error is not None and failed.error.condition == "DIVIDE_BY_ZERO", failed
    assert await appending.read() == 0
    late = await streams.run(f"INSERT INTO {appending.dst} {ROWS}", "slow")
    assert late.error is not None and "another stream has written" in late.error.message, late
    assert await appending.rows() == [(1, "a"), (2, "b")]


async def test_a_driver_that_was_taken_for_lost_merges_no_more(streams: Streams) -> None:
    """The mark of the checkpoint is another's before the next batch comes."""
    merging = await crashing(streams, "iceberg")
    view = await streams.endless(f"INSERT INTO {merging.dst} {ROWS}", upsert=UPSERT, output_mode=OutputMode.UPDATE)
    await streams.committed(view, 0)
    (streams.folder / f".c{SUFFIX}.crc").unlink()  # Hadoop's, of the mark that is replaced
    (streams.folder / f"c{SUFFIX}").write_text(WriterRecord("another-boot", "another-operation").to_json())
    await merging.write("(3, 'c')")
    ended = await streams.client.end(view)
    assert ended.error is not None and ended.error.message == TAKEN_OVER, ended
    assert await merging.rows() == [(1, "a"), (2, "b")]
