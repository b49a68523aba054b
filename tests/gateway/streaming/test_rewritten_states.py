"""A stream's state written anew for a text with other aggregates: each group has what a computation gives, in each kind of store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from sparksql.api.execution import StatementMode
from sparksql.wire.control import ErrorReason, OperationState, OperationView, Parameter, RestoreOptions
from sparksql.wire.savepoints import SavepointPlace
from tests.support.process import GatewayProcess
from tests.support.thorough import thorough_but

from ..client import connect
from ..streams import Streams

AT_A_TIME = 4  # queries
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
    "timestamp_seconds({start} + id) AS ts FROM range(0, {rows}, 1, 1)"
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


# Groups of groups: those of 5 minutes by key, counted by windows of 10 minutes.
PAIRS = grouped("", "k, window(ts, '5 minutes') AS w, count(*) AS c").partition(" () ")[2]
CHAINED = (
    "INSERT INTO $.@ (until, n, s) SELECT window(w, '10 minutes').end, count(*), sum(c) "
    f"FROM ({PAIRS}) GROUP BY window(w, '10 minutes')"
)
CHAINED_MORE = CHAINED.replace("n, s)", "n, s, m)").replace("sum(c)", "sum(c), CAST(max(c) AS INT)")
BOTH_MORE = CHAINED_MORE.replace("CAST(max(c) AS INT)", "max(x)").replace("count(*) AS c", "count(*) AS c, max(v) AS x")
# Of the first window of 10 minutes, one of 5 was closed, and so was counted, before the change.
OF_PAIRS = (
    "SELECT NULL, until, count(*), NULL, sum(c), CAST(max({m}) AS INT), NULL, NULL, NULL, NULL FROM (SELECT "
    "timestamp_seconds(CAST(ceil(unix_seconds(window(ts, '5 minutes').end) / 600) AS INT) * 600) AS until, max(ts) < TIMESTAMP '1970-01-01 00:05:00' AS is_old, "
    "count(*) AS c, max(v) FILTER (WHERE part = 2) AS x FROM $.src WHERE k <> 'end' "
    "GROUP BY k, window(ts, '5 minutes')) GROUP BY until"
)
COMPUTED |= {CHAINED_MORE: OF_PAIRS.format(m="IF(is_old, NULL, c)"), BOTH_MORE: OF_PAIRS.format(m="x")}
SESSIONS = grouped("k, until, n", "k, session_window.end, count(*)", "k, session_window(ts, '20 seconds')")
# A join keeps the rows of its left side, until the right side has closed their window.
OF_SIDES = "k, window(ts, '5 minutes') AS w"
SIDES = (
    f"INSERT INTO $.@ (k, n, d) SELECT x.k, x.v, y.d FROM "
    f"(SELECT {OF_SIDES}, v FROM STREAM $.src WATERMARK ts DELAY OF INTERVAL 60 SECONDS) x JOIN "
    f"(SELECT {OF_SIDES}, avg(CAST(v AS DECIMAL(20, 2))) AS d, max_by(v, ts) AS last, collect_set(d) AS seen "
    "FROM STREAM $.src WATERMARK ts DELAY OF INTERVAL 60 SECONDS GROUP BY 1, 2) y "
    "ON x.k = y.k AND x.w = y.w WHERE y.last < 1000 AND size(y.seen) > 0"
)
FORMAT_1 = {"spark.sql.streaming.aggregation.stateFormatVersion": "1"}
BASES: dict[str, tuple[str, dict[str, str]]] = {
    **{f"{store}_{change}": (OLD, conf) for store, conf in STORES.items() for change in ("more", "less")},
    "chained": (CHAINED, STORES["rocksdb"]),
    "both": (CHAINED, STORES["hdfs"]),
    "asked": (OLD, {}),
    "sessions": (SESSIONS, {}),
    "sides": (SIDES, STORES["changelog"]),
    "format_1": (OLD, FORMAT_1),
}
CHANGES = [
    *((f"{store}_{change}", sql) for store in STORES for change, sql in (("more", MORE), ("less", LESS))),
    ("chained", CHAINED_MORE),
    ("both", BOTH_MORE),
]
KEPT = [each for each in CHANGES if each[0] in ("changelog_more", "chained")]
FOR_REFUSALS_AND_READING = {"asked", "sessions", "sides", "format_1"}


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
            sql.replace("@", name),
            place,
            conf={"spark.sql.shuffle.partitions": "3"},  # a state keeps the number of its partitions
            rewrites=True,
            restore=self.restore(name),
            max_files_per_trigger=1,
        )

    async def state(self, sql: str, *names: str, **fields: Any) -> OperationView:
        """Runs a statement that finds the checkpoints of bases as savepoints."""
        known = [
            SavepointPlace(name=each, phase="Completed", location=(self.streams.folder / each).as_uri())
            for each in names
        ]
        sql = sql.replace("$", self.streams.database)
        return await self.streams.client.run(sql, **{"savepoints": tuple(known), **fields})

    async def state_rows(self, sql: str, *names: str) -> list[tuple[Any, ...]]:
        view = await self.state(sql, *names)
        assert view.state is OperationState.FINISHED, view
        return [row async for row in self.streams.client.pages(view.operation_id)]

    async def rows(self, query: str) -> list[str]:
        return sorted(map(repr, await self.streams.rows(query)))

    def files(self, name: str) -> dict[str, bytes]:
        folder = self.streams.folder / name
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refusal(view: OperationView) -> tuple[str, bool]:
    assert view.state is OperationState.ERROR and view.error is not None, view
    assert view.error.reason is ErrorReason.STATE_INCOMPATIBLE, view
    return view.error.message, view.error.rewritable


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rewrites(
    gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Rewrites]:
    """With the bases that the tests of this run need."""
    mine = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    needed = FOR_REFUSALS_AND_READING | {item.callspec.params.get("name") for item in mine if hasattr(item, "callspec")}
    async with connect(gateway) as client:
        await client.until_started()
        streams = Streams(client, tmp_path_factory.mktemp("rewrites"), "rewrites")
        await client.ok("CREATE DATABASE rewrites")
        await streams.ok(f"CREATE TABLE $.src USING parquet AS {PARTS[1]}")
        made = Rewrites(streams)
        bases = [(name, base) for name, base in BASES.items() if name in needed]
        for start in range(0, len(bases), AT_A_TIME):
            await asyncio.gather(*(made.begin(name, *base) for name, base in bases[start : start + AT_A_TIME]))
        await streams.ok(f"INSERT INTO $.src {PARTS[2]}", f"INSERT INTO $.src {CLOSING}")
        yield made
        await client.ok("DROP DATABASE rewrites CASCADE")


GROUPS = "SELECT k, window(ts, '5 minutes').start AS begin, {} FROM $.src WHERE part = 1 AND ts >= TIMESTAMP '1970-01-01 00:05:00' GROUP BY 1, 2"
READ = ["hdfs_more", "rocksdb_more", "changelog_more", "format_1"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", thorough_but(READ[1:], READ))
async def test_a_state_read_by_sql_has_the_groups_that_are_open(rewrites: Rewrites, name: str) -> None:
    before = rewrites.files(name)
    found = await rewrites.state_rows(
        f"SELECT k, window.start, n, a FROM savepoint_state('{name}', operator => 'aggregate')", name
    )
    assert sorted(map(repr, found)) == await rewrites.rows(GROUPS.format("count(*), avg(v)")) and found
    assert rewrites.files(name) == before


async def test_operators_of_a_state_are_read_by_name_and_all_of_them_as_json(rewrites: Rewrites) -> None:
    grouped = "WITH s AS (SELECT * FROM savepoint_state('sides', 'aggregate') AS t(key, w, mean, last, seen)) "
    found = await rewrites.state_rows(
        f"{grouped} SELECT key, w.start, mean, last FROM s WHERE length(seen.buf) > 0", "sides"
    )
    mean = "avg(CAST(v AS DECIMAL(20, 2))), max_by(v, ts)"
    assert sorted(map(repr, found)) == await rewrites.rows(GROUPS.format(mean)) and found
    rows = "SELECT value.k, key.w.start, count(value.v) FROM savepoint_state('sides', 'join of streams left') GROUP BY 1, 2"
    found = await rewrites.state_rows(rows, "sides")
    assert sorted(map(repr, found)) == await rewrites.rows(GROUPS.format("count(*)"))
    every = (
        "SELECT operator, count(*), max(from_json(key, 'w STRUCT<start: STRING>').w.start), "
        "max(from_json(value, 'last INT').last) < 1000, max(from_json(value, 'v INT').v) < 1000 "
        "FROM savepoint_state('sides') GROUP BY 1 ORDER BY 1"
    )
    begin = "1970-01-01T00:05:00.000Z"
    expected = [("aggregate", 7, begin, True, None), ("join of streams left", 240, begin, None, True)]
    assert await rewrites.state_rows(every, "sides") == expected
    view = (
        "CREATE TEMPORARY VIEW s AS SELECT * FROM savepoint_state('sessions', 'aggregate'); "
        "SELECT k, session_window.start, session_window.end, n FROM s"
    )
    sessions = "SELECT k, min(ts), max(ts) + INTERVAL 20 SECONDS, count(*) FROM $.src WHERE part = 1 GROUP BY k"
    assert sorted(map(repr, await rewrites.state_rows(view, "sessions"))) == await rewrites.rows(sessions)


@pytest.mark.parametrize(
    ("sql", "mode", "rows"),
    [
        ("SELECT * FROM savepoint_state('asked')", StatementMode.VALIDATE, 0),
        ("EXPLAIN SELECT * FROM savepoint_state('asked')", StatementMode.EXECUTE, 1),
        (
            "INSERT INTO $.src SELECT 1, k, n, 0, now() FROM savepoint_state(:name, 'aggregate')",
            StatementMode.PREVIEW,
            7,
        ),
        ("CREATE TABLE $.read USING parquet AS SELECT * FROM savepoint_state(:name); SELECT * FROM $.read", None, 7),
    ],
)
async def test_a_state_is_read_in_each_mode_and_kept_in_tables(
    rewrites: Rewrites, sql: str, mode: StatementMode | None, rows: int
) -> None:
    parameters = (Parameter(name="name", value="asked"),) if ":name" in sql else ()
    view = await rewrites.state(sql, "asked", mode=mode or StatementMode.EXECUTE, parameters=parameters)
    assert view.state is OperationState.FINISHED and view.result is not None, view
    assert view.result.row_count == rows or mode is StatementMode.VALIDATE


PLACE = SavepointPlace(name="taken", phase="InProgress")
CALL = "SELECT * FROM savepoint_state"


@pytest.mark.parametrize(
    ("sql", "fields", "words"),
    [
        (f"{CALL}('asked', 'agregate')", {}, "has no operator 'agregate'; it has 'aggregate'"),
        (f"{CALL}('other')", {}, "there is no SqlSavepoint 'other' in namespace team-a"),
        (f"{CALL}('../asked')", {}, "there is no SqlSavepoint"),
        (f"{CALL}('taken')", {"savepoints": (PLACE,)}, "SqlSavepoint taken is InProgress"),
        (f"{CALL}('taken')", {"savepoints": (PLACE.model_copy(update={"location": "file:/nowhere"}),)}, "SQL may not use this local place"),
        (f"{CALL}('asked')", {"savepoints": None}, "works only in a SqlStatement"),
        (f"{CALL}(concat('as', 'ked'))", {}, "has quoted names as arguments"),
        (f"{CALL}('asked', 'a', 'kept', 'b')", {}, "has one to three names"),
        (f"{CALL}(operator => 'a')", {}, "has the name of a SqlSavepoint"),
        (f"CREATE VIEW $.kept AS {CALL}('asked')", {}, "a view of the catalog cannot call"),
        (f"CACHE TABLE kept AS {CALL}('asked')", {}, "a CACHE TABLE cannot call"),
        (f"SELECT ({CALL}('asked') LIMIT 1)", {}, "cannot stand in a subquery"),
        (f"BEGIN {CALL}('asked'); END", {}, "cannot be called in BEGIN"),
        (f"EXECUTE IMMEDIATE '{CALL}(\\'asked\\')'", {}, "cannot be called in BEGIN"),
        (f"SELECT k FROM STREAM $.src UNION ALL {CALL}('asked')", {"mode": "Preview"}, "cannot be read by a stream"),
    ],
)  # fmt: skip
async def test_a_state_that_cannot_be_read_is_refused_with_the_reason(
    rewrites: Rewrites, sql: str, fields: dict[str, Any], words: str
) -> None:
    view = await rewrites.state(sql, "asked", **fields)
    assert view.state is OperationState.ERROR and view.error is not None, view
    assert words in view.error.message and view.error.reason is not ErrorReason.SQL_ERROR
    if "no operator" in words:
        assert (view.error.position, view.error.fragment) == (40, "'agregate'")


@pytest.mark.parametrize(("name", "sql"), thorough_but(KEPT, CHANGES), ids=[name for name, _ in CHANGES])
async def test_a_state_rewritten_for_other_aggregates_goes_on_as_a_computation(
    rewrites: Rewrites, name: str, sql: str
) -> None:
    before = rewrites.files(name)
    identity = json.loads(before["metadata"])
    await rewrites.rewritten(name, sql, f"{name}_new")
    assert rewrites.files(name) == before
    place = rewrites.streams.folder / f"{name}_new"
    assert json.loads((place / "metadata").read_text()) == identity
    assert not (place / "_rewritten").exists()
    rows = f"SELECT * FROM $.{name} WHERE coalesce(k, '') <> 'end' AND until < TIMESTAMP '1970-01-01 01:00:00'"
    found, expected = [await rewrites.rows(query) for query in (rows, COMPUTED[sql])]
    assert found == expected and found


async def test_a_rewriting_is_told_beforehand_and_a_start_in_place_asks_for_another_place(rewrites: Rewrites) -> None:
    name = "asked"
    before = rewrites.files(name)
    told = await rewrites.told(name, MORE)
    assert told.state is OperationState.FINISHED and told.result is not None, told
    assert [(row[0], row[2]) for row in told.result.preview] == [("AggregateAdded", each) for each in "smcdux"]
    message, is_rewritable = refusal(await rewrites.in_place(name, MORE))
    assert is_rewritable and "is migrated for the query" in message and "column s was added" in message
    silent = await rewrites.streams.run(MORE.replace("@", name), name)
    assert refusal(silent)[1] is False, "who does not know of it is not told"
    assert rewrites.files(name) == before


@pytest.mark.parametrize(
    ("name", "sql", "words"),
    [
        ("asked", OLD.replace("avg(v)", "avg(d)"), "one has become another"),
        ("asked", OLD.replace("count(*)", "count(*) + max(v)"), "put it after them"),
        ("sessions", SESSIONS.replace("count(*)", "count(*), max(v)").replace("n)", "n, m)"), "session windows"),
        ("format_1", LESS, "version 1 of the form"),
    ],
)
async def test_a_state_that_cannot_be_rewritten_is_refused_with_the_reason(
    rewrites: Rewrites, name: str, sql: str, words: str
) -> None:
    message, is_rewritable = refusal(await rewrites.told(name, sql))
    assert not is_rewritable and words in message
    place = f"{name}_nowhere"
    view = await rewrites.streams.run(sql.replace("@", name), place, rewrites=True, restore=rewrites.restore(name))
    assert refusal(view) == (message, False)
    assert not (rewrites.streams.folder / place).exists()


async def test_a_rewriting_that_was_cut_off_is_done_anew_and_one_that_was_not_needed_is_a_copy(
    rewrites: Rewrites,
) -> None:
    """Whatever lies in the new place without `metadata` is nobody's."""
    name, place = "asked", rewrites.streams.folder / "cut_off"
    for left in ("state/0/0/9.snapshot", "_rewritten/0/0/1.delta", "offsets/77", "commits/77"):
        (place / left).parent.mkdir(parents=True, exist_ok=True)
        (place / left).write_text("cut off")
    await rewrites.streams.ok(f"CREATE TABLE $.cut_off ({TARGET}) USING parquet")
    sql = OLD.replace("$.@", "$.cut_off")
    refused = await rewrites.streams.run(sql, "cut_off", rewrites=True, restore=rewrites.restore(name))
    assert refused.error is not None and "the table is another one" in refused.error.message
    assert not list(place.rglob("*77")) and not (place / "_rewritten").exists()
    kept = {
        path: text for path, text in rewrites.files("cut_off").items() if not path.rpartition("/")[2].startswith(".")
    }
    assert {path: rewrites.files(name)[path] for path in kept if path != "metadata"} == {
        path: text for path, text in kept.items() if path != "metadata"
    }
