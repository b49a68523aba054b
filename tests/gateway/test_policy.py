"""What SQL may not ask for, by every way that leads there."""

from __future__ import annotations

import pytest

from sparksql.wire.control import ErrorReason, OperationState

from .client import GatewayClient

REFUSED = [
    "SET spark.jars = x.jar",
    "SET `Spark.Jars ` = x.jar",
    "SET spark.hadoop.fs.s3a.access.key = k",
    "SET fs.s3a.endpoint = http://elsewhere",
    "SET spark.sql.ansi.enabled = false",
    "SET SPARK.SQL.ANSI.ENABLED = false",
    "RESET spark.sql.ansi.enabled",
    "RESET spark.kubernetes.namespace",
    "SET spark.sql.variable.substitute = true",
    "SET spark.sql.maxPlanStringLength = 1",
    "SET spark.sql.ansi.doubleQuotedIdentifiers = true",
    "SET spark.sql.parser.escapedStringLiterals = true",
    "SELECT 1; SET spark.master = local",
    "ADD JAR '/tmp/x.jar'",
    "ADD JAR 's3a://trusted/jars/../../other/x.jar'",
    "ADD JAR 's3a://trusted/jars/x?/../../../other/x.jar'",
    "ADD JAR 's3a://trusted/jars/%252e%252e/other/x.jar'",
    "ADD FILE 's3a://trusted/jars/*'",
    "ADD FILE '/etc/passwd'",
    "ADD ARCHIVE 's3a://other/x.zip'",
    "CREATE FUNCTION f AS 'a.B' USING JAR 's3a://other/x.jar'",
    "CREATE TEMPORARY FUNCTION f AS 'a.B' USING JAR '/tmp/x.jar'",
    "CREATE FUNCTION IDENTIFIER('f' || 'g') AS 'a.B' USING JAR '/tmp/x.jar'",
    "CREATE FUNCTION f() RETURNS TABLE (id STRING) RETURN SELECT TRANSFORM (id) USING 'cat' AS (id) FROM range(3)",
    "CREATE TEMPORARY FUNCTION f() RETURNS STRING RETURN (SELECT max(id) FROM (FROM range(3) MAP id USING 'cat' AS id))",
    "CREATE FUNCTION f AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFReflect'",
    "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT java_method('java.lang.System', 'getenv', 'HOME')",
    "SELECT try_reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT TRANSFORM (id) USING 'cat' AS (id) FROM range(3)",
    "SELECT * FROM (SELECT TRANSFORM (id) USING 'cat' AS (id) FROM range(3)) WHERE id > 1",
    "FROM range(3) MAP id USING 'cat' AS id",
    "SELECT TRAN\u017fFORM (id) USING 'cat' AS (id) FROM range(3)",
    "CREATE VIEW hidden AS SELECT TRANSFORM (id) USING 'cat' AS (id) FROM range(3)",
    "EXECUTE IMMEDIATE 'SET spark.sql.ansi.enabled = false'",
    "EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE ''ADD JAR \"/tmp/x.jar\"'''",
    "EXECUTE IMMEDIATE concat('ADD JAR ', '/tmp/x.jar')",
    "BEGIN IF true THEN BEGIN ADD JAR '/tmp/x.jar'; END; END IF; END",
    "BEGIN IF false THEN SELECT 1; ELSEIF true THEN SELECT 2; ELSE ADD JAR '/tmp/x.jar'; END IF; END",
    "BEGIN WHILE false DO ADD JAR '/tmp/x.jar'; END WHILE; END",
    "BEGIN REPEAT ADD JAR '/tmp/x.jar'; UNTIL true END REPEAT; END",
    "BEGIN l: LOOP ADD JAR '/tmp/x.jar'; LEAVE l; END LOOP; END",
    "BEGIN FOR r AS SELECT 1 AS a DO ADD JAR '/tmp/x.jar'; END FOR; END",
    "BEGIN CASE WHEN true THEN ADD JAR '/tmp/x.jar'; END CASE; END",
    "BEGIN CASE 1 WHEN 1 THEN SELECT 1; ELSE ADD JAR '/tmp/x.jar'; END CASE; END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ADD JAR '/tmp/x.jar'; END; SELECT 1; END",
    "BEGIN DECLARE s STRING = 'x'; EXECUTE IMMEDIATE s; END",
    "BEGIN FOR r AS SELECT TRANSFORM (id) USING 'cat' AS (id) FROM range(3) DO SELECT 1; END FOR; END",
    "CREATE TABLE o (id INT) USING parquet OPTIONS ('fs.file.impl' = 'a.B')",
    "CREATE TABLE o (id INT) USING parquet OPTIONS (fs.file.impl.disable.cache = true)",
    "CREATE TABLE o (id INT) USING parquet TBLPROPERTIES ('option.fs.s3a.endpoint' = 'x')",
    "CREATE TABLE o USING parquet OPTIONS ('parquet.crypto.factory.class' = 'a.B') AS SELECT 1 AS id",
    "CREATE TEMPORARY VIEW o USING csv OPTIONS (path '/x', fs.file.impl 'a.B')",
    "CREATE TEMPORARY VIEW o USING kafka OPTIONS ('kafka.bootstrap.servers' = 'x', 'kafka.config.providers' = 'p')",
    "INSERT OVERWRITE DIRECTORY '/x' USING parquet OPTIONS ('fs.file.impl' = 'a.B') SELECT 1",
    "SELECT * FROM o WITH ('fs.s3a.aws.credentials.provider' = 'a.B')",
    "SELECT * FROM range(1) WHERE id IN (SELECT id FROM o WITH /* ( */ ('fs.file.impl' = 'a.B'))",
    "WITH c AS (SELECT * FROM o WITH (fs.file.impl = 'a.B')) SELECT * FROM c",
    "EXPLAIN SELECT * FROM o WITH ('fs.file.impl' = 'a.B')",
    "INSERT INTO o WITH ('fs.file.impl' = 'a.B') SELECT 1",
    "ALTER TABLE o SET SERDEPROPERTIES ('fs.file.impl' = 'a.B')",
    "ALTER TABLE o SET TBLPROPERTIES ('option.fs.file.impl' = 'a.B')",
    "WITH c AS (SELECT 1) INSERT OVERWRITE DIRECTORY '/x' USING parquet OPTIONS ('fs.file.impl' = 'a.B') SELECT * FROM c",
    "SELECT * FROM o VERSION AS OF 1 WITH ('fs.file.impl' = 'a.B')",
    "SELECT * FROM IDENTIFIER('o') WITH ('fs.file.impl' = 'a.B')",
    "INSERT INTO IDENTIFIER('o') WITH ('fs.file.impl' = 'a.B') SELECT 1",
    "CREATE TABLE IDENTIFIER('o') (id INT) USING parquet OPTIONS ('fs.file.impl' = 'a.B')",
    "CREATE TABLE o (id INT) STORED AS PARQUET TBLPROPERTIES ('parquet.crypto.factory.class' = 'a.B')",
    "CREATE TABLE o (id INT) ROW FORMAT SERDE 'a.B' WITH SERDEPROPERTIES ('fs.file.impl' = 'a.B') STORED AS TEXTFILE",
    "BEGIN SELECT * FROM o WITH ('fs.file.impl' = 'a.B'); END",
    "EXPLAIN SELECT TRANSFORM (id) USING 'cat' AS (id) FROM range(3)",
    "DESCRIBE QUERY SELECT TRANSFORM (id) USING 'cat' AS (id) FROM range(3)",
    "EXPLAIN CREATE VIEW hidden AS SELECT TRANSFORM (id) USING 'cat' AS (id) FROM range(3)",
    "SET VAR x = (SELECT max(id) FROM (SELECT TRANSFORM (id) USING 'cat' AS (id) FROM range(3)))",
    "CACHE TABLE hidden AS WITH c AS (SELECT TRANSFORM (id) USING 'cat' AS (id) FROM range(3)) SELECT * FROM c",
]


@pytest.mark.parametrize("sql", REFUSED)
async def test_a_statement_that_the_policy_forbids_is_refused(client: GatewayClient, sql: str) -> None:
    view = await client.run(sql)
    assert view.state is OperationState.ERROR, view
    assert view.error is not None
    assert view.error.reason is ErrorReason.NOT_ALLOWED, view.error
    assert view.error.condition, view.error
    assert view.error.sql_state, view.error
    assert view.error.line == 1, view.error


@pytest.mark.parametrize("key", ["spark.jars", "spark.kubernetes.namespace", "hive.exec.scratchdir"])
async def test_a_statements_own_settings_are_checked(client: GatewayClient, key: str) -> None:
    view = await client.run("SELECT 1", conf={key: "x"})
    assert view.state is OperationState.ERROR
    assert view.error is not None
    assert view.error.reason is ErrorReason.NOT_ALLOWED
    assert repr(key) in view.error.message


async def test_enforced_settings_win_over_a_statements_own(client: GatewayClient) -> None:
    assert await client.rows("SET spark.sql.ansi.enabled", conf={"spark.sql.ansi.enabled": "false"}) == [
        ("spark.sql.ansi.enabled", "true")
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SET my.own = 1",
        "SET spark.sql.shuffle.partitions = 3",
        "SET TIME ZONE 'UTC'",
        "RESET spark.sql.shuffle.partitions",
        "SET",
        "SET -v",
        "RESET",
        "SELECT transform(array(1, 2), x -> x + 1)",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "BEGIN SELECT 1; END",
        "SELECT 'TRANSFORM (a) USING cat'",
        "SELECT 'ScriptTransformation', transform(array(1, 2), x -> x + 1)",
    ],
)
async def test_a_statement_that_the_policy_permits_runs(client: GatewayClient, sql: str) -> None:
    await client.ok(sql)


async def test_variable_references_in_sql_are_not_substituted(client: GatewayClient) -> None:
    texts = ("${spark.app.name}", "${env:HOME}", "${system:user.home}")
    assert await client.rows(f"SELECT {', '.join(map(repr, texts))}") == [texts]


async def test_reset_keeps_what_the_session_was_made_with(client: GatewayClient) -> None:
    await client.ok("RESET")
    rows = dict(await client.rows("SET"))
    assert rows["spark.sql.ansi.enabled"] == "true"
    assert rows["spark.sql.shuffle.partitions"] == "2"


async def test_credentials_are_never_shown(client: GatewayClient) -> None:
    for sql in ("SET", "SET -v", "SET spark.hadoop.fs.s3a.secret.key", "SET fs.s3a.secret.key"):
        assert "storage-credential" not in str(await client.rows(sql))
