"""Window table functions: the same words give the same rows in a batch and in a stream, and those that Python computes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.support.thorough import thorough_but

from ..client import GatewayClient
from ..streams import Streams
from .window_events import STREAM, Event, cumulate, events, floor, hop, over, store, tumble

DATABASE = "windows_of_streams"
EVENTS, OTHERS = events(1), events(2)
MINUTE = timedelta(minutes=1)
BY_WINDOW = "GROUP BY window_start, window_end"


@pytest.fixture
async def tables(client: GatewayClient, tmp_path: Path) -> Streams:
    """Both tables of events, made by the first test that asks for them."""
    made = Streams(client, tmp_path, DATABASE)
    await made.ok("CREATE DATABASE IF NOT EXISTS $")
    known = {row[1] for row in await made.rows("SHOW TABLES IN $")}
    for name, rows in (("ev", EVENTS), ("ev2", OTHERS)):
        if name not in known:
            await store(made, name, rows)
    return made


def windows_of(call: str, **changes: str) -> str:
    """`call` is `FUNCTION; further arguments`, over the table `src` of a text."""
    function, arguments = call.split("; ")
    return f"{function}(TABLE {{src}}, DESCRIPTOR(ts), {arguments})"


CUMULATE = windows_of("CUMULATE; INTERVAL 1 MINUTE, INTERVAL 10 MINUTES")
HOP = windows_of("HOP; INTERVAL 2 MINUTES, INTERVAL 5 MINUTES")
TUMBLE = windows_of("TUMBLE; INTERVAL 5 MINUTES")
JOINED = (
    "SELECT coalesce(l.window_start, r.window_start) AS window_start, coalesce(l.window_end, r.window_end) AS window_end, "
    "l.uid AS lu, r.uid AS ru, l.v AS lv, r.v AS rv FROM (SELECT * FROM {0}) l {kind} JOIN (SELECT * FROM {1}) r "
    "ON l.uid = r.uid AND l.item = r.item AND l.window_start = r.window_start AND l.window_end = r.window_end"
)
ONE_MINUTE = windows_of("TUMBLE; INTERVAL 1 MINUTE")
OTHER_MINUTE = ONE_MINUTE.replace("{src}", "{other}")

QUERIES = {
    "tumble": f"SELECT window_start, window_end, window_time, k, count(*) n FROM TABLE({TUMBLE}) {BY_WINDOW}, window_time, k",
    "cumulate by panes": f"SELECT window_start, window_end, k, count(*) n, sum(v) s, avg(v) a, max(v) m, min(ts) t, "
    f"count(v) FILTER (WHERE v > 50) f, bool_or(v > 90) b, count_if(v > 10) c, bit_xor(uid) x FROM {CUMULATE} {BY_WINDOW}, k",
    "cumulate without panes": f"SELECT window_start, window_end, k, array_sort(collect_list(v)) l FROM {CUMULATE} {BY_WINDOW}, k",
    "hop by an expression": f"SELECT window_start, window_end, upper(k) u, count(*) n FROM {HOP} {BY_WINDOW}, upper(k)",
    "having": f"SELECT window_start, window_end, k, count(*) n FROM {HOP} {BY_WINDOW}, k HAVING sum(v) > 500",
    "grouping sets": f"SELECT window_start, window_end, k, item, count(*) n, sum(v) s FROM {CUMULATE} GROUP BY GROUPING SETS "
    "((window_start, window_end), (window_start, window_end, k), (window_start, window_end, k, item))",
    "rollup": f"SELECT window_start, window_end, k, count(*) n FROM {TUMBLE} {BY_WINDOW}, ROLLUP(k)",
    "cube": f"SELECT window_start, window_end, k, item, grouping_id() g, count(*) n FROM {HOP} {BY_WINDOW}, CUBE(k, item)",
    "cascade": f"WITH a AS (SELECT window_start, window_end, window_time AS rowtime, k, count(*) n FROM {ONE_MINUTE} "
    f"{BY_WINDOW}, window_time, k) SELECT window_start, window_end, k, sum(n) n, count(*) c "
    f"FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(rowtime), INTERVAL 5 MINUTES)) {BY_WINDOW}, k",
    "session": "SELECT window_start, window_end, window_time, uid, count(*) n FROM SESSION(TABLE {src} PARTITION BY uid, "
    f"DESCRIPTOR(ts), INTERVAL 40 SECONDS) {BY_WINDOW}, window_time, uid",
    "session of all": f"SELECT window_start, window_end, count(*) n FROM {windows_of('SESSION; INTERVAL 2 SECONDS')} {BY_WINDOW}",
    "cascade over sessions": "WITH s AS (SELECT window_start, window_end, window_time t, uid, count(*) n FROM SESSION(TABLE {src}, "
    f"DESCRIPTOR(ts), INTERVAL 40 SECONDS) {BY_WINDOW}, window_time, uid) SELECT window_start, window_end, sum(n) n, count(*) c "
    f"FROM TUMBLE(TABLE s, DESCRIPTOR(t), INTERVAL 5 MINUTES) {BY_WINDOW}",
    **{
        f"{kind.lower()} join": JOINED.replace("{0}", ONE_MINUTE).replace("{1}", OTHER_MINUTE).replace("{kind}", kind)
        for kind in ("INNER", "LEFT", "RIGHT", "FULL")
    },
    "semi join": f"SELECT l.* FROM {ONE_MINUTE} l LEFT SEMI JOIN {OTHER_MINUTE} r ON l.uid = r.uid AND l.item = r.item "
    "AND l.window_start = r.window_start AND l.window_end = r.window_end",
    "join of aggregations": f"SELECT a.window_start, a.window_end, a.k, a.n, b.s FROM (SELECT window_start, window_end, k, "
    f"count(*) n FROM {CUMULATE} {BY_WINDOW}, k) a JOIN (SELECT window_start, window_end, k, sum(v) s FROM "
    f"{CUMULATE.replace('{src}', '{other}')} {BY_WINDOW}, k) b ON a.k = b.k AND a.window_start = b.window_start "
    "AND a.window_end = b.window_end",
    "first items": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY s DESC, item) rn "
    f"FROM (SELECT window_start, window_end, item, sum(v) s FROM {CUMULATE} {BY_WINDOW}, item)) WHERE rn <= 3",
    "ranks": "SELECT *, RANK() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) r, lag(n) OVER (PARTITION BY "
    "window_start, window_end ORDER BY item) l, sum(s) OVER (PARTITION BY window_end) t FROM "
    f"(SELECT window_start, window_end, item, sum(v) s, count(*) n FROM {TUMBLE} {BY_WINDOW}, item)",
    "first rows": "SELECT window_start, window_end, k, v, uid, ts, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
    f"window_start, window_end ORDER BY item DESC, k, v NULLS LAST, ts, uid) rn FROM {TUMBLE}) WHERE rn <= 9",
    "last row of each": "SELECT window_start, window_end, uid, v, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
    f"window_start, window_end, uid ORDER BY ts DESC, v) rn FROM {TUMBLE}) WHERE rn = 1",
    "distinct": f"SELECT window_start, window_end, k, count(DISTINCT uid) u, count(*) n, sum(v) s FROM {CUMULATE} {BY_WINDOW}, k",
    "several distincts": "SELECT window_start, window_end, k, count(DISTINCT uid) u, count(DISTINCT item) i, count(DISTINCT uid) "
    f"FILTER (WHERE v > 50) f, sum(DISTINCT v) s, count(*) n, avg(v) a, max(v) m FROM {TUMBLE} {BY_WINDOW}, k",
    "distinct by listed keys": f"SELECT window_start, window_end, k, concat('k', k) c, count(DISTINCT uid) u, count(*) n, avg(v) a, "
    f"sum(v) FILTER (WHERE v > 50) f FROM {TUMBLE} WHERE k IN ('a', 'c', 'x') AND v > 5 {BY_WINDOW}, k",
    "distinct by keys with or": f"SELECT window_start, window_end, item, k, count(DISTINCT uid) u FROM {CUMULATE} "
    f"WHERE item = 3 OR item = 7 OR item = 8 {BY_WINDOW}, item, k",
    "distinct in two steps by hand": f"SELECT window_start, window_end, sum(c) u FROM (SELECT window_start, window_end, "
    f"count(DISTINCT uid) c FROM {TUMBLE} {BY_WINDOW}, uid % 4) {BY_WINDOW}",
    "distinct by Spark's own windows": "SELECT window.start window_start, window.end window_end, count(DISTINCT uid) u "
    "FROM {src} GROUP BY window(ts, '5 minutes')",
    "best items and their hosts": f"WITH items AS (SELECT window_start, window_end, k, item, sum(v) s, count(DISTINCT uid) u FROM "
    f"{TUMBLE} {BY_WINDOW}, k, item), hosts AS (SELECT window_start, window_end, k, count(DISTINCT uid) hu FROM {TUMBLE} "
    f"{BY_WINDOW}, k) SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY s DESC, item DESC) "
    "rn FROM (SELECT i.window_start, i.window_end, i.k, i.item, i.s, i.u, h.hu FROM items i JOIN hosts h ON i.k = h.k "
    "AND i.window_start = h.window_start AND i.window_end = h.window_end)) WHERE rn <= 5",
}


RESUMED = frozenset(
    {
        "cube",
        "session",
        "full join",
        "first rows",
        "ranks",
        "several distincts",
        "distinct by listed keys",
        "best items and their hosts",
    }
)


# Queries whose state has several partitions and whose stages are compiled, as by default. Of so few rows, one partition is enough.
SPREAD = {"cascade", "first rows"}
AS_BY_DEFAULT = {"spark.sql.codegen.wholeStage": "true"}
FAST = {"spark.sql.shuffle.partitions": "1"}
# Those that have a neighbour in what they are made of, and those whose state another test looks at.
THOROUGH = {
    "tumble",
    "cumulate by panes",
    "first items",
    "cascade over sessions",
    "cube",
    "hop by an expression",
    "join of aggregations",
    "cumulate without panes",
    "distinct",
    "distinct by Spark's own windows",
    "full join",
    "ranks",
    "rollup",
    "semi join",
    "session of all",
    "left join",
    "right join",
    "distinct by keys with or",
    "distinct in two steps by hand",
    "several distincts",
    "distinct by listed keys",
}


@pytest.mark.parametrize("name", thorough_but(QUERIES.keys() - THOROUGH, QUERIES))
async def test_a_query_has_the_same_rows_in_a_stream_as_in_a_batch(tables: Streams, name: str) -> None:
    query, target = QUERIES[name], re.sub(r"\W", "_", name)
    batch = query.replace("{src}", "$.ev").replace("{other}", "$.ev2")
    view = await tables.client.ok(batch.replace("$", DATABASE))
    assert view.result is not None
    columns = [column.name for column in view.result.columns]
    expected = over(await tables.rows(batch), columns)
    declared = ", ".join(f"{column.name} {column.type}" for column in view.result.columns)
    await tables.ok(f"DROP TABLE IF EXISTS $.{target}", f"CREATE TABLE $.{target} ({declared}) USING parquet")
    stream = query.replace("{src}", STREAM.format("ev")).replace("{other}", STREAM.format("ev2"))
    conf = AS_BY_DEFAULT if name in SPREAD else FAST
    view = await tables.drained(f"INSERT INTO $.{target} {stream}", target, conf=conf)
    if name in RESUMED:
        await tables.drained(
            f"INSERT INTO $.{target} {stream}", target, conf=conf
        )  # what is prepared anew fits the state
    assert expected, "the query has no rows to compare"
    assert over(await tables.rows(f"SELECT * FROM $.{target}"), columns) == expected, view


# What is kept of an event in its window: a value that several counts, or the values of a listed key, share is there once.
SHARED: dict[str, Callable[[Event], tuple[Any, ...]]] = {
    "several distincts": lambda each: (each.k, (each.k, 1, each.uid), (each.k, 2, each.item), (each.k, 3, each.v)),
    "distinct by listed keys": lambda each: (each.uid,) if each.k in ("a", "c") and each.v > 5 else (),
}


@pytest.mark.parametrize("name", SHARED)
async def test_distinct_counts_share_their_state_and_go_on_from_it(tables: Streams, name: str) -> None:
    query, target = QUERIES[name], "state_of_" + re.sub(r"\W", "_", name)
    source, (*coming, [closing]) = f"{target}_src", EVENTS
    halves = [[*chain(*coming[:2])], [*chain(*coming[2:])]]
    await store(tables, source, halves)
    batch, stream = (query.replace("{src}", src) for src in (f"$.{source}", STREAM.format(source)))
    described = [row[:2] for row in await tables.rows(f"DESCRIBE QUERY {batch}")]
    columns = [column for column, _ in described]
    await tables.ok(f"CREATE TABLE $.{target} ({', '.join(map(' '.join, described))}) USING parquet")
    view = await tables.drained(f"INSERT INTO $.{target} {stream}", target, conf=FAST)
    assert view.progress is not None and view.progress.stream is not None
    assert view.progress.stream.state_rows == rows_of_state([*chain(*halves)], SHARED[name]), view.progress.stream
    await tables.ok(f"INSERT INTO $.{source} VALUES (TIMESTAMP'{closing.ts}', 'a', 0, 3, 99)")
    await tables.drained(f"INSERT INTO $.{target} {stream}", target, conf=FAST)
    expected = over(await tables.rows(batch), columns)
    assert over(await tables.rows(f"SELECT * FROM $.{target}"), columns) == expected != []


def rows_of_state(rows: list[Event], kept: Callable[[Event], tuple[Any, ...]]) -> int:
    """Of windows of five minutes that the watermark has not passed."""
    timed = [(each.ts, each) for each in rows if each.ts is not None]
    watermark = max(ts for ts, _ in timed) - timedelta(seconds=30)
    windows = [(floor(ts, 5 * MINUTE), each) for ts, each in timed if ts >= floor(watermark, 5 * MINUTE)]
    return len({(window, key) for window, each in windows for key in kept(each)})


ASSIGNMENTS: dict[str, tuple[str, Callable[[datetime], Iterator[tuple[datetime, datetime]]]]] = {
    "tumble": ("TUMBLE; INTERVAL '10' MINUTES", lambda time: tumble(time, 10 * MINUTE)),
    "tumble of 7 seconds": ("TUMBLE; '7 seconds', '-3 seconds'", lambda time: tumble(time, MINUTE * 7 / 60, -MINUTE * 3 / 60)),
    "tumble with an offset": ("TUMBLE; INTERVAL '1' DAY, INTERVAL '-8' HOUR", lambda time: tumble(time, 1440 * MINUTE, -480 * MINUTE)),
    "hop": ("HOP; INTERVAL 2 MINUTES, INTERVAL 10 MINUTES", lambda time: hop(time, 2 * MINUTE, 10 * MINUTE)),
    "hop that does not divide": ("HOP; INTERVAL 3 MINUTES, INTERVAL 7 MINUTES", lambda time: hop(time, 3 * MINUTE, 7 * MINUTE)),
    "hop with an offset": (
        "HOP; SLIDE => INTERVAL 2 MINUTES, SIZE => INTERVAL 5 MINUTES, OFFSET => INTERVAL 90 SECONDS",
        lambda time: hop(time, 2 * MINUTE, 5 * MINUTE, 1.5 * MINUTE),
    ),
    "cumulate": ("CUMULATE; INTERVAL 1 MINUTE, INTERVAL 10 MINUTES", lambda time: cumulate(time, MINUTE, 10 * MINUTE)),
    "cumulate with an offset": (
        "CUMULATE; SIZE => INTERVAL 10 MINUTES, OFFSET => INTERVAL '-6' MINUTE, STEP => INTERVAL 1 MINUTE",
        lambda time: cumulate(time, MINUTE, 10 * MINUTE, -6 * MINUTE),
    ),
    "cumulate of a week": (
        "CUMULATE; INTERVAL 1 DAY, INTERVAL 7 DAYS, INTERVAL 4 DAYS",
        lambda time: cumulate(time, 1440 * MINUTE, 7 * 1440 * MINUTE, 4 * 1440 * MINUTE),
    ),
}  # fmt: skip
ODD = ("tumble of 7 seconds", "hop that does not divide", "hop with an offset", "cumulate of a week")


@pytest.mark.parametrize("name", thorough_but(ODD, ASSIGNMENTS))
async def test_rows_and_counts_of_windows_are_those_that_python_computes(tables: Streams, name: str) -> None:
    arguments, assigned = ASSIGNMENTS[name]
    rows = [event for batch in EVENTS for event in batch]
    call = windows_of(arguments).replace("{src}", "$.ev")
    found = await tables.rows(f"SELECT window_start, window_end, window_time, ts, uid, v FROM {call}")
    expected = [
        (start, end, end - timedelta(microseconds=1), event.ts, event.uid, event.v)
        for event in rows
        if event.ts is not None
        for start, end in assigned(event.ts)
    ]
    assert Counter(map(_shown, found)) == Counter(map(_shown, expected))
    found = await tables.rows(f"SELECT window_start, window_end, k, count(*), sum(v) FROM {call} {BY_WINDOW}, k")
    assert sorted(map(_shown, found)) == sorted(map(_shown, _counted(rows, assigned)))


def _counted(
    rows: list[Event], assigned: Callable[[datetime], Iterator[tuple[datetime, datetime]]]
) -> Iterator[tuple[Any, ...]]:
    counts: Counter[tuple[Any, ...]] = Counter()
    sums: Counter[tuple[Any, ...]] = Counter()
    for event in rows:
        for start, end in assigned(event.ts) if event.ts is not None else ():
            counts[start, end, event.k] += 1
            sums[start, end, event.k] += event.v
    for key, count in counts.items():
        yield *key, count, sums[key]


def _shown(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(
        datetime.fromisoformat(str(value)).replace(tzinfo=None).isoformat() if ":" in str(value) else str(value)
        for value in row
    )
