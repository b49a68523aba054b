"""How a phase and a reason become a session's status: conditions and times, in one place."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict, Unpack

from sparksql.api.conditions import Condition, ConditionType, find_condition, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.session import (
    ClientCounts,
    ConfigurationEntry,
    DriverStatus,
    EndpointStatus,
    ExecutorsStatus,
    KeptState,
    SqlSession,
    SqlSessionStatus,
    StatementCounts,
)
from sparksql.api.session import SessionPhase as Phase
from sparksql.domain.conditions import of_generation, session_standing, stated


class StatusUpdate(TypedDict, total=False):
    """Fields of `SqlSessionStatus` that a decision sets, but for those that `with_phase` knows by itself."""

    driver: DriverStatus | None
    endpoints: EndpointStatus | None
    statements: StatementCounts | None
    clients: ClientCounts | None
    last_activity_time: datetime | None
    executors: ExecutorsStatus | None
    restarts: int
    failed_starts: int
    next_start_time: datetime | None
    config_hash: str | None
    observed_restart_nonce: str
    observed_wake: str
    kept_state: KeptState | None
    configuration: tuple[ConfigurationEntry, ...]


def with_phase(
    session: SqlSession,
    now: datetime,
    phase: Phase,
    reason: Reason,
    message: str = "",
    *,
    stalled: bool = False,
    extra: tuple[Condition, ...] = (),
    **update: Unpack[StatusUpdate],
) -> SqlSessionStatus:
    """Returns the session's status moved to `phase`, with the fields of `update`.

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
        "executors": before.executors if phase in (Phase.READY, Phase.DRAINING) else None,
        "conditions": merge_conditions(before.conditions, (*own, *kept, *extra), generation=generation, now=now),
        **update,
    }
    if before.phase is not phase:
        values["phase_since"] = now
    return before.replace(**values)


def restated(session: SqlSession, now: datetime) -> SqlSessionStatus:
    """Returns the status as it is, as of the present generation."""
    before, generation = session.status, session.metadata.generation
    conditions = of_generation(before.conditions, generation, now)
    return before.replace(observed_generation=generation, conditions=conditions)
