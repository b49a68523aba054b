"""What is told of Delta's and Iceberg's tables, of functions in Java and of variables; without running a query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.streaming.state.compatibility import differences
from sparksql.gateway.streaming.state.description import Description
from sparksql.gateway.streaming.state.difference import DifferenceKind
from sparksql.gateway.streaming.state.messages import message
from tests.support.default_class import image_connectors
from tests.support.maven import compiled
from tests.support.thorough import thorough_but

from ..connectors import conf
from ..listed import PARKED, listed
from ..local_spark import local_spark, run
from .structures import WATERMARK, described

COLUMNS = "id INT, a STRING, b STRING, ts TIMESTAMP"
ICE, EVENTS = "lake.db.ice", "events"
TABLES = ("lake.db.dim", "dim")  # Iceberg's, and Delta's
_OBJECTS = (
    "CREATE DATABASE lake.db",
    f"CREATE TABLE {ICE} ({COLUMNS})",
    f"CREATE TABLE {EVENTS} ({COLUMNS}) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)",
    "CREATE TABLE lake.db.dim (code STRING, region STRING, part STRING) PARTITIONED BY (part)",
    "CREATE TABLE dim (code STRING, region STRING, part STRING) USING delta PARTITIONED BY (part)",
    *(f"INSERT INTO {table} VALUES ('a', 'north', 'x'), ('b', 'south', 'y')" for table in TABLES),
    *(f"INSERT INTO {table} VALUES ('c', 'west', 'x')" for table in TABLES),
    "DECLARE VARIABLE least INT DEFAULT 1",
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    folder = tmp_path_factory.mktemp("connectors")
    jars = [*image_connectors(), compiled("tests/gateway/java/functions")]
    with local_spark(folder, jars, **conf(folder)) as started:
        run(started, started.base, *_OBJECTS)
        yield started


def keyed(key: str, table: str = ICE, options: str = "") -> str:
    return f"SELECT {key}, count(*) FROM STREAM {table} {options} {WATERMARK} GROUP BY {key}, window(ts, '1 minute')"


def with_table(table: str, kind: str = "LEFT JOIN") -> str:
    return (
        f"SELECT d.region, count(*) FROM STREAM {EVENTS} {WATERMARK} s {kind} ({table}) d ON s.a = d.code "
        "GROUP BY d.region, window(ts, '1 minute')"
    )


def same(driver: SparkDriver, text: str) -> Description:
    return described(driver, text, "same")


def told(old: Description, new: Description) -> str:
    found = differences(old, new)
    assert found
    return message(found, old, new)


KEYS = [
    ("months(ts)", "hours(ts)"),
    ("days(ts)", "hours(ts)"),
    ("bucket(4, id)", "bucket(8, id)"),
    ("bucket(4, id)", "bucket(4, a)"),
    ("truncate(1, a)", "truncate(2, a)"),
]
# Another function, another width, another column.
DAILY_KEYS = [KEYS[0], KEYS[2], KEYS[3]]


@pytest.mark.parametrize(("before", "after"), thorough_but(DAILY_KEYS, KEYS))
@listed(
    "wording", "Iceberg's months(ts) becomes hours(ts), or a bucket or truncate has another width or column", PARKED
)
def test_another_iceberg_function_as_key_is_told(driver: SparkDriver, before: str, after: str) -> None:
    old, new = (described(driver, keyed(f"lake.system.{each}"), each) for each in (before, after))
    told(old, new)
    assert not differences(old, described(driver, keyed(f"lake.system.{before}"), "another layout"))


@listed("source", "two columns of an Iceberg table exchange their names", PARKED)
def test_iceberg_columns_that_exchange_their_names_make_the_stream_differ(driver: SparkDriver) -> None:
    run(driver, driver.base, f"CREATE TABLE lake.db.exchanged ({COLUMNS})")
    text = keyed("a", "lake.db.exchanged")
    old = same(driver, text)
    assert not differences(old, same(driver, text))
    for name, other in (("a", "c"), ("b", "a"), ("c", "b")):
        run(driver, driver.base, f"ALTER TABLE lake.db.exchanged RENAME COLUMN {name} TO {other}")
    told(old, same(driver, text))
    run(driver, driver.base, "ALTER TABLE lake.db.exchanged ADD COLUMN d INT")
    assert not differences(same(driver, text), same(driver, text))


@listed("source", "`readChangeFeed` of Delta", PARKED)
def test_the_change_feed_of_a_delta_table_is_another_source_than_its_rows(driver: SparkDriver) -> None:
    rows, changes = (keyed("a", EVENTS, each) for each in ("", "WITH ('readChangeFeed' = 'true')"))
    old, new = described(driver, rows, "rows"), described(driver, changes, "changes")
    assert "source events was read with no options, is read with readchangefeed=" in told(old, new)
    assert not differences(new, described(driver, changes, "another layout"))


@pytest.mark.parametrize("table", TABLES)
@listed("table", "another `VERSION AS OF`, or none", PARKED)
def test_another_version_of_a_joined_table_is_told(driver: SparkDriver, table: str) -> None:
    history = "SELECT snapshot_id FROM lake.db.dim.snapshots ORDER BY committed_at" if "lake" in table else ""
    versions = [0, 1, 2]
    if history:
        session: Any = driver.clone()
        parsed = session.sessionState().sqlParser().parsePlan(history)
        versions = [row.getLong(0) for row in driver.of_rows(session, parsed).collectAsList()]
    pinned = [with_table(f"SELECT * FROM {table} VERSION AS OF {each}") for each in versions[-2:]]
    old = described(driver, pinned[0], "old")
    assert not differences(old, described(driver, pinned[0], "another layout"))
    told(old, described(driver, pinned[1], "new"))
    told(old, described(driver, with_table(f"SELECT * FROM {table}"), "new"))


TEXTS = [
    ("SELECT * FROM {} WHERE region > 'a'", "SELECT * FROM {} WHERE region > 'b'"),
    ("SELECT * FROM {} WHERE part = 'x'", "SELECT * FROM {} WHERE part = 'y'"),
    ("SELECT * FROM {} WHERE part = 'x'", "SELECT * FROM {}"),
    ("SELECT max(code) AS code, part AS region FROM {} GROUP BY part", "SELECT min(code) AS code, part AS region FROM {} GROUP BY part"),
    ("SELECT max(code) AS code, max(region) AS region FROM {}", "SELECT min(code) AS code, max(region) AS region FROM {}"),
    ("SELECT * FROM {} LIMIT 1", "SELECT * FROM {} LIMIT 2"),
]  # fmt: skip
CHANGED = [(table, *texts) for texts in TEXTS for table in TABLES]
# Each text of one of the two formats, a filter and an aggregate of both.
DAILY_CHANGED = [each for number, each in enumerate(CHANGED) if number in (0, 1, 2, 5, 6, 7, 8, 11)]


@pytest.mark.parametrize(("table", "before", "after"), thorough_but(DAILY_CHANGED, CHANGED))
@listed("table", "filter, aggregate or LIMIT of a table of Iceberg or Delta, below an outer join", PARKED)
def test_a_changed_filter_aggregate_or_limit_on_a_lake_table_is_a_difference(
    driver: SparkDriver, table: str, before: str, after: str
) -> None:
    old, new = (described(driver, with_table(each.format(table)), each) for each in (before, after))
    assert not [each for each in differences(old, new) if each.change is DifferenceKind.NOT_COMPARABLE]
    told(old, new)


@pytest.mark.parametrize("table", TABLES)
def test_rows_added_to_a_joined_lake_table_are_no_difference(driver: SparkDriver, table: str) -> None:
    texts = (
        f"SELECT * FROM {table} WHERE part = 'x'",
        f"SELECT max(code) AS code, count(*) AS n, 'r' AS region FROM {table}",
        f"SELECT * FROM {table} WHERE code IN (SELECT max(code) FROM {table})",
    )
    old = [same(driver, with_table(each)) for each in texts]
    run(driver, driver.base, f"INSERT INTO {table} VALUES ('z', 'east', 'z')")
    assert [differences(each, same(driver, with_table(text))) for each, text in zip(old, texts, strict=True)] == [
        (),
        (),
        (),
    ]


@listed("wording", "another value of a variable", PARKED)
def test_a_changed_value_of_a_sql_variable_is_a_difference(driver: SparkDriver) -> None:
    text = keyed("id > least")
    old = same(driver, text)
    assert not differences(old, same(driver, text))
    run(driver, driver.base, "SET VAR least = 2")
    told(old, same(driver, text))


@listed("wording", "another class of a Hive function", PARKED)
def test_a_changed_class_of_a_hive_function_is_a_difference(driver: SparkDriver) -> None:
    text = keyed("of_hive(a)")
    seen = []
    for name in ("UDFMd5", "UDFMd5", "UDFSha1"):
        function = f"CREATE OR REPLACE TEMPORARY FUNCTION of_hive AS 'org.apache.hadoop.hive.ql.udf.{name}'"
        run(driver, driver.base, function)
        seen.append(same(driver, text))
    assert not differences(seen[0], seen[1])
    told(seen[0], seen[2])
    assert not differences(seen[2], described(driver, text, "another layout"))


@listed("wording", "another class of a function in Java", PARKED)
def test_a_changed_class_of_a_java_function_is_a_difference(driver: SparkDriver) -> None:
    seen = []
    for name in ("Doubled", "Doubled", "Tripled"):
        driver.base.udf().registerJava("of_java", f"example.functions.{name}", None)
        seen.append(described(driver, keyed("of_java(id)"), name))
    assert not differences(seen[0], seen[1])
    told(seen[0], seen[2])


@listed("wording", "another layout of a text with a function that is an object with fields of its own", PARKED)
def test_a_function_that_nothing_tells_goes_on_with_the_very_same_text_alone(driver: SparkDriver) -> None:
    kind: Any = driver.jvm.org.apache.spark.sql.types.DataTypes.IntegerType
    text, times = keyed("times(id)"), driver.jvm.example.functions.Times
    for factor in (2, 3):
        driver.base.udf().register("times", times(factor), kind)
        first = same(driver, text)
        assert not differences(first, same(driver, text))
        assert "which cannot be distinguished from another" in told(first, described(driver, text, "another layout"))
