"""A stream's state written anew for a text with other aggregates: each group has what a computation gives, in each kind of store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sparksql.api.execution import StatementMode
from sparksql.wire.control import ErrorReason, OperationState, OperationView, RestoreOptions
from tests.support.process import GatewayProcess

from ..client import connect
from ..streams import Streams

ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STORES: dict[str, dict[str, str]] = {
    "hdfs": {},
    "rocksdb": {PROVIDER: ROCKS_DB},
    "changelog": {PROVIDER: ROCKS_DB, CHANGELOG: "true"},
}
TARGET = "k STRING, until TIMESTAMP, n BIGINT, a DOUBLE, s BIGINT, m INT, c BIGINT, d DECIMAL(30, 2), u BIGINT, x INT"
# Windows of 5 minutes: by the end of part 1 the first one is closed, the second one is open and has rows of both parts.
SOURCE = (
    "SELECT {part} AS part, concat('k', id % 7) AS k, CAST(id * 37 % 101 AS INT) AS v, CAST(id % 9 AS INT) AS d, "
    "timestamp_seconds({start} + id) AS ts FROM range({rows})"
)
PARTS = {1: SOURCE.format(part=1, start=0, rows=540), 2: SOURCE.format(part=2, start=500, rows=700)}
CLOSING = "SELECT 2, 'end', 0, 0, timestamp_seconds(10000)"
ADDED = (
    "sum(v), max(v), count(v), sum(CAST(v AS DECIMAL(20, 2))), approx_count_distinct(d), size(collect_set(d))",
    "s, m, c, d, u, x",
)
pytestmark = pytest.mark.asyncio(loop_scope="module")


def grouped(columns: str, values: str, keys: str = "k, window(ts, '5 minutes')") -> str:
    """An INSERT into `@`, which a test replaces by its table."""
    return (
        f"INSERT INTO $.@ ({columns}) SELECT {values} FROM STREAM $.src WATERMARK ts DELAY OF INTERVAL 60 SECONDS "
        f"GROUP BY {keys}"
    )


OLD = grouped("k, until, n, a", "k, window.end, count(*), avg(v)")
MORE = grouped(f"k, until, n, a, {ADDED[1]}", f"k, window.end, count(*), avg(v), {ADDED[0]}")
LESS = grouped("k, until, a", "k, window.end, avg(v)")
# What came before the change is of part 1, and what was written by then is of windows that part 1 has closed.
ALL = "k, window(ts, '5 minutes').end AS until, max(ts) < TIMESTAMP '1970-01-01 00:05:00' AS is_old"
COMPUTED = {
    MORE: f"SELECT k, until, n, a, IF(is_old, NULL, s), IF(is_old, NULL, m), IF(is_old, NULL, c), IF(is_old, NULL, d), "
    f"IF(is_old, NULL, u), IF(is_old, NULL, x) FROM (SELECT {ALL}, count(*) n, avg(v) a, sum(v) FILTER (WHERE part = 2) s, "
    "max(v) FILTER (WHERE part = 2) m, count(v) FILTER (WHERE part = 2) c, "
    "sum(CAST(v AS DECIMAL(20, 2))) FILTER (WHERE part = 2) d, count(DISTINCT d) FILTER (WHERE part = 2) u, "
    "CAST(count(DISTINCT d) FILTER (WHERE part = 2) AS INT) x "
    "FROM $.src WHERE k <> 'end' GROUP BY k, window(ts, '5 minutes'))",
    LESS: f"SELECT k, until, IF(is_old, n, NULL), a, NULL, NULL, NULL, NULL, NULL, NULL FROM (SELECT {ALL}, count(*) n, avg(v) a "
    "FROM $.src WHERE k <> 'end' GROUP BY k, window(ts, '5 minutes'))",
}


class Rewrites:
    """Streams that have read part 1 of a source, each into a table and a checkpoint of its name."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams

    async def begin(self, name: str, sql: str, conf: dict[str, str]) -> None:
        await self.streams.ok(f"CREATE TABLE $.{name} ({TARGET}) USING parquet")
        conf = {"spark.sql.shuffle.partitions": "2", **conf}
        await self.streams.drained(sql.replace("@", name), name, conf=conf, max_files_per_trigger=1)

    def restore(self, name: str) -> RestoreOptions:
        return RestoreOptions(location=self.streams.options(name).checkpoint, query_id="", rewrite=True)

    async def in_place(self, name: str, sql: str, **conf: str) -> OperationView:
        return await self.streams.run(sql.replace("@", name), name, rewrites=True, conf=conf)

    async def told(self, name: str, sql: str) -> OperationView:
        """What is said of a text beforehand."""
        text = sql.replace("@", name).replace("$", self.streams.database)
        against = self.streams.options(name, rewrites=True)
        return await self.streams.client.run(text, mode=StatementMode.VALIDATE, validate_against=against)

    async def rewritten(self, name: str, sql: str, place: str) -> OperationView:
        return await self.streams.drained(
            sql.replace("@", name), place, rewrites=True, restore=self.restore(name), max_files_per_trigger=1
        )

    def files(self, name: str) -> dict[str, bytes]:
        folder = self.streams.folder / name
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refusal(view: OperationView) -> tuple[str, bool]:
    assert view.state is OperationState.ERROR and view.error is not None, view
    assert view.error.reason is ErrorReason.STATE_INCOMPATIBLE, view
    return view.error.message, view.error.rewritable


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rewrites(gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rewrites]:
    async with connect(gateway) as client:
        await client.until_started()
        streams = Streams(client, tmp_path_factory.mktemp("rewrites"), "rewrites")
        await client.ok("CREATE DATABASE rewrites")
        await streams.ok(f"CREATE TABLE $.src USING parquet AS {PARTS[1]}")
        made = Rewrites(streams)
        begun = [(f"{store}_{change}", conf) for store, conf in STORES.items() for change in ("more", "less")]
        for start in range(0, len(begun), 3):
            await asyncio.gather(*(made.begin(name, OLD, conf) for name, conf in begun[start : start + 3]))
        await streams.ok(f"INSERT INTO $.src {PARTS[2]}", f"INSERT INTO $.src {CLOSING}")
        yield made
        await client.ok("DROP DATABASE rewrites CASCADE")


@pytest.mark.parametrize(("change", "sql"), [("more", MORE), ("less", LESS)])
@pytest.mark.parametrize("store", STORES)
async def test_a_state_rewritten_for_other_aggregates_goes_on_as_a_computation(
    rewrites: Rewrites, store: str, change: str, sql: str
) -> None:
    name, streams = f"{store}_{change}", rewrites.streams
    before = rewrites.files(name)
    told = await rewrites.told(name, sql)
    assert told.state is OperationState.FINISHED and told.result is not None, told
    assert {row[0] for row in told.result.preview} == {"AggregateAdded" if change == "more" else "AggregateRemoved"}
    message, is_rewritable = refusal(await rewrites.in_place(name, sql))
    assert is_rewritable and "is written anew" in message, message
    view = await rewrites.rewritten(name, sql, f"{name}_new")
    assert view.progress is not None and view.progress.stream is not None
    assert rewrites.files(name) == before
    assert not (streams.folder / f"{name}_new" / "_rewritten").exists()
    expected = COMPUTED[sql]
    assert await streams.rows(f"SELECT * FROM $.{name} WHERE k <> 'end' ORDER BY until, k") == await streams.rows(
        f"SELECT * FROM ({expected}) ORDER BY until, k"
    )
