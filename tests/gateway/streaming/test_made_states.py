"""Savepoints whose state a query gives: a stream that goes on from one has what the query's rows and its own give together."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from sparksql.wire.control import ErrorReason, RestoreOptions
from sparksql.wire.savepoints import SavepointPlace, SavepointState, SavepointView, StateQuery
from tests.support.process import GatewayProcess
from tests.support.thorough import thorough_but

from ..client import connect
from ..streams import Streams
from .test_rewritten_states import SIDES, STORES

pytestmark = pytest.mark.asyncio(loop_scope="module")

COLUMNS = "k STRING, w TIMESTAMP, n BIGINT, a DOUBLE, m INT, d DECIMAL(30, 2), b STRING, x INT"
# Windows of 5 minutes: of part 1 the first one is closed, the second one is open and has rows of both parts.
PART = (
    "SELECT {part} AS part, concat('k', id % 7) AS k, CAST(id * 37 % 101 AS INT) AS v, CAST(id % 9 AS INT) AS d, "
    "timestamp_seconds({start} + id) AS ts FROM range(0, {rows}, 1, 1)"
)
FIRST, SECOND = PART.format(part=1, start=0, rows=540), PART.format(part=2, start=500, rows=700)
CLOSING = "SELECT 2, 'end', 0, 0, timestamp_seconds(10000)"
VALUES = (
    "count(*) AS n, avg(v) AS a, max(v) AS m, sum(CAST(v AS DECIMAL(20, 2))) AS d, max_by(k, v) AS b, "
    "size(collect_set(d)) AS x"
)
BY_WINDOW = (
    f"INSERT INTO $.@ SELECT k, window.end AS w, {VALUES} FROM STREAM $.@_src WATERMARK ts DELAY OF INTERVAL 60 SECONDS "
    "GROUP BY k, window(ts, '5 minutes')"
)
BY_KEY = "INSERT INTO $.@ (k, n, a, d) SELECT k, count(*), avg(v), sum(CAST(v AS DECIMAL(20, 2))) FROM STREAM $.@_src GROUP BY k"
# Decimals so short that Spark keeps their sum and their average without their scale.
MONEY = (
    "count(*) AS n, avg(CAST(v / 4 AS DECIMAL(6, 2))) AS a, sum(CAST(v / 4 AS DECIMAL(6, 2))) AS d, "
    "CAST(max(CAST(v / 4 AS DECIMAL(6, 2))) AS STRING) AS b"
)
OF_MONEY = f"INSERT INTO $.@ (k, n, a, d, b) SELECT k, {MONEY} FROM STREAM $.@_src GROUP BY k"
CHAINED = (
    "INSERT INTO $.@ (w, n) SELECT window(w, '10 minutes').end, count(*) FROM (SELECT k, window(ts, '5 minutes') AS w "
    "FROM STREAM $.@_src WATERMARK ts DELAY OF INTERVAL 60 SECONDS GROUP BY k, window(ts, '5 minutes')) "
    "GROUP BY window(w, '10 minutes')"
)
TOTAL = "INSERT INTO $.@ (n) SELECT count(*) FROM STREAM $.@_src"
BASES: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    **{store: (BY_WINDOW, conf, {}) for store, conf in STORES.items()},
    "keyed": (BY_KEY, {}, {"output_mode": "Complete"}),
    "money": (OF_MONEY, {}, {"output_mode": "Complete"}),
    "chained": (CHAINED, {}, {}),
    "total": (TOTAL, {}, {"output_mode": "Complete"}),
    "sides": (SIDES.replace("$.src", "$.@_src"), {}, {}),
}
FEW = {"spark.sql.shuffle.partitions": "2"}


class Made:
    """Streams that have read part 1 of a source of their own, and savepoints of them of their names."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self._begun: set[str] = set()

    async def begin(self, name: str) -> None:
        """Once."""
        if name in self._begun:
            return
        self._begun.add(name)
        sql, conf, fields = BASES[name]
        await self.streams.ok(f"CREATE TABLE $.{name} ({COLUMNS}) USING delta")
        await self.streams.ok(f"CREATE TABLE $.{name}_src USING parquet AS {FIRST}")
        await self.streams.drained(sql.replace("@", name), name, conf={**FEW, **conf}, **fields)
        await self.streams.saved(f"{name}-saved", name)

    def place(self, name: str, statement: str = "it") -> SavepointPlace:
        location = (self.streams.folder / name).as_uri()
        return SavepointPlace(name=name, phase="Completed", location=location, statement=statement)

    async def make(self, name: str, base: str, sql: str, operator: str | None = None, **fields: Any) -> SavepointView:
        """A savepoint of a query, whose base is the savepoint that it reads, or the checkpoint of the stream."""
        await self.begin(base)
        sql = sql.replace("$", self.streams.database)
        known = fields.pop("savepoints", (self.place(f"{base}-saved"),))
        query = StateQuery(sql=sql, statement="it", operator=operator, savepoints=known)
        checkpoint = fields.pop("checkpoint", self.streams.options(base).checkpoint)
        return await self.streams.attempted(name, checkpoint, query)

    async def go_on(self, name: str, base: str) -> list[str]:
        """What the stream writes that begins with a savepoint, of part 2."""
        sql, conf, fields = BASES[base]
        place = f"{name}_again".replace("-", "_")
        await self.streams.ok(f"CREATE TABLE $.{place} ({COLUMNS}) USING delta")
        restore = RestoreOptions(location=(self.streams.folder / name).as_uri(), query_id=str(uuid.uuid4()))
        sql = sql.replace("@_src", f"{base}_src").replace("@", place)
        more = f"INSERT INTO $.{base}_src {SECOND}", f"INSERT INTO $.{base}_src {CLOSING}"
        if not await self.streams.rows(f"SELECT 1 FROM $.{base}_src WHERE part = 2 LIMIT 1"):
            await self.streams.ok(*more)
        await self.streams.drained(sql, place, conf={**FEW, **conf}, restore=restore, max_files_per_trigger=1, **fields)
        return await self.rows(f"SELECT * FROM $.{place}")

    async def rows(self, query: str) -> list[str]:
        return sorted(map(repr, await self.streams.rows(query)))


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def made(gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Made]:
    async with connect(gateway) as client:
        await client.until_started()
        found = Made(Streams(client, tmp_path_factory.mktemp("made"), "made"))
        await client.ok("CREATE DATABASE made")
        yield found
        await client.ok("DROP DATABASE made CASCADE")


def completed(view: SavepointView) -> None:
    assert view.state is SavepointState.COMPLETED, view
    assert view.file_count and view.size_bytes and view.query_id, view


@pytest.mark.thorough
@pytest.mark.parametrize("store", thorough_but(["changelog"], STORES))
async def test_a_state_that_is_read_as_it_is_kept_is_made_again(made: Made, store: str) -> None:
    name = f"{store}-same"
    completed(await made.make(name, store, f"SELECT * FROM savepoint_state('{store}-saved', 'aggregate', 'kept')"))
    known = (made.place(f"{store}-saved"), made.place(name))
    for form in ("values", "kept"):
        read = [
            f"SELECT to_json(struct(*)) FROM savepoint_state('{each.name}', 'aggregate', '{form}')" for each in known
        ]
        old, new = [await state_rows(made, sql, known) for sql in read]
        assert sorted(old) == sorted(new) and len(old) == 7
    whole = (
        f"SELECT k, window(ts, '5 minutes').end AS w, {VALUES} FROM $.{store}_src WHERE k <> 'end' "
        "GROUP BY k, window(ts, '5 minutes') HAVING max(ts) >= TIMESTAMP '1970-01-01 00:05:00'"
    )
    assert await made.go_on(name, store) == await made.rows(whole)


async def state_rows(made: Made, sql: str, known: tuple[SavepointPlace, ...]) -> list[tuple[Any, ...]]:
    view = await made.streams.client.run(sql, savepoints=known)
    assert view.error is None, view
    return [row async for row in made.streams.client.pages(view.operation_id)]


async def test_a_state_is_repaired_and_one_is_computed_by_a_batch(made: Made) -> None:
    repair = (
        "SELECT d, k, n + 100 AS n, named_struct('count', a.count, 'sum', a.sum) AS A "
        "FROM savepoint_state('keyed-saved', 'aggregate', 'kept') WHERE k <> 'k3'"
    )
    completed(await made.make("keyed-repaired", "keyed", repair))
    batch = (
        "SELECT k, count(*) AS n, named_struct('sum', CAST(sum(v) AS DOUBLE), 'count', count(v)) AS a, "
        "sum(CAST(v AS DECIMAL(20, 2))) AS d FROM $.history GROUP BY k"
    )
    await made.streams.ok(f"CREATE TABLE $.history USING parquet AS {FIRST} UNION ALL SELECT 1, 'new', 5, 5, now()")
    completed(await made.make("keyed-begun", "keyed", batch, savepoints=()))
    of_all = "SELECT k, NULL, count(*){}, avg(v), NULL, sum(CAST(v AS DECIMAL(20, 2))), NULL, NULL FROM ({}) GROUP BY k"
    repaired = of_all.format(" + max(IF(part = 1, 100, 0))", "SELECT * FROM $.keyed_src WHERE k <> 'k3' OR part = 2")
    assert await made.go_on("keyed-repaired", "keyed") == await made.rows(repaired)
    begun = of_all.format("", "SELECT * FROM $.history UNION ALL SELECT * FROM $.keyed_src WHERE part = 2")
    assert await made.go_on("keyed-begun", "keyed") == await made.rows(begun)


async def test_sums_and_averages_of_short_decimals_are_given_and_taken_in_the_types_of_the_text(made: Made) -> None:
    await made.begin("money")
    known = (made.place("money-saved"),)
    shown = await state_rows(
        made, "SELECT k, n, a, typeof(a), d, typeof(d) FROM savepoint_state('money-saved', 'aggregate')", known
    )
    batch = (
        f"SELECT k, n, a, typeof(a), d, typeof(d) FROM (SELECT k, {MONEY} FROM $.money_src WHERE part = 1 GROUP BY k)"
    )
    assert sorted(map(repr, shown)) == await made.rows(batch)
    completed(
        await made.make("money-same", "money", "SELECT * FROM savepoint_state('money-saved', 'aggregate', 'kept')")
    )
    x = "CAST(v / 4 AS DECIMAL(6, 2))"
    computed = (
        f"SELECT k, count(*) AS n, named_struct('sum', sum({x}), 'count', count({x})) AS a, sum({x}) AS d, max({x}) AS b "
        "FROM $.money_src WHERE part = 1 GROUP BY k"
    )
    completed(await made.make("money-computed", "money", computed))
    as_double = computed.replace(f"'sum', sum({x})", f"'sum', CAST(sum({x}) AS DOUBLE)")
    refused = await made.make("money-double", "money", as_double)
    assert "column a.sum is decimal(16,2) in the state, and double in the query: CAST it" in str(refused.message)
    whole = f"SELECT k, NULL, n, CAST(a AS DOUBLE), NULL, CAST(d AS DECIMAL(30, 2)), b, NULL FROM (SELECT k, {MONEY} FROM $.money_src GROUP BY k)"
    for name in ("money-same", "money-computed"):
        assert await made.go_on(name, "money") == await made.rows(whole)


@pytest.mark.thorough
async def test_an_aggregate_of_two_is_made_and_the_other_kept(made: Made) -> None:
    read = "savepoint_state('chained-saved', 'aggregate 2')"
    await made.begin("chained")
    columns = (await made.streams.client.run(f"SELECT * FROM {read}", savepoints=(made.place("chained-saved"),))).result
    assert columns is not None
    window = columns.columns[0].name
    sql = f"SELECT `{window}`, n * 10 AS n FROM {read}"
    completed(await made.make("chained-tenfold", "chained", sql, "aggregate 2"))
    pairs = "SELECT k, window(ts, '5 minutes') AS w FROM $.chained_src WHERE k <> 'end' GROUP BY 1, 2"
    # Of the first ten minutes the groups of the first window of five were counted before.
    expected = (
        "SELECT NULL, end, sum(IF(w.end = TIMESTAMP '1970-01-01 00:05:00', 10, 1)), NULL, NULL, NULL, NULL, NULL FROM "
        f"(SELECT w, timestamp_seconds(CAST(ceil(unix_seconds(w.end) / 600) AS INT) * 600) AS end FROM ({pairs})) GROUP BY end"
    )
    assert await made.go_on("chained-tenfold", "chained") == await made.rows(expected)


@pytest.mark.thorough
async def test_a_state_without_groups_is_made_of_one_row(made: Made) -> None:
    completed(await made.make("total-begun", "total", "SELECT 7 AS n", savepoints=()))
    assert await made.go_on("total-begun", "total") == ["(None, None, 708, None, None, None, None, None)"]
    refused = await made.make("total-none", "total", "SELECT 7 AS n WHERE false", savepoints=())
    assert refused.message == "the query gives 0 rows, and an aggregate without GROUP BY has one"


KEPT = "savepoint_state('keyed-saved', 'aggregate', 'kept')"


@pytest.mark.parametrize(
    ("sql", "fields", "words"),
    [
        (f"SELECT k, n, a FROM {KEPT}", {}, "lacks column d; the columns of the state are k, n, a, d"),
        (f"SELECT *, 1 AS z FROM {KEPT}", {}, "has column z, which the state has not"),
        (f"SELECT *, n FROM {KEPT}", {}, "has column n twice"),
        (f"SELECT * FROM {KEPT} UNION ALL SELECT * FROM {KEPT}", {}, "14 rows for 7 keys (k): each key once"),
        (f"SELECT k, IF(k = 'k1', NULL, n) AS n, a, d FROM {KEPT}", {}, "column n is NULL in 1 rows"),
        (f"SELECT k, n * 1.5 AS n, a, d FROM {KEPT}", {}, "column n is bigint in the state, and decimal(23,1)"),
        ("SELECT * FROM savepoint_state('keyed-saved', 'aggregate')", {}, "column a must be a STRUCT of sum, count"),
        (f"SELECT k, n, struct(a.sum) AS a, d FROM {KEPT}", {}, "must be a STRUCT of sum, count, and it is one of sum"),
        ("SELECT * FROM STREAM $.keyed_src", {}, "a STREAM has no end"),
        ("INSERT INTO $.keyed SELECT 1", {}, "spec.sql: one query gives the state, not INSERT"),
        ("SELECT 1; SELECT 2", {}, "spec.sql: one query gives the state, not SCRIPT"),
        ("EXPLAIN SELECT 1", {}, "spec.sql: one query gives the state, not EXPLAIN"),
        ("SELECT nothing", {}, "nothing"),
        (
            f"SELECT * FROM {KEPT}",
            {"operator": "aggregate 2"},
            "spec.operator: the state has no operator 'aggregate 2'",
        ),
        ("SELECT 1", {"base": "sides", "operator": "join of streams left"}, "that of aggregates can"),
        ("SELECT 1", {"base": "chained"}, "spec.operator: name the aggregate that the rows belong to"),
        ("SELECT * FROM savepoint_state('nowhere')", {}, "there is no SqlSavepoint 'nowhere'"),
        ("SELECT 1", {"checkpoint": None}, "statement it has no state yet"),
        (f"SELECT * FROM {KEPT} FULL JOIN savepoint_state('other') ON true", {"more": "other"}, "several savepoints"),
        ("SELECT * FROM savepoint_state('keyed-saved', 'aggregate', 'raw')", {}, "the third argument is 'kept'"),
        ("SELECT * FROM savepoint_state('keyed-saved', form => 'kept')", {}, "the third argument is 'kept'"),
    ],
)
async def test_rows_that_are_no_state_are_refused_with_the_column(
    made: Made, sql: str, fields: dict[str, Any], words: str
) -> None:
    fields = {**fields}
    base = fields.pop("base", "keyed")
    known = (made.place(f"{base}-saved"),)
    if "more" in fields:
        known = (*known, known[0].model_copy(update={"name": fields.pop("more")}))
    view = await made.make("refused", base, sql, fields.pop("operator", None), savepoints=known, **fields)
    assert view.state is SavepointState.FAILED and view.refusal in (*ErrorReason,), view
    assert words in (view.message or ""), view
    assert not (made.streams.folder / "refused" / "manifest.json").exists()
