"""What Spark makes of two texts is told apart where their states would differ, and only there. Most of it without running a query."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.streaming.state.compatibility import differences
from sparksql.gateway.streaming.state.describe import describe
from sparksql.gateway.streaming.state.messages import message
from tests.support.thorough import thorough_but

from ..listed import PARKED, listed
from ..local_spark import local_spark, run
from .structures import (
    COLUMNS,
    DIFFERENT,
    HARMLESS,
    LEGACY,
    RECOMPUTED,
    RETYPED,
    SAME,
    WATERMARK,
    described,
    keyed,
    make_tables,
    with_table,
)
from .wordings import Ran

_numbers = itertools.count()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("structures"), **{"spark.sql.shuffle.partitions": "1"}) as started:
        make_tables(started)
        yield started


# Those that have a neighbour.
FURTHER = {
    "type in from_json",
    "schema of from_csv",
    "schema of from_xml",
    "LIKE ALL",
    "CAST and TRY_CAST",
    "a literal of today's date beside the current time",
    "the setting spark.sql.mapKeyDedupPolicy",
    "the setting spark.sql.jsonGenerator.ignoreNullFields",
    "the setting spark.sql.legacy.castComplexTypesToString.enabled",
    "a filter of a table that filters the groups",
    "a filter below an aggregated table",
    "LIMIT of a table",
    "a percentile",
}


@pytest.mark.parametrize("name", thorough_but(DIFFERENT.keys() - FURTHER, DIFFERENT))
def test_a_text_of_another_meaning_differs(driver: SparkDriver, name: str) -> None:
    before, after, *more = DIFFERENT[name]
    conf = LEGACY if "try" in after.lower() else {}
    old = described(driver, before, "old", conf)
    new = described(driver, after, "new", {**conf, **(more[0] if more else {})})
    found = differences(old, new)
    assert found
    assert re.search(" was | were ", message(found, old, new))
    assert not [each for each in (old, new) if differences(each, each)]


RUN_DAILY = list(SAME)[::4]


@pytest.mark.parametrize("name", thorough_but(SAME.keys() - RUN_DAILY, SAME))
def test_a_text_of_the_same_meaning_goes_on(driver: SparkDriver, name: str) -> None:
    before, after = SAME[name]
    old, new = described(driver, before, "old"), described(driver, after, "new")
    found = differences(old, new)
    assert not found, message(found, old, new)


@pytest.fixture(scope="module")
def ran(driver: SparkDriver, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Ran:
    """Of the tests that were collected."""
    mine = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    names = [item.callspec.params["name"] for item in mine if "ran" in item.fixturenames]
    return Ran(driver, tmp_path_factory.mktemp("wordings"), names)


@pytest.mark.parametrize("name", thorough_but(RUN_DAILY, SAME))
def test_a_reworded_stream_has_no_differences_and_writes_what_a_batch_gives(ran: Ran, name: str) -> None:
    old, new = (described(ran.driver, text, text) for text in SAME[name])
    found = differences(old, new)
    assert not found, message(found, old, new)
    expected = ran.recomputed(RECOMPUTED.get(name, SAME[name][1]))
    assert expected
    assert ran.written(name) == expected


def test_settings_of_how_a_query_runs_make_no_difference(driver: SparkDriver) -> None:
    text = keyed("country")
    old = described(driver, text, "old")
    for name, value in HARMLESS.items():
        new = described(driver, text, "new", {name: value})
        assert not differences(old, new), message(differences(old, new), old, new)


def test_an_unknown_spark_setting_is_described_without_its_value(driver: SparkDriver) -> None:
    found = described(driver, keyed("country"), "t", {"spark.sql.lake.key": "much-salt"})
    assert "spark.sql.lake.key" in found.to_json() and "much-salt" not in found.to_json()


@pytest.mark.parametrize("name", thorough_but(["hash", "decimal", "percentile"], RETYPED))
def test_a_source_of_other_types_is_another_source_for_the_same_text(driver: SparkDriver, name: str) -> None:
    before, after, sql = RETYPED[name]
    table = f"retyped{next(_numbers)}"
    text = sql.replace("STREAM src", f"STREAM {table}")
    run(driver, driver.base, f"CREATE TABLE {table} ({COLUMNS}) USING parquet")
    old = described(driver, text, "same")
    run(
        driver,
        driver.base,
        f"DROP TABLE {table}",
        f"CREATE TABLE {table} ({COLUMNS.replace(before, after)}) USING parquet",
    )
    new = described(driver, text, "same")
    assert differences(old, new)
    assert not differences(new, described(driver, text, "same"))


@listed("wording", "another body of a function in SQL", PARKED)
@listed("text", "another body of a view", PARKED)
def test_a_function_or_a_view_of_another_body_is_another_text(driver: SparkDriver) -> None:
    run(driver, driver.base, "CREATE FUNCTION more(x INT) RETURNS INT RETURN x + 1")
    run(driver, driver.base, "CREATE VIEW big AS SELECT * FROM dim WHERE region > 'a'")
    function, view = keyed("more(amount)"), with_table("SELECT * FROM big")
    old = [described(driver, text, "same") for text in (function, view)]
    assert not differences(old[0], described(driver, function, "same"))
    run(driver, driver.base, "CREATE OR REPLACE FUNCTION more(x INT) RETURNS INT RETURN x + 2")
    run(driver, driver.base, "CREATE OR REPLACE VIEW big AS SELECT * FROM dim WHERE region > 'b'")
    new = [described(driver, text, "same") for text in (function, view)]
    assert differences(old[0], new[0]) and differences(old[1], new[1])


@listed("source", "`nullValue` of CSV", PARKED)
def test_a_source_that_is_read_with_other_options_is_another_one(driver: SparkDriver, tmp_path: Any) -> None:
    columns = "country STRING, ts TIMESTAMP"
    text = f"SELECT country, count(*) FROM STREAM lines {WATERMARK} GROUP BY country, window(ts, '1 minute')"
    seen = []
    for value in ("x", "x", "y"):
        options = f"CREATE TABLE lines ({columns}) USING csv OPTIONS (nullValue '{value}') LOCATION '{tmp_path}'"
        run(driver, driver.base, "DROP TABLE IF EXISTS lines", options)
        seen.append(described(driver, text, "same"))
    assert not differences(seen[0], seen[1])
    assert "source lines was read with nullvalue=" in message(differences(seen[0], seen[2]), seen[0], seen[2])


@listed("setting", "another time zone, where times are read as text: of CSV, of JSON", PARKED)
@pytest.mark.parametrize(("kind", "counts"), [("csv", True), ("json", True), ("parquet", False), ("orc", False)])
def test_the_time_zone_counts_where_times_are_read_as_text(driver: SparkDriver, kind: str, counts: bool) -> None:
    table = f"timed_{kind}"
    run(driver, driver.base, f"CREATE TABLE {table} (country STRING, ts TIMESTAMP) USING {kind}")
    text = f"SELECT country, count(*) FROM STREAM {table} {WATERMARK} GROUP BY country, window(ts, '1 minute')"
    old = described(driver, text, "same", {"spark.sql.session.timeZone": "UTC"})
    new = described(driver, text, "same", {"spark.sql.session.timeZone": "Asia/Tokyo"})
    found = differences(old, new)
    assert bool(found) is counts
    assert not counts or "the setting spark.sql.session.timeZone was UTC, is Asia/Tokyo" in message(found, old, new)


@listed("source", "columns of CSV that change places", PARKED)
@pytest.mark.parametrize(("kind", "counts"), [("csv", True), ("json", False), ("parquet", False)])
def test_swapped_source_columns_are_a_difference_only_where_read_by_position(
    driver: SparkDriver, tmp_path: Any, kind: str, counts: bool
) -> None:
    table = f"placed_{kind}"
    text = f"SELECT a, count(*) FROM STREAM {table} {WATERMARK} GROUP BY a, window(ts, '1 minute')"
    seen = []
    for columns in ("a STRING, b STRING, ts TIMESTAMP", "b STRING, a STRING, ts TIMESTAMP"):
        made = f"CREATE TABLE {table} ({columns}) USING {kind} LOCATION '{tmp_path}'"
        run(driver, driver.base, f"DROP TABLE IF EXISTS {table}", made)
        seen.append(described(driver, text, "same"))
    assert bool(differences(*seen)) is counts


@listed("table", "another table by its path", PARKED)
def test_another_path_of_a_joined_table_is_a_difference(driver: SparkDriver, tmp_path: Any) -> None:
    for name in ("one", "two"):
        driver.base.table("dim").write().parquet(f"{tmp_path}/{name}")
    one, two = (with_table(f"SELECT * FROM parquet.`{tmp_path}/{name}`", "JOIN") for name in ("one", "two"))
    old = described(driver, one, "old")
    assert not differences(old, described(driver, one, "new"))
    assert differences(old, described(driver, two, "new"))


def test_secret_values_leave_no_trace(driver: SparkDriver) -> None:
    session: Any = driver.clone()
    driver.activate(session)
    frame = driver.of_rows(session, session.sessionState().sqlParser().parsePlan(keyed("concat(country, 'much-salt')")))
    found = describe(
        driver, session, frame.queryExecution().analyzed(), text="t", output_mode="append", qualified=str,
        mask=lambda told: told.replace("much-salt", "***"),
    )  # fmt: skip
    assert not found.is_text_only
    assert "much-salt" not in found.to_json()
