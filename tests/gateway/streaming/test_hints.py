"""The hint MINI_BATCH: what it means, that fields win over it, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparksql.api.execution import Lookup, TriggerMode
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.streaming.insert import parsed_insert
from sparksql.gateway.streaming.mini_batch_hint import hinted
from sparksql.gateway.streaming.sources import nodes
from sparksql.gateway.streaming.trigger import window_millis
from sparksql.wire.control import ErrorReason, OperationState, StreamOptions

from ..local_spark import local_spark
from ..streams import Streams

ALL = "latency('5 seconds'), rows(10000), files(10)"
SAID = (5000, 10000, 10)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("spark")) as started:
        yield started


def read(driver: SparkDriver, sql: str, **fields: Any) -> tuple[Any, StreamOptions]:
    """The query without its hint, and the options, of a text of which `$` stands for the target and the verb."""
    plan = driver.clone().sessionState().sqlParser().parsePlan(sql.replace("$", "INSERT INTO t SELECT"))
    parsed, options = hinted(
        driver.jvm, parsed_insert(driver.jvm, plan), StreamOptions(checkpoint="file:///c", **fields)
    )
    return parsed.query, options


def values(options: StreamOptions) -> tuple[int | None, int, int]:
    return options.interval_millis, options.max_rows_per_trigger, options.max_files_per_trigger


def hint_names(query: Any) -> list[str]:
    return [str(node.name()) for node in nodes(query) if str(node.getClass().getSimpleName()) == "UnresolvedHint"]


TEXTS: dict[str, tuple[str, tuple[int | None, int, int]]] = {
    "none": ("$ a FROM STREAM s", (None, 0, 0)),
    "all": (f"$ /*+ MINI_BATCH({ALL}) */ a FROM STREAM s", SAID),
    "small letters": ("$ /*+ mini_batch(LATENCY('1 minute')) */ a FROM STREAM s", (60_000, 0, 0)),
    "interval": ("$ /*+ MINI_BATCH(latency(INTERVAL 1500 MILLISECONDS)) */ a FROM STREAM s", (1500, 0, 0)),
    "at once": ("$ /*+ MINI_BATCH(latency('0 seconds')) */ a FROM STREAM s", (0, 0, 0)),
    "only rows": ("$ /*+ MINI_BATCH(rows(5000000000)) */ a FROM STREAM s", (None, 5_000_000_000, 0)),
    "below a union": (f"$ a FROM STREAM s UNION ALL SELECT /*+ MINI_BATCH({ALL}) */ a FROM STREAM r", SAID),
    "in a WITH": (f"WITH x AS (SELECT /*+ MINI_BATCH({ALL}) */ a FROM STREAM s) $ a FROM x", SAID),
    "below an aggregation": (f"$ n FROM (SELECT /*+ MINI_BATCH({ALL}) */ count(*) AS n FROM STREAM s)", SAID),
}


@pytest.mark.parametrize(("sql", "wanted"), TEXTS.values(), ids=TEXTS)
def test_a_mini_batch_hint_gives_the_trigger_and_batch_limits(
    driver: SparkDriver, sql: str, wanted: tuple[int | None, int, int]
) -> None:
    query, options = read(driver, sql)
    assert values(options) == wanted
    assert hint_names(query) == []


def test_hints_other_than_mini_batch_are_left_to_spark(driver: SparkDriver) -> None:
    sql = "$ /*+ BROADCAST(r), MINI_BATCH(rows(1)), COALESCE(2) */ a FROM STREAM s JOIN r"
    query, options = read(driver, sql)
    assert hint_names(query) == ["BROADCAST", "COALESCE"]
    assert values(options) == (None, 1, 0)


FIELDS: dict[str, tuple[dict[str, Any], tuple[int | None, int, int]]] = {
    "interval": ({"interval_millis": 100}, (100, 10000, 10)),
    "interval 0": ({"interval_millis": 0}, (0, 10000, 10)),
    "mode Interval": ({"trigger": TriggerMode.INTERVAL, "interval_millis": 100}, (100, 10000, 10)),
    "mode AvailableNow": ({"trigger": TriggerMode.AVAILABLE_NOW}, (None, 10000, 10)),
    "rows": ({"max_rows_per_trigger": 7}, (5000, 7, 10)),
    "files": ({"max_files_per_trigger": 7}, (5000, 10000, 7)),
}


LOOKUPS: dict[str, tuple[str, dict[str, Any], tuple[int | None, int, int], tuple[Lookup, ...]]] = {
    "all": (
        "MINI_BATCH(c, latency('5 seconds'), rows(7), ttl('10 minutes'))",
        {},
        (5000, 0, 0),
        (Lookup(table="c", latency_millis=5000, rows=7, ttl_seconds=600),),
    ),
    "two tables and the query": (
        "MINI_BATCH(pg.public.c), MINI_BATCH(d, latency('1 second')), MINI_BATCH(rows(9))",
        {},
        (1000, 9, 0),
        (Lookup(table="pg.public.c"), Lookup(table="d", latency_millis=1000)),
    ),
    "the query's latency": (
        "MINI_BATCH(c, latency('1 second')), MINI_BATCH(latency('7 seconds'))",
        {},
        (7000, 0, 0),
        (Lookup(table="c", latency_millis=1000),),
    ),
    "fields": (
        "MINI_BATCH(c, rows(7))",
        {"lookups": (Lookup(table="C", rows=3, latency_millis=2000), Lookup(table="d"))},
        (2000, 0, 0),
        (Lookup(table="C", rows=3, latency_millis=2000), Lookup(table="d")),
    ),
}


@pytest.mark.parametrize("case", LOOKUPS)
def test_a_mini_batch_hint_with_a_table_is_a_lookup_of_it(driver: SparkDriver, case: str) -> None:
    hint, fields, bounds, lookups = LOOKUPS[case]
    query, options = read(driver, f"$ /*+ {hint} */ a FROM STREAM s JOIN c JOIN d", **fields)
    assert (values(options), options.lookups, hint_names(query)) == (bounds, lookups, [])


@pytest.mark.parametrize(("fields", "wanted"), FIELDS.values(), ids=FIELDS)
def test_fields_of_the_statement_win_over_mini_batch_hints(
    driver: SparkDriver, fields: dict[str, Any], wanted: tuple[int | None, int, int]
) -> None:
    _, options = read(driver, TEXTS["all"][0], **fields)
    assert values(options) == wanted


REFUSED = {
    "MINI_BATCH": "says nothing",
    "MINI_BATCH(10)": "has no argument 10",
    "MINI_BATCH(lateness('1 second'))": "has no argument lateness",
    "MINI_BATCH(c), MINI_BATCH(c, rows(1))": "is given 2 times for c",
    "MINI_BATCH(c, files(1))": "has no argument files",
    "MINI_BATCH(c, ttl('500 milliseconds'))": "ttl is an interval",
    "MINI_BATCH(c, rows(1000001))": "rows is a whole number from 1 to 1000000",
    "MINI_BATCH(rows(1), rows(2))": "has rows twice",
    "MINI_BATCH(rows(1)), MINI_BATCH(files(1))": "is given 2 times",
    "MINI_BATCH(latency('soon'))": "latency is an interval",
    "MINI_BATCH(latency(5000))": "latency is an interval",
    "MINI_BATCH(latency('1 month'))": "latency is an interval",
    "MINI_BATCH(latency(INTERVAL 1 MONTH))": "latency is an interval",
    "MINI_BATCH(latency('-1 second'))": "latency is an interval",
    "MINI_BATCH(latency('61 seconds'))": "intervalMillis takes longer ones",
    "MINI_BATCH(rows('many'))": "rows is a whole number from 1",
    "MINI_BATCH(rows(1.5))": "rows is a whole number",
    "MINI_BATCH(rows(0))": "rows is a whole number",
    "MINI_BATCH(rows(1, 2))": "rows is a whole number",
    "MINI_BATCH(files(3000000000))": "files is a whole number from 1 to 2147483647",
}


@pytest.mark.parametrize(("hint", "says"), REFUSED.items(), ids=REFUSED)
def test_a_malformed_mini_batch_hint_is_refused_with_the_right_form(driver: SparkDriver, hint: str, says: str) -> None:
    with pytest.raises(StatementError) as raised:
        read(driver, f"$ /*+ {hint} */ a FROM STREAM s")
    error = raised.value.error
    assert error.reason is ErrorReason.INVALID_SPEC
    assert says in error.message and "Write MINI_BATCH(" in error.message


async def test_hint_bounds_the_batches_of_a_statement(streams: Streams) -> None:
    """Two files, one at a time, make two batches."""
    await streams.ok("CREATE TABLE $.dst (id INT) USING parquet", "INSERT INTO $.src VALUES (3, 'c', NULL)")
    view = await streams.drained("INSERT INTO $.dst SELECT /*+ MINI_BATCH(files(1)) */ id FROM STREAM $.src")
    assert view.progress is not None and view.progress.stream is not None
    files = await streams.rows("SELECT DISTINCT input_file_name() FROM $.src")
    assert len(files) > 1
    assert view.progress.stream.committed_batch_id == len(files) - 1
    assert await streams.rows("SELECT id FROM $.dst ORDER BY id") == [(1,), (2,), (3,)]


async def test_a_wrong_mini_batch_hint_ends_the_statement_before_it_writes(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.dst (id INT) USING parquet")
    view = await streams.run("INSERT INTO $.dst SELECT /*+ MINI_BATCH(files(0)) */ id FROM STREAM $.src")
    assert view.state is OperationState.ERROR and view.error is not None
    assert view.error.reason is ErrorReason.INVALID_SPEC and "files(0)" in view.error.message
    assert not (streams.folder / "c").exists()


WINDOWS = {
    "window(ts, '10 minutes')": {600_000},
    "window(ts, '10 minutes', '30 seconds')": {600_000, 30_000},
    "window(ts, INTERVAL 1 DAY)": {86_400_000},
    "window(ts, '1 day')": {86_400_000},
    "session_window(ts, '5 seconds')": {5000},
    "window(ts, '1 month')": set(),
    "date_trunc('minute', ts)": set(),
}


@pytest.mark.parametrize(("grouping", "wanted"), WINDOWS.items(), ids=WINDOWS)
def test_windows_of_a_query_are_read(driver: SparkDriver, grouping: str, wanted: set[int]) -> None:
    """What the interval is chosen by when neither a field nor the hint tells it."""
    query, _ = read(driver, f"$ count(*) FROM STREAM s GROUP BY {grouping}")
    assert set(window_millis(driver.jvm, query)) == wanted
