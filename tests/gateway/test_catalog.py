"""Browsing with real Spark: the session catalog, in memory and by a Hive metastore, and a DataSource V2 catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from sparksql.gateway.catalog import catalog as catalog_module
from sparksql.gateway.catalog.catalog import Catalog, FunctionEntry, SchemaEntry, TableEntry
from sparksql.gateway.catalog.columns import ColumnEntry
from sparksql.gateway.sessions.model import ClientError, Problem
from sparksql.gateway.spark.driver import SparkDriver
from tests.support.default_class import image_connectors
from tests.support.thorough import thorough_but

from .connectors import iceberg_catalog
from .local_spark import jvm_calls, local_spark, run

SPARK = "spark_catalog"
OTHER = "lake"
_CONF = {
    "spark.sql.catalog.broken": "no.such.Catalog",
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
}
_OBJECTS = (
    "CREATE TABLE orders (id INT COMMENT 'the key', code CHAR(3), tags MAP<STRING, ARRAY<INT>>) USING parquet "
    "COMMENT 'what was bought'",
    "CREATE VIEW big_orders COMMENT 'the large ones' AS SELECT id, CAST(1 AS DECIMAL(10, 2)) AS price FROM orders",
    "CREATE SCHEMA team_b",
    "CREATE SCHEMA teamxb",
    "CREATE TABLE team_b.items (name STRING) USING json",
    "CREATE FUNCTION team_b.score AS 'example.Score'",
    "CREATE TEMPORARY FUNCTION twice AS 'org.apache.spark.sql.catalyst.expressions.Abs'",
    "CREATE TEMPORARY VIEW mine AS SELECT 1 AS a, 'x' AS b",
    "CREATE GLOBAL TEMPORARY VIEW shared AS SELECT true AS yes",
    f"CREATE SCHEMA {OTHER}.APP",
    f"CREATE TABLE {OTHER}.APP.parts (id INT, name STRING)",
)


@pytest.fixture(scope="module", params=thorough_but(["hive"], ["hive", "in-memory"]))
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    folder = tmp_path_factory.mktemp("spark")
    conf = {**_CONF, **iceberg_catalog(OTHER, folder), "spark.sql.catalogImplementation": request.param}
    with local_spark(folder, image_connectors(), **conf) as driver:
        run(driver, driver.base, *_OBJECTS)
        yield driver


@pytest.fixture
def session(driver: SparkDriver) -> Any:
    return driver.clone()


@pytest.fixture
def catalog(driver: SparkDriver, session: Any) -> Catalog:
    return Catalog(driver, session)


def test_configured_catalogs_are_listed(catalog: Catalog) -> None:
    assert catalog.catalogs() == ["broken", OTHER, SPARK]


def test_the_current_catalog_and_schema(driver: SparkDriver, session: Any, catalog: Catalog) -> None:
    assert catalog.current() == (SPARK, "default")
    run(driver, session, "USE team_b")
    assert catalog.current() == (SPARK, "team_b")
    run(driver, session, f"USE {OTHER}.APP")
    assert catalog.current() == (OTHER, "APP")
    assert catalog.schemas(None, "app") == [SchemaEntry(OTHER, "APP")]


def test_schemas_are_listed_by_catalog_and_pattern(catalog: Catalog) -> None:
    assert [entry.name for entry in catalog.schemas(None, None)] == ["default", "global_temp", "team_b", "teamxb"]
    assert catalog.schemas(SPARK, "TEAM_B") == [SchemaEntry(SPARK, "team_b"), SchemaEntry(SPARK, "teamxb")]
    assert catalog.schemas("", r"team\_b") == [SchemaEntry(SPARK, "team_b")]
    assert catalog.schemas(OTHER, "A%") == [SchemaEntry(OTHER, "APP")]
    assert catalog.schemas("unknown", None) == []


def test_a_catalog_that_does_not_load_fails_alone(catalog: Catalog) -> None:
    with pytest.raises(Exception, match=r"no\.such\.Catalog"):
        catalog.schemas("broken", None)
    assert catalog.schemas(OTHER, "APP")


def test_catalog_lists_tables_and_views_with_their_comments(catalog: Catalog) -> None:
    assert catalog.tables(None, None, None, None) == [
        TableEntry("", "", "mine", "VIEW", ""),
        TableEntry(SPARK, "default", "big_orders", "VIEW", "the large ones"),
        TableEntry(SPARK, "default", "orders", "TABLE", "what was bought"),
        TableEntry(SPARK, "global_temp", "shared", "VIEW", ""),
        TableEntry(SPARK, "team_b", "items", "TABLE", ""),
    ]


def test_catalog_lists_tables_that_match_patterns_and_types(catalog: Catalog) -> None:
    def names(*pattern: Any) -> list[str]:
        return [entry.name for entry in catalog.tables(*pattern)]

    assert names(None, "default", "%ORDERS", None) == ["big_orders", "orders"]
    assert names(None, "default", None, frozenset({"TABLE"})) == ["orders"]
    assert names(None, None, None, frozenset({"VIEW"})) == ["mine", "big_orders", "shared"]
    assert names(None, "", "%", None) == ["mine"]
    assert names(None, "default", "", None) == []
    assert names(None, "nothing", None, None) == []
    assert names("unknown", None, None, None) == []
    assert names(OTHER, None, None, None) == ["parts"]


def test_columns_are_listed_with_type_position_and_comment(catalog: Catalog) -> None:
    assert catalog.columns(None, "default", "orders", None) == [
        ColumnEntry(SPARK, "default", "orders", "id", "int", True, 1, "the key", "INT"),
        ColumnEntry(SPARK, "default", "orders", "code", "char(3)", True, 2, "", "CHAR(3)"),
        ColumnEntry(
            SPARK, "default", "orders", "tags", "map<string,array<int>>", True, 3, "", "MAP<STRING,ARRAY<INT>>"
        ),
    ]
    assert catalog.columns(None, "default", "%", "pr_ce") == [
        ColumnEntry(SPARK, "default", "big_orders", "price", "decimal(10,2)", True, 2, "", "DECIMAL(10,2)"),
    ]


def test_columns_of_temporary_views_and_of_another_catalog(catalog: Catalog) -> None:
    assert catalog.columns(None, "", None, "b") == [ColumnEntry("", "", "mine", "b", "string", False, 2, "", "STRING")]
    assert [entry.name for entry in catalog.columns(None, "global_temp", None, None)] == ["yes"]
    assert [(entry.name, entry.type) for entry in catalog.columns(OTHER, "APP", "parts", None)] == [
        ("id", "int"),
        ("name", "string"),
    ]


def test_functions_are_listed_by_schema_and_pattern(catalog: Catalog) -> None:
    absolute = "org.apache.spark.sql.catalyst.expressions.Abs"
    assert catalog.functions(None, None, "abs") == [FunctionEntry("", "", "abs", absolute)]
    assert catalog.functions(None, "", "twice") == [FunctionEntry("", "", "twice", absolute)]
    assert catalog.functions(None, "team%", None) == [FunctionEntry(SPARK, "team_b", "score", "example.Score")]
    assert catalog.functions(None, "default", "abs") == []
    assert len(catalog.functions(None, None, None)) > 400
    assert catalog.functions(OTHER, None, None) == []


def test_table_listing_survives_unreadable_tables_and_dropped_schemas(
    driver: SparkDriver, session: Any, catalog: Catalog
) -> None:
    run(driver, driver.base, "CREATE SCHEMA fragile", "CREATE TABLE fragile.sound (id INT) USING json")
    # Of a provider that is not there, which keeps its columns itself.
    no_columns = driver.jvm.org.apache.spark.sql.types.StructType()
    provider = driver.jvm.scala.Option.apply("no.such.Provider")
    _create_copies(driver, "fragile", ["lost"], {"provider": provider, "schema": no_columns})
    assert [entry.name for entry in catalog.tables(None, "fragile", None, None)] == ["lost", "sound"]
    assert [entry.table for entry in catalog.columns(None, "fragile", None, None)] == ["sound"]
    source = catalog._session_source
    relations = source.relations(*[catalog_module.NamePattern.parse(text) for text in ("fragile", "%")])
    schemas = source.schemas
    source.schemas = lambda pattern: [*schemas(pattern), "dropped"]  # type: ignore[method-assign]
    assert len(catalog.tables(None, "fragile", None, None)) == len(relations) == 2
    run(driver, driver.base, "DROP SCHEMA fragile CASCADE")
    assert catalog.tables(None, "fragile", None, None) == []


def test_too_many_tables_for_columns_are_refused(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_module, "MAX_COLUMN_TABLES", 1)
    with pytest.raises(ClientError, match=r"2 tables.*narrower") as refused:
        catalog.columns(None, "default", "%", None)
    assert refused.value.problem is Problem.INVALID
    assert catalog.columns(None, "default", "orders", None)


def test_listing_tables_costs_as_many_calls_to_the_jvm_for_each_however_many_there_are(
    driver: SparkDriver, catalog: Catalog
) -> None:
    """Three for the columns of a table, none for its name, and those of one table cost nothing for the others."""

    def calls(schema: str, count: int) -> tuple[int, int, int]:
        """Those of a look at all tables, at all columns, and at the columns of one table."""
        run(driver, driver.base, f"CREATE SCHEMA {schema}")
        _create_copies(driver, schema, [f"t{index:03}" for index in range(count)], {})
        assert len(catalog.tables(None, schema, None, None)) == count  # the first look finds classes of the JVM
        assert len(catalog.columns(None, schema, "%", None)) == 3 * count
        made = (
            jvm_calls(lambda: catalog.tables(None, schema, None, None)),
            jvm_calls(lambda: catalog.columns(None, schema, "%", None)),
            jvm_calls(lambda: catalog.columns(None, schema, "t007", None)),
        )
        run(driver, driver.base, f"DROP SCHEMA {schema} CASCADE")
        return made

    few, many = calls("crew", 10), calls("crowd", 100)
    assert [more - less for more, less in zip(many, few, strict=True)] == [0, 3 * (100 - 10), 0], (few, many)


def _create_copies(driver: SparkDriver, schema: str, names: Sequence[str], changes: Mapping[str, Any]) -> None:
    """Tables as `orders` is in the metastore, but for the changes."""
    catalyst = driver.jvm.org.apache.spark.sql.catalyst
    some = driver.jvm.scala.Option.apply
    sessions = driver.base.sessionState().catalog()
    table = sessions.getTableMetadata(catalyst.TableIdentifier("orders", some("default")))
    fields = [str(table.productElementName(index)) for index in range(table.productArity())]
    values = {field: changes.get(field, table.productElement(index)) for index, field in enumerate(fields)}
    for name in names:
        values["identifier"] = catalyst.TableIdentifier(name, some(schema))
        sessions.externalCatalog().createTable(catalyst.catalog.CatalogTable(*values.values()), True)
