"""SHOW TABLE EXTENDED where Iceberg's catalog stands before Spark's own: dbt reads formats and columns in its answer."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sparksql.wire.control import OperationState
from tests.support.default_class import class_path
from tests.support.process import GatewayProcess, running

from .client import GatewayClient, connect
from .iceberg_session import iceberg_session

_OBJECTS = (
    "CREATE TABLE IF NOT EXISTS ice (Id INT NOT NULL, Place STRUCT<Street: STRING>) USING iceberg COMMENT 'of Iceberg'",
    "CREATE TABLE IF NOT EXISTS of_hive (id INT) USING iceberg TBLPROPERTIES ('engine.hive.enabled' = 'true', 'my.password' = 'hush')",
    "CREATE TABLE IF NOT EXISTS plain (id INT) USING parquet",
    "CREATE VIEW IF NOT EXISTS latest AS SELECT Id FROM ice",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def lakehouse(folder: Path) -> Iterator[GatewayProcess]:
    with class_path(folder), running(folder, spark_conf=iceberg_session(folder.name)) as started:
        yield started


@pytest.fixture
async def client(lakehouse: GatewayProcess) -> AsyncIterator[GatewayClient]:
    async with connect(lakehouse) as connected:
        await connected.until_started()
        await connected.ok("CREATE SCHEMA IF NOT EXISTS shop; USE shop; " + "; ".join(_OBJECTS))
        yield connected


def _lose_metadata(folder: Path) -> None:
    shutil.rmtree(next(folder.rglob("shop.db/ice/metadata")))


async def _shown(client: GatewayClient, pattern: str) -> dict[str, str]:
    rows = await client.rows(f"SHOW TABLE EXTENDED IN shop LIKE '{pattern}'")
    assert {row[0] for row in rows} <= {"shop"} and {row[2] for row in rows} <= {False}
    return {str(row[1]): str(row[3]) for row in rows}


async def test_extended_tables_have_the_format_and_columns_of_each(client: GatewayClient) -> None:
    shown = await _shown(client, "*")
    providers = {name: re.findall("^(?:Provider|Type): (.*)$", text, re.MULTILINE) for name, text in shown.items()}
    assert providers == {
        "ice": ["MANAGED", "iceberg"],
        "of_hive": ["MANAGED", "iceberg"],
        "plain": ["MANAGED", "parquet"],
        "latest": ["VIEW"],
    }
    assert "|-- Id: integer (nullable = false)\n |-- Place: struct (nullable = true)\n |    |-- Street" in shown["ice"]
    assert "\nComment: of Iceberg\n" in shown["ice"] and re.search("^Owner: .+$", shown["ice"], re.MULTILINE)
    assert "hush" not in shown["of_hive"] and "my.password=***" in shown["of_hive"]


async def test_extended_tables_follow_pattern_and_current_schema(client: GatewayClient) -> None:
    assert set(await _shown(client, "ice|pl*")) == {"ice", "plain"}
    assert await _shown(client, "nothing") == {}
    made = "USE shop; CREATE OR REPLACE TEMPORARY VIEW icecap AS SELECT 1 AS a; SHOW TABLE EXTENDED LIKE 'ice*'"
    view = await client.ok(made)
    await client.ok("DROP VIEW icecap")
    assert view.result is not None
    assert [row[:3] for row in view.result.preview] == [("shop", "ice", "false"), ("", "icecap", "true")]


async def test_extended_tables_of_an_unknown_schema_are_an_error(client: GatewayClient) -> None:
    view = await client.run("SHOW TABLE EXTENDED IN nowhere LIKE '*'")
    assert view.state is OperationState.ERROR and view.error is not None
    assert view.error.condition == "SCHEMA_NOT_FOUND"


async def test_extended_tables_name_one_that_cannot_be_read(client: GatewayClient, folder: Path) -> None:
    _lose_metadata(folder)
    shown = await _shown(client, "ice|of_hive")
    assert "\nError: " in shown["ice"] and "\nProvider: iceberg\n" in shown["of_hive"]
