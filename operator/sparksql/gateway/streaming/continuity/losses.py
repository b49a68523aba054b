"""Errors of a source that has lost rows which a stream was to read, with what can be done. Another start meets the same."""

from __future__ import annotations

from sparksql.gateway.sql.errors import StatementError, operation_error
from sparksql.gateway.sql.script import Fragment
from sparksql.wire.control import ErrorReason
from sparksql.wire.failure.sql_states import main_condition

ANEW = (
    "To start from another state, set spec.streaming.startFrom to a savepoint and change restoreNonce; to start without "
    "state, change spec.runNonce"
)
KAFKA_REMEDY = (
    "To continue from the checkpoint's position without the lost records, read the topic WITH ('failOnDataLoss' = 'false'). "
    f"{ANEW} (a new stream reads a topic from its first record WITH ('startingOffsets' = 'earliest'))"
)
_KAFKA = "KAFKA_DATA_LOSS"  # a condition of Spark's connector, whose subclass tells what was lost
# Conditions of Delta's streaming source: the table is another one, its log lacks the next versions, or one of these
# changed or removed rows. Those that may heal with another start, as a listing that is behind, are not among them.
_DELTA = frozenset(
    {
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        "DELTA_MISSING_FILES_UNEXPECTED_VERSION",
        "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
        "DELTA_SOURCE_IGNORE_DELETE",
        "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
    }
)


def refusal_of_loss(failed: Exception, sql: str) -> StatementError | None:
    """Returns the error of a query that has found rows of its sources missing, None for any other failure."""
    error = operation_error(failed, Fragment(sql, 0), sql)
    main = main_condition(error.condition)
    if main == _KAFKA:
        remedy = KAFKA_REMEDY
    elif main in _DELTA:
        remedy = ANEW
    else:
        return None
    told = f"{error.message.rstrip('. ')}. {remedy}"
    return StatementError(error.model_copy(update={"reason": ErrorReason.SOURCE_LOST, "message": told}))
