"""What every refusal of a streaming statement has: a condition, an SQLSTATE and a place in the submitted text. Pure.

A refusal may name the best of each itself. What it leaves open is decided here, at the one way out of a statement, so that
none leaves without them.
"""

from __future__ import annotations

from sparksql.gateway.sql.script import Fragment, locate
from sparksql.gateway.streaming.unsupported import CONDITION, SQL_STATE
from sparksql.wire.control import ErrorReason, OperationError

INVALID = ("INVALID_STREAMING_STATEMENT", "42000")  # of the gateway's own; syntax error or access rule violation
UNSUPPORTED = (CONDITION, SQL_STATE)


def completed(error: OperationError, fragment: Fragment, sql: str) -> OperationError:
    """Returns the error of a refused statement, a fragment of `sql`, with what it lacks.

    Its place is the beginning of the statement when it names none. The error of a query that ran is no refusal: it stays.
    """
    match error.reason:
        case ErrorReason.INVALID_SPEC:
            condition, sql_state = INVALID
        case ErrorReason.NOT_IMPLEMENTED:
            condition, sql_state = UNSUPPORTED
        case _:
            return error
    changes: dict[str, object] = {}
    if error.condition is None:
        changes |= {"condition": condition, "sql_state": sql_state}
    elif error.sql_state is None:
        changes["sql_state"] = sql_state
    if error.line is None or error.position is None:
        line, position = locate(sql, fragment.offset)
        changes |= {"line": line, "position": position}
    return error.model_copy(update=changes)
