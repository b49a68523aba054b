"""Tables of Iceberg and Delta that change while a stream of them is stopped, and while it runs.

Each row arrives once, or the stream is parked with the difference and what can be done.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparksql.gateway.streaming.continuity.snapshots import MOVED
from sparksql.wire.control import ErrorReason, OperationView
from sparksql.wire.failure.classify import classify
from sparksql.wire.failure.kind import FailureKind
from tests.support.process import GatewayProcess
from tests.support.thorough import thorough_but

from ..client import SECONDS
from ..streams import Streams

EXPIRE = "CALL lake.system.expire_snapshots(table => '{src}', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
ADDED = "INSERT INTO {table} SELECT id FROM range(20, 23)"


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


@dataclass(frozen=True)
class Change:
    """Statements that change a table, and what the refusal names: `{first}` is the first snapshot of an Iceberg table."""

    name: str
    format: str
    statements: tuple[str, ...]
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.format} {self.name}"


LOST, DIFFERENT = ("which the table no longer has",), ("DIFFERENT_DELTA_TABLE", "another Delta table")
OVERWRITE = "INSERT OVERWRITE {table} VALUES (-1)"
ICEBERG_OVERWRITE = ("overwrite) has changed or removed rows", "'streaming-skip-overwrite-snapshots' = 'true'")
ICEBERG_DELETE = ("delete) has changed or removed rows", "'streaming-skip-delete-snapshots' = 'true'")
STOPPED = [
    Change("overwrite", "iceberg", (OVERWRITE,), ICEBERG_OVERWRITE),
    Change("replace", "iceberg", ("CREATE OR REPLACE TABLE {table} USING iceberg AS SELECT 50L AS id",), LOST),
    Change("restore", "delta", ("RESTORE TABLE {table} TO VERSION AS OF 1",), ("ignoreDeletes",)),
    Change("overwrite", "delta", (OVERWRITE,), ("skipChangeCommits",)),
    Change("truncate", "iceberg", ("TRUNCATE TABLE {table}",), ICEBERG_DELETE),
    Change("delete", "iceberg", ("DELETE FROM {table} WHERE id >= 0",), ICEBERG_DELETE),
    Change("rollback", "iceberg", ("CALL lake.system.rollback_to_snapshot('{src}', {first})",), LOST),
    Change("expiry", "iceberg", (ADDED, EXPIRE), LOST),
    Change("new table", "iceberg", ("DROP TABLE {table}", "CREATE TABLE {table} (id BIGINT) USING iceberg"), LOST),
    Change("truncate", "delta", ("TRUNCATE TABLE {table}",), ("ignoreDeletes",)),
    Change("replace", "delta", ("CREATE OR REPLACE TABLE {table} USING delta AS SELECT 50L AS id",), DIFFERENT),
    Change("new table", "delta", ("DROP TABLE {table}", "CREATE TABLE {table} (id BIGINT) USING delta"), DIFFERENT),
]
# While it runs, a stream of Iceberg passes what is replaced or expires behind it, and looks at a new table of Delta once more.
RUNNING = [each for each in STOPPED if each.name not in ("expiry",) and str(each) != "delta new table"]


@dataclass
class Stream:
    """A stream of a table of `source`, of which it has read six rows in two commits."""

    streams: Streams
    source: str

    @property
    def table(self) -> str:
        return f"{'lake.' if self.source == 'iceberg' else ''}{self.streams.database}.changed"

    @property
    def insert(self) -> str:
        return f"INSERT INTO lake.$.dst SELECT id FROM STREAM {self.table}"

    async def make(self) -> None:
        await self.streams.ok(
            f"CREATE TABLE {self.table} (id BIGINT) USING {self.source}",
            "CREATE TABLE lake.$.dst (id BIGINT) USING iceberg",
            f"INSERT INTO {self.table} SELECT id FROM range(0, 3)",
            f"INSERT INTO {self.table} SELECT id FROM range(10, 13)",
        )

    async def change(self, change: Change) -> None:
        first = None
        if self.source == "iceberg":
            snapshots = f"{self.table}.snapshots"
            [(first,)] = await self.streams.rows(f"SELECT min_by(snapshot_id, committed_at) FROM {snapshots}")
        src = f"{self.streams.database}.changed"
        await self.streams.ok(*(each.format(table=self.table, src=src, first=first) for each in change.statements))

    async def ids(self) -> list[int]:
        return [row[0] for row in await self.streams.rows("SELECT id FROM lake.$.dst ORDER BY id")]

    async def has_read(self, rows: list[int]) -> None:
        """Waits until a stream that runs has written these rows."""
        async with asyncio.timeout(SECONDS):
            while await self.ids() != rows:
                await asyncio.sleep(0.2)


READ = [0, 1, 2, 10, 11, 12]


def parked(view: OperationView, change: Change) -> None:
    assert view.error is not None and view.error.reason is ErrorReason.SOURCE_LOST, view
    assert classify(view.error).kind is FailureKind.STATEMENT
    for each in (*change.names, "spec.runNonce", "restoreNonce"):
        assert each in f"{view.error.condition} {view.error.message}", view.error


@pytest.mark.parametrize("change", thorough_but([STOPPED[0], STOPPED[2]], STOPPED), ids=str)
async def test_stopped_stream_of_a_changed_table_is_parked(streams: Streams, change: Change) -> None:
    stream = Stream(streams, change.format)
    await stream.make()
    await streams.drained(stream.insert)
    await stream.change(change)
    parked(await streams.run(stream.insert), change)
    await streams.ok(ADDED.format(table=stream.table))
    parked(await streams.run(stream.insert), change)
    assert await stream.ids() == READ


@pytest.mark.parametrize("change", thorough_but(RUNNING[:1], RUNNING), ids=str)
async def test_running_stream_of_a_changed_table_is_parked(streams: Streams, change: Change) -> None:
    stream = Stream(streams, change.format)
    await stream.make()
    view = await streams.endless(stream.insert)
    await stream.has_read(READ)
    await stream.change(change)
    parked(await streams.client.end(view), change)
    assert await stream.ids() == READ


@pytest.mark.parametrize("how", ["expired", "replaced"])
async def test_rows_arrive_once_after_the_first_snapshot_of_a_stream_is_gone(streams: Streams, how: str) -> None:
    """Iceberg looks at where a stream began each time that the stream is to read what there is."""
    stream = Stream(streams, "iceberg")
    await stream.make()
    view = await streams.endless(stream.insert)
    await stream.has_read(READ)
    names = ()
    if how == "replaced":
        await stream.change(
            Change(how, "iceberg", ("CREATE OR REPLACE TABLE {table} (id BIGINT) USING iceberg",), names)
        )
        await streams.committed(view, 1)
    await streams.ok(ADDED.format(table=stream.table))
    await stream.has_read([*READ, 20, 21, 22])
    await streams.stop(view)
    if how == "expired":
        await stream.change(Change(how, "iceberg", (EXPIRE,), names))
    await streams.ok(f"INSERT INTO {stream.table} SELECT id FROM range(30, 33)")
    for _ in range(2):
        await streams.drained(stream.insert)
        assert await stream.ids() == [*READ, 20, 21, 22, 30, 31, 32]
    assert MOVED in began(streams.folder / "c")


def began(checkpoint: Path) -> str:
    """Where a stream of one Iceberg table began, as Iceberg keeps it."""
    return (checkpoint / "sources/0/offsets/0").read_text()
