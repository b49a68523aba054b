"""Completion with real Spark. A `|` in a text marks the cursor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from sparksql.gateway.catalog.completion import MAX_CANDIDATES, complete
from sparksql.gateway.spark.driver import SparkDriver
from tests.support.default_class import image_connectors

from .connectors import iceberg_catalog
from .local_spark import jvm_calls, local_spark, run

MOST_CALLS = 100
_CONF = {"spark.sql.catalog.broken": "no.such.Catalog"}
_OBJECTS = (
    "CREATE TABLE orders (id INT, Price DOUBLE, `odd name` STRING) USING parquet",
    "CREATE TEMPORARY VIEW `order lines` AS SELECT 1 AS line",
    "CREATE VIEW order_view AS SELECT 1 AS viewed",
    "CREATE SCHEMA orchard",
    "CREATE TABLE orchard.apples (kind STRING) USING json",
    "CREATE TEMPORARY VIEW ordinary AS SELECT 1 AS plain",
    "CREATE GLOBAL TEMPORARY VIEW shared AS SELECT true AS yes",
    "CREATE FUNCTION ordering AS 'example.Ordering'",
    "CREATE SCHEMA lake.APP",
    "CREATE TABLE lake.APP.parts (id INT, weight INT)",
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    folder = tmp_path_factory.mktemp("spark")
    with local_spark(folder, image_connectors(), **_CONF, **iceberg_catalog("lake", folder)) as driver:
        run(driver, driver.base, *_OBJECTS)
        yield driver


@pytest.fixture
def session(driver: SparkDriver) -> Any:
    return driver.clone()


def candidates(driver: SparkDriver, session: Any, text: str) -> list[str]:
    return complete(driver, session, text.replace("|", ""), text.index("|"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SHOW TAB|", []),
        ("zzzz|", []),
        ("SELECT * FROM 'or|", []),
        ("SELECT * FROM ord|", ["`order lines`", "order_view", "orders", "ordinary"]),
        ("SELECT * FROM OrC|", ["orchard"]),
        ("SELECT * FROM lak|", ["lake"]),
        ("SELECT * FROM orchard.|", ["orchard.apples"]),
        ("SELECT * FROM global_temp.s|", ["global_temp.shared"]),
        ("SELECT * FROM spark_catalog.orch|", ["spark_catalog.orchard"]),
        ("SELECT * FROM spark_catalog.orchard.A|", ["spark_catalog.orchard.apples"]),
        ("SELECT * FROM lake.AP|", ["lake.APP"]),
        ("SELECT * FROM lake.APP.|", ["lake.APP.parts"]),
        ("SELECT * FROM broken.|", []),
        ("SELECT * FROM nowhere.a|", []),
        ("SELECT * FROM `order l|", ["`order lines`"]),
        ("USE orc|", ["orchard"]),
        ("WITH orphans AS (SELECT 1) SELECT * FROM orp|", ["orphans"]),
        ("SELECT pri| FROM orders", ["Price", "printf"]),
        ("SELECT o.| FROM orders o", ["o.id", "o.`odd name`", "o.Price"]),
        ("SELECT orders.p| FROM orders", ["orders.Price"]),
        ("SELECT kin| FROM orchard.apples", ["kind"]),
        ("SELECT pl| FROM ordinary", ["plain"]),
        ("SELECT ye| FROM global_temp.shared", ["yes", "year"]),
        ("SELECT weig| FROM lake.APP.parts", ["weight"]),
        ("SELECT vie| FROM order_view", ["viewed"]),
        ("SELECT * FROM orders x JOIN orchard.apples y ON y.|", ["y.kind"]),
        ("SELECT orde| FROM nowhere", ["ordering"]),
        ("SELECT date_f|", ["date_format", "date_from_unix_date"]),
        ("UPDATE orders SET pri|", ["Price", "printf"]),
        ("INSERT INTO orders (od|", ["`odd name`"]),
    ],
)
def test_names_come_first_and_keywords_follow(
    driver: SparkDriver, session: Any, text: str, expected: list[str]
) -> None:
    found = candidates(driver, session, text)
    typed = re.split(r"[\s(]", text[: text.index("|")])[-1].upper()
    assert found[: len(expected)] == expected, found
    rest = found[len(expected) :]
    assert [word for word in rest if not (word.isupper() and typed and word.startswith(typed))] == [], found


def test_completion_offers_the_keywords_of_the_grammar(driver: SparkDriver, session: Any) -> None:
    assert candidates(driver, session, "SHOW TAB|") == ["TABLE", "TABLES", "TABLESAMPLE"]
    assert {"SELECT", "WITH", "TEMPORARY", "TEMP"} <= set(candidates(driver, session, "|"))
    assert candidates(driver, session, "SELECT * FROM orders wher|") == ["WHERE"]


def test_completion_offers_schemas_of_another_catalog(driver: SparkDriver, session: Any) -> None:
    assert "lake.APP" in candidates(driver, session, "SHOW TABLES IN lake.|")


def test_the_current_schema_is_the_one_that_names_belong_to(driver: SparkDriver, session: Any) -> None:
    run(driver, session, "USE lake.APP")
    assert "parts" in candidates(driver, session, "SELECT * FROM |")
    assert candidates(driver, session, "SELECT weig| FROM parts") == ["weight"]
    assert candidates(driver, session, "SELECT pl| FROM ordinary")[:1] == ["plain"]
    assert candidates(driver, session, "SELECT * FROM spark_catalog.orchard.|") == ["spark_catalog.orchard.apples"]


def test_completion_offers_tables_first_after_from_and_columns_after_select(driver: SparkDriver, session: Any) -> None:
    tables = candidates(driver, session, "SELECT * FROM |")
    assert tables[:4] == ["`order lines`", "order_view", "orders", "ordinary"]
    columns = candidates(driver, session, "SELECT | FROM orders")
    assert columns[:4] == ["id", "`odd name`", "orders", "Price"]
    assert "abs" in columns[4:]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text", ["|", "SELECT | FROM orders o JOIN orchard.apples a", "SELECT * FROM |", "SELECT o.| FROM orders o", "s|"]
)
def test_candidates_are_few_and_cost_few_calls_to_the_jvm(driver: SparkDriver, session: Any, text: str) -> None:
    assert 0 < len(candidates(driver, session, text)) <= MAX_CANDIDATES
    assert len(candidates(driver, session, "SELECT |")) > MOST_CALLS  # so none is made for a single name
    assert jvm_calls(lambda: candidates(driver, session, text)) <= MOST_CALLS
