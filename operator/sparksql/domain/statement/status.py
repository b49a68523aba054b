"""How a phase and a reason become a status: conditions, times and counters, in one place."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict, Unpack

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, find_condition, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.statement import (
    SqlStatement,
    SqlStatementStatus,
    StatementError,
    StatementProgress,
    StatementResult,
    StatementSession,
)
from sparksql.api.statement import StatementPhase as Phase
from sparksql.api.streaming import StreamingStatus
from sparksql.domain.conditions import of_generation, stated, statement_standing
from sparksql.domain.statement.identity import session_name
from sparksql.domain.statement.phases import is_ended
from sparksql.domain.statement.stream.health import health
from sparksql.domain.statement.stream.spec import is_stream


class StatusUpdate(TypedDict, total=False):
    """Fields of `SqlStatementStatus` that a decision sets, but for those that `with_phase` knows by itself."""

    attempt: int
    failed_attempts: int
    operation_id: str | None
    session: StatementSession | None
    statement_type: str | None
    read_only: bool | None
    sql_hash: str | None
    met_dependencies: tuple[str, ...]
    next_attempt_time: datetime | None
    submitted_time: datetime | None
    start_time: datetime | None
    completion_time: datetime
    progress: StatementProgress | None
    result: StatementResult | None
    error: StatementError | None
    streaming: StreamingStatus | None


def conditions(statement: SqlStatement, phase: Phase, reason: Reason, message: str) -> tuple[Condition, ...]:
    """Returns all conditions of a batch statement in `phase`; a streaming one has further ones."""
    standing, work = statement_standing(phase, statement.spec.desired_state)
    return stated(standing, reason, message, work)


def stream_conditions(
    statement: SqlStatement, after: SqlStatementStatus, now: datetime, reason: Reason, message: str, *, stalled: bool
) -> tuple[Condition, ...]:
    """Returns all conditions of a streaming statement with the status `after`.

    A query that runs, but not well, says why.
    """
    further = healthy, _ = health(statement.spec, after, now)
    phase = after.phase or Phase.INITIALIZED
    runs = phase is Phase.RUNNING and reason is Reason.RUNNING
    serves = runs and healthy.status is ConditionStatus.TRUE
    standing, work = statement_standing(phase, statement.spec.desired_state, serves=serves, stalled=stalled)
    why = (healthy.reason, healthy.message) if runs and not serves else (reason, message)
    return (*stated(standing, *why, work), *further)


def with_phase(
    statement: SqlStatement,
    now: datetime,
    phase: Phase,
    reason: Reason,
    message: str = "",
    *,
    stalled: bool = False,
    **update: Unpack[StatusUpdate],
) -> SqlStatementStatus:
    """Returns the statement's status moved to `phase`, with the fields of `update` and the times of an end.

    `stalled` marks a streaming statement that needs a person: it is suspended, or runs as before a change that is
    refused.
    """
    before, generation = statement.status, statement.metadata.generation
    duration = before.duration_millis
    if is_ended(phase) and before.phase is not phase:
        completion = update.setdefault("completion_time", now)
        start = update.get("start_time", before.start_time)
        if start is not None:
            duration = max(0, int((completion - start).total_seconds() * 1000))
    after = before.replace(
        observed_generation=generation,
        phase=phase,
        session_name=session_name(statement),
        duration_millis=duration,
        **update,
    )
    if is_stream(statement.spec):
        desired = stream_conditions(statement, after, now, reason, message, stalled=stalled)
    else:
        desired = conditions(statement, phase, reason, message)
    return after.replace(conditions=merge_conditions(before.conditions, desired, generation=generation, now=now))


def restated(statement: SqlStatement, now: datetime) -> SqlStatementStatus:
    """Returns the status as it is, as of the present spec.

    A statement that was canceled and is to run now is not as its spec asks.
    """
    status, generation = statement.status, statement.metadata.generation
    ready = find_condition(status.conditions, ConditionType.READY)
    if is_ended(status.phase) and status.phase is not None and ready is not None:
        return with_phase(statement, now, status.phase, Reason(ready.reason), ready.message)
    return status.replace(observed_generation=generation, conditions=of_generation(status.conditions, generation, now))
