"""Conditions on the bounds of sessions choose among whole sessions, wherever they stand, and never change what is in one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.sql.errors import PlacedError, StatementError
from sparksql.gateway.streaming.state.compatibility import differences
from tests.support.thorough import thorough_but

from ..local_spark import local_spark
from ..upgrades.structures import described, make_tables
from .window_model import SECOND, Batch, Query, Row, sessions_in_batch, sessions_in_stream
from .window_runs import Bench, Setting, blank_row

GAP = 60
BY_KEY = Query(("k",), ((0,),), "window_start, window_end, k", ("n",))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("spark"), **{"spark.sql.shuffle.partitions": "2"}) as started:
        make_tables(started)
        yield started


@pytest.fixture(scope="module")
def bench(driver: SparkDriver, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Some hundred rows, and sessions of one key that touch those of another."""
    bench = Bench(driver, tmp_path_factory.mktemp("tables"), "visits", Setting("TIMESTAMP", "UTC", False, True))
    bench.write(files(random.Random(3)))
    bench.plan(f"CREATE TEMPORARY VIEW of_call AS {called('TABLE visits')}")
    bench.plan(f"CREATE VIEW of_spark AS {plain('visits')}")
    return bench


def files(draw: random.Random) -> list[list[Row]]:
    """Four files of rows, each later than the one before, and one that ends all sessions."""
    made: list[list[Row]] = []
    for file in range(4):
        times = sorted(file * 600 + draw.randrange(600) for _ in range(25))
        made.append([blank_row(time, time * SECOND, k=draw.choice("ab")) for time in times])
    return [*made, [blank_row(10**5, 10**5 * SECOND, k="z")]]


def called(table: str) -> str:
    call = f"SESSION({table} PARTITION BY k, DESCRIPTOR(ts), INTERVAL {GAP} SECONDS)"
    return (
        f"SELECT window_start AS s, window_end AS e, k, count(*) AS n FROM {call} GROUP BY window_start, window_end, k"
    )


def plain(table: str) -> str:
    return (
        f"SELECT session_window.start AS s, session_window.end AS e, k, count(*) AS n FROM {table} "
        f"GROUP BY session_window(ts, '{GAP} seconds'), k"
    )


Session = tuple[int, int, str, int]
Taken = Callable[[Session], bool]


@dataclass(frozen=True)
class Condition:
    """A condition on `s`, `e` and `k`, in SQL and in Python; times in seconds."""

    sql: str
    takes: Taken


def drawn_condition(draw: random.Random) -> Condition:
    at = draw.randrange(2400)
    one = draw.choice(
        [
            Condition(f"e > timestamp_seconds({at})", lambda row: row[1] > at),
            Condition(f"s < timestamp_seconds({at})", lambda row: row[0] < at),
            Condition(f"minute(s) % 2 = {at % 2}", lambda row: row[0] // 60 % 2 == at % 2),
            Condition(f"e - s > INTERVAL {at % 200} SECONDS", lambda row: row[1] - row[0] > at % 200),
            Condition(f"date_trunc('MINUTE', e) >= timestamp_seconds({at})", lambda row: row[1] // 60 * 60 >= at),
            Condition(f"(e > timestamp_seconds({at}) OR k = 'a')", lambda row: row[1] > at or row[2] == "a"),
        ]
    )
    key = draw.choice("ab")
    match draw.randrange(3):
        case 0:
            return Condition(f"{one.sql} AND k = '{key}'", lambda row: one.takes(row) and row[2] == key)
        case 1:
            return Condition(f"{one.sql} AND n > 1", lambda row: one.takes(row) and row[3] > 1)
        case _:
            return one


def sessions(bench: Bench) -> list[Session]:
    """All sessions of a table, in seconds."""
    kept = sessions_in_batch(GAP * SECOND, BY_KEY, [Batch(bench.rows(), 0)])
    return [(start // SECOND, end // SECOND, k, n) for start, end, k, n in BY_KEY.rows(kept)]


def in_seconds(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter((start // SECOND, end // SECOND, *rest) for start, end, *rest in rows)


ROUTES = {
    "HAVING": "{query} HAVING {condition}",
    "WHERE": "SELECT * FROM ({query}) WHERE {condition}",
    "WITH": "WITH w AS ({query}) SELECT s, e, k, n FROM w WHERE {condition}",
    "a temporary view": "SELECT * FROM of_call WHERE {condition}",
    "a view of the catalog": "SELECT * FROM of_spark WHERE {condition}",
    "HAVING of groups of groups": "SELECT s, e, k, max(n) AS n FROM ({query}) GROUP BY s, e, k HAVING {condition}",
    "WHERE around ranks": "SELECT s, e, k, n FROM (SELECT *, row_number() OVER (PARTITION BY s, e, k ORDER BY n) AS r "
    "FROM ({query})) WHERE r = 1 AND {condition}",
    "WHERE around a union": "SELECT * FROM ({query} UNION ALL SELECT * FROM of_call WHERE false) WHERE {condition}",
    "WHERE around a join": "SELECT s, e, k, n FROM ({query}) LEFT JOIN (SELECT 'a' AS o) ON k = o WHERE {condition}",
    "ON": "SELECT s, e, k, n FROM ({query}) JOIN (SELECT 1 AS one) ON one = 1 AND {condition}",
    "EXISTS": "SELECT * FROM of_call o WHERE EXISTS "
    "(SELECT 1 FROM ({plain}) i WHERE i.s = o.s AND i.e = o.e AND i.k = o.k AND {condition})",
}


@pytest.mark.parametrize("seed", thorough_but([1, 2], range(1, 12)))
@pytest.mark.parametrize("route", ROUTES)
def test_a_condition_on_bounds_of_sessions_chooses_among_whole_sessions(bench: Bench, route: str, seed: int) -> None:
    draw = random.Random(f"{route}{seed}")
    condition = drawn_condition(draw)
    query = draw.choice((called("TABLE visits"), plain("visits")))
    text = ROUTES[route].format(query=query, plain=plain("visits"), condition=condition.sql)
    found = in_seconds(bench.batch(text))
    assert found == Counter(row for row in sessions(bench) if condition.takes(row)), text


@pytest.mark.parametrize("of", ["of_call", "of_spark"])
def test_bounds_of_sessions_without_an_aggregate_are_those_of_whole_sessions(bench: Bench, of: str) -> None:
    """Spark does such groupings in one with another above, and takes any row for one of them where one is enough."""
    wanted = sessions(bench)
    query = (called("TABLE visits") if of == "of_call" else plain("visits")).replace(", count(*) AS n", "")
    assert {start for (start,) in bench.batch(f"SELECT DISTINCT s FROM ({query})")} == {
        row[0] * SECOND for row in wanted
    }
    ((start, end, key),) = bench.batch(f"{query} LIMIT 1")
    assert (start // SECOND, end // SECOND, key) in {row[:3] for row in wanted}
    last = max(row[1] for row in wanted if row[2] == "a")
    among = f"SELECT s, e, k FROM ({query}) WHERE e IN (SELECT max(e) FROM of_call WHERE k = 'a') AND k = 'a'"
    assert [(start // SECOND, end // SECOND) for start, end, _ in bench.batch(among)] == [
        (row[0], row[1]) for row in wanted if row[1] == last and row[2] == "a"
    ]


def test_sessions_of_two_tables_join_on_their_bounds_as_they_are(bench: Bench) -> None:
    """What a join tells of one side is a condition on the other."""
    late = "SELECT s, e, k AS other FROM of_spark WHERE s > timestamp_seconds(1200)"
    joined = f"SELECT l.s, l.e, k, n FROM of_call l JOIN ({late}) r ON l.s = r.s AND l.e = r.e AND k = other"
    assert in_seconds(bench.batch(joined)) == Counter(row for row in sessions(bench) if row[0] > 1200)


def test_a_condition_on_another_key_of_sessions_is_applied_to_the_rows_below(driver: SparkDriver, bench: Bench) -> None:
    text = f"{called('TABLE visits')} HAVING k = 'a' AND window_end > timestamp_seconds(100)"
    plan = bench.plan(text).queryExecution().optimizedPlan()
    (merging,) = [node for node in nodes(plan) if simple_name(node) == "Aggregate"]
    below = [str(node.condition().sql()) for node in nodes(merging) if simple_name(node) == "Filter"]
    assert any("= 'a'" in condition for condition in below)
    assert not any("1970" in condition for condition in below)


@pytest.mark.parametrize("of", ["call", "plain"])
def test_a_condition_on_bounds_of_a_stream_s_sessions_chooses_among_whole_sessions(
    driver: SparkDriver, tmp_path: Path, of: str
) -> None:
    draw = random.Random(7)
    bench = Bench(driver, tmp_path, f"streamed_{of}", Setting("TIMESTAMP", "UTC", False, True))
    bench.write(files(draw))
    source = bench.streamed(20 * SECOND)
    query = called(f"TABLE(FROM {source})") if of == "call" else plain(source)
    bench.run_stream(f"SELECT * FROM ({query}) WHERE e > timestamp_seconds(900) AND minute(s) % 2 = 0 AND k <> 'z'")
    kept = sessions_in_stream(GAP * SECOND, BY_KEY, bench.batches())
    wanted = [(start // SECOND, end // SECOND, *rest) for start, end, *rest in BY_KEY.rows(kept)]
    assert in_seconds(bench.stream_rows()) == Counter(
        row for row in wanted if row[1] > 900 and row[0] // 60 % 2 == 0 and row[2] != "z"
    )


def test_a_state_of_sessions_fits_a_text_with_another_condition_on_their_bounds(driver: SparkDriver) -> None:
    source = "STREAM src WATERMARK ts DELAY OF INTERVAL 10 SECONDS"
    text = f"SELECT country, count(*) FROM {source} GROUP BY country, session_window(ts, '1 minute')"
    old = described(driver, text, "old")
    assert not differences(old, described(driver, f"{text} HAVING session_window.end > TIMESTAMP'2026-01-01'", "new"))
    assert differences(old, described(driver, f"{text} HAVING country <> 'de'", "new"))


@pytest.mark.parametrize("of", ["call", "plain"])
def test_distinct_values_of_a_stream_s_sessions_are_refused_with_a_remedy(
    driver: SparkDriver, tmp_path: Path, of: str
) -> None:
    bench = Bench(driver, tmp_path, f"distinct_{of}", Setting("TIMESTAMP", "UTC", False, True))
    bench.write([[blank_row(1, SECOND, k="a")]])
    source = bench.streamed(SECOND)
    query = called(f"TABLE(FROM {source})") if of == "call" else plain(source)
    with pytest.raises(StatementError, match=r"DISTINCT in sessions .* size\(collect_set"):
        bench.run_stream(query.replace("count(*)", "count(DISTINCT g)"))


def test_several_distinct_values_of_sessions_are_refused_with_a_remedy(bench: Bench) -> None:
    query = called("TABLE visits").replace("count(*) AS n", "count(DISTINCT g) AS n, count(DISTINCT id) AS m")
    with pytest.raises(PlacedError, match=r"DISTINCT.* size\(collect_set"):
        bench.plan(query)


TWO = "count(DISTINCT g) AS n, count(DISTINCT id) AS m"
# Aggregations by Spark's own sessions of several DISTINCTs, in the places of a batch.
SEVERAL = {
    "a query": "{two}",
    "FILTER": "{filtered}",
    "a subquery": "SELECT s FROM ({two}) WHERE n > 1",
    "a WITH": "WITH w AS ({two}) SELECT l.s FROM w l JOIN w r ON l.s = r.s",
    "EXISTS": "SELECT 1 AS one WHERE EXISTS (SELECT 1 FROM ({filtered}) WHERE n > 1)",
    "rows of a subquery": "SELECT count(DISTINCT g) AS a, count(DISTINCT n) AS b FROM (SELECT session_window AS w, g, count(*) AS n "
    "FROM visits GROUP BY session_window(ts, '60 seconds'), g) GROUP BY w",
}


@pytest.mark.parametrize("place", SEVERAL)
def test_several_distinct_values_of_spark_s_own_sessions_are_refused_with_a_remedy(bench: Bench, place: str) -> None:
    two = plain("visits").replace("count(*) AS n", TWO)
    filtered = plain("visits").replace("count(*) AS n", "count(DISTINCT g) FILTER (WHERE id > 1) AS n")
    text = SEVERAL[place].format(two=two, filtered=filtered)
    with pytest.raises(Exception, match=r"UNSUPPORTED_FEATURE.* DISTINCT.* session_window: .* size\(collect_set"):
        bench.batch(text)


def test_distinct_values_of_one_column_by_spark_s_own_sessions_are_those_of_whole_sessions(bench: Bench) -> None:
    texts = {
        each: plain("visits").replace("count(*) AS n", f"{each} AS n, count(*) AS m")
        for each in ("count(DISTINCT id)", "size(collect_set(id))")
    }
    wanted = in_seconds(bench.batch(texts["size(collect_set(id))"]))
    assert {row[:3] for row in wanted} == {row[:3] for row in sessions(bench)}
    assert in_seconds(bench.batch(texts["count(DISTINCT id)"])) == wanted
    apart = texts["count(DISTINCT id)"]
    joined = f"SELECT a.s, a.e, a.k, a.n, b.m FROM ({apart}) a JOIN ({apart.replace('id', 'ts')}) b USING (s, e, k)"
    assert in_seconds(bench.batch(joined)) == wanted
