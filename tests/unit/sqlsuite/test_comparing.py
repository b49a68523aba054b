"""What a statement gives against its golden file."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sqlsuite.comparing import Answer, Difference, Error, Kind, Outcome, Surroundings, difference
from tests.sqlsuite.golden import Failure, Result, Rows
from tests.sqlsuite.masking import Masks
from tests.sqlsuite.types import Type

HERE = Surroundings("UTF-8", Masks(["/tmp/run/warehouse"]))
NO_COLUMN = Failure("org.example.AnalysisException", "UNRESOLVED_COLUMN", "42703", "{}")
THROWN = Failure("java.lang.ArithmeticException", None, None, "long overflow")


class AsSpark:
    """Types under Spark's names and values as they are."""

    def type_of(self, kind: Type) -> str:
        return kind.text

    def value(self, raw: Any, kind: Type) -> Any:
        return raw


def compared(outcome: Outcome, *expected: Result) -> Difference | None:
    return difference(1, "SELECT", expected, outcome, AsSpark(), HERE)


def kind_of(outcome: Outcome, *expected: Result) -> Kind | None:
    found = compared(outcome, *expected)
    return None if found is None else found.kind


def test_rows_in_another_order_are_the_same_where_the_golden_ones_are_sorted() -> None:
    answer = Answer((("a", "int"),), ((2,), (1,)))
    assert kind_of(answer, Rows("struct<a:int>", "1\n2")) is None
    assert kind_of(answer, Rows("struct<a:int>", "2\n1")) is None
    assert kind_of(Answer(answer.columns, ((1,), (2,))), Rows("struct<a:int>", "2\n1")) is Kind.ROWS


def test_rows_may_be_those_of_any_of_the_golden_results() -> None:
    answer = Answer((("a", "int"),), ((2,),))
    assert kind_of(answer, Rows("struct<a:int>", "1"), Rows("struct<a:int>", "2")) is None


def test_row_without_a_value_at_its_end_is_compared_without_trailing_blanks() -> None:
    assert kind_of(Answer((("a", "int"), ("b", "string")), ((1, ""),)), Rows("struct<a:int,b:string>", "1")) is None


@pytest.mark.parametrize(
    ("columns", "kind"),
    [((("b", "int"),), Kind.COLUMNS), ((("a", "bigint"),), Kind.TYPES), ((), Kind.COLUMNS)],
)
def test_columns_are_compared_by_name_and_type(columns: tuple[tuple[str, str], ...], kind: Kind) -> None:
    assert kind_of(Answer(columns, ()), Rows("struct<a:int>", "")) is kind


def test_command_without_columns_differs_from_one_with_some() -> None:
    assert kind_of(Answer((), ()), Rows("struct<>", "")) is None
    assert kind_of(Answer((("a", "int"),), ()), Rows("struct<>", "")) is Kind.COLUMNS


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Error("UNRESOLVED_COLUMN", "42703", "words"), None),
        (Error("UNRESOLVED_COLUMN", None, "words"), Kind.SQL_STATE),
        (Error("DIVIDE_BY_ZERO", "42703", "words"), Kind.CONDITION),
    ],
)
def test_failure_is_compared_by_condition_and_sql_state(error: Error, kind: Kind | None) -> None:
    assert kind_of(error, NO_COLUMN) is kind


@pytest.mark.parametrize(("said", "kind"), [("it is a long overflow", None), ("other", Kind.MESSAGE)])
def test_failure_without_a_condition_is_compared_by_its_message(said: str, kind: Kind | None) -> None:
    assert kind_of(Error(None, None, said), THROWN) is kind


def test_success_and_failure_are_told_apart() -> None:
    assert kind_of(Answer((), ()), NO_COLUMN) is Kind.SUCCEEDED
    assert kind_of(Error("X", "42000", ""), Rows("struct<>", "")) is Kind.FAILED


def test_description_of_a_table_is_padded_and_its_place_is_left_out() -> None:
    schema = "struct<col_name:string,data_type:string,comment:string>"
    columns = tuple((name, "string") for name in ("col_name", "data_type", "comment"))
    rows = (("a", "int", None), ("Location", "file:/tmp/run/warehouse/t", ""), ("Last Access", "now", ""))
    left_out = "[not included in comparison]"
    output = f"{'a':20}\t{'int':20}\t{'':20}\nLocation {left_out}/{{warehouse_dir}}/t\t{'':20}\nLast Access {left_out}"
    assert compared(Answer(columns, rows), Rows(schema, output)) is None


def test_names_of_tables_are_all_that_is_shown_of_them() -> None:
    schema = "struct<namespace:string,tableName:string,isTemporary:boolean>"
    columns = (("namespace", "string"), ("tableName", "string"), ("isTemporary", "boolean"))
    assert kind_of(Answer(columns, (("db", "t", False),)), Rows(schema, "t")) is None


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Project [a#12, b#3L]", "Project [a#x, b#xL]"),
        ("+- *(2) Sort", "+- *Sort"),
        ("CTERelationDef 4, false", "CTERelationDef xxxx, false"),
        ("UnionLoopRef 3, [a]", "UnionLoopRef xxxx, [a]"),
        ("org.example.Provider@1f2e3d, 1", "org.example.Provider@xxxxxxxx, 1"),
        ("a file:/tmp/run/warehouse/t, b", "a file:[not included in comparison]/{warehouse_dir}/t, b"),
        ("Created Time\tnow", "Created Time [not included in comparison]"),
        ("Owner\troot", "Owner\t[not included in comparison]"),
        ('{"created_by":"me","a":1}', '{"created_by [not included in comparison]":"None","a":1}'),
    ],
)
def test_number_place_and_time_of_a_run_are_left_out(text: str, masked: str) -> None:
    assert HERE.masks.masked(text) == masked
