"""What failures mean: the whole list of Spark's conditions, and of an object store's answers, against the tables beside this file."""

from __future__ import annotations

import csv

import pytest

from sparksql.wire.control import ErrorReason, OperationError
from sparksql.wire.failure import sql_states
from sparksql.wire.failure.classify import classify
from sparksql.wire.failure.kind import FailureKind
from sparksql.wire.failure.throwables import Thrown, verdict_of_causes
from tests.support import failure_tables

REGENERATE = "python -m tests.support.failure_tables writes the tables anew"
STATEMENT, ENVIRONMENT, UNKNOWN = FailureKind.STATEMENT, FailureKind.ENVIRONMENT, FailureKind.UNKNOWN


def test_each_condition_of_spark_has_the_class_of_the_table() -> None:
    assert failure_tables.conditions() == failure_tables.CONDITIONS.read_text(), REGENERATE


def test_each_answer_of_an_object_store_has_the_class_of_the_table() -> None:
    assert failure_tables.answers() == failure_tables.ANSWERS.read_text(), REGENERATE


def test_each_class_of_sqlstate_that_spark_has_is_known() -> None:
    with failure_tables.CONDITIONS.open() as table:
        states = {row["sql_state"] for row in csv.DictReader(table) if row["sql_state"]}
    without = {state for state in states if sql_states.verdict_of_class(state) or sql_states.verdict_of_state(state)}
    # A block of an executor, which has a rule of its own, and Spark Connect.
    assert states - without <= {"56000", "56K00"}


@pytest.mark.parametrize("reason", ErrorReason)
def test_each_reason_of_a_driver_has_a_class_and_a_justification(reason: ErrorReason) -> None:
    verdict = classify(OperationError(reason=reason))
    assert verdict.kind in FailureKind and verdict.why


@pytest.mark.parametrize(
    ("condition", "sql_state", "cause", "kind"),
    [
        ("PARSE_SYNTAX_ERROR", "42601", None, STATEMENT),
        ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703", STATEMENT, STATEMENT),
        ("INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS", "21S01", STATEMENT, STATEMENT),
        ("INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "KD000", STATEMENT, STATEMENT),
        ("TABLE_OR_VIEW_NOT_FOUND", "42P01", STATEMENT, UNKNOWN),
        ("PATH_NOT_FOUND", "42K03", STATEMENT, UNKNOWN),
        ("SCALAR_SUBQUERY_TOO_MANY_ROWS", "21000", None, UNKNOWN),
        ("DIVIDE_BY_ZERO", "22012", None, UNKNOWN),
        ("INVALID_BOUNDARY.START", "22003", STATEMENT, STATEMENT),
        ("DATA_SOURCE_EXTERNAL_ERROR", "KD010", None, UNKNOWN),
        ("KAFKA_DATA_LOSS.PARTITIONS_DELETED", "22000", None, STATEMENT),
        ("KAFKA_DATA_LOSS.START_OFFSET_RESET", None, None, STATEMENT),
        ("TASK_WRITE_FAILED", "58030", None, UNKNOWN),
        ("TASK_WRITE_FAILED", "58030", ENVIRONMENT, ENVIRONMENT),
        ("STREAM_FAILED", "XXKST", ENVIRONMENT, ENVIRONMENT),
        ("STREAM_FAILED", "XXKST", None, UNKNOWN),
        ("CONCURRENT_STREAM_LOG_UPDATE", "40000", None, ENVIRONMENT),
        ("FAILED_JDBC.UNCLASSIFIED", "HV000", ENVIRONMENT, ENVIRONMENT),
        ("_LEGACY_ERROR_TEMP_3065", None, ENVIRONMENT, ENVIRONMENT),
        ("_LEGACY_ERROR_TEMP_1234", None, STATEMENT, STATEMENT),
        (None, "08006", None, ENVIRONMENT),
        (None, None, None, UNKNOWN),
    ],
)
def test_an_error_of_spark_is_judged_by_condition_sqlstate_and_cause(
    condition: str | None, sql_state: str | None, cause: FailureKind | None, kind: FailureKind
) -> None:
    assert classify(OperationError(condition=condition, sql_state=sql_state, cause=cause)).kind is kind


def test_the_innermost_exception_with_a_rule_decides_over_what_passes_it_on() -> None:
    analysis = Thrown(("org.apache.spark.sql.AnalysisException",))
    hive = Thrown(("org.apache.hadoop.hive.ql.metadata.HiveException",))
    refused = Thrown(("java.net.ConnectException", "java.net.SocketException", "java.io.IOException"))
    verdict = verdict_of_causes([analysis, hive, refused])
    assert verdict is not None and verdict.kind is ENVIRONMENT
    verdict = verdict_of_causes([analysis, hive])
    assert verdict is not None and verdict.kind is STATEMENT


def test_a_plain_io_exception_is_of_the_environment_and_a_subtype_without_a_rule_tells_nothing() -> None:
    plain = verdict_of_causes([Thrown(("java.io.IOException", "java.lang.Exception"))])
    assert plain is not None and plain.kind is ENVIRONMENT
    parser = Thrown(("com.fasterxml.jackson.core.JsonParseException", "java.io.IOException", "java.lang.Exception"))
    assert verdict_of_causes([parser]) is None


def test_a_cause_of_a_later_version_is_unknown() -> None:
    assert OperationError.model_validate({"cause": "Weather"}).cause is UNKNOWN
