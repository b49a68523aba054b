"""What Flink's clients send by themselves, and that nothing else is taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.sessions.flink_dialect import MAX_CHARS, Command, ResetProperty, SetProperty, SparkSql, interpret
from tests.support.work import FACTOR, LINEAR, growth

CATALOG = SparkSql("SELECT current_catalog() AS `current catalog name`", shows=True)
DATABASE = SparkSql("SELECT current_database() AS `current database name`", shows=True)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SHOW CURRENT CATALOG;", CATALOG),
        ("  show\tcurrent\n catalog ", CATALOG),
        ("-- who am I\nSHOW CURRENT DATABASE;", DATABASE),
        ("/* a */ SHOW CURRENT DATABASE /* b */;", DATABASE),
        ("USE CATALOG lake;", SparkSql("SET CATALOG lake")),
        ("USE CATALOG `a b`", SparkSql("SET CATALOG `a b`")),
        ("USE CATALOG 'a`b'", SparkSql("SET CATALOG `a``b`")),
        ("SET 'sql-client.verbose' = 'true';", SetProperty("sql-client.verbose", "true")),
        ("set 'k'='it''s'", SetProperty("k", "it's")),
        ("SET 'spark.sql.ansi.enabled' = 'false'", SetProperty("spark.sql.ansi.enabled", "false")),
        ("SET execution.runtime-mode=batch;", SetProperty("execution.runtime-mode", "batch")),
        ("RESET 'k';", ResetProperty("k")),
    ],
)
def test_a_statement_of_flinks_clients(sql: str, expected: Command) -> None:
    assert interpret(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SET spark.sql.ansi.enabled=false",
        "SET",
        "SET;",
        "RESET",
        "SET x = 1",
        "SHOW CATALOGS",
        "USE db",
        "USE CATALOG a; SELECT 1",
        "SET 'a' = 'b'; SELECT 1",
        "SELECT 'SHOW CURRENT CATALOG'",
        "SHOW CURRENT CATALOG EXTRA",
        "",
    ],
)
def test_a_statement_outside_the_flink_dialect_stays_spark_sql_unchanged(sql: str) -> None:
    assert interpret(sql) == SparkSql(sql)


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_quoted_pair_comes_through(key: str, value: str) -> None:
    def quoted(text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    assert interpret(f"SET {quoted(key)} = {quoted(value)};") == SetProperty(key, value)


@pytest.mark.parametrize(
    ("before", "piece", "after"), [("", "/*a*/ ", "SELECT 1"), ("SET a.b=", " ", "x;y"), ("SET 'a", "''", "")]
)
def test_telling_a_text_from_the_dialect_takes_work_in_proportion_to_it(before: str, piece: str, after: str) -> None:
    def tell(count: int) -> None:
        sql = before + piece * count + after
        assert len(sql) <= MAX_CHARS
        assert interpret(sql) == SparkSql(sql)

    assert growth(tell, (MAX_CHARS - 20) // len(piece) // FACTOR) < LINEAR


@given(st.text(alphabet="SETUORHW '`;-/*=\n a", max_size=60))
def test_no_text_takes_long_or_fails(sql: str) -> None:
    interpret(sql)
