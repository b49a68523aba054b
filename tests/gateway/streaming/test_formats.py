"""Tables of Iceberg and Delta as a STREAM and as its target: each row once, and a clear end where rows do not just come in."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sparksql.wire.control import OperationState, OperationView
from tests.support.process import GatewayProcess

from ..streams import Streams


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


@dataclass(frozen=True)
class Format:
    """A format of tables, and how it is asked. `changes` and `removals` are statements on `$.src` with what a stream of it says of
    them; `remade` is what it says of a table that was made anew."""

    name: str
    catalog: str
    changes: str
    removals: str
    remade: str
    compaction: str
    files: str

    def table(self, name: str) -> str:
        return f"{self.catalog}$.{name}"


ICEBERG = Format(
    name="iceberg",
    catalog="lake.",
    changes="streaming-skip-overwrite-snapshots",
    removals="streaming-skip-delete-snapshots",
    remade="which the table no longer has",
    compaction="CALL lake.system.rewrite_data_files(table => '$.src', options => map('rewrite-all', 'true'))",
    files="SELECT count(*) FROM lake.$.src.files",
)
EXPIRE = "CALL lake.system.expire_snapshots(table => '$.src', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
DELTA = Format(
    name="delta",
    catalog="",
    changes="skipChangeCommits",
    removals="ignoreDeletes",
    remade="DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
    compaction="OPTIMIZE $.src",
    files="SELECT count(DISTINCT _metadata.file_path) FROM $.src",
)


@dataclass
class Lake:
    """A table `src` of one format and a table `dst` of the other, with a stream from one into the other."""

    streams: Streams
    source: Format
    target: Format

    @property
    def src(self) -> str:
        return self.source.table("src")

    @property
    def dst(self) -> str:
        return self.target.table("dst")

    @property
    def insert(self) -> str:
        return f"INSERT INTO {self.dst} SELECT id, at FROM STREAM {self.src}"

    async def make(self, commits: int = 0) -> None:
        await self.streams.ok(
            "DROP TABLE $.src",
            f"CREATE TABLE {self.src} (id BIGINT, at TIMESTAMP) USING {self.source.name}",
            f"CREATE TABLE {self.dst} (id BIGINT, at TIMESTAMP) USING {self.target.name}",
        )
        for number in range(commits):
            await self.append(number)

    async def append(self, number: int) -> None:
        """A commit of the ten ids from ten times its number on, in two files."""
        ids = f"SELECT /*+ REPARTITION(2) */ id, timestamp_seconds(id) FROM range({10 * number}, {10 * number + 10})"
        await self.streams.ok(f"INSERT INTO {self.src} {ids}")

    async def ids(self) -> list[int]:
        return [row[0] for row in await self.streams.rows(f"SELECT id FROM {self.dst} ORDER BY id")]

    async def refused(self, says: str, sql: str = "") -> None:
        view = await self.streams.run(sql or self.insert)
        assert view.state is OperationState.ERROR and view.error is not None, view
        assert says in f"{view.error.condition} {view.error.message}", view.error


@pytest.fixture(params=[(ICEBERG, DELTA), (DELTA, ICEBERG)], ids=["iceberg to delta", "delta to iceberg"])
async def lake(streams: Streams, request: pytest.FixtureRequest) -> Lake:
    return Lake(streams, *request.param)


def from_one_source(source: Format, target: Format) -> pytest.MarkDecorator:
    """The other format as the source is a further draw."""
    other = pytest.param((target, source), id=f"{target.name} to {source.name}", marks=pytest.mark.thorough)
    kept = pytest.param((source, target), id=f"{source.name} to {target.name}")
    return pytest.mark.parametrize("lake", [kept, other], indirect=True)


def into_iceberg(kept: Format, other: Format) -> pytest.MarkDecorator:
    """For what the source alone decides, into the target that takes less time. The other source is a further draw."""
    draws = [
        pytest.param((kept, ICEBERG), id=f"{kept.name} to iceberg"),
        pytest.param((other, ICEBERG), id=f"{other.name} to iceberg", marks=pytest.mark.thorough),
    ]
    return pytest.mark.parametrize("lake", draws, indirect=True)


def committed(view: OperationView) -> int:
    """Number of the last batch."""
    assert view.progress is not None and view.progress.stream is not None, view
    assert view.progress.stream.committed_batch_id is not None, view
    return view.progress.stream.committed_batch_id


@from_one_source(DELTA, ICEBERG)
async def test_each_row_comes_once_across_stops_and_resumes(lake: Lake) -> None:
    await lake.make(commits=2)
    first = await lake.streams.endless(lake.insert, max_files_per_trigger=1)
    await lake.streams.committed(first, 1)
    stopped = await lake.streams.stop(first)  # wherever it is in what there is to read
    assert stopped.state is OperationState.CANCELED, stopped
    assert await lake.ids() == sorted(set(await lake.ids()))
    await lake.append(2)
    second = await lake.streams.endless(lake.insert)
    await lake.streams.committed(second, committed(stopped) + 1)
    await lake.append(3)
    await lake.streams.stop(second)
    await lake.streams.drained(lake.insert)
    assert await lake.ids() == list(range(40))


@pytest.mark.thorough
@from_one_source(ICEBERG, DELTA)
async def test_a_limit_makes_several_batches(lake: Lake) -> None:
    await lake.make(commits=3)
    [(files,)] = await lake.streams.rows(lake.source.files)
    assert files == 6
    view = await lake.streams.drained(lake.insert, max_files_per_trigger=1)
    assert committed(view) == files - 1
    assert await lake.ids() == list(range(30))
    await lake.streams.ok(f"DELETE FROM {lake.dst}")
    # Of whole files, here of five rows, Iceberg takes the one that reaches the limit, and of Delta that is left if it passes it.
    by_rows = await lake.streams.drained(lake.insert, "rows", max_rows_per_trigger=6 if lake.source is ICEBERG else 12)
    assert committed(by_rows) == files // 2 - 1
    assert await lake.ids() == list(range(30))


@pytest.mark.parametrize("provider", ["parquet", pytest.param("json", marks=pytest.mark.thorough)])
async def test_batches_of_a_table_of_files_have_so_many_rows(streams: Streams, provider: str) -> None:
    """Or one file. Begun with one limit, gone on with another, and then with none."""
    insert = "INSERT INTO $.dst SELECT {} id FROM STREAM $.files"
    rows = "SELECT id FROM $.dst ORDER BY id"
    await streams.ok(
        f"CREATE TABLE $.files (id BIGINT) USING {provider}",
        "CREATE TABLE $.dst (id BIGINT) USING parquet",
        "INSERT INTO $.files SELECT id FROM range(0, 20, 1, 4)",
    )
    first = await streams.endless(insert.format(""), interval_millis=3_600_000, max_rows_per_trigger=12)
    await streams.committed(first, 0)
    stopped = await streams.stop(first)
    found = await streams.rows(rows)
    assert committed(stopped) == 0 and len(found) == 10, found
    await streams.ok("INSERT INTO $.files SELECT id FROM range(20, 29, 1, 1)")
    second = await streams.drained(insert.format("/*+ MINI_BATCH(rows(7)) */"))
    assert committed(second) == 3
    await streams.drained(insert.format("/*+ MINI_BATCH(rows(7)) */"))  # nothing new
    assert await streams.rows(rows) == [(number,) for number in range(29)]
    await streams.ok("INSERT INTO $.files SELECT /*+ REPARTITION(2) */ id FROM range(29, 35)")
    assert committed(await streams.drained(insert.format(""))) == 4
    assert await streams.rows(rows) == [(number,) for number in range(35)]


async def test_a_limit_of_rows_is_refused_beside_one_of_bytes(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.dst (id INT) USING parquet")
    insert = "INSERT INTO $.dst SELECT id FROM STREAM $.src WITH ('maxBytesPerTrigger' = '1')"
    view = await streams.run(insert, max_rows_per_trigger=1)
    assert view.error is not None and "maxBytesPerTrigger" in view.error.message, view


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        pytest.param("UPDATE {} SET at = NULL WHERE id = 3", "changes", marks=pytest.mark.thorough),
        pytest.param("INSERT OVERWRITE {} SELECT 100, NULL", "changes", marks=pytest.mark.thorough),
        ("DELETE FROM {} WHERE id >= 0", "removals"),
    ],
    ids=["update", "overwrite", "delete"],
)
async def test_a_source_commit_that_is_no_append_ends_the_stream_unless_skipped_by_option(
    lake: Lake, sql: str, kind: str
) -> None:
    await lake.make(commits=1)
    await lake.streams.drained(lake.insert)
    await lake.streams.ok(sql.format(lake.src))
    await lake.append(2)
    option = getattr(lake.source, kind)
    for _ in range(2):
        await lake.refused(option)
        assert await lake.ids() == list(range(10))
    await lake.streams.drained(f"{lake.insert} WITH ('{option}' = 'true')")
    assert await lake.ids() == [*range(10), *range(20, 30)]


@from_one_source(DELTA, ICEBERG)
async def test_rows_that_move_to_other_files_are_not_read_again(lake: Lake) -> None:
    await lake.make(commits=2)
    await lake.streams.drained(lake.insert)
    await lake.streams.ok(lake.source.compaction)
    [(files,)] = await lake.streams.rows(lake.source.files)
    assert files == 1
    await lake.append(2)
    await lake.streams.drained(lake.insert)
    assert await lake.ids() == list(range(30))


@into_iceberg(ICEBERG, DELTA)
async def test_a_table_made_anew_is_not_taken_for_the_old_one(lake: Lake) -> None:
    await lake.make(commits=1)
    await lake.streams.drained(lake.insert)
    await lake.streams.ok(
        f"DROP TABLE {lake.src}", f"CREATE TABLE {lake.src} (id BIGINT, at TIMESTAMP) USING {lake.source.name}"
    )
    for number in (1, 2):  # more commits than the stream has read of the old one
        await lake.append(number)
    await lake.refused(lake.source.remade)
    assert await lake.ids() == list(range(10))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            "CREATE OR REPLACE TABLE lake.$.src (id BIGINT, at TIMESTAMP) USING iceberg",
            id="emptied",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "CREATE OR REPLACE TABLE lake.$.src USING iceberg AS SELECT id, timestamp_seconds(id) AS at FROM range(50, 60)",
            id="replaced",
        ),
        pytest.param(
            "CALL lake.system.rollback_to_snapshot('$.src', {first})", id="rolled back", marks=pytest.mark.thorough
        ),
    ],
)
async def test_a_line_of_snapshots_that_was_cut_off_is_told(streams: Streams, change: str) -> None:
    lake = Lake(streams, ICEBERG, ICEBERG)
    await lake.make(commits=2)
    await streams.drained(lake.insert)
    [(first,)] = await streams.rows("SELECT min_by(snapshot_id, committed_at) FROM lake.$.src.snapshots")
    await streams.ok(change.format(first=first))
    await lake.refused("which the table no longer has")
    await lake.append(4)
    await lake.refused("another spec.runNonce")
    assert await lake.ids() == list(range(20))


async def test_iceberg_snapshots_that_expire_before_they_are_read_end_the_stream(streams: Streams) -> None:
    lake = Lake(streams, ICEBERG, ICEBERG)
    await lake.make(commits=1)
    await streams.drained(lake.insert)
    await lake.append(1)
    await lake.append(2)
    await streams.ok(EXPIRE)
    await lake.refused("which the table no longer has")
    assert await lake.ids() == list(range(10))


@pytest.mark.thorough
async def test_a_new_stream_of_a_table_whose_snapshots_expired_is_refused(streams: Streams) -> None:
    """It would read what the oldest snapshot that is left has added, and nothing from before."""
    lake = Lake(streams, ICEBERG, ICEBERG)
    await lake.make(commits=3)
    await streams.ok(EXPIRE)
    await lake.refused("stream-from-timestamp")
    assert await lake.ids() == []
    [(now,)] = await streams.rows("SELECT unix_millis(now())")
    await lake.append(3)
    await streams.drained(f"{lake.insert} WITH ('stream-from-timestamp' = '{now}')")
    assert await lake.ids() == list(range(30, 40))


@pytest.mark.thorough
@from_one_source(ICEBERG, DELTA)
async def test_windows_with_a_watermark_equal_the_batch(lake: Lake) -> None:
    await lake.make()
    await lake.streams.ok(
        f"CREATE TABLE {lake.target.table('counts')} (start TIMESTAMP, n BIGINT, total BIGINT) USING {lake.target.name}"
    )
    columns, groups = "window.start, count(*), sum(id)", "GROUP BY window(at, '7 seconds')"
    insert = (
        f"INSERT INTO {lake.target.table('counts')} SELECT {columns} FROM STREAM {lake.src} "
        f"WATERMARK at DELAY OF INTERVAL 15 SECONDS {groups}"
    )
    for number in (1, 0, 2, 4, 3, 100):  # out of order, and in the end one that closes all windows before it
        await lake.append(number)
        await lake.streams.drained(insert)
    counted = await lake.streams.rows(f"SELECT * FROM {lake.target.table('counts')} ORDER BY start")
    truth = f"SELECT {columns} FROM {lake.src} WHERE id < 1000 {groups} ORDER BY window.start"
    assert counted == await lake.streams.rows(truth)
    assert len(counted) > 5


@pytest.mark.thorough
@from_one_source(DELTA, ICEBERG)
async def test_a_stream_joins_the_current_rows_of_an_iceberg_table_in_each_batch(lake: Lake) -> None:
    await lake.make(commits=1)
    await lake.streams.ok(
        "CREATE TABLE lake.$.names (id BIGINT, name STRING) USING iceberg",
        "INSERT INTO lake.$.names VALUES (1, 'one'), (11, 'old'), (21, 'older')",
        f"CREATE TABLE {lake.target.table('named')} (id BIGINT, name STRING) USING {lake.target.name}",
    )
    insert = (
        f"INSERT INTO {lake.target.table('named')} "
        f"SELECT s.id, n.name FROM STREAM {lake.src} s JOIN lake.$.names n ON s.id = n.id"
    )
    view = await lake.streams.endless(insert)
    await lake.streams.committed(view, 0)
    await lake.streams.ok("UPDATE lake.$.names SET name = 'new' WHERE id = 11")
    await lake.append(1)
    seen = await lake.streams.committed(view, 1)
    assert seen.state is OperationState.RUNNING, seen
    await lake.streams.stop(view)
    await lake.streams.ok("UPDATE lake.$.names SET name = 'newer' WHERE id = 21")
    await lake.append(2)
    await lake.streams.drained(insert)
    named = await lake.streams.rows(f"SELECT * FROM {lake.target.table('named')} ORDER BY id")
    assert named == [(1, "one"), (11, "new"), (21, "newer")]
