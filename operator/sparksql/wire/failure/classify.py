"""The one place that decides what a failure of a statement means. Pure.

The first of these that tells something decides:

1. the reason, if it is not SqlError: who refused the statement;
2. Spark's condition, where it tells more than its SQLSTATE, if that is certain;
3. a cause in the environment, found by the types of the exceptions: what is around it only passes it on;
4. the condition, uncertain as it is, then the SQLSTATE;
5. the class of the SQLSTATE, if that is certain;
6. the types of the exceptions: analysis refuses an expression of data exceptions before there is a row;
7. the class, uncertain as it is.
"""

from __future__ import annotations

from typing import assert_never

from sparksql.wire.control import ErrorReason, OperationError
from sparksql.wire.failure.kind import FailureKind, Verdict, environment, statement, unknown
from sparksql.wire.failure.sql_states import verdict_of_class, verdict_of_condition, verdict_of_state

_NO_RULE = unknown("neither condition nor SQLSTATE nor types of exceptions are known")


def classify(error: OperationError | None) -> Verdict:
    """Returns the class of a failure and why. `error` is None where no driver has told one."""
    if error is None:
        return unknown("no driver has told an error")
    match error.reason:
        case ErrorReason.SQL_ERROR:
            return _of_spark(error)
        case ErrorReason.INVALID_SPEC | ErrorReason.NOT_ALLOWED | ErrorReason.NOT_IMPLEMENTED:
            return statement("the driver refuses the statement before Spark runs it")
        case ErrorReason.LIMIT_EXCEEDED:
            return statement("the statement is larger or deeper than a fixed limit")
        case ErrorReason.RESULT_TOO_LARGE:
            return unknown("the size of a result depends on the rows")
        case ErrorReason.STATE_INCOMPATIBLE:
            return statement("the state in the checkpoint does not fit the statement")
        case ErrorReason.CHECKPOINT_LOST:
            return statement("the checkpoint is not the one that the query has written")
        case ErrorReason.SOURCE_LOST:
            return statement("a source lacks what the query was to read next, or is another one")
        case ErrorReason.ENVIRONMENT_FAILED:
            return environment("the driver or its storage failed")
        case ErrorReason.EXECUTION_TIMEOUT | ErrorReason.QUEUE_TIMEOUT:
            return unknown("its time was over")
        case other:
            assert_never(other)


def _of_spark(error: OperationError) -> Verdict:
    cause = _of_types(error.cause)
    by_condition, by_class = verdict_of_condition(error.condition), verdict_of_class(error.sql_state)
    return (
        _certain(by_condition)
        or (cause if cause is not None and cause.kind is FailureKind.ENVIRONMENT else None)
        or by_condition
        or verdict_of_state(error.sql_state)
        or _certain(by_class)
        or cause
        or by_class
        or _NO_RULE
    )


def _certain(verdict: Verdict | None) -> Verdict | None:
    return None if verdict is None or verdict.kind is FailureKind.UNKNOWN else verdict


def _of_types(cause: FailureKind | None) -> Verdict | None:
    return None if cause is None else Verdict(cause, f"the types of the exceptions are those of class {cause}")
