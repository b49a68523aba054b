"""How a phase and a reason become a savepoint's status: conditions and times, in one place; and which phase may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from sparksql.api.conditions import merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase as Phase
from sparksql.api.savepoint import SqlSavepointStatus
from sparksql.domain.conditions import of_generation, savepoint_standing, stated
from sparksql.domain.savepoint.snapshot import Snapshot

MAX_USED_BY = 256  # of the resource: more names than that would make the status unwritable

FOLLOWING: Mapping[Phase | None, frozenset[Phase]] = {
    None: frozenset({Phase.PENDING, Phase.IN_PROGRESS, Phase.FAILED, Phase.ABANDONED}),
    Phase.PENDING: frozenset({Phase.PENDING, Phase.IN_PROGRESS, Phase.FAILED, Phase.ABANDONED}),
    Phase.IN_PROGRESS: frozenset(Phase),  # back to Pending for the next attempt
    Phase.COMPLETED: frozenset({Phase.COMPLETED}),
    Phase.FAILED: frozenset({Phase.FAILED}),
    Phase.ABANDONED: frozenset({Phase.ABANDONED}),
}
"""Legal transitions; None is an object that was never seen."""


class StatusUpdate(TypedDict, total=False):
    """Fields of `SqlSavepointStatus` that a decision sets, but for those that `with_phase` knows by itself."""

    location: str | None
    batch_id: int | None
    query_id: str | None
    sql_hash: str | None
    spark_version: str | None
    size_bytes: int | None
    file_count: int | None
    start_time: datetime | None
    failures: int
    next_attempt_time: datetime | None


def with_phase(
    s: Snapshot, phase: Phase, reason: Reason, message: str = "", **update: Unpack[StatusUpdate]
) -> SqlSavepointStatus:
    """Returns the savepoint's status moved to `phase`, with the fields of `update` and the time of an end."""
    before = s.savepoint.status
    generation = s.savepoint.metadata.generation
    standing, work = savepoint_standing(phase)
    desired = stated(standing, reason, message, work)
    values: dict[str, Any] = {
        "observed_generation": generation,
        "phase": phase,
        "trigger": before.trigger or s.trigger,
        "message": message or None,
        "used_by": used_by(s),
        "conditions": merge_conditions(before.conditions, desired, generation=generation, now=s.now),
        **update,
    }
    if phase.is_terminal and before.phase is not phase:
        values |= {"completion_time": s.now, "next_attempt_time": None}
    return before.replace(**values)


def restated(s: Snapshot) -> SqlSavepointStatus:
    """Returns the status as it is, as of the present generation, with who refers to it now."""
    before, generation = s.savepoint.status, s.savepoint.metadata.generation
    conditions = of_generation(before.conditions, generation, s.now)
    return before.replace(observed_generation=generation, used_by=used_by(s), conditions=conditions)


def used_by(s: Snapshot) -> tuple[str, ...]:
    """Returns the names of statements that refer to it, as the status holds them."""
    return tuple(sorted(set(s.used_by)))[:MAX_USED_BY]
