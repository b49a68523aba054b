"""Input and golden files of Spark's suite, as they are read."""

from __future__ import annotations

import pytest

from tests.sqlsuite.golden import Failure, Rows, parse_golden
from tests.sqlsuite.inputs import parse_input

OTHERS = {"base.sql": "-- of the other file\nSELECT 'first';\n"}


def statements(text: str) -> tuple[str, ...]:
    return parse_input(text, OTHERS.__getitem__).statements


def settings(text: str) -> dict[str, str]:
    return dict(parse_input(text, OTHERS.__getitem__).settings)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1;\nSELECT\n  2;\n", ("SELECT 1", "SELECT\n  2")),
        ("-- a; b\nSELECT 1 -- kept\n;", ("SELECT 1 -- kept",)),
        ("SELECT 'a\\;b'; SELECT 2", ("SELECT 'a\\;b'", "SELECT 2")),
        ("SELECT 1\n  -- left out;\n+ 1;", ("SELECT 1\n+ 1",)),
        (" \t;\n;", ()),
        ("--IMPORT base.sql\nSELECT 2", ("SELECT 'first'", "SELECT 2")),
        (
            "SELECT 0;\n--QUERY-DELIMITER-START\nBEGIN\n  SELECT 1;\nEND;\n--QUERY-DELIMITER-END\nSELECT 2;",
            ("SELECT 0", "BEGIN\n  SELECT 1;\nEND", "SELECT 2"),
        ),
    ],
)
def test_input_file_is_divided_into_statements(text: str, found: tuple[str, ...]) -> None:
    assert statements(text) == found


def test_settings_of_a_file_are_those_it_sets_and_the_first_choice_of_each_dimension() -> None:
    text = "--SET a.b = 1, c=x=y\n--CONFIG_DIM1 d=1,e=2\n--CONFIG_DIM1 d=3\n--CONFIG_DIM2 f=4\n--SET a.b=5\nSELECT 1"
    assert settings(text) == {"a.b": "5", "c": "x=y", "d": "1", "e": "2", "f": "4"}


def test_settings_of_an_imported_file_are_not_taken_over() -> None:
    assert parse_input("--IMPORT a.sql", lambda _: "--SET a=1\nSELECT 1").settings == {}


GOLDEN = """-- Automatically generated
-- !query
SELECT 'x' AS a
-- !query schema
struct<a:string>
-- !query output
x



-- !query
CREATE TABLE t (a INT)
-- !query schema
struct<>
-- !query output



-- !query
SELECT b FROM t
-- !query schema
struct<>
-- !query output
org.example.AnalysisException
{
  "errorClass" : "UNRESOLVED_COLUMN.WITH_SUGGESTION",
  "sqlState" : "42703",
  "messageParameters" : { }
}


-- !query
SELECT 1 / 0
-- !query schema
struct<>
-- !query output
java.lang.ArithmeticException
/ by zero
"""


def test_golden_file_has_rows_commands_conditions_and_messages() -> None:
    rows, command, condition, message = parse_golden(GOLDEN)
    assert (rows.sql, rows.result) == ("SELECT 'x' AS a", Rows("struct<a:string>", "x"))
    assert command.result == Rows("struct<>", "")
    assert isinstance(condition.result, Failure)
    assert (condition.result.condition, condition.result.sql_state) == ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")
    assert message.result == Failure("java.lang.ArithmeticException", None, None, "/ by zero")
