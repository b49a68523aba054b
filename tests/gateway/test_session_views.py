"""Views of the catalog of the chart's default class are Spark's own, beside Iceberg's tables."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from .rest_client import RestClient, RestSession

DATABASE = "kept_views"


@pytest.fixture
async def session(rest: RestClient) -> AsyncIterator[RestSession]:
    async with rest.session() as opened:
        await opened.run(f"CREATE DATABASE {DATABASE}")
        await opened.run(f"USE {DATABASE}")
        yield opened
        await opened.run(f"DROP DATABASE {DATABASE} CASCADE")


async def rows(session: RestSession, sql: str) -> list[list[object]]:
    _, found = await session.run(sql)
    return found


async def test_a_view_has_the_columns_of_its_list_with_their_comments(session: RestSession) -> None:
    await session.run("CREATE VIEW v (a COMMENT 'first', b) COMMENT 'both' AS SELECT id, id + 1 AS n FROM range(2)")
    assert await rows(session, "SELECT b, a FROM v ORDER BY a") == [[1, 0], [2, 1]]
    assert await rows(session, "DESCRIBE v") == [["a", "bigint", "first"], ["b", "bigint", None]]


async def test_a_view_finds_its_tables_from_another_schema(rest: RestClient, session: RestSession) -> None:
    await session.run("CREATE TABLE ice (i INT) USING iceberg")
    await session.run("INSERT INTO ice VALUES (4)")
    await session.run("CREATE VIEW v (a) AS SELECT i FROM ice")
    async with rest.session() as other:
        assert await rows(other, f"SELECT * FROM {DATABASE}.v") == [[4]]


async def test_a_view_is_replaced_altered_renamed_listed_and_dropped(session: RestSession) -> None:
    await session.run("CREATE VIEW v (a) AS SELECT 1")
    await session.run("CREATE OR REPLACE VIEW v (b) WITH SCHEMA TYPE EVOLUTION AS SELECT 2")
    assert await rows(session, "SELECT b FROM v") == [[2]]
    await session.run("CREATE VIEW IF NOT EXISTS v AS SELECT 3")
    await session.run("ALTER VIEW v AS SELECT 4 AS c")
    await session.run("ALTER VIEW v WITH SCHEMA EVOLUTION")
    await session.run("ALTER VIEW v SET TBLPROPERTIES ('k' = 'x')")
    await session.run("ALTER VIEW v RENAME TO w")
    assert await rows(session, "SELECT c FROM w") == [[4]]
    described = {str(row[0]): row[1] for row in await rows(session, "DESCRIBE EXTENDED w")}
    assert (described["Type"], described["View Schema Mode"]) == ("VIEW", "EVOLUTION")
    await session.run("CREATE TEMPORARY VIEW t AS SELECT 5")
    assert await rows(session, "SHOW VIEWS") == [[DATABASE, "w", False], ["", "t", True]]
    assert await rows(session, f"SHOW VIEWS IN {DATABASE} LIKE 'w*'") == [[DATABASE, "w", False]]
    await session.run("DROP VIEW w")
    await session.run("DROP VIEW t")
    await session.run("DROP VIEW IF EXISTS w")
    assert "TABLE_OR_VIEW_NOT_FOUND" in await session.failure("DROP VIEW w")
    assert await rows(session, "SHOW VIEWS") == []


@pytest.mark.parametrize(
    ("made", "query"),
    [
        ("DECLARE VARIABLE temporary INT = 3", "SELECT temporary"),
        ("CREATE TEMPORARY VIEW temporary AS SELECT 1", "TABLE temporary"),
        ("CREATE TEMPORARY FUNCTION temporary() RETURNS INT RETURN 1", "SELECT temporary() AS a"),
    ],
)
async def test_a_view_over_what_the_session_alone_has_is_refused_as_by_spark(
    session: RestSession, made: str, query: str
) -> None:
    await session.run(made)
    assert "INVALID_TEMP_OBJ_REFERENCE" in await session.failure(f"CREATE VIEW v AS {query}")


async def test_a_view_of_a_text_that_is_executed_is_one_of_spark(session: RestSession) -> None:
    await session.run("EXECUTE IMMEDIATE 'CREATE VIEW v (a) AS SELECT 1'")
    await session.run("BEGIN CREATE VIEW w (a) AS SELECT 2; DROP VIEW v; END")
    assert await rows(session, "SELECT a FROM w") == [[2]]
    assert await rows(session, "SHOW VIEWS") == [[DATABASE, "w", False]]
