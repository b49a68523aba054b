"""How a phase and a reason become a session's status: conditions and times, in one place."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, find_condition, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession, SqlSessionStatus

_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE

# (Ready, Reconciling, Stalled), the contract's table of conditions; Pending may be stalled as well, see `advance`.
_CONDITIONS: dict[Phase, tuple[ConditionStatus, ConditionStatus, ConditionStatus]] = {
    Phase.PENDING: (_FALSE, _TRUE, _FALSE),
    Phase.STARTING: (_FALSE, _TRUE, _FALSE),
    Phase.READY: (_TRUE, _FALSE, _FALSE),
    Phase.DRAINING: (_FALSE, _TRUE, _FALSE),
    Phase.HIBERNATED: (_TRUE, _FALSE, _FALSE),
    Phase.STOPPED: (_FALSE, _FALSE, _FALSE),
    Phase.CLOSED: (_FALSE, _FALSE, _FALSE),
    Phase.FAILED: (_FALSE, _FALSE, _TRUE),
}


def advance(
    session: SqlSession,
    now: datetime,
    phase: Phase,
    reason: Reason,
    message: str = "",
    *,
    stalled: bool = False,
    extra: tuple[Condition, ...] = (),
    **updates: Any,
) -> SqlSessionStatus:
    """The session's status moved to `phase`. `stalled` marks a wait that needs a person; `extra` are further conditions."""
    before = session.status
    ready, reconciling, is_stalled = _CONDITIONS[phase]
    own = tuple(
        Condition(type=type_, status=status, reason=reason, message=message)
        for type_, status in (
            (ConditionType.READY, ready),
            (ConditionType.RECONCILING, reconciling),
            (ConditionType.STALLED, _TRUE if stalled else is_stalled),
        )
    )
    lost = find_condition(before.conditions, ConditionType.SESSION_STATE_LOST)
    kept = (lost,) if lost is not None and all(c.type != lost.type for c in extra) else ()
    generation = session.metadata.generation
    values: dict[str, Any] = {
        "observed_generation": generation,
        "phase": phase,
        "message": message or None,
        "endpoints": before.endpoints if phase is Phase.READY else None,
        "clients": before.clients if phase in (Phase.READY, Phase.DRAINING) else None,
        "conditions": merge_conditions(before.conditions, (*own, *kept, *extra), generation=generation, now=now),
        **updates,
    }
    if before.phase is not phase:
        values["phase_since"] = now
    return before.replace(**values)


def reason_of(status: SqlSessionStatus) -> str:
    """Reason of the current phase, as its Ready condition has it."""
    ready = find_condition(status.conditions, ConditionType.READY)
    return ready.reason if ready else ""
