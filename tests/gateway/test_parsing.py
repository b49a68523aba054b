"""What Spark's own parser and lexer make of texts: kinds of statements, splitting, markers. No statement runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparksql.api.execution import StatementMode
from sparksql.domain.session.decide import decide as decide_session
from sparksql.gateway.execution.session.init import run_init
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.classifier import Classifier
from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.sql.kinds import KINDS, UNKNOWN
from sparksql.gateway.sql.lexer import Lexed
from sparksql.wire.control import ErrorReason, GatewayState, InitFailure, Parameter
from sparksql.wire.driver import InitStatement, SqlPolicy
from tests.support.mistakes import assert_answered
from tests.unit.domain.builders.sessions import gateway, pod, session_snapshot, starting

from .local_spark import local_spark

# Statement, its type, whether it only reads, whether it runs alone.
STATEMENTS = [
    *((sql, "SELECT", True, False) for sql in [
        "SELECT 1;",
        "FROM t SELECT a",
        "VALUES (1)",
        "TABLE t",
        "SELECT * FROM STREAM t",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
        "SELECT 1 UNION SELECT 2",
        "SELECT 1 UNION ALL SELECT 2",
        "SELECT 1 EXCEPT SELECT 2",
        "SELECT 1 INTERSECT SELECT 2",
        "SELECT a FROM t WHERE a = 1 ORDER BY a LIMIT 1 OFFSET 2",
        "SELECT 1 LIMIT ALL",
        "SELECT 1 OFFSET 1",
        "SELECT a, count(*) FROM t GROUP BY a HAVING count(*) > 1",
        "SELECT DISTINCT a FROM t",
        "SELECT /*+ BROADCAST(t) */ * FROM t",
        "SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY a)",
        "SELECT * FROM t DISTRIBUTE BY a",
        "SELECT * FROM t SORT BY a",
        "SELECT * FROM t CLUSTER BY a",
        "SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))",
        "SELECT * FROM t UNPIVOT (v FOR k IN (a, b))",
        "SELECT * FROM t TABLESAMPLE (1 PERCENT)",
        "SELECT * FROM t VERSION AS OF 1",
        "SELECT * FROM t LATERAL VIEW explode(b) c",
        "SELECT * FROM range(3)",
        "SELECT * FROM IDENTIFIER('t')",
        "SELECT 1 |> SELECT 2",
        "FROM t |> WHERE a = 1 |> AGGREGATE count(*) GROUP BY a",
        "FROM t |> ORDER BY a |> LIMIT 1",
        "FROM t |> AS u",
        "FROM t |> EXTEND a + 1 AS b",
        "FROM t |> SET a = 1",
        "FROM t |> DROP a",
    ]),
    *((sql, "INSERT", False, False) for sql in [
        "INSERT INTO t SELECT 1",
        "INSERT INTO t (a) VALUES (1)",
        "INSERT INTO t BY NAME SELECT 1 AS a",
        "INSERT OVERWRITE t PARTITION (p = 1) SELECT 1",
        "INSERT INTO t SELECT * FROM STREAM s",
        "INSERT INTO t REPLACE WHERE a = 1 SELECT 1",
        "INSERT INTO t WITH w AS (SELECT 1) SELECT * FROM w",
        "WITH w AS (SELECT 1) INSERT INTO t SELECT * FROM w",
        "INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT 1",
        "FROM s INSERT INTO a SELECT * INSERT INTO b SELECT *",
        "WITH w AS (SELECT 1) FROM w INSERT INTO a SELECT * INSERT INTO b SELECT *",
    ]),
    ("UPDATE t SET a = 1", "UPDATE", False, False),
    ("DELETE FROM t WHERE a = 1", "DELETE", False, False),
    ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE", "MERGE", False, False),
    ("TRUNCATE TABLE t", "TRUNCATE", False, False),
    ("TRUNCATE TABLE t PARTITION (p = 1)", "TRUNCATE", False, False),
    ("LOAD DATA INPATH 's3a://b/x' INTO TABLE t", "LOAD", False, False),
    *((sql, "CREATE TABLE", False, False) for sql in [
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE EXTERNAL TABLE t (a INT) STORED AS ORC LOCATION '/tmp/x'",
        "CREATE TABLE t LIKE s",
        "REPLACE TABLE t (a INT) USING parquet",
        "CREATE OR REPLACE TABLE t (a INT) USING parquet",
    ]),
    ("CREATE TABLE t AS SELECT 1", "CREATE TABLE AS SELECT", False, False),
    ("CREATE OR REPLACE TABLE t AS SELECT 1", "CREATE TABLE AS SELECT", False, False),
    ("CREATE VIEW v AS SELECT 1", "CREATE VIEW", False, False),
    *((sql, "CREATE TEMPORARY VIEW", False, True) for sql in [
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        "CREATE OR REPLACE GLOBAL TEMPORARY VIEW v AS SELECT 1",
        "CREATE TEMPORARY VIEW v USING parquet OPTIONS (path '/tmp/x')",
    ]),
    ("CREATE MATERIALIZED VIEW v AS SELECT 1", "CREATE PIPELINE DATASET", False, False),
    ("CREATE STREAMING TABLE v AS SELECT 1", "CREATE PIPELINE DATASET", False, False),
    ("CREATE DATABASE d", "CREATE DATABASE", False, False),
    ("CREATE FUNCTION f AS 'a.B'", "CREATE FUNCTION", False, False),
    ("CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1", "CREATE FUNCTION", False, False),
    ("CREATE TEMPORARY FUNCTION f AS 'a.B'", "CREATE FUNCTION", False, True),
    ("CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT RETURN x + 1", "CREATE FUNCTION", False, True),
    ("CREATE INDEX i ON t (a)", "CREATE INDEX", False, False),
    ("DROP INDEX i ON t", "DROP INDEX", False, False),
    ("DROP TABLE t", "DROP TABLE", False, True),
    ("DROP VIEW v", "DROP VIEW", False, True),
    ("DROP DATABASE d", "DROP DATABASE", False, False),
    ("DROP FUNCTION f", "DROP FUNCTION", False, False),
    ("DROP TEMPORARY FUNCTION f", "DROP TEMPORARY FUNCTION", False, True),
    ("DROP TEMPORARY VARIABLE v", "DROP VARIABLE", False, True),
    *((f"ALTER TABLE t {change}", "ALTER TABLE", False, False) for change in [
        "ADD COLUMN a INT",
        "DROP COLUMN a",
        "RENAME COLUMN a TO b",
        "ALTER COLUMN a TYPE BIGINT",
        "REPLACE COLUMNS (a INT)",
        "SET TBLPROPERTIES ('a' = 'b')",
        "UNSET TBLPROPERTIES ('a')",
        "ADD PARTITION (p = 1)",
        "DROP PARTITION (p = 1)",
        "PARTITION (p = 1) RENAME TO PARTITION (p = 2)",
        "RECOVER PARTITIONS",
        "SET LOCATION '/tmp/x'",
        "SET SERDE 'x'",
        "CLUSTER BY (a)",
        "ADD CONSTRAINT c CHECK (a > 0)",
        "DROP CONSTRAINT c",
    ]),
    ("MSCK REPAIR TABLE t", "ALTER TABLE", False, False),
    ("ALTER TABLE t RENAME TO u", "ALTER TABLE", False, True),
    ("ALTER VIEW v AS SELECT 1", "ALTER VIEW", False, True),
    ("ALTER VIEW v SET TBLPROPERTIES ('a' = 'b')", "ALTER VIEW", False, True),
    ("ALTER VIEW v UNSET TBLPROPERTIES ('a')", "ALTER VIEW", False, True),
    ("ALTER VIEW v WITH SCHEMA BINDING", "ALTER VIEW", False, True),
    ("ALTER DATABASE d SET DBPROPERTIES ('a' = 'b')", "ALTER DATABASE", False, False),
    ("ALTER DATABASE d UNSET DBPROPERTIES ('a')", "ALTER DATABASE", False, False),
    ("ALTER DATABASE d SET LOCATION '/tmp/x'", "ALTER DATABASE", False, False),
    ("COMMENT ON TABLE t IS 'x'", "COMMENT", False, False),
    ("COMMENT ON DATABASE d IS 'x'", "COMMENT", False, False),
    ("USE d", "USE", False, True),
    ("USE NAMESPACE d", "USE", False, True),
    ("SET CATALOG c", "USE", False, True),
    ("SET my.x = 1", "SET", False, True),
    ("SET TIME ZONE 'UTC'", "SET", False, True),
    ("SET VARIABLE v = 1", "SET", False, True),
    ("SET", "SET", True, False),
    ("SET -v", "SET", True, False),
    ("SET my.x", "SET", True, False),
    ("RESET", "RESET", False, True),
    ("RESET my.x", "RESET", False, True),
    ("DECLARE OR REPLACE VARIABLE v INT DEFAULT 1", "DECLARE", False, True),
    ("ADD JAR 's3a://jars/x.jar'", "ADD", False, True),
    ("ADD FILE 's3a://jars/x'", "ADD", False, True),
    ("ADD ARCHIVE 's3a://jars/x.zip'", "ADD", False, True),
    ("EXECUTE IMMEDIATE 'SELECT ?' USING 1", "EXECUTE IMMEDIATE", False, True),
    ("BEGIN SELECT 1; END", "BEGIN END", False, True),
    ("CALL c.p(1)", "CALL", False, False),
    ("CACHE TABLE t", "CACHE", False, False),
    ("CACHE TABLE v AS SELECT 1", "CACHE", False, True),
    ("UNCACHE TABLE t", "UNCACHE", False, False),
    ("CLEAR CACHE", "UNCACHE", False, False),
    ("REFRESH TABLE t", "REFRESH", False, False),
    ("REFRESH '/tmp/x'", "REFRESH", False, False),
    ("REFRESH FUNCTION f", "REFRESH", False, False),
    ("ANALYZE TABLE t COMPUTE STATISTICS", "ANALYZE", False, False),
    ("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS", "ANALYZE", False, False),
    ("ANALYZE TABLES COMPUTE STATISTICS", "ANALYZE", False, False),
    *((f"SHOW {what}", "SHOW", True, False) for what in [
        "TABLES",
        "TABLE EXTENDED LIKE 't'",
        "TABLE EXTENDED LIKE 't' PARTITION (p = 1)",
        "VIEWS",
        "DATABASES",
        "CATALOGS",
        "CURRENT NAMESPACE",
        "COLUMNS IN t",
        "PARTITIONS t",
        "FUNCTIONS",
        "PROCEDURES",
        "CREATE TABLE t",
        "TBLPROPERTIES t",
    ]),
    ("LIST JARS", "LIST", True, False),
    ("LIST FILES", "LIST", True, False),
    ("LIST ARCHIVES", "LIST", True, False),
    *((f"DESCRIBE {what}", "DESCRIBE", True, False) for what in [
        "t",
        "TABLE EXTENDED t AS JSON",
        "t a",
        "QUERY SELECT 1",
        "DATABASE d",
        "FUNCTION f",
        "PROCEDURE c.p",
    ]),
    ("EXPLAIN SELECT 1", "EXPLAIN", True, False),
    ("EXPLAIN EXTENDED INSERT INTO t SELECT 1", "EXPLAIN", True, False),
    ("EXPLAIN EXECUTE IMMEDIATE 'SELECT 1'", "EXECUTE IMMEDIATE", False, True),
]  # fmt: skip


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("driver")) as started:
        yield started


@pytest.fixture(scope="module")
def classifier(driver: SparkDriver) -> Classifier:
    return Classifier(
        driver.jvm, driver.base, SqlPolicy(conf_allow=("spark.sql.*", "my.*"), jar_prefixes=("s3a://jars/",))
    )


@pytest.mark.parametrize(
    ("sql", "type_", "read_only", "exclusive"), STATEMENTS, ids=[row[0][:60] for row in STATEMENTS]
)
def test_every_statement_is_classified_by_type_read_only_and_exclusive(
    classifier: Classifier, sql: str, type_: str, read_only: bool, exclusive: bool
) -> None:
    classified = classifier.classify(sql, (), StatementMode.EXECUTE)
    assert len(classified.statements) == 1
    assert (classified.statement_type, classified.read_only, classified.exclusive) == (type_, read_only, exclusive)


P = Parameter(name="p", value="a value that is longer than its marker")
UNREADABLE = [  # text, condition, line, position, first characters of the fragment
    ("/* abc", "UNCLOSED_BRACKETED_COMMENT", 1, 1, "/*"),
    ("SELECT 1,\n  2 /* abc\n d", "UNCLOSED_BRACKETED_COMMENT", 2, 5, "/*"),
    ("SELECT 1\r\n, 2 /* x", "UNCLOSED_BRACKETED_COMMENT", 2, 5, "/*"),
    ("SELECT '😀' /* x", "UNCLOSED_BRACKETED_COMMENT", 1, 12, "/*"),
    ("SELECT 1 /* a /* b */", "UNCLOSED_BRACKETED_COMMENT", 1, 10, "/*"),
    ("SELECT '😀'; SELECT 2\n /* abc", "UNCLOSED_BRACKETED_COMMENT", 2, 2, "/*"),
    ("SELECT 1; /* abc", "UNCLOSED_BRACKETED_COMMENT", 1, 11, "/*"),
    ("SELECT 1;\n/* a ; DROP TABLE t", "UNCLOSED_BRACKETED_COMMENT", 2, 1, "/*"),
    ("BEGIN SELECT 1; /* x END", "UNCLOSED_BRACKETED_COMMENT", 1, 17, "/*"),
    ("SELECT :p\n /* x", "UNCLOSED_BRACKETED_COMMENT", 2, 2, "/*"),
    (
        "SELECT count(*) FROM TUMBLE(TABLE t, DESCRIPTOR(a), INTERVAL 1 HOUR)\n /* x",
        "UNCLOSED_BRACKETED_COMMENT",
        2,
        2,
        "/*",
    ),
    ("SELECT 1,\n 'abc", "PARSE_SYNTAX_ERROR", 2, 2, "'abc"),
    ('SELECT "abc', "PARSE_SYNTAX_ERROR", 1, 8, '"abc'),
    ("SELECT 1; SELECT `abc", "PARSE_SYNTAX_ERROR", 1, 18, "`abc"),
    ("SELECT :p, '😀' a b c", "PARSE_SYNTAX_ERROR", 1, 18, "b"),
    ("SELECT :p,\n nope nope nope", "PARSE_SYNTAX_ERROR", 2, 12, "nope"),
    ("SELECT $$abc", "PARSE_SYNTAX_ERROR", 1, 8, "$$abc"),
    ("\ufeffSELEC 1", "PARSE_SYNTAX_ERROR", 1, 1, "\ufeffSELEC"),
    ("SELECT 1\r\nFRO t 1", "PARSE_SYNTAX_ERROR", 2, 5, "t"),
    ("SELECT 1; SELECT '😀' a b c", "PARSE_SYNTAX_ERROR", 1, 24, "b"),
]


@pytest.mark.parametrize(
    ("sql", "condition", "line", "position", "fragment"), UNREADABLE, ids=[row[0][:40] for row in UNREADABLE]
)
def test_text_that_cannot_be_read_is_refused_at_its_place(
    classifier: Classifier, sql: str, condition: str, line: int, position: int, fragment: str
) -> None:
    with pytest.raises(StatementError) as refused:
        classifier.classify(sql, (P,) if ":p" in sql else (), StatementMode.EXECUTE)
    error = refused.value.error
    assert (error.condition, error.line, error.position) == (condition, line, position), error
    assert (error.fragment or "").startswith(fragment)
    assert "line" not in error.message


@pytest.mark.parametrize(
    ("sql", "local"),
    [
        ("SELECT 1", True),
        ("SELECT upper('a'), current_date() WHERE true LIMIT 1", True),
        ("SELECT * FROM (SELECT 1 AS a) t", True),
        ("VALUES (1), (2)", True),
        ("SELECT * FROM VALUES (1) AS t(a)", True),
        ("SELECT * FROM t LIMIT 0", True),
        ("SHOW TABLES", True),
        ("DESCRIBE t", True),
        ("USE d", True),
        ("SET my.x = 1", True),
        ("EXPLAIN SELECT * FROM t", True),
        ("SELECT 1; SHOW TABLES", True),
        ("SELECT * FROM t", False),
        ("SELECT * FROM t LIMIT 1", False),
        ("SELECT (SELECT max(a) FROM t)", False),
        ("SELECT 1 WHERE EXISTS (SELECT * FROM t)", False),
        ("SELECT 1 WHERE 1 IN (SELECT a FROM t)", False),
        ("SELECT count(*)", False),
        ("SELECT 1 + max(upper('a'))", False),
        ("SELECT * FROM (SELECT count(*))", False),
        ("SELECT row_number() OVER (ORDER BY 1)", False),
        ("SELECT explode(array(1, 2))", False),
        ("SELECT own(1)", False),
        ("SELECT 1 UNION SELECT 2", False),
        ("SELECT 1; SELECT * FROM t", False),
        ("SET VARIABLE v = (SELECT max(a) FROM t)", False),
        ("INSERT INTO t VALUES (1)", False),
        ("CREATE TABLE t AS SELECT 1", False),
        ("EXPLAIN CALL p()", False),
    ],
)
def test_statements_that_need_no_executor_are_classified_as_local(
    classifier: Classifier, sql: str, local: bool
) -> None:
    assert classifier.classify(sql, (), StatementMode.EXECUTE).local is local


def test_an_unknown_class_is_taken_for_the_worst() -> None:
    assert (UNKNOWN.read_only, UNKNOWN.exclusive, UNKNOWN.in_init, UNKNOWN.dynamic) == (False, True, False, True)


def test_every_class_of_the_statement_table_exists_in_this_spark_or_a_later_version(driver: SparkDriver) -> None:
    later = {"CreateTableLike", "SetPathCommand", "ShowCollationsCommand"}
    of_extensions = {"CreateIcebergView", "DropIcebergView"}  # Iceberg's, which is not in this Spark
    packages = [
        "org.apache.spark.sql.catalyst.plans.logical",
        "org.apache.spark.sql.catalyst.analysis",
        "org.apache.spark.sql.execution.command",
        "org.apache.spark.sql.execution.datasources",
        "org.apache.spark.sql.catalyst.parser",
        "org.apache.spark.sql.catalyst.streaming",
    ]

    def exists(name: str) -> bool:
        for package in packages:
            try:
                driver.jvm.java.lang.Class.forName(f"{package}.{name}")
            except Exception:
                continue
            return True
        return False

    assert {name for name in KINDS if not exists(name)} <= later | of_extensions


PIECES = [
    "SELECT 1",
    "SELECT ';'",
    'SELECT ";"',
    "SELECT r'\\'",
    "SELECT 'it''s; \\'; '",
    "SELECT `a;b` FROM t",
    "-- comment; with 'quotes\nSELECT 2",
    "/* ; /* nested; */ ; */ SELECT 3",
    "SELECT 4 -- tail; é😀\n",
    "BEGIN SELECT 1; SELECT CASE WHEN true THEN 1 END; END",
    "BEGIN IF 1 = 1 THEN SELECT ';'; END IF; END",
    "SELECT 'é😀', :p",
]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=6),
    gaps=st.lists(st.sampled_from([";", ";\n", " ; ;", ";/* ; */", "; -- ;\n;"]), min_size=7, max_size=7),
)
def test_splitting_finds_exactly_the_statements_that_were_joined(
    classifier: Classifier, pieces: list[str], gaps: list[str]
) -> None:
    text = "".join(piece + gap for piece, gap in zip(pieces, gaps, strict=False))
    fragments = classifier.fragments(text)
    assert len(fragments) == len(pieces), [fragment.text for fragment in fragments]
    end = 0
    for fragment, piece in zip(fragments, pieces, strict=True):
        assert text[fragment.offset : fragment.offset + len(fragment.text)] == fragment.text
        assert fragment.text in piece
        assert fragment.offset >= end
        end = fragment.offset + len(fragment.text)


def test_markers_are_found_outside_of_strings_and_comments(driver: SparkDriver) -> None:
    sql = "SELECT :a, ':b', `:c`, v:d -- :e\n, :`f` /* :g */ FROM t WHERE x = :a"
    markers = Lexed(driver.jvm, sql).markers()
    assert [name.strip("`") for _, name in markers] == ["a", "d", "f", "a"]
    assert all(sql[offset] == ":" for offset, _ in markers)


def test_double_quotes_are_those_of_names_where_the_session_reads_them_so(driver: SparkDriver) -> None:
    conf, key = driver.base.conf(), "spark.sql.ansi.doubleQuotedIdentifiers"
    sql = """SELECT :"a", "b""c`d", 'e "f"'"""
    driver.activate(driver.base)
    try:
        conf.set(key, "true")
        lexed = Lexed(driver.jvm, sql)
        assert [name for _, name in lexed.markers()] == ["`a`"]
        names = [word.text for word in lexed.words()]
        assert names == ["SELECT", ":", "`A`", ",", '`B"C``D`', ",", "'E \"F\"'"]
        conf.set(key, "false")
        assert [word.text for word in Lexed(driver.jvm, sql).words()][2] == '"A"'
    finally:
        conf.unset(key)
        driver.deactivate()


def test_a_block_changes_ansi_unless_double_quotes_depend_on_it(driver: SparkDriver) -> None:
    session = driver.clone()
    classifier = Classifier(driver.jvm, session, SqlPolicy(conf_allow=("spark.sql.*",)))
    text = "BEGIN EXECUTE IMMEDIATE 'SET spark.sql.ansi.enabled = false'; SELECT 1; END"
    classifier.classify(text, (), StatementMode.EXECUTE)
    session.conf().set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    with pytest.raises(StatementError, match="changes how SQL is parsed"):
        classifier.classify(text, (), StatementMode.EXECUTE)


INIT_FAILURES = [
    ("SELECT 1", ErrorReason.NOT_ALLOWED, "STATEMENT_NOT_ALLOWED", "SELECT 1"),
    (
        "SET my.b = 1; INSERT INTO t VALUES (1)",
        ErrorReason.NOT_ALLOWED,
        "STATEMENT_NOT_ALLOWED",
        "INSERT INTO t VALUES (1)",
    ),
    ("SET spark.jars = x", ErrorReason.NOT_ALLOWED, "STATEMENT_NOT_ALLOWED", "SET spark.jars = x"),
    ("SET my.a = 1;\nDROP TABLE missing", ErrorReason.SQL_ERROR, "TABLE_OR_VIEW_NOT_FOUND", "DROP TABLE missing"),
    ("SELEC 1" + " " * 500, ErrorReason.SQL_ERROR, "PARSE_SYNTAX_ERROR", "SELEC 1" + " " * 193),
]


@pytest.mark.parametrize(("sql", "reason", "condition", "statement"), INIT_FAILURES)
def test_an_init_statement_that_fails_is_named(
    driver: SparkDriver, sql: str, reason: ErrorReason, condition: str | None, statement: str
) -> None:
    entries = [
        InitStatement(sql="SET my.first = 1", origin="init[0].sql"),
        InitStatement(sql=sql, origin="init[1].sql"),
    ]
    failure = run_init(driver, SqlPolicy(conf_allow=("my.*",)), entries)
    assert failure is not None
    assert (failure.position, failure.statement) == (2, statement)
    assert (failure.error.reason, failure.error.condition) == (reason, condition), failure
    if sql == "SELECT 1":
        assert_answered("query in init", status_message(failure))
    if sql.startswith("SELEC "):
        assert_answered("misspelt keyword in init", status_message(failure))


def status_message(failure: InitFailure) -> str:
    """What the session's status says of it."""
    obj = starting()
    snapshot = session_snapshot(obj, pod=pod(obj), gateway=gateway(GatewayState.INIT_FAILED, init_failure=failure))
    return decide_session(snapshot).status.message or ""
