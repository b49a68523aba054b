"""How a phase and a reason become a status: conditions, times and counters, in one place."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.statement import SqlStatement, SqlStatementStatus
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.statement.phases import is_ended

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


def conditions(phase: Phase, reason: Reason, message: str) -> tuple[Condition, ...]:
    """All conditions of a statement in `phase`."""
    return tuple(
        Condition(type=type_, status=value, reason=reason, message=message)
        for type_, value in zip(_TYPES, _CONDITIONS[phase], strict=True)
    )


def advance(
    statement: SqlStatement, now: datetime, phase: Phase, reason: Reason, message: str = "", **updates: Any
) -> SqlStatementStatus:
    """The statement's status moved to `phase`; `updates` are further status fields. Times of the end are set here."""
    before = statement.status
    generation = statement.metadata.generation
    values: dict[str, Any] = {
        "observed_generation": generation,
        "phase": phase,
        "conditions": merge_conditions(
            before.conditions, conditions(phase, reason, message), generation=generation, now=now
        ),
        **updates,
    }
    if is_ended(phase) and before.phase is not phase:
        values.setdefault("completion_time", now)
        start = values.get("start_time", before.start_time)
        if start is not None:
            values["duration_millis"] = max(0, int((values["completion_time"] - start).total_seconds() * 1000))
    return before.replace(**values)
