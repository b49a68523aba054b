"""Statements through the whole gateway: submission, results, errors with their place, scripts, settings."""

from __future__ import annotations

import asyncio
import random
import uuid

import aiohttp
import pytest

from sparksql.wire.control import ErrorBody, ErrorReason, OperationState, OperationView, Parameter, ResultOptions
from tests.support.process import GatewayProcess

from .client import API, GatewayClient, connect


async def test_select_of_literals_has_columns_types_and_a_preview(client: GatewayClient) -> None:
    view = await client.ok("SELECT 1 AS a, 'x' AS b, CAST(NULL AS INT) AS c")
    assert (view.statement_type, view.read_only) == ("SELECT", True)
    assert view.result is not None
    assert [(column.name, column.type) for column in view.result.columns] == [
        ("a", "int"),
        ("b", "string"),
        ("c", "int"),
    ]
    assert view.result.preview == (("1", "x", None),)
    assert (view.result.row_count, view.result.truncated) == (1, False)
    assert (await client.page(view.operation_id)).rows == ((1, "x", None),)


async def test_a_repeated_submission_is_answered_and_never_run_again(client: GatewayClient) -> None:
    await client.ok("CREATE TABLE once (a INT) USING parquet")
    operation_id = str(uuid.uuid4())
    views = await asyncio.gather(*(client.put("INSERT INTO once VALUES (1)", operation_id) for _ in range(5)))
    assert {view.operation_id for view in views} == {operation_id}
    ended = await client.end(views[0])
    assert ended.state is OperationState.FINISHED
    again = await client.put("INSERT INTO once VALUES (1)", operation_id)
    assert again == ended
    assert await client.rows("SELECT count(*) FROM once") == [(1,)]


async def test_an_unknown_id_that_is_cancelled_is_never_run(client: GatewayClient) -> None:
    operation_id = str(uuid.uuid4())
    tombstone = await client.cancel(operation_id)
    assert tombstone.state is OperationState.CANCELED
    late = await client.put("CREATE TABLE never_made (a INT) USING parquet", operation_id)
    assert late == tombstone
    assert await client.rows("SHOW TABLES LIKE 'never_made'") == []


async def test_refusals_have_their_status_and_an_error_body(gateway: GatewayProcess, client: GatewayClient) -> None:
    status, body = await client.put_raw("SELECT 1", boot_id=str(uuid.uuid4()))
    assert (status, ErrorBody.model_validate_json(body).error) == (412, "OtherBoot")
    async with client.http.put(f"{API}/statements/x", data=b'{"sql": 1}') as response:
        assert (response.status, ErrorBody.model_validate_json(await response.text()).error) == (400, "Malformed")
    async with client.http.put(f"{API}/statements/x", data=b"x" * (9 << 20)) as response:
        assert response.status == 413
    async with client.http.get(f"{API}/statements/{uuid.uuid4()}") as response:
        assert response.status == 404
    assert (await client.page_raw(str(uuid.uuid4())))[0] == 404
    async with connect(gateway, token="another") as stranger:
        for path in (f"{API}/info", f"{API}/events", "/metrics", f"{API}/statements/x", "/nowhere"):
            async with stranger.http.get(path) as response:
                assert response.status == 401, path
        for path in ("/healthz", "/readyz"):
            async with stranger.http.get(path) as response:
                assert (response.status, await response.read()) == (200, b"")
    async with client.http.get("/metrics") as response:
        text = await response.text()
        assert 'sparksql_gateway_state{state="Ready"} 1.0' in text
    with pytest.raises(aiohttp.ClientError):
        async with aiohttp.ClientSession() as plain, plain.get(f"http://localhost:{gateway.port}/healthz"):
            pass


async def test_refusals_of_the_control_api_are_told_apart_by_their_code(
    gateway: GatewayProcess, client: GatewayClient
) -> None:
    ended = (await client.ok("SELECT 1")).operation_id
    endless = (await client.put("SELECT count(*) FROM range(1000000000000) WHERE id * id % 7 = -1")).operation_id
    unknown = uuid.uuid4()
    refusals = {
        f"statements/{unknown}": (404, "UnknownOperation"),
        f"statements/{unknown}/results": (404, "UnknownOperation"),
        f"statements/{endless}/results": (404, "NotReady"),
        f"statements/{ended}/results?token=2": (404, "UnknownResult"),
        f"statements/{ended}/results?token=-1": (400, "Malformed"),
        f"statements/{ended}/results?format=xml": (400, "Malformed"),
        f"savepoints/{unknown}": (404, "UnknownSavepoint"),
    }
    for path, refusal in refusals.items():
        async with client.http.get(f"{API}/{path}") as response:
            body = ErrorBody.model_validate_json(await response.text())
            assert (response.status, body.error) == refusal, path
            assert body.message, path
    await client.cancel(endless)
    async with connect(gateway, token="another") as stranger, stranger.http.get(f"{API}/info") as response:
        assert ErrorBody.model_validate_json(await response.text()).error == "Unauthorized"


@pytest.mark.parametrize(
    ("sql", "condition", "sql_state", "line", "position", "fragment"),
    [
        ("SELEC 1", "PARSE_SYNTAX_ERROR", "42601", 1, 1, "SELEC"),
        ("SELECT 1;\n\n  SELECT *\n  FROM nowhere", "TABLE_OR_VIEW_NOT_FOUND", "42P01", 4, 8, "nowhere"),
        ("SELECT 'é😀',\n  nocol", "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", "42703", 2, 3, "nocol"),
        ("SELECT 1 AS a, 1/0 AS b", "DIVIDE_BY_ZERO", "22012", 1, 16, "1/0"),
        ("SELECT sum(10 / (id - 3)) FROM range(9)", "DIVIDE_BY_ZERO", "22012", 1, 12, "10 / (id - 3)"),
        ("", "PARSE_EMPTY_STATEMENT", "42617", None, None, None),
    ],
)
async def test_errors_name_condition_sql_state_and_place(
    client: GatewayClient,
    sql: str,
    condition: str,
    sql_state: str,
    line: int | None,
    position: int | None,
    fragment: str | None,
) -> None:
    view = await client.run(sql)
    assert view.state is OperationState.ERROR
    error = view.error
    assert error is not None
    assert error.reason is ErrorReason.SQL_ERROR
    assert (error.condition, error.sql_state) == (condition, sql_state), error
    if line is not None:
        assert (error.line, error.position, error.fragment) == (line, position, fragment), error
    assert condition in error.message
    for tail in ("== SQL", "'Project", "\tat ", "stacktrace", "(line "):
        assert tail not in error.message


async def test_a_failed_task_tells_the_cause_and_leaves_nothing_of_a_plan(client: GatewayClient) -> None:
    view = await client.run("CREATE TABLE broken USING parquet AS SELECT CAST(concat('x', id) AS INT) a FROM range(9)")
    assert view.state is OperationState.ERROR
    assert view.error is not None
    assert (view.error.condition, view.error.sql_state) == ("CAST_INVALID_INPUT", "22018"), view.error


async def test_ddl_has_no_rows_and_dml_tells_what_was_written(client: GatewayClient) -> None:
    made = await client.ok("CREATE TABLE told (a INT) USING parquet")
    assert made.result is not None
    assert (made.result.columns, made.result.row_count, made.statement_type) == ((), 0, "CREATE TABLE")
    assert made.read_only is False
    written = await client.ok("INSERT INTO told VALUES (1), (2), (3)")
    assert written.result is not None
    row = dict(zip((c.name for c in written.result.columns), written.result.preview[0], strict=True))
    assert row["num_output_rows"] == "3"
    assert written.statement_type == "INSERT"


async def test_values_of_all_types_are_readable(client: GatewayClient) -> None:
    sql = """SELECT true b, CAST(1 AS TINYINT) ti, 9007199254740993 l, 1.5D d, CAST('NaN' AS DOUBLE) nan, 1e10D e,
        CAST(12.50 AS DECIMAL(10,2)) de, DATE'2026-01-31' dt, TIMESTAMP'2026-01-31 10:00:00.5' ts, X'6162' bin,
        array(1, NULL) a, map('k', 1) m, named_struct('x', 1, 'y', 'z') s, INTERVAL '1-2' YEAR TO MONTH ym,
        INTERVAL '1 02:03:04' DAY TO SECOND ds, parse_json('{"a":[1]}') v, NULL n, TIMESTAMP_NTZ'2026-01-31 10:00:00' tn,
        DATE'-0044-03-15' old"""
    [row] = await client.rows(sql)
    assert row[:9] == (True, 1, 9007199254740993, 1.5, "NaN", 1e10, "12.50", "2026-01-31", "2026-01-31 10:00:00.5")
    assert row[9:13] == ("YWI=", [1, None], {"k": 1}, {"x": 1, "y": "z"})
    assert row[13:] == (
        "INTERVAL '1-2' YEAR TO MONTH",
        "INTERVAL '1 02:03:04' DAY TO SECOND",
        '{"a":[1]}',
        None,
        "2026-01-31 10:00:00",
        "-0044-03-15",
    )


async def test_equal_column_names_and_no_rows(client: GatewayClient) -> None:
    assert await client.rows("SELECT 1 AS a, 2 AS a") == [(1, 2)]
    view = await client.ok("SELECT 1 AS a WHERE false")
    assert view.result is not None
    assert (len(view.result.columns), view.result.row_count, view.result.truncated) == (1, 0, False)
    assert (await client.page(view.operation_id)).rows == ()


async def test_statement_conf_does_not_reach_later_statements(client: GatewayClient) -> None:
    sql = "SELECT current_timezone()"
    assert await client.rows(sql, conf={"spark.sql.session.timeZone": "Asia/Tokyo"}) == [("Asia/Tokyo",)]
    assert await client.rows(sql) == [("UTC",)]
    # The same in the base session, where a script with SET runs.
    script = "SET my.key = 1; SELECT current_timezone()"
    assert await client.rows(script, conf={"spark.sql.session.timeZone": "Asia/Tokyo"}) == [("Asia/Tokyo",)]
    assert await client.rows(sql) == [("UTC",)]


async def test_a_statement_that_changes_the_session_is_a_barrier(client: GatewayClient) -> None:
    slow = await client.put("SELECT max(sha2(CAST(id AS STRING), 512)) FROM range(3000000)")
    setting = await client.put("SET my.barrier = after")
    reading = await client.put("SET my.barrier")
    ended = [await client.end(view) for view in (slow, setting, reading)]
    assert {view.state for view in ended} == {OperationState.FINISHED}, ended
    assert reading.state is OperationState.PENDING
    assert ended[0].completion_time <= ended[1].start_time <= ended[1].completion_time <= ended[2].start_time
    assert ended[2].result.preview == (("my.barrier", "after"),)
    await client.ok("RESET my.barrier")


async def test_session_state_reaches_later_statements(client: GatewayClient) -> None:
    [(database,)] = await client.rows("SELECT current_database()")
    await client.ok("CREATE TEMPORARY VIEW kept AS SELECT 7 AS a")
    await client.ok("DECLARE OR REPLACE VARIABLE counter INT DEFAULT 5")
    await client.ok("SET VARIABLE counter = 6")
    await client.ok("CREATE DATABASE IF NOT EXISTS other")
    await client.ok("USE other")
    try:
        assert await client.rows("SELECT a, counter, current_database() FROM kept") == [(7, 6, "other")]
        assert (await client.info()).has_session_state is True
    finally:
        restore = f"USE {database}; DROP VIEW kept; DROP TEMPORARY VARIABLE counter; DROP DATABASE other"
        await client.ok(restore)  # other files run statements in the same session


async def test_a_script_runs_in_order_and_answers_with_its_last_rows(client: GatewayClient) -> None:
    script = """-- a comment; with a semicolon
        CREATE TABLE scripted (a INT, s STRING) USING parquet;
        INSERT INTO scripted VALUES (1, ';'), (2, 'two');;
        /* nothing; here */
        SELECT a, s FROM scripted ORDER BY a;
        CREATE TABLE scripted_too (a INT) USING parquet;
    """
    view = await client.ok(script)
    assert view.statement_type == "SCRIPT"
    assert view.read_only is False
    assert view.result.preview == (("1", ";"), ("2", "two"))
    assert (view.progress.statement_index, view.progress.statement_count) == (4, 4)


async def test_a_script_with_a_syntax_error_runs_none_of_its_statements(client: GatewayClient) -> None:
    view = await client.run("CREATE TABLE half (a INT) USING parquet;\nSELEC 1")
    assert (view.state, view.error.line, view.error.position) == (OperationState.ERROR, 2, 1)
    assert await client.rows("SHOW TABLES LIKE 'half'") == []


async def test_a_script_stops_at_the_first_error(client: GatewayClient) -> None:
    view = await client.run(
        "CREATE TABLE early (a INT) USING parquet; SELECT 1/0; CREATE TABLE late (a INT) USING parquet"
    )
    assert (view.state, view.error.condition) == (OperationState.ERROR, "DIVIDE_BY_ZERO")
    assert (view.progress.statement_index, view.progress.statement_count) == (2, 3)
    assert [row[1] for row in await client.rows("SHOW TABLES LIKE 'early|late'")] == ["early"]


async def test_a_block_is_one_statement(client: GatewayClient) -> None:
    script = (
        "SELECT 1; BEGIN DECLARE n INT = 0; WHILE n < 3 DO SET n = n + 1; END WHILE; SELECT n; END; SELECT 'after' AS a"
    )
    view = await client.ok(script)
    assert view.progress.statement_count == 3
    assert view.result.preview == (("after",),)
    block = await client.ok(
        "BEGIN DECLARE n INT = 41; SET n = n + :one; SELECT n; END", parameters=[parameter("one", "1", "INT")]
    )
    assert block.result.preview == (("42",),)
    assert block.statement_type == "BEGIN END"


async def test_a_script_has_at_most_500_statements(client: GatewayClient) -> None:
    view = await client.run("SELECT 1;" * 501)
    assert (view.state, view.error.reason) == (OperationState.ERROR, ErrorReason.LIMIT_EXCEEDED)


def parameter(name: str, value: str, type_: str = "STRING", *, secret: bool = False) -> Parameter:
    return Parameter(name=name, value=value, type=type_, secret=secret)


async def test_parameters_are_typed_and_bound(client: GatewayClient) -> None:
    [row] = await client.rows(
        "SELECT :s, typeof(:d), :d, typeof(:n), :n + 1, typeof(:t), typeof(:m), :m",
        parameters=[
            parameter("s", "it's; -- 'quoted' \\ \"😀\""),
            parameter("d", "2026-01-31", "DATE"),
            parameter("n", "41", "INT"),
            parameter("t", "7", "TINYINT"),
            parameter("m", "12.50", "DECIMAL(10,2)"),
        ],
    )
    assert row == ("it's; -- 'quoted' \\ \"😀\"", "date", "2026-01-31", "int", 42, "tinyint", "decimal(4,2)", "12.50")


async def test_each_statement_of_a_script_gets_the_parameters(client: GatewayClient) -> None:
    script = (
        "CREATE TABLE bound AS SELECT :a AS a; INSERT INTO bound SELECT :b; SELECT count(*) FROM bound WHERE a = :a"
    )
    view = await client.ok(script, parameters=[parameter("a", "x"), parameter("b", "y")])
    assert view.result.preview == (("1",),)


@pytest.mark.parametrize(
    ("sql", "parameters", "named"),
    [
        ("SELECT :a", [parameter("a", "x"), parameter("unused", "y")], "unused"),
        ("SELECT ':a' -- :a", [parameter("a", "x")], "a"),
        ("SELECT :n", [parameter("n", "many", "INT")], "n"),
        ("SELECT :n", [parameter("n", "1", "NO_SUCH_TYPE")], "n"),
        ("SELECT :n", [parameter("n", "1", "ARRAY<INT>")], "n"),
        ("SELECT :a; SET my.key = :a", [parameter("a", "x")], "a"),
        ("ADD JAR :a", [parameter("a", "x")], "a"),
        ("SELECT :a", [parameter("a", "x"), parameter("a", "y")], "a"),
    ],
)
async def test_a_parameter_that_cannot_be_bound_is_named(
    client: GatewayClient, sql: str, parameters: list[Parameter], named: str
) -> None:
    view = await client.run(sql, parameters=parameters)
    assert view.state is OperationState.ERROR
    assert view.error.reason is ErrorReason.INVALID_SPEC, view.error
    assert f"'{named}'" in view.error.message


async def test_an_unbound_marker_is_an_error(client: GatewayClient) -> None:
    view = await client.run("SELECT :nobody")
    assert (view.state, view.error.condition) == (OperationState.ERROR, "UNBOUND_SQL_PARAMETER")


def _key(chars: int) -> str:
    return "".join(
        random.Random(chars).choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/", k=chars)
    )


_PEM = "\n".join(
    ["-----BEGIN PRIVATE KEY-----", *(_key(64 + n)[:64] for n in range(6)), "-----END PRIVATE KEY-----", ""]
)


@pytest.mark.parametrize("secret", ["s3cr3t'value", _key(100), _key(5000), _PEM], ids=["quoted", "100", "5000", "pem"])
async def test_secret_parameters_are_masked_in_results_errors_plans_and_log(
    secret: str, client: GatewayClient, gateway: GatewayProcess
) -> None:
    """Spark cuts a plan's filters, an error is cut for the status, and a log has one line at a time."""
    given = [parameter("p", secret, secret=True)]
    hidden = {line[at : at + 9] for line in secret.splitlines() for at in range(len(line) - 8)}
    table = f"kept_{len(secret)}"
    await client.ok(f"CREATE TABLE {table} (name STRING) USING parquet")

    def shown(view: OperationView) -> str:
        return view.to_json() + repr(view)

    named = await client.ok("SELECT :p, 1 AS one", parameters=given)
    failed = await client.run("SELECT CAST(:p AS INT)", parameters=given)
    job = await client.run("SELECT CAST(concat(:p, id) AS INT) FROM range(5)", parameters=given)
    raised = await client.run("SELECT raise_error(concat(:p, id)) FROM range(5)", parameters=given)
    filtered = f"SELECT name FROM {table} WHERE name = :p"
    plan = await client.ok(f"EXPLAIN {filtered}", parameters=given)
    explained = await client.ok(filtered, parameters=given, mode="Explain")
    assert (failed.state, job.state) == (OperationState.ERROR, OperationState.ERROR)
    pages = [(await client.page(view.operation_id)).to_json() for view in (plan, explained)]
    log = (gateway.folder / "log").read_text(errors="replace")
    for text in (*map(shown, (named, failed, job, raised, plan, explained)), *pages, log):
        assert not [part for part in hidden if part in text], text[-2000:]
    assert "***" in named.result.columns[0].name
    assert all("***" in page for page in pages)


async def test_a_secret_date_parameter_is_masked_as_spark_formats_it(client: GatewayClient) -> None:
    dated = await client.ok("SELECT :p", parameters=[parameter("p", "2026-1-5", "DATE", secret=True)])
    assert "2026-01-05" not in dated.to_json() + repr(dated)


async def test_the_result_of_a_statement_without_rows_kept(client: GatewayClient) -> None:
    view = await client.ok("SELECT 1", result=ResultOptions(max_rows=0, preview_rows=5))
    assert (view.result.row_count, view.result.truncated, view.result.preview) == (0, True, ())


async def test_sql_functions_are_kept_in_the_catalog_and_used(client: GatewayClient) -> None:
    """Beside Iceberg's extensions, whose parser cannot read the parameters of a function by itself."""
    await client.ok("CREATE FUNCTION scaled(x INT COMMENT 'it', by INT DEFAULT 2) RETURNS INT RETURN x * by")
    assert await client.rows("SELECT scaled(4), scaled(4, 3)") == [(8, 12)]
    refused = await client.run("CREATE FUNCTION odd(x NOSUCH) RETURNS INT RETURN 1")
    assert refused.error is not None and refused.error.condition == "UNSUPPORTED_DATATYPE"
    await client.ok("CREATE TEMPORARY FUNCTION pairs(n INT) RETURNS TABLE (a INT, b STRING) RETURN SELECT n, 'x'")
    assert await client.rows("SELECT a, b FROM pairs(7)") == [(7, "x")]
    await client.ok("DROP TEMPORARY FUNCTION pairs; DROP FUNCTION scaled")


async def test_icebergs_own_statements_are_understood(client: GatewayClient) -> None:
    """Rows changed in place, partition fields, and a procedure that asks the session's parser for a sort order."""
    await client.ok(
        "CREATE TABLE moved (id INT, name STRING) USING iceberg; INSERT INTO moved VALUES (1, 'a'), (2, 'b');"
        "ALTER TABLE moved ADD PARTITION FIELD bucket(2, id); ALTER TABLE moved WRITE ORDERED BY name;"
        "MERGE INTO moved t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'z'"
    )
    await client.ok(
        "CALL spark_catalog.system.rewrite_data_files(table => 'moved', strategy => 'sort', "
        "sort_order => 'name DESC NULLS FIRST', options => map('rewrite-all', 'true'))"
    )
    assert await client.rows("SELECT id, name FROM moved ORDER BY id") == [(1, "z"), (2, "b")]
    await client.ok("DROP TABLE moved")


async def test_an_empty_database_is_dropped(client: GatewayClient) -> None:
    await client.ok("CREATE DATABASE passing; DROP DATABASE passing")
    again = await client.run("DROP DATABASE passing")
    assert again.error is not None and again.error.condition == "SCHEMA_NOT_FOUND"
