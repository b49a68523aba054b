"""Statements with IDENTIFIER(...) are the same as with the names themselves: their type, what they answer, and what they may not."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sparksql.wire.control import OperationState, OperationView
from tests.support.thorough import thorough_but

from .client import GatewayClient, Parameter
from .rest_client import RestClient, RestSession
from .streams import Streams

# Names in braces are written as they are, and as computed ones. Rows of statements behind `~` have times or numbers of their own.
WALK = """
CREATE SCHEMA {nam}
CREATE TABLE {nam.tab} (a INT, b STRING) USING parquet
CREATE TABLE {nam.ice} (a INT) USING iceberg
CREATE OR REPLACE TABLE {nam.ice} (a INT) USING iceberg
CREATE TABLE {nam.cta} USING parquet AS SELECT 1 AS a
INSERT INTO {nam.tab} VALUES (1, 'x')
INSERT OVERWRITE {nam.tab} SELECT 2, 'y'
INSERT INTO {nam.ice} SELECT a FROM {nam.tab}
INSERT INTO {nam.ice} REPLACE WHERE a = 2 SELECT a FROM {nam.tab}
WITH w AS (SELECT a FROM {nam.tab}) INSERT INTO {nam.ice} SELECT * FROM w
FROM nam.tab INSERT INTO {nam.ice} SELECT a INSERT INTO {nam.cta} SELECT a
UPDATE {nam.ice} SET a = a + 1
DELETE FROM {nam.ice} WHERE a = 7
MERGE INTO {nam.ice} t USING {nam.cta} s ON t.a = s.a WHEN MATCHED THEN DELETE
SELECT * FROM {nam.tab}
SELECT * FROM nam.tab WHERE a IN (SELECT a FROM {nam.cta})
WITH w AS (SELECT * FROM {nam.tab}) SELECT * FROM w
TABLE {nam.tab}
SELECT {a} FROM nam.tab
SELECT {abs}(-1)
SELECT {sum}(a) FROM nam.tab
SELECT {sum}(1)
SELECT * FROM {range}(3)
SHOW COLUMNS FROM {nam.tab}
SHOW TABLES IN {nam}
SHOW VIEWS IN {nam}
SHOW USER FUNCTIONS IN {nam}
~SHOW CREATE TABLE {nam.tab}
~SHOW TBLPROPERTIES {nam.tab}
DESCRIBE {nam.tab}
DESCRIBE TABLE {nam.tab} a
DESCRIBE FUNCTION {abs}
DESCRIBE SCHEMA {nam}
DESCRIBE QUERY SELECT * FROM {nam.tab}
~EXPLAIN TABLE {nam.tab}
~EXPLAIN INSERT INTO {nam.tab} SELECT 1, 'z'
CREATE VIEW {nam.vie} AS SELECT a FROM nam.tab
ALTER VIEW {nam.vie} SET TBLPROPERTIES ('k' = 'v')
DROP VIEW {nam.vie}
CREATE TEMPORARY VIEW {temporary} AS SELECT 1 AS a
SELECT * FROM {temporary}
DROP VIEW {temporary}
CREATE TEMPORARY FUNCTION {own}() RETURNS INT RETURN 1
SELECT {own}()
DROP TEMPORARY FUNCTION {own}
CREATE FUNCTION {nam.fun} AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFUpper'
REFRESH FUNCTION {nam.fun}
DROP FUNCTION {nam.fun}
DECLARE VARIABLE {variable} INT = 3
DROP TEMPORARY VARIABLE {variable}
ALTER TABLE {nam.tab} ADD COLUMN c INT
ALTER TABLE {nam.tab} SET TBLPROPERTIES ('k' = 'v')
ALTER TABLE {nam.cta} RENAME TO nam.cta
ALTER SCHEMA {nam} SET DBPROPERTIES ('k' = 'v')
COMMENT ON TABLE {nam.tab} IS 'x'
COMMENT ON SCHEMA {nam} IS 'x'
CACHE TABLE {nam.tab}
UNCACHE TABLE {nam.tab}
CACHE TABLE {cached} AS SELECT 1
UNCACHE TABLE {cached}
DROP VIEW {cached}
REFRESH TABLE {nam.tab}
ANALYZE TABLE {nam.tab} COMPUTE STATISTICS
MSCK REPAIR TABLE {nam.tab}
TRUNCATE TABLE {nam.tab}
CALL {system.rewrite_data_files}(table => 'nam.ice')
USE {default}
USE SCHEMA {default}
SET CATALOG {spark_catalog}
DROP TABLE {nam.tab}
DROP TABLE {nam.cta}
DROP TABLE {nam.ice}
DROP SCHEMA {nam}
""".strip().splitlines()

# What `make test` leaves out: the class of each of these plans is read as the one of a statement that it tries.
_FURTHER = (
    "ALTER", "ANALYZE", "CACHE", "COMMENT", "CREATE FUNCTION", "CREATE OR REPLACE", "DELETE", "DESCRIBE FUNCTION", "DESCRIBE SCHEMA",
    "DROP FUNCTION", "DROP VIEW {cached}", "FROM", "INSERT INTO {nam.ice} REPLACE", "INSERT OVERWRITE", "MSCK", "REFRESH", "TRUNCATE",
    "UNCACHE", "UPDATE", "~SHOW",
)  # fmt: skip
WALKS = {"short": [template for template in WALK if not template.startswith(_FURTHER)], "whole": WALK}
FAILING = {"ALTER TABLE {nam.cta} RENAME TO nam.cta", "MSCK REPAIR TABLE {nam.tab}"}


def computed(name: str) -> str:
    return f"IDENTIFIER('{name[:2]}' || '{name[2:]}')"


async def answered(client: GatewayClient, template: str, *, by_name: bool) -> tuple[Any, ...]:
    sql = re.sub(r"\{([\w.]+)\}", lambda name: name[1] if by_name else computed(name[1]), template.removeprefix("~"))
    view: OperationView = await client.run(sql)
    result = view.result
    shown = None if result is None or template.startswith("~") or "CALL" in template else result.preview
    condition = None if view.error is None else view.error.condition
    return view.statement_type, view.read_only, view.state, condition, result and len(result.columns), shown


@pytest.mark.parametrize("walk", thorough_but(["short"], WALKS))
async def test_statements_with_computed_names_are_those_with_the_names(client: GatewayClient, walk: str) -> None:
    own = await client.rows("SELECT current_catalog(), current_schema()")
    by_name = {template: await answered(client, template, by_name=True) for template in WALKS[walk]}
    by_value = {template: await answered(client, template, by_name=False) for template in WALKS[walk]}
    await client.ok(f"USE {own[0][0]}.{own[0][1]}")
    assert by_value == by_name
    unexpected = {template: answer for template, answer in by_name.items() if answer[2] is not OperationState.FINISHED}
    assert unexpected.keys() == FAILING & set(WALKS[walk]), unexpected


@pytest.mark.parametrize("statement", ["SELECT * FROM", "SHOW COLUMNS FROM", "TABLE", "INSERT INTO"])
async def test_a_computed_name_of_nothing_has_its_place_in_the_text(client: GatewayClient, statement: str) -> None:
    end = " SELECT 1" if statement == "INSERT INTO" else ""
    error = (await client.run(f"{statement} IDENTIFIER('no' || 'where'){end}")).error
    assert error is not None and error.condition == "TABLE_OR_VIEW_NOT_FOUND"
    assert (error.line, error.fragment) == (1, "IDENTIFIER('no' || 'where')"), error


@pytest.fixture
async def session(rest: RestClient) -> AsyncIterator[RestSession]:
    async with rest.session() as opened:
        yield opened


async def test_a_client_gets_the_rows_of_a_statement_with_a_computed_name(session: RestSession) -> None:
    await session.run("CREATE TABLE computed (a INT, b STRING) USING parquet")
    _, rows = await session.run("SHOW COLUMNS FROM IDENTIFIER('comp' || 'uted')")
    assert rows == [["a"], ["b"]]
    await session.run("DECLARE VARIABLE which STRING = 'computed'")
    _, rows = await session.run("SHOW COLUMNS FROM IDENTIFIER(which)")
    assert rows == [["a"], ["b"]]
    await session.run("DROP TABLE IDENTIFIER(which)")


async def test_a_stream_writes_into_a_table_with_a_computed_name(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.out (id INT) USING parquet")
    await streams.drained("INSERT INTO IDENTIFIER('$.o' || 'ut') SELECT id FROM STREAM $.src")
    assert sorted(await streams.rows("SELECT id FROM $.out")) == [(1,), (2,)]


TABLE = "VALUES ('v') AS t(x)"


@pytest.mark.parametrize(
    "using",
    [
        f"'SELECT IDENTIFIER(:c ''.x'') FROM {TABLE.replace(chr(39), chr(39) * 2)}' USING 't' AS c",
        f"'SELECT IDENTIFIER(:c ''.x'') FROM {TABLE.replace(chr(39), chr(39) * 2)}' USING which AS c",
        f"'SELECT IDENTIFIER(? ''.x'') FROM {TABLE.replace(chr(39), chr(39) * 2)}' USING 't'",
        f"'SELECT IDENTIFIER(:c || ''.x'') FROM {TABLE.replace(chr(39), chr(39) * 2)}' USING 't' AS c",
        "'SELECT :c ''x''' USING '' AS c",
    ],
)
async def test_a_value_of_execute_immediate_may_be_part_of_a_literal(session: RestSession, using: str) -> None:
    await session.run("DECLARE VARIABLE which STRING = 't'")
    assert await session.value(f"EXECUTE IMMEDIATE {using}") in ("v", "x")


@pytest.mark.parametrize(
    ("using", "condition"),
    [
        ("'SELECT :p' USING p", None),
        ("'SELECT :p' USING 7", "ALL_PARAMETERS_MUST_BE_NAMED"),
        ("'SELECT :p' USING p, 'x'", "ALL_PARAMETERS_MUST_BE_NAMED"),
        ("'SELECT :q' USING p", "UNBOUND_SQL_PARAMETER"),
        ("'SELECT ?' USING p", None),
        ("'SELECT ? + :p' USING p, 1 AS x", "INVALID_QUERY_MIXED_QUERY_PARAMETERS"),
    ],
)
async def test_a_value_of_execute_immediate_has_its_own_name_or_that_of_its_variable(
    session: RestSession, using: str, condition: str | None
) -> None:
    await session.run("DECLARE VARIABLE p INT = 7")
    text = f"EXECUTE IMMEDIATE {using}"
    if condition is None:
        assert await session.value(text) == 7
    else:
        assert condition in await session.failure(text)


async def test_a_parameter_may_be_part_of_a_literal(client: GatewayClient) -> None:
    parameters = (Parameter(name="c", type="STRING", value="t"),)
    assert await client.rows(f"SELECT IDENTIFIER(:c '.x') FROM {TABLE}", parameters=parameters) == [("v",)]


REFLECT = "org.apache.hadoop.hive.ql.udf.generic.GenericUDFReflect"


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE IDENTIFIER('o' || 'p') (id INT) USING parquet OPTIONS ('fs.file.impl' = 'a.B')",
        "SELECT * FROM IDENTIFIER('o' || 'p') WITH ('fs.file.impl' = 'a.B')",
        "WITH w AS (SELECT * FROM IDENTIFIER('o' || 'p') WITH ('fs.file.impl' = 'a.B')) SELECT * FROM w",
        "INSERT INTO IDENTIFIER('o' || 'p') SELECT TRANSFORM (id) USING 'cat' AS (id) FROM range(3)",
        f"CREATE TEMPORARY FUNCTION IDENTIFIER('o' || 'p') AS '{REFLECT}'",
        "SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'getenv', 'HOME')",
        f"EXECUTE IMMEDIATE 'CREATE TEMPORARY FUNCTION IDENTIFIER(:n) AS ''{REFLECT}''' USING 'o' AS n",
        f"EXECUTE IMMEDIATE 'CREATE TEMPORARY FUNCTION o AS :c' USING '{REFLECT}' AS c",
        f"EXECUTE IMMEDIATE 'CREATE TEMPORARY FUNCTION o AS ?' USING '{REFLECT}'",
        f"BEGIN DECLARE c STRING = '{REFLECT}'; EXECUTE IMMEDIATE 'CREATE TEMPORARY FUNCTION o AS :c' USING c AS c; END",
        f"EXECUTE IMMEDIATE 'CREATE TEMPORARY FUNCTION o AS :c' USING concat('{REFLECT}', '') AS c",
    ],
)
async def test_a_computed_name_or_value_is_no_way_around_the_policy(client: GatewayClient, sql: str) -> None:
    view = await client.run(sql)
    assert view.error is not None and view.error.reason == "NotAllowed", view.error


async def test_a_variable_as_a_value_is_checked_as_it_is_when_the_statement_runs(session: RestSession) -> None:
    await session.run(
        "DECLARE VARIABLE implementation STRING = 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFUpper'"
    )
    text = "EXECUTE IMMEDIATE 'CREATE OR REPLACE TEMPORARY FUNCTION checked AS :c' USING implementation AS c"
    await session.run(text)
    await session.run(f"SET VARIABLE implementation = '{REFLECT}'")
    assert "is not allowed" in await session.failure(text)
