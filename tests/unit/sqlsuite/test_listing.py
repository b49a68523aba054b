"""The list of differences, their reasons, and the page made of them."""

from __future__ import annotations

import pytest

from tests.sqlsuite.comparing import Difference, Kind, ProtocolName
from tests.sqlsuite.listing import FileList, Listed, listed, parse, written
from tests.sqlsuite.page import rendered
from tests.sqlsuite.reasons import UNEXPLAINED, explained
from tests.sqlsuite.surroundings import settings_of, tables_in

TEXT = """a.sql:
  statements: 9
  differences:
  - {are: 0, differ: failed, because: conf-keys}
  - {are: 2-4 7, differ: rows, through: rest thrift, because: metastore}
b.sql:
  statements: 1
"""


def test_list_is_written_as_it_is_read() -> None:
    listing = parse(TEXT)
    assert written(listing) == TEXT
    assert {each.number for each in listing["a.sql"].differences[ProtocolName.REST]} == {0, 2, 3, 4, 7}
    assert {each.number for each in listing["a.sql"].differences[ProtocolName.CONNECT]} == {0}


def test_page_counts_differences_by_reason_and_by_file() -> None:
    page = "# Page\n<!-- reasons -->\nstale\n<!-- end -->\n<!-- files -->\n<!-- end -->\n"
    shown = rendered(page, parse(TEXT))
    assert "| metastore | catalog | 4 | 0 | 4 | 0 |" in shown
    assert "| all | | 5 | 1 | 5 | 1 | of 10 statements in 2 files |" in shown
    assert "| a.sql | 9 | 5 | 1 | 5 | 1 |" in shown
    assert "b.sql" not in shown and "stale" not in shown


def test_difference_that_no_rule_explains_keeps_the_reason_that_it_is_listed_with() -> None:
    file = FileList(9, {ProtocolName.REST: frozenset({Listed(2, Kind.ROWS, "by-hand")})})
    found = [Difference(n, Kind.ROWS, "SELECT", "1", "2") for n in (2, 3, 4)]
    entered = listed(file, ProtocolName.THRIFT, found, [UNEXPLAINED, UNEXPLAINED, "metastore"])
    assert {each.number: each.reason for each in entered} == {2: "by-hand", 3: UNEXPLAINED, 4: "metastore"}


@pytest.mark.parametrize(
    ("kind", "sql", "expected", "actual", "reason"),
    [
        (Kind.FAILED, "SELECT TRANSFORM (a)", "", "None None : TRANSFORM ... USING runs a command", "transform"),
        (Kind.FAILED, "SELECT '${a}'", "a", "None None : no", "substitution"),
        (Kind.ROWS, "DESC EXTENDED t", "a\tint\nType\tMANAGED", "a\tint\nOwner\troot\nType\tMANAGED", "metastore"),
        (Kind.ROWS, "DESC EXTENDED t", "a\tint\nType\tMANAGED", "a\tbigint\nType\tMANAGED", UNEXPLAINED),
        (Kind.ROWS, "DESC t AS JSON", '{"table_name":"t"}', '{"table_name":"t","owner":"root"}', "metastore"),
        (Kind.ROWS, "SHOW CREATE TABLE v", "CREATE VIEW v\nAS x", "CREATE VIEW v\nTBLPROPERTIES (\n  'transient_lastDdlTime' = '7')\nAS x", "metastore"),
        (Kind.ROWS, "SHOW CREATE TABLE v", "CREATE VIEW v\nAS x", "CREATE VIEW v\nTBLPROPERTIES (\n  'k' = '7')\nAS x", UNEXPLAINED),
        (Kind.ROWS, "SELECT a", "2020-01-01 00:00:00", "2020-01-01 08:00:00", UNEXPLAINED),
        (Kind.SUCCEEDED, "CREATE VIEW v AS SELECT x", "INVALID_TEMP_OBJ_REFERENCE 42K0F", "()", UNEXPLAINED),
    ],
)  # fmt: skip
def test_reason_of_a_difference_is_told_by_rule(kind: Kind, sql: str, expected: str, actual: str, reason: str) -> None:
    assert explained("a.sql", [Difference(1, kind, sql, expected, actual)]) == [reason]


def test_statement_follows_an_earlier_one_that_has_not_made_what_it_names() -> None:
    first = Difference(
        1, Kind.FAILED, "CREATE TABLE made USING x", "", "DATA_SOURCE_NOT_FOUND 42K02 : org.apache.spark.sql.X"
    )
    missing = Difference(
        2, Kind.FAILED, "SELECT * FROM made", "", "TABLE_OR_VIEW_NOT_FOUND 42P01 : `made` cannot be found"
    )
    other = Difference(3, Kind.FAILED, "SELECT * FROM b", "", "TABLE_OR_VIEW_NOT_FOUND 42P01 : `b` cannot be found")
    assert explained("a.sql", [first, missing, other]) == ["suite-classes", "follows", UNEXPLAINED]


def test_file_about_one_thing_gives_its_reason_to_what_no_rule_explains() -> None:
    assert explained("udtf/udtf.sql", [Difference(1, Kind.ROWS, "SELECT", "1", "2")]) == ["suite-functions"]


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("array.sql", "spark.sql.ansi.enabled", "true"),
        ("nonansi/array.sql", "spark.sql.ansi.enabled", "false"),
        ("timestampNTZ/timestamp.sql", "spark.sql.timestampType", "TIMESTAMP_NTZ"),
        ("udf/postgreSQL/udf-case.sql", "spark.sql.legacy.interval.enabled", "true"),
        ("array.sql", "a.b", "asked"),
    ],
)
def test_settings_of_a_file_follow_its_folder_and_its_orders(name: str, key: str, value: str) -> None:
    assert settings_of(name, {"a.b": "asked"})[key] == value


def test_tables_of_the_suite_are_found_in_statements_by_their_names() -> None:
    assert tables_in(["SELECT * FROM TESTDATA", "SELECT onek2 FROM t JOIN tenk1"]) == ["testdata", "tenk1"]
