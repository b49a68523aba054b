"""How a phase and a reason become a status: conditions, times and counters, in one place."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.statement import SqlStatement, SqlStatementStatus
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.statement.phases import is_ended
from sparksql.domain.statement.stream_health import health
from sparksql.domain.statement.streaming import is_stream

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN

# (Ready, Reconciling, Stalled, Succeeded, Finished), the contract's table of conditions.
_CONDITIONS: dict[Phase, tuple[ConditionStatus, ...]] = {
    Phase.INITIALIZED: (_FALSE, _TRUE, _FALSE, _UNKNOWN, _FALSE),
    Phase.PENDING: (_FALSE, _TRUE, _FALSE, _UNKNOWN, _FALSE),
    Phase.RUNNING: (_FALSE, _TRUE, _FALSE, _UNKNOWN, _FALSE),
    Phase.FINISHED: (_TRUE, _FALSE, _FALSE, _TRUE, _TRUE),
    Phase.CANCELED: (_FALSE, _FALSE, _FALSE, _FALSE, _TRUE),
    Phase.CLOSED: (_FALSE, _FALSE, _TRUE, _FALSE, _TRUE),
    Phase.ERROR: (_FALSE, _FALSE, _TRUE, _FALSE, _TRUE),
    Phase.TIMED_OUT: (_FALSE, _FALSE, _TRUE, _FALSE, _TRUE),
    Phase.STOPPED: (_FALSE, _FALSE, _FALSE, _UNKNOWN, _FALSE),
}
_TYPES = (
    ConditionType.READY,
    ConditionType.RECONCILING,
    ConditionType.STALLED,
    ConditionType.SUCCEEDED,
    ConditionType.FINISHED,
)


# Rows of that table which a phase alone does not tell: a streaming statement that runs well, and one that is parked.
_SERVES = (_TRUE, _FALSE, _FALSE, _UNKNOWN, _FALSE)
_PARKED = (_FALSE, _FALSE, _TRUE, _UNKNOWN, _FALSE)


def _row(row: tuple[ConditionStatus, ...], reason: str, message: str) -> tuple[Condition, ...]:
    return tuple(
        Condition(type=type_, status=value, reason=reason, message=message)
        for type_, value in zip(_TYPES, row, strict=True)
    )


def conditions(phase: Phase, reason: Reason, message: str) -> tuple[Condition, ...]:
    """All conditions of a statement in `phase`; a streaming one has further ones."""
    return _row(_CONDITIONS[phase], reason, message)


def stream_conditions(
    statement: SqlStatement, after: SqlStatementStatus, now: datetime, reason: Reason, message: str, *, parked: bool
) -> tuple[Condition, ...]:
    """All conditions of a streaming statement with the status `after`."""
    further = healthy, _ = health(statement.spec, after, now)
    row = _PARKED if parked else _CONDITIONS[after.phase or Phase.INITIALIZED]
    if after.phase is not Phase.RUNNING or reason is not Reason.RUNNING:
        return (*_row(row, reason, message), *further)
    if healthy.status is _TRUE:
        return (*_row(_SERVES, reason, message), *further)
    return (*_row(row, healthy.reason, healthy.message), *further)


def advance(
    statement: SqlStatement,
    now: datetime,
    phase: Phase,
    reason: Reason,
    message: str = "",
    *,
    parked: bool = False,
    **updates: Any,
) -> SqlStatementStatus:
    """The statement's status moved to `phase`; `updates` are further status fields. Times of the end are set here.

    `parked` marks a streaming statement that rests until a person acts.
    """
    before = statement.status
    generation = statement.metadata.generation
    values: dict[str, Any] = {"observed_generation": generation, "phase": phase, **updates}
    if is_ended(phase) and before.phase is not phase:
        values.setdefault("completion_time", now)
        start = values.get("start_time", before.start_time)
        if start is not None:
            values["duration_millis"] = max(0, int((values["completion_time"] - start).total_seconds() * 1000))
    after = before.replace(**values)
    if is_stream(statement.spec):
        told = stream_conditions(statement, after, now, reason, message, parked=parked)
    else:
        told = conditions(phase, reason, message)
    return after.replace(conditions=merge_conditions(before.conditions, told, generation=generation, now=now))
