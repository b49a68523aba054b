"""What every refusal of a streaming statement has: a condition, an SQLSTATE and a place in the submitted text. Pure.

A refusal may name the best of each itself. What it leaves open is decided here, at the one way out of a statement, so that
none leaves without them.
"""

from __future__ import annotations

from sparksql.gateway.sql.conditions import Condition, at_statement
from sparksql.gateway.sql.script import Fragment
from sparksql.wire.control import ErrorReason, OperationError

# Conditions that a refusal has where it names none: in a stream they are those of streams.
_GENERAL = (None, Condition.INVALID_STATEMENT.label)


def completed(error: OperationError, fragment: Fragment, sql: str) -> OperationError:
    """Returns the error of a refused statement, a fragment of `sql`, with what it lacks.

    Its place is the beginning of the statement when it names none. The error of a query that ran is no refusal: it stays.
    """
    match error.reason:
        case ErrorReason.INVALID_SPEC:
            own = Condition.INVALID_STREAMING_STATEMENT
        case ErrorReason.NOT_IMPLEMENTED:
            own = Condition.UNSUPPORTED_STREAMING_OPERATION
        case _:
            return error
    changes: dict[str, object] = {}
    if error.condition in _GENERAL:
        changes |= {"condition": own.label, "sql_state": own.sql_state}
    elif error.sql_state is None:
        changes["sql_state"] = own.sql_state
    return at_statement(error.model_copy(update=changes), fragment, sql)
