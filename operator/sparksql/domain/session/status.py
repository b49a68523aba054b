"""How a phase and a reason become a session's status: conditions and times, in one place."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sparksql.api.conditions import Condition, ConditionType, find_condition, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession, SqlSessionStatus
from sparksql.domain.conditions import of_generation, session_standing, stated


def with_phase(
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
    """Returns the session's status moved to `phase`.

    `stalled` marks a wait that needs a person; `extra` are further conditions.
    """
    before = session.status
    own = stated(session_standing(phase, stalled=stalled), reason, message)
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


def restated(session: SqlSession, now: datetime) -> SqlSessionStatus:
    """Returns the status as it is, as of the present generation."""
    before, generation = session.status, session.metadata.generation
    conditions = of_generation(before.conditions, generation, now)
    return before.replace(observed_generation=generation, conditions=conditions)
