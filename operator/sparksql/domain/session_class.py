"""What a class's conditions say: that it was understood, and which of its fields do nothing yet. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Never

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, find_condition, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.session_class import SqlSessionClass, SqlSessionClassSpec, SqlSessionClassStatus
from sparksql.domain.conditions import Standing, stated
from sparksql.domain.event import Event


@dataclass(frozen=True)
class Decision:
    """Says what to do about a class: its status is written, and nothing else. It waits for nothing and owns nothing."""

    status: SqlSessionClassStatus
    events: tuple[Event, ...] = ()
    commands: tuple[Never, ...] = ()
    finalizer: bool = False
    requeue_after: float | None = None


def decide(session_class: SqlSessionClass, now: datetime) -> Decision:
    """Returns the decision for a class, which is Ready as soon as it is seen."""
    before, generation = session_class.status, session_class.metadata.generation
    desired = (*stated(Standing.AS_ASKED, Reason.READY), *_without_effect(session_class.spec))
    conditions = merge_conditions(before.conditions, desired, generation=generation, now=now)
    status = before.replace(observed_generation=generation, conditions=conditions)
    return Decision(status, _events(before, status))


def _events(before: SqlSessionClassStatus, after: SqlSessionClassStatus) -> tuple[Event, ...]:
    """Warns once of a field that does nothing."""
    found = find_condition(after.conditions, ConditionType.WARM_POOL)
    is_known = find_condition(before.conditions, ConditionType.WARM_POOL) is not None
    return () if found is None or is_known else (Event("Warning", Reason.NOT_IMPLEMENTED, found.message),)


def _without_effect(spec: SqlSessionClassSpec) -> tuple[Condition, ...]:
    if not spec.warm_pool.size:
        return ()
    message = f"spec.warmPool.size is {spec.warm_pool.size}, and no driver is kept ready: warm pools are not implemented yet. Leave it out"
    return (
        Condition(
            type=ConditionType.WARM_POOL,
            status=ConditionStatus.FALSE,
            reason=Reason.NOT_IMPLEMENTED,
            message=message,
        ),
    )
