"""The conditions of the gateway's own errors, each with its SQLSTATE and the reason that a status shows. Pure.

Spark's conditions keep their names. One of Spark's is here only where the gateway makes the same check, because Spark does
not make it there. SQLSTATEs are those of SQL:2023 and of Spark's error-states.json.
"""

from __future__ import annotations

from enum import Enum
from typing import assert_never

from sparksql.gateway.sql.script import Fragment, locate
from sparksql.wire.control import ErrorReason, OperationError
from sparksql.wire.failure.sql_states import HEAP_EXHAUSTED as HEAP_EXHAUSTED_NAME


class Condition(Enum):
    """A condition that the gateway itself gives an error: its name, its SQLSTATE, and the error's reason."""

    STATEMENT_NOT_ALLOWED = ("STATEMENT_NOT_ALLOWED", "42501", ErrorReason.NOT_ALLOWED)
    INVALID_STATEMENT = ("INVALID_STATEMENT", "42000", ErrorReason.INVALID_SPEC)
    INVALID_STREAMING_STATEMENT = ("INVALID_STREAMING_STATEMENT", "42000", ErrorReason.INVALID_SPEC)
    UNSUPPORTED_STREAMING_OPERATION = ("UNSUPPORTED_STREAMING_OPERATION", "0A000", ErrorReason.NOT_IMPLEMENTED)
    STATEMENT_TOO_LARGE = ("STATEMENT_TOO_LARGE", "54000", ErrorReason.LIMIT_EXCEEDED)
    RESULT_TOO_LARGE = ("RESULT_TOO_LARGE", "54000", ErrorReason.RESULT_TOO_LARGE)
    STATEMENT_TIMEOUT = ("STATEMENT_TIMEOUT", "HYT00", ErrorReason.EXECUTION_TIMEOUT)
    STATEMENT_QUEUE_TIMEOUT = ("STATEMENT_QUEUE_TIMEOUT", "HYT00", ErrorReason.QUEUE_TIMEOUT)
    STREAMING_STATE_INCOMPATIBLE = ("STREAMING_STATE_INCOMPATIBLE", "55000", ErrorReason.STATE_INCOMPATIBLE)
    STREAMING_CHECKPOINT_LOST = ("STREAMING_CHECKPOINT_LOST", "55000", ErrorReason.CHECKPOINT_LOST)
    STREAMING_SOURCE_LOST = ("STREAMING_SOURCE_LOST", "55000", ErrorReason.SOURCE_LOST)
    DRIVER_ENVIRONMENT_FAILED = ("DRIVER_ENVIRONMENT_FAILED", "58000", ErrorReason.ENVIRONMENT_FAILED)
    STATEMENT_FAILED = ("STATEMENT_FAILED", "HY000", ErrorReason.SQL_ERROR)
    HEAP_EXHAUSTED = (HEAP_EXHAUSTED_NAME, "53200", ErrorReason.SQL_ERROR)
    # Spark's own, of checks that are made here in its place.
    PATH_NOT_FOUND = ("PATH_NOT_FOUND", "42K03", ErrorReason.SQL_ERROR)
    NOT_ENOUGH_COLUMNS = ("INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS", "21S01", ErrorReason.SQL_ERROR)
    TOO_MANY_COLUMNS = ("INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS", "21S01", ErrorReason.SQL_ERROR)
    NON_PARTITION_COLUMN = ("NON_PARTITION_COLUMN", "42000", ErrorReason.SQL_ERROR)

    def __init__(self, label: str, sql_state: str, reason: ErrorReason) -> None:
        self.label = label
        self.sql_state = sql_state
        self.reason = reason


def condition_for(reason: ErrorReason) -> Condition:
    """Returns the condition of a refusal that names none of its own."""
    match reason:
        case ErrorReason.NOT_ALLOWED:
            return Condition.STATEMENT_NOT_ALLOWED
        case ErrorReason.INVALID_SPEC:
            return Condition.INVALID_STATEMENT
        case ErrorReason.NOT_IMPLEMENTED:
            return Condition.UNSUPPORTED_STREAMING_OPERATION
        case ErrorReason.LIMIT_EXCEEDED:
            return Condition.STATEMENT_TOO_LARGE
        case ErrorReason.RESULT_TOO_LARGE:
            return Condition.RESULT_TOO_LARGE
        case ErrorReason.EXECUTION_TIMEOUT:
            return Condition.STATEMENT_TIMEOUT
        case ErrorReason.QUEUE_TIMEOUT:
            return Condition.STATEMENT_QUEUE_TIMEOUT
        case ErrorReason.STATE_INCOMPATIBLE:
            return Condition.STREAMING_STATE_INCOMPATIBLE
        case ErrorReason.CHECKPOINT_LOST:
            return Condition.STREAMING_CHECKPOINT_LOST
        case ErrorReason.SOURCE_LOST:
            return Condition.STREAMING_SOURCE_LOST
        case ErrorReason.ENVIRONMENT_FAILED:
            return Condition.DRIVER_ENVIRONMENT_FAILED
        case ErrorReason.SQL_ERROR:
            return Condition.STATEMENT_FAILED
        case other:
            assert_never(other)


def own_error(condition: Condition, message: str, *, rewritable: bool = False) -> OperationError:
    """Returns an error that the gateway itself decides, without a place yet."""
    return OperationError(
        reason=condition.reason,
        condition=condition.label,
        sql_state=condition.sql_state,
        message=message,
        rewritable=rewritable,
    )


def at_statement(error: OperationError, fragment: Fragment, sql: str) -> OperationError:
    """Returns a refusal placed at the beginning of its statement, a fragment of `sql`, if it has no better place.

    Only a refusal of the text has a place: how a query that ran has failed does not concern one.
    """
    match error.reason:
        case (
            ErrorReason.INVALID_SPEC
            | ErrorReason.NOT_ALLOWED
            | ErrorReason.NOT_IMPLEMENTED
            | ErrorReason.LIMIT_EXCEEDED
            | ErrorReason.SQL_ERROR
        ) if error.line is None or error.position is None:
            line, position = locate(sql, fragment.offset)
            return error.model_copy(update={"line": line, "position": position})
        case _:
            return error
