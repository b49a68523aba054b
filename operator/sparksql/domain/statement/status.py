"""How a phase and a reason become a status: conditions, times and counters, in one place."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, find_condition, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.statement import SqlStatement, SqlStatementStatus
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.conditions import stated, statement_standing
from sparksql.domain.statement.phases import is_ended
from sparksql.domain.statement.stream.health import health
from sparksql.domain.statement.stream.spec import is_stream


def conditions(statement: SqlStatement, phase: Phase, reason: Reason, message: str) -> tuple[Condition, ...]:
    """All conditions of a batch statement in `phase`; a streaming one has further ones."""
    standing, work = statement_standing(phase, statement.spec.desired_state)
    return stated(standing, reason, message, work)


def stream_conditions(
    statement: SqlStatement, after: SqlStatementStatus, now: datetime, reason: Reason, message: str, *, parked: bool
) -> tuple[Condition, ...]:
    """All conditions of a streaming statement with the status `after`. One that runs, but not well, says why."""
    further = healthy, _ = health(statement.spec, after, now)
    phase = after.phase or Phase.INITIALIZED
    runs = phase is Phase.RUNNING and reason is Reason.RUNNING
    serves = runs and healthy.status is ConditionStatus.TRUE
    standing, work = statement_standing(phase, statement.spec.desired_state, serves=serves, parked=parked)
    why = (healthy.reason, healthy.message) if runs and not serves else (reason, message)
    return (*stated(standing, *why, work), *further)


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
        told = conditions(statement, phase, reason, message)
    return after.replace(conditions=merge_conditions(before.conditions, told, generation=generation, now=now))


def restated(statement: SqlStatement, now: datetime) -> SqlStatementStatus:
    """The status as it is, as of the present spec: what was canceled by a wish that is taken back is not as its spec asks."""
    status, generation = statement.status, statement.metadata.generation
    ready = find_condition(status.conditions, ConditionType.READY)
    if is_ended(status.phase) and status.phase is not None and ready is not None:
        return advance(statement, now, status.phase, Reason(ready.reason), ready.message)
    conditions = merge_conditions(status.conditions, status.conditions, generation=generation, now=now)
    return status.replace(observed_generation=generation, conditions=conditions)
