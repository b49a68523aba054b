"""Refusals of streaming statements have a condition, an SQLSTATE and a place, whatever they name themselves."""

from __future__ import annotations

import itertools

import pytest

from sparksql.gateway.sql.conditions import Condition
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.streaming.refusals import completed
from sparksql.wire.control import ErrorReason, OperationError

SQL = "SET a = 1;\n  INSERT INTO t SELECT 1 FROM STREAM s"
INSERT = Fragment(SQL[SQL.index("INSERT") :], SQL.index("INSERT"))
REFUSED = {
    ErrorReason.INVALID_SPEC: Condition.INVALID_STREAMING_STATEMENT,
    ErrorReason.NOT_IMPLEMENTED: Condition.UNSUPPORTED_STREAMING_OPERATION,
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusal_keeps_what_it_names_and_gets_what_it_lacks(reason: ErrorReason) -> None:
    for condition, state, place in itertools.product((None, "OWN"), (None, "12345"), (None, (2, 18))):
        line, position = place or (None, None)
        error = OperationError(
            reason=reason,
            message="m",
            condition=condition,
            sql_state=state if condition else None,
            line=line,
            position=position,
        )
        seen = completed(error, INSERT, SQL)
        assert seen.condition == (condition or REFUSED[reason].label)
        assert seen.sql_state == (error.sql_state or REFUSED[reason].sql_state)
        assert (seen.line, seen.position) == (place or (2, 3))
        assert (seen.reason, seen.message) == (reason, "m")


@pytest.mark.parametrize("reason", sorted(set(ErrorReason) - set(REFUSED)))
def test_error_of_a_query_that_ran_stays_as_it_is(reason: ErrorReason) -> None:
    error = OperationError(reason=reason, message="m")
    assert completed(error, INSERT, SQL) is error
