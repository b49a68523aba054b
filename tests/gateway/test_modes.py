"""Preview, Explain and Validate leave everything as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparksql.api.execution import StatementMode
from sparksql.wire.control import ErrorReason, OperationState, ResultOptions

from .client import GatewayClient, Parameter

EFFECTS = [
    "CREATE TABLE {name} (a INT) USING parquet",
    "CREATE TABLE {name} USING parquet AS SELECT 1 AS a",
    "CREATE TEMPORARY VIEW {name} AS SELECT 1 AS a",
    "CREATE DATABASE {name}",
    "SET my.{name} = 1",
    "DROP TABLE untouched",
    "INSERT INTO untouched VALUES (9)",
    "INSERT OVERWRITE untouched SELECT 9",
    "TRUNCATE TABLE untouched",
    "ALTER TABLE untouched ADD COLUMN b INT",
    "DECLARE VARIABLE {name} INT",
]


@pytest.fixture
async def untouched(client: GatewayClient) -> None:
    await client.ok(
        "CREATE TABLE IF NOT EXISTS untouched (a INT) USING parquet; INSERT OVERWRITE untouched VALUES (1), (2)"
    )


async def state(client: GatewayClient) -> list[object]:
    return [
        await client.rows("SHOW TABLES"),
        await client.rows("SHOW DATABASES"),
        await client.rows("DESCRIBE TABLE untouched"),
        await client.rows("SELECT a FROM untouched ORDER BY a"),
        await client.rows("SET"),
    ]


@pytest.mark.parametrize("mode", [StatementMode.EXPLAIN, StatementMode.VALIDATE])
async def test_explain_and_validate_never_execute(client: GatewayClient, untouched: None, mode: StatementMode) -> None:
    before = await state(client)
    for number, effect in enumerate(EFFECTS):
        view = await client.ok(effect.format(name=f"made_by_{mode.lower()}_{number}"), mode=mode)
        assert view.read_only is True
        assert view.result is not None
        assert view.result.row_count == (1 if mode is StatementMode.EXPLAIN else 0)
    assert await state(client) == before


async def test_explain_answers_with_a_plan(client: GatewayClient, untouched: None) -> None:
    [(plan,)] = await client.rows("SELECT count(*) FROM untouched WHERE a > 1", mode=StatementMode.EXPLAIN)
    assert "HashAggregate" in plan
    assert "Scan parquet" in plan


async def test_validate_tells_columns_and_errors_with_their_place(client: GatewayClient, untouched: None) -> None:
    good = await client.ok("SELECT a, 'x' AS b FROM untouched", mode=StatementMode.VALIDATE)
    assert good.result is not None
    assert [(column.name, column.type) for column in good.result.columns] == [("a", "int"), ("b", "string")]
    bad = await client.run("INSERT INTO untouched\nSELECT nothing", mode=StatementMode.VALIDATE)
    assert bad.state is OperationState.ERROR
    assert bad.error is not None
    assert (bad.error.line, bad.error.position) == (2, 8)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM untouched ORDER BY a",
        "INSERT INTO untouched SELECT a FROM untouched ORDER BY a",
        "INSERT OVERWRITE untouched SELECT a FROM untouched ORDER BY a",
        "CREATE TABLE previewed USING parquet AS SELECT a FROM untouched ORDER BY a",
        "WITH w AS (SELECT a FROM untouched) INSERT INTO untouched SELECT a FROM w ORDER BY a",
        "INSERT OVERWRITE DIRECTORY '{folder}' USING parquet SELECT a FROM untouched ORDER BY a",
    ],
)
async def test_a_preview_runs_the_query_and_leaves_the_sink(
    client: GatewayClient, untouched: None, tmp_path: Path, sql: str
) -> None:
    before = await state(client)
    folder = tmp_path / "sink"
    view = await client.ok(sql.format(folder=folder), mode=StatementMode.PREVIEW, result=ResultOptions(max_rows=1))
    assert view.result is not None
    assert (view.result.preview, view.result.row_count, view.result.truncated) == ((("1",),), 1, True)
    assert await state(client) == before
    assert not folder.exists()


async def test_a_preview_takes_parameters(client: GatewayClient, untouched: None) -> None:
    view = await client.ok(
        "INSERT INTO untouched SELECT a FROM untouched WHERE a = :a",
        mode=StatementMode.PREVIEW,
        parameters=[Parameter(name="a", value="2", type="INT")],
    )
    assert view.result is not None
    assert view.result.preview == (("2",),)


@pytest.mark.parametrize("mode", [StatementMode.PREVIEW, StatementMode.EXPLAIN, StatementMode.VALIDATE])
@pytest.mark.parametrize(
    "sql",
    [
        "EXECUTE IMMEDIATE 'CREATE TABLE leaked (a INT) USING parquet'",
        "EXPLAIN EXECUTE IMMEDIATE 'CREATE TABLE leaked (a INT) USING parquet'",
        "CALL some.procedure()",
        "BEGIN CREATE TABLE leaked (a INT) USING parquet; END",
        "SELECT 1; SELECT 2",
    ],
)
async def test_preview_explain_and_validate_refuse_scripts_calls_and_execute_immediate(
    client: GatewayClient, mode: StatementMode, sql: str
) -> None:
    view = await client.run(sql, mode=mode)
    assert view.state is OperationState.ERROR
    assert view.error is not None
    assert view.error.reason is ErrorReason.INVALID_SPEC, view.error
    assert await client.rows("SHOW TABLES LIKE 'leaked'") == []


@pytest.mark.parametrize("sql", ["DROP TABLE untouched", "SET my.x = 1", "USE default", "CREATE TABLE x (a INT)"])
async def test_a_preview_of_another_effect_is_refused(client: GatewayClient, untouched: None, sql: str) -> None:
    view = await client.run(sql, mode=StatementMode.PREVIEW)
    assert view.state is OperationState.ERROR
    assert view.error is not None
    assert view.error.reason is ErrorReason.INVALID_SPEC


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO untouched SELECT a FROM STREAM untouched",
        "SELECT a FROM STREAM untouched",
        "CREATE TABLE streamed USING parquet AS SELECT a FROM STREAM untouched",
    ],
)
async def test_a_streaming_text_needs_spec_streaming(client: GatewayClient, untouched: None, sql: str) -> None:
    view = await client.run(sql)
    assert view.state is OperationState.ERROR
    assert view.error is not None
    assert view.error.reason is ErrorReason.INVALID_SPEC, view.error
    assert "spec.streaming" in view.error.message
