"""CUMULATE with GAP: curves of keys until they are silent, the same in a batch, in a stream, on a replay, and in Python."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from sparksql.api.execution import StatementMode
from sparksql.wire.control import ErrorReason, OperationState, RestoreOptions, ResultOptions
from sparksql.wire.savepoints import SavepointPlace
from tests.support.thorough import thorough_but

from ..client import GatewayClient
from ..streams import Streams
from .dynamic_curves import END_EVENT, Shape, curves, cut, silent_events
from .window_events import BASE, Event, append, store

MINUTE = timedelta(minutes=1)
SHAPE = Shape(MINUTE, 5 * MINUTE)
STREAM = "STREAM $.{} WITH ('maxFilesPerTrigger' = '1') WATERMARK ts DELAY OF INTERVAL 30 SECONDS"
POINTS = "k, window_start, window_end, count(*) AS n, sum(v) AS s, count(DISTINCT uid) AS u"
COLUMNS = "k STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT, s BIGINT, u BIGINT"
BY = "GROUP BY k, window_start, window_end"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
# Of so few rows, a state needs one partition.
FAST = {"spark.sql.shuffle.partitions": "1"}
FORK = "00000000-0000-4000-8000-000000000001"
STORES = "org.apache.spark.sql.execution.streaming.state."


@pytest.fixture
async def tables(client: GatewayClient, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Streams]:
    """A database of the test's own."""
    made = Streams(client, tmp_path, f"curves_{abs(hash(request.node.nodeid)) % 10**9}")
    await made.ok("CREATE DATABASE $")
    yield made
    await made.ok("DROP DATABASE $ CASCADE")


def cumulate(source: str, shape: Shape = SHAPE) -> str:
    return f"CUMULATE(DATA => TABLE (FROM {source}) PARTITION BY k, TIMECOL => DESCRIPTOR(ts), {shape.arguments})"


def points(source: str, shape: Shape = SHAPE, of: str = POINTS) -> str:
    return f"SELECT {of} FROM {cumulate(source, shape)} {BY}"


def seen(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    """Points in one order, without those of the event that only closes windows."""
    return sorted(tuple(map(_shown, row)) for row in rows if row[0] != END_EVENT.k)


def expected(events: list[Event], shape: Shape = SHAPE) -> list[tuple[str, ...]]:
    return seen(list(curves(events, shape)))


def _shown(value: object) -> str:
    is_time = isinstance(value, datetime) or str(value).startswith("2026-")
    return datetime.fromisoformat(str(value)).replace(tzinfo=None).isoformat() if is_time else str(value)


def assert_curves_have_no_dents(rows: list[tuple[str, ...]], step: timedelta) -> None:
    """Each curve has all its steps, and its counts never fall."""
    by_window: dict[tuple[str, ...], list[tuple[datetime, int, int]]] = {}
    for key, start, end, count, _, distinct in rows:
        by_window.setdefault((key, start), []).append((datetime.fromisoformat(end), int(count), int(distinct)))
    for (_, start), curve in by_window.items():
        curve.sort()
        ends = [end for end, _, _ in curve]
        assert ends == [datetime.fromisoformat(start) + step * (nth + 1) for nth in range(len(curve))]
        assert [each[1:] for each in curve] == [
            (max(n for _, n, _ in curve[: nth + 1]), max(u for _, _, u in curve[: nth + 1]))
            for nth in range(len(curve))
        ]


SHAPES = {
    "five minutes of silence": SHAPE,
    "a gap of one step": Shape(MINUTE, MINUTE),
    "a gap that steps do not divide": Shape(1.5 * MINUTE, 4.1 * MINUTE),
}


@pytest.mark.parametrize("name", thorough_but(["a gap that steps do not divide"], SHAPES))
async def test_curves_of_a_batch_and_of_a_stream_are_those_that_python_computes(tables: Streams, name: str) -> None:
    shape, seed = SHAPES[name], list(SHAPES).index(name)
    events = silent_events(seed)
    await store(tables, "live", cut(events, seed))
    found = seen(await tables.rows(points("$.live", shape)))
    assert found == expected(events, shape)
    assert_curves_have_no_dents(found, shape.step)
    await tables.ok(f"CREATE TABLE $.curve ({COLUMNS}) USING parquet")
    view = await tables.drained(f"INSERT INTO $.curve {points(STREAM.format('live'), shape)}", conf=FAST)
    assert seen(await tables.rows("SELECT * FROM $.curve")) == expected(events, shape)
    assert view.progress is not None and view.progress.stream is not None
    assert view.progress.stream.state_rows == 1, "all that is kept is the pane of the last event"


@pytest.mark.parametrize("seed", [12])
async def test_a_replay_of_history_gives_every_point_that_was_live(tables: Streams, seed: int) -> None:
    events = silent_events(seed)
    batches = cut(events, seed)
    await store(tables, "live", [])
    await tables.ok(
        f"CREATE TABLE $.curve ({COLUMNS}) USING parquet", f"CREATE TABLE $.again ({COLUMNS}) USING parquet"
    )
    insert = f"INSERT INTO $.{{}} {points(STREAM.format('live'))}"
    for nth, batch in enumerate(batches):  # each run goes on from the checkpoint of the one before
        await append(tables, "live", batch)
        if nth in (1, len(batches) - 1):
            await tables.drained(insert.format("curve"), "live", conf=FAST)
    live = seen(await tables.rows("SELECT * FROM $.curve"))
    history = insert.format("again").replace("'maxFilesPerTrigger' = '1'", "'maxFilesPerTrigger' = '1000'")
    await tables.drained(history, "history", conf=FAST)
    assert seen(await tables.rows("SELECT * FROM $.again")) == live
    assert seen(await tables.rows(points("$.live"))) == live
    assert live == expected(events)


async def test_a_late_row_is_dropped_and_a_row_behind_the_end_begins_a_window_at_nothing(tables: Streams) -> None:
    def event(seconds: float, uid: int, v: int) -> Event:
        return Event(BASE + timedelta(seconds=seconds), "a", uid, 0, v)

    batches = [
        [event(10, 1, 5), event(70, 2, 7)],
        [event(400, 1, 1)],  # the window before has been over since 370 s
        [event(430, 1, 2)],
        [event(20, 3, 100)],  # late
        [END_EVENT],
    ]
    await store(tables, "live", batches)
    await tables.ok(f"CREATE TABLE $.curve ({COLUMNS}) USING parquet")
    await tables.drained(f"INSERT INTO $.curve {points(STREAM.format('live'))}", conf=FAST)
    on_time = [each for batch in batches[:4] for each in batch if each.v != 100]
    found = seen(await tables.rows("SELECT * FROM $.curve"))
    assert found == expected(on_time)
    starts = sorted({(row[1], row[3]) for row in found if row[2] == (BASE + 7 * MINUTE).isoformat()})
    assert starts == [((BASE + 6 * MINUTE).isoformat(), "1")]


AGGREGATES = (
    "k, window_start, window_end, window_time, count(*) AS a, count(item) AS b, sum(v) AS c, min(v) AS d, max(ts) AS e, "
    "avg(v) AS f, bool_and(v > -40) AS g, bool_or(v > 40) AS h, count_if(v > 0) AS i, sum(CAST(v AS DECIMAL(9, 2))) AS j, "
    "count(DISTINCT uid) AS l, count(DISTINCT uid) FILTER (WHERE v > 0) AS m, count(DISTINCT CAST(ts AS DATE)) AS n, "
    "min(CAST(ts AS DATE)) AS o, max(concat(k, CAST(v AS STRING))) AS p, sum(v) FILTER (WHERE v > 45) AS q, "
    "sum(v) / count(*) AS r, max(CAST(v AS DOUBLE) / 4) AS s, date_format(window_end, 'HH:mm') AS t, "
    "count(DISTINCT CAST(v % 3 AS DOUBLE)) AS u, min(X'00FF') AS w"
)


async def test_each_aggregate_has_the_same_value_in_a_stream_as_in_a_batch(tables: Streams) -> None:
    events = silent_events(21)
    await store(tables, "live", cut(events, 21))
    nulled = "(SELECT ts, nullif(k, 'b') AS k, uid, item, v FROM {})"
    batch = points(nulled.format("$.live"), of=AGGREGATES) + ", window_time HAVING count(*) > 1"
    stream = points(nulled.format(STREAM.format("live")), of=AGGREGATES) + ", window_time HAVING count(*) > 1"
    view = await tables.client.ok(batch.replace("$", tables.database))
    assert view.result is not None
    declared = ", ".join(f"{column.name} {column.type}" for column in view.result.columns)
    await tables.ok(f"CREATE TABLE $.curve ({declared}) USING parquet")
    await tables.drained(f"INSERT INTO $.curve {stream}", conf=FAST)
    found = seen(await tables.rows("SELECT * FROM $.curve"))
    assert found == seen(await tables.rows(batch))
    assert {"None", "a"} <= {row[0] for row in found}


@pytest.mark.thorough
async def test_a_preview_of_a_stream_shows_points_of_curves(tables: Streams) -> None:
    events = silent_events(31)
    await store(tables, "live", [events, [END_EVENT]])
    query = points(STREAM.format("live")).replace("$", tables.database)
    view = await tables.client.ok(query, mode=StatementMode.PREVIEW, result=ResultOptions(max_rows=1000))
    assert view.result is not None
    assert view.result.row_count == len(expected(events))
    shown = seen(list(view.result.preview))
    assert shown and set(shown) <= set(expected(events))


STATES: dict[str, list[tuple[Any, ...]]] = {
    "SELECT DISTINCT operator FROM savepoint_state('curve') ORDER BY 1": [("aggregate",), ("curve",)],
    "SELECT count(DISTINCT key.key_0) > 0, bool_and(value.emitted >= value.start), bool_and(value.total_0 > 0), "
    "bool_and(timestamp_micros(value.last) < current_timestamp()) FROM savepoint_state('curve', 'curve')": [
        (True,) * 4
    ],
    "SELECT bool_and(window_start < step_end), bool_and(first_event <= last_event) FROM savepoint_state('curve', 'aggregate')": [
        (True,) * 2
    ],
}
CHANGES = {
    "step": (points(STREAM.format("live"), Shape(2 * MINUTE, 5 * MINUTE)), "STEP 0:01:00 GAP 0:05:00, is"),
    "gap": (points(STREAM.format("live"), Shape(MINUTE, 6 * MINUTE)), "STEP 0:01:00 GAP 0:05:00, is"),
    "aggregate": (points(STREAM.format("live"), of=POINTS.replace("sum(v)", "max(v)")), "is max(v)"),
    "distinct": (points(STREAM.format("live"), of=POINTS.replace("DISTINCT uid", "DISTINCT item")), "item"),
}


async def test_a_curve_goes_on_from_the_state_of_its_own_text_and_of_no_other(tables: Streams) -> None:
    events = silent_events(41)
    half = len(events) // 2
    await store(tables, "live", [events[:half]])
    await tables.ok(f"CREATE TABLE $.curve ({COLUMNS}) USING parquet")
    insert = f"INSERT INTO $.curve {points(STREAM.format('live'))}"
    await tables.drained(insert, conf=FAST)
    place = SavepointPlace(name="curve", phase="Completed", location=tables.options().checkpoint)
    for sql, shown in STATES.items():
        view = await tables.client.ok(sql, savepoints=(place,))
        assert [row async for row in tables.client.pages(view.operation_id)] == shown, str(view.result)[:900]
    for changed, told in CHANGES.values():
        view = await tables.run(f"INSERT INTO $.curve {changed}")
        assert view.error is not None and view.error.reason is ErrorReason.STATE_INCOMPATIBLE, view
        assert told in view.error.message
    await append(tables, "live", events[half:])
    await append(tables, "live", [END_EVENT])
    await tables.drained(f"{insert} -- the same with a comment\nHAVING count(*) > 0", conf=FAST)
    assert seen(await tables.rows("SELECT * FROM $.curve")) == expected(events)


async def test_curve_goes_on_from_its_savepoint_and_its_rebuilt_state_once_the_checkpoint_is_gone(
    tables: Streams,
) -> None:
    events = silent_events(41)
    third = len(events) // 3
    await store(tables, "live", [events[:third]])
    await tables.ok(f"CREATE TABLE $.curve ({COLUMNS}) USING parquet")
    insert = f"INSERT INTO $.curve {points(STREAM.format('live'))}"
    await tables.drained(insert, "first", conf=FAST)
    saved = await tables.saved("saved", "first")
    rmtree(tables.folder / "first")
    await append(tables, "live", events[third : 2 * third])
    await tables.drained(insert, "fork", conf=FAST, restore=RestoreOptions(location=saved, query_id=FORK))
    rmtree(tables.folder / "saved")
    more = insert.replace("count(*) AS n", "count(*) + 0 * max(v) AS n")
    anew = RestoreOptions(location=tables.options("fork").checkpoint, query_id=FORK, rewrite=True)
    await tables.drained(more, "rebuilt", conf=FAST, restore=anew, rewrites=True, rebuilds=True)
    rmtree(tables.folder / "fork")
    await append(tables, "live", events[2 * third :])
    await append(tables, "live", [END_EVENT])
    await tables.drained(more, "rebuilt", conf=FAST, restore=anew, rewrites=True, rebuilds=True)
    assert seen(await tables.rows("SELECT * FROM $.curve")) == expected(events)


async def test_a_store_of_state_that_cannot_keep_curves_is_refused_by_its_setting(tables: Streams) -> None:
    await store(tables, "live", [silent_events(51), [END_EVENT]])
    await tables.ok(f"CREATE TABLE $.curve ({COLUMNS}) USING parquet")
    insert = f"INSERT INTO $.curve {points(STREAM.format('live'))}"
    view = await tables.run(insert, "hdfs", conf={STATE_STORE: f"{STORES}HDFSBackedStateStoreProvider"})
    assert view.error is not None and view.error.reason is ErrorReason.INVALID_SPEC, view
    assert f"set {STATE_STORE} to {STORES}RocksDBStateStoreProvider" in view.error.message
    view = await tables.run(insert, "rocks", conf={**FAST, STATE_STORE: f"{STORES}RocksDBStateStoreProvider"})
    assert view.state is OperationState.FINISHED, view


CALL = cumulate("$.live")
REFUSALS = {
    "size and gap": (points("$.live").replace("STEP =>", "SIZE => INTERVAL 1 HOUR, STEP =>"), "SIZE and GAP exclude"),
    "offset": (points("$.live").replace("STEP =>", "OFFSET => INTERVAL 1 SECOND, STEP =>"), "OFFSET goes with SIZE"),
    "short gap": (points("$.live", Shape(5 * MINUTE, MINUTE)), "GAP must be at least STEP"),
    "steps of days": (points("$.live", Shape(1440 * MINUTE, 2880 * MINUTE)), "no whole days"),
    "no step": (points("$.live").replace("STEP => INTERVAL '60' SECOND, ", ""), "lacks STEP"),
    "no keys": (points("$.live").replace("PARTITION BY k,", ","), "PARTITION BY behind the table"),
    "no bounds": (f"SELECT k, count(*) FROM {CALL} GROUP BY k, window_end", "both window_start and window_end"),
    "other keys": (f"SELECT count(*) FROM {CALL} GROUP BY uid, window_start, window_end", "columns of PARTITION BY, k,"),
    "more keys": (f"SELECT count(*) FROM {CALL} {BY}, uid", "columns of PARTITION BY, k,"),
    "no aggregation": (f"SELECT * FROM {CALL}", "aggregate its rows, GROUP BY k, window_start, window_end"),
    "grouping sets": (f"SELECT count(*) FROM {CALL} GROUP BY ROLLUP(k, window_start, window_end)", "aggregate its rows"),
    "bound in an aggregate": (f"SELECT max(window_end) FROM {CALL} {BY}", "known when rows have been aggregated"),
    "list": (f"SELECT collect_list(v) FROM {CALL} {BY}", "collect_list of INT is no aggregate"),
    "distinct sum": (f"SELECT sum(DISTINCT v) FROM {CALL} {BY}", "sum(DISTINCT ...)"),
    "distinct of two": (f"SELECT count(DISTINCT v, uid) FROM {CALL} {BY}", "count(DISTINCT ...)"),
    "decimal average": (f"SELECT avg(CAST(v AS DECIMAL(5, 2))) FROM {CALL} {BY}", "avg of DECIMAL(5,2) is no aggregate"),
    "distinct of a list": (f"SELECT count(DISTINCT array(v)) FROM {CALL} {BY}", "cannot be of type ARRAY<INT>"),
    "partition of a fixed size": (
        points("$.live").replace("GAP =>", "SIZE =>"),
        "allows no PARTITION BY, as its windows are the same for all rows",
    ),
}  # fmt: skip


async def test_a_curve_that_cannot_be_is_refused_with_its_reason(tables: Streams) -> None:
    await store(tables, "live", [silent_events(61)])
    wrong = []
    for name, (query, reason) in REFUSALS.items():
        view = await tables.client.run(query.replace("$", tables.database))
        if view.error is None or reason not in view.error.message:
            wrong.append((name, view.error or view))
    assert wrong == []
