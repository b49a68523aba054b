"""Columns of tables of Iceberg's in Spark's own catalog, where the metastore has another copy of them or none."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparksql.gateway.catalog.catalog import MAX_COLUMN_SECONDS, Catalog, TableEntry
from sparksql.gateway.catalog.completion import complete
from sparksql.gateway.frontends.thrift import listings
from sparksql.gateway.sessions.model import ClientError
from sparksql.gateway.spark.driver import SparkDriver
from tests.support.default_class import image_connectors

from .iceberg_session import iceberg_session
from .local_spark import local_spark, run

SPARK = "spark_catalog"
_OBJECTS = (
    "CREATE TABLE orders (Id INT NOT NULL, Place STRUCT<Street: STRING, zipCode: INT> COMMENT 'where') USING iceberg",
    "CREATE TABLE of_hive (id INT NOT NULL, Name STRING) USING iceberg TBLPROPERTIES ('engine.hive.enabled' = 'true')",
    "CREATE TABLE plain (id INT, code CHAR(3)) USING parquet COMMENT 'plain files'",
    "CREATE TABLE hive_orc (id INT) STORED AS ORC",
    "CREATE VIEW latest AS SELECT Id, Place FROM orders",
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    folder = tmp_path_factory.mktemp("spark")
    with local_spark(folder, image_connectors(), **iceberg_session("columns")) as driver:
        run(driver, driver.base, *_OBJECTS)
        yield driver


@pytest.fixture
def catalog(driver: SparkDriver) -> Catalog:
    return Catalog(driver, driver.clone())


def _shown(catalog: Catalog, table: str) -> list[tuple[Any, ...]]:
    """The name, type and nullability of a table's columns as HiveServer2's clients get them."""
    listing = listings.columns(catalog.columns(None, "default", table, None)).table()
    return [(row["COLUMN_NAME"], row["TYPE_NAME"], row["NULLABLE"]) for row in listing.to_pylist()]


def test_columns_of_an_iceberg_table_have_its_own_names_and_its_not_null(catalog: Catalog) -> None:
    struct = ("Place", "STRUCT<Street:STRING,zipCode:INT>", 1)
    assert _shown(catalog, "orders") == [("Id", "INT", 0), struct]
    assert _shown(catalog, "latest") == [("Id", "INT", 0), struct]


def test_columns_of_a_table_for_hive_engines_are_listed(catalog: Catalog) -> None:
    assert _shown(catalog, r"of\_hive") == [("id", "INT", 0), ("Name", "STRING", 1)]


def test_columns_of_spark_own_tables_beside_iceberg_ones_are_listed(catalog: Catalog) -> None:
    assert _shown(catalog, "plain") == [("id", "INT", 1), ("code", "CHAR(3)", 1)]
    assert _shown(catalog, r"hive\_orc") == [("id", "INT", 1)]
    assert len(_shown(catalog, "%")) == 2 + 2 + 2 + 1 + 2


@pytest.mark.parametrize("table", ["orders", "of_hive", "plain", "latest"])
def test_columns_of_one_table_are_those_of_the_listing(catalog: Catalog, table: str) -> None:
    kind = "VIEW" if table == "latest" else "TABLE"
    one = catalog.columns_of(TableEntry(SPARK, "default", table, kind, ""))
    assert one == [entry for entry in catalog.columns(None, "default", "%", None) if entry.table == table] != []


@pytest.mark.parametrize(
    ("table", "column"), [("orders", "Place"), ("of_hive", "Name"), ("plain", "code"), ("latest", "Place")]
)
def test_completion_of_a_column_has_the_table_own_spelling(driver: SparkDriver, table: str, column: str) -> None:
    text = f"SELECT {column[:2].lower()} FROM {table}"
    assert column in complete(driver, driver.clone(), text, len("SELECT ") + 2)


def test_a_table_that_cannot_be_read_fails_alone_and_is_left_out_among_others(
    driver: SparkDriver, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    run(driver, driver.base, "CREATE SCHEMA torn")
    for name in ("sound", "torn"):
        run(driver, driver.base, f"CREATE TABLE torn.{name} (id INT NOT NULL) USING iceberg")
    warehouse = Path(str(driver.base.conf().get("spark.sql.warehouse.dir")).removeprefix("file:"))
    shutil.rmtree(warehouse / "torn.db/torn/metadata")
    with caplog.at_level(logging.WARNING, "sparksql"):
        assert [entry.table for entry in catalog.columns(None, "torn", "%", None)] == ["sound"]
    assert "1 of 2 tables could not be read, first spark_catalog.torn.torn" in caplog.text
    with pytest.raises(ClientError, match=r"columns of spark_catalog\.torn\.torn could not be read .*mend or drop"):
        catalog.columns(None, "torn", "torn", None)
    with pytest.raises(ClientError, match=r"spark_catalog\.torn\.torn could not be read"):
        catalog.columns_of(TableEntry(SPARK, "torn", "torn", "TABLE", ""))


def test_a_table_that_is_dropped_during_a_look_is_left_out(driver: SparkDriver, catalog: Catalog) -> None:
    run(driver, driver.base, "CREATE TABLE passing (id INT) USING iceberg")
    relations = catalog._relations(None, "default", "passing")
    run(driver, driver.base, "DROP TABLE passing")
    assert len(relations) == 1 and catalog._columns_in(relations) == []


def test_a_look_at_columns_has_a_time_limit(driver: SparkDriver) -> None:
    times = iter([0.0, 0.0, MAX_COLUMN_SECONDS + 1.0])
    slow = Catalog(driver, driver.clone(), lambda: next(times))
    with pytest.raises(ClientError, match=r"columns of 1 of \d+ tables took 300 s: give a narrower"):
        slow.columns(None, "default", "%", None)
