"""Own conditions: in one list, with an SQLSTATE, and given by each place that makes an error."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparksql.gateway
from sparksql.gateway.frontends.connect.proxy import OF_THE_STREAM
from sparksql.gateway.frontends.thrift.errors import error_text
from sparksql.gateway.sql.conditions import Condition, at_statement, condition_for, own_error
from sparksql.gateway.sql.errors import PlacedError, operation_error, own_refusal, refusal
from sparksql.gateway.sql.script import Fragment
from sparksql.wire.control import ErrorReason, OperationError
from sparksql.wire.failure.classify import classify

GATEWAY = Path(sparksql.gateway.__file__).parent
SPARKS = Path(__file__).parents[1] / "wire" / "failure" / "spark_conditions.csv"
OF_SPARK = {
    Condition.PATH_NOT_FOUND,
    Condition.NOT_ENOUGH_COLUMNS,
    Condition.TOO_MANY_COLUMNS,
    Condition.NON_PARTITION_COLUMN,
}
OF_TEXTS = {
    ErrorReason.INVALID_SPEC,
    ErrorReason.NOT_ALLOWED,
    ErrorReason.NOT_IMPLEMENTED,
    ErrorReason.LIMIT_EXCEEDED,
    ErrorReason.SQL_ERROR,
}
SQL = "SET a = 1;\n  SELECT 1"
SELECT = Fragment("SELECT 1", SQL.index("SELECT"))


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(GATEWAY.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield f"{path.relative_to(GATEWAY)}:{node.lineno}", node


def names(call: ast.Call) -> set[str | None]:
    return {keyword.arg for keyword in call.keywords}


def test_error_with_a_reason_is_made_with_a_condition_and_an_sql_state() -> None:
    made = [(place, names(call)) for place, call in calls() if ast.unparse(call.func) == "OperationError"]
    assert made
    lacking = [
        place
        for place, given in made
        if given != {"message"}
        and not {"condition", "sql_state"} <= given - {"cause"}
        and given != {"message", "cause"}
    ]
    assert lacking == []


def test_condition_is_named_in_the_list_alone() -> None:
    labels = {condition.label for condition in Condition} - {condition.label for condition in OF_SPARK}
    elsewhere = [
        f"{path.relative_to(GATEWAY)}: {node.value}"
        for path in sorted(GATEWAY.rglob("*.py"))
        if path.name != "conditions.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in labels
    ]
    assert elsewhere == []


def test_each_condition_is_given_by_some_place() -> None:
    by_reason = {condition_for(reason) for reason in ErrorReason}
    text = "".join(path.read_text() for path in GATEWAY.rglob("*.py") if path.name != "conditions.py")
    assert {each for each in Condition if f"Condition.{each.name}" not in text} <= by_reason


@pytest.mark.parametrize("condition", Condition)
def test_condition_has_an_sql_state_and_a_name_that_spark_does_not_use_otherwise(condition: Condition) -> None:
    with SPARKS.open() as file:
        sparks = {row["condition"]: row["sql_state"] for row in csv.DictReader(file)}
    main = condition.label.partition(".")[0]
    assert re.fullmatch(r"[0-9A-Z]{5}", condition.sql_state)
    assert (sparks.get(main) == condition.sql_state) if condition in OF_SPARK else main not in sparks


@pytest.mark.parametrize("reason", ErrorReason)
def test_refusal_has_condition_sql_state_and_the_place_of_its_statement(reason: ErrorReason) -> None:
    error = operation_error(refusal(reason, "m"), SELECT, SQL)
    assert error.condition == condition_for(reason).label
    assert error.sql_state == condition_for(reason).sql_state
    assert error.reason is condition_for(reason).reason is reason
    assert (error.line, error.position) == ((2, 3) if reason in OF_TEXTS else (None, None))
    assert classify(error).kind is classify(OperationError(reason=reason, message="m")).kind


@pytest.mark.parametrize("condition", Condition)
def test_refusal_of_a_part_is_placed_at_that_part(condition: Condition) -> None:
    error = operation_error(PlacedError("m", (7, 8), condition=condition), SELECT, SQL)
    assert (error.condition, error.line, error.position, error.fragment) == (condition.label, 2, 10, "1")
    whole = operation_error(own_refusal(condition, "m"), SELECT, SQL)
    assert at_statement(own_error(condition, "m"), SELECT, SQL) == whole


def test_conditions_of_how_connect_reads_answers_are_whole_names_of_spark() -> None:
    with SPARKS.open() as table:
        known = {row["condition"] for row in csv.DictReader(table)}
    assert known >= OF_THE_STREAM
    assert "INVALID_HANDLER_DECLARATION" in known - OF_THE_STREAM  # of a script's text, which such a name begins


def test_sqlstate_is_shown_to_hive_though_a_value_has_its_digits() -> None:
    error = OperationError(
        condition="CAST_INVALID_INPUT", sql_state="22018", message="The value '22018x' cannot be cast."
    )
    assert error_text(error) == "[CAST_INVALID_INPUT] The value '22018x' cannot be cast. SQLSTATE: 22018"
