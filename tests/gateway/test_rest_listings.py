"""What a session can name, over the REST API's own routes: sessions, catalogs, databases, tables with their columns, functions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from .rest_client import RestClient, RestSession

DATABASE = "listed"
HERE = f"catalogs/spark_catalog/databases/{DATABASE}"


@pytest.fixture
async def session(rest: RestClient) -> AsyncIterator[RestSession]:
    async with rest.session(name="lister") as opened:
        await opened.run(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        await opened.run(f"USE {DATABASE}")
        yield opened
        await opened.run(f"DROP DATABASE {DATABASE} CASCADE")


async def get(session: RestSession, path: str) -> Any:
    answer = await session.client.call("GET", f"{session.path}/{path}")
    assert answer.status == 200, answer
    return answer.body


async def refusal(session: RestSession, path: str) -> str:
    answer = await session.client.call("GET", f"{session.path}/{path}")
    assert answer.status == 500, answer
    return answer.told


async def test_open_sessions_are_listed_with_the_protocol_they_came_by(rest: RestClient, session: RestSession) -> None:
    answer = await rest.call("GET", "/v4/sessions")
    assert answer.status == 200
    [shown] = [each for each in answer.body["sessions"] if each["sessionHandle"] == session.handle]
    assert (shown["sessionName"], shown["protocol"]) == ("lister", "rest")
    assert shown["openTime"] <= shown["lastUsedTime"]
    async with rest.session(name="other") as other:
        handles = {each["sessionHandle"] for each in (await rest.call("GET", "/v4/sessions")).body["sessions"]}
        assert {session.handle, other.handle} <= handles
    handles = {each["sessionHandle"] for each in (await rest.call("GET", "/v4/sessions")).body["sessions"]}
    assert other.handle not in handles


async def test_catalogs_and_databases_are_listed_with_the_current_ones(session: RestSession) -> None:
    catalogs = await get(session, "catalogs")
    assert "spark_catalog" in catalogs["catalogs"]
    assert (catalogs["currentCatalog"], catalogs["currentDatabase"]) == ("spark_catalog", DATABASE)
    databases = (await get(session, "catalogs/spark_catalog/databases"))["databases"]
    assert {DATABASE, "default"} <= set(databases)


async def test_a_table_is_told_with_its_columns_as_a_result_of_it_would_be(session: RestSession) -> None:
    await session.run(
        "CREATE TABLE orders (id BIGINT NOT NULL COMMENT 'the number', price DECIMAL(9, 2), "
        "tags ARRAY<STRING>, at TIMESTAMP) USING iceberg COMMENT 'what was sold'"
    )
    await session.run("CREATE TABLE ordersx (a INT) USING parquet")
    await session.run("CREATE VIEW cheap AS SELECT id FROM orders WHERE price < 1")
    tables = {each["name"]: each for each in (await get(session, f"{HERE}/tables"))["tables"]}
    assert {name: each["kind"] for name, each in tables.items()} == {
        "orders": "TABLE",
        "ordersx": "TABLE",
        "cheap": "VIEW",
    }
    assert tables["orders"]["comment"] == "what was sold"
    told = await get(session, f"{HERE}/tables/orders")
    result = await session.page(await session.submit("SELECT * FROM orders"), 0)
    types = {each["name"]: each["logicalType"] for each in result.body["results"]["columns"]}
    columns = {each["name"]: each for each in told["columns"]}
    assert list(columns) == ["id", "price", "tags", "at"]
    assert columns["id"] == {"name": "id", "logicalType": {**types["id"], "nullable": False}, "comment": "the number"}
    assert [each["logicalType"] for each in told["columns"][1:]] == [types[name] for name in ("price", "tags", "at")]
    assert told["columns"][1]["comment"] is None
    assert [each["name"] for each in (await get(session, f"{HERE}/tables/cheap"))["columns"]] == ["id"]


async def test_a_temporary_view_is_among_the_tables_of_the_current_database(session: RestSession) -> None:
    await session.run("CREATE TABLE both (a INT) USING parquet")
    await session.run("CREATE TEMPORARY VIEW both AS SELECT 'text' AS b")
    assert [each["name"] for each in (await get(session, f"{HERE}/tables"))["tables"]].count("both") == 2
    told = await get(session, f"{HERE}/tables/both")
    assert ([each["name"] for each in told["columns"]], told["kind"]) == (["b"], "VIEW"), "as a statement finds it"
    await session.run("USE default")
    assert [each["name"] for each in (await get(session, f"{HERE}/tables/both"))["columns"]] == ["a"]


async def test_functions_are_listed_by_database_and_those_of_spark_apart(session: RestSession) -> None:
    await session.run("CREATE FUNCTION doubled(x INT) RETURNS INT RETURN 2 * x")
    await session.run("CREATE TEMPORARY FUNCTION halved(x INT) RETURNS DOUBLE RETURN x / 2")
    assert [each["name"] for each in (await get(session, f"{HERE}/functions"))["functions"]] == ["doubled"]
    own = {each["name"] for each in (await get(session, "functions"))["functions"]}
    assert {"halved", "abs", "count"} <= own
    assert "doubled" not in own
    assert {"reflect", "java_method"}.isdisjoint(own)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("catalogs/nowhere/databases", "CatalogNotExistException: A catalog with name [nowhere] does not exist."),
        ("catalogs/nowhere/databases/x/tables", "A catalog with name [nowhere] does not exist."),
        ("catalogs/spark_catalog/databases/lis_ed/tables", "Database lis_ed does not exist in Catalog spark_catalog."),
        ("catalogs/spark_catalog/databases/%25/tables/x", "Database % does not exist in Catalog spark_catalog."),
        ("catalogs/spark_catalog/databases/nowhere/functions", "Database nowhere does not exist"),
        (f"{HERE}/tables/%25", "TableNotExistException: Table % does not exist in database listed."),
    ],
)
async def test_a_name_that_is_not_there_is_told_and_is_no_pattern(session: RestSession, path: str, told: str) -> None:
    assert told in await refusal(session, path)


async def test_earlier_versions_of_the_api_have_no_listings(rest: RestClient, session: RestSession) -> None:
    for path in ("/v3/sessions", f"/v3/sessions/{session.handle}/catalogs"):
        assert (await rest.call("GET", path)).status == 404
    unknown = "/v4/sessions/00000000-0000-0000-0000-000000000000/catalogs"
    assert "does not exist" in (await rest.call("GET", unknown)).told
