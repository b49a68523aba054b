"""What a class's conditions say: that it was understood, and which of its fields do nothing yet. Pure."""

from __future__ import annotations

from datetime import datetime

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, find_condition, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.session_class import SqlSessionClass, SqlSessionClassSpec, SqlSessionClassStatus
from sparksql.domain.conditions import Standing, stated
from sparksql.domain.event import Event


def status_of(session_class: SqlSessionClass, now: datetime) -> SqlSessionClassStatus:
    """There is nothing to wait for in a class: it is Ready as soon as it is seen."""
    before, generation = session_class.status, session_class.metadata.generation
    desired = (*stated(Standing.AS_ASKED, Reason.READY), *_without_effect(session_class.spec))
    conditions = merge_conditions(before.conditions, desired, generation=generation, now=now)
    return before.replace(observed_generation=generation, conditions=conditions)


def news(session_class: SqlSessionClass, after: SqlSessionClassStatus) -> tuple[Event, ...]:
    """Notes of what a change of the class brought that does nothing."""
    found = find_condition(after.conditions, ConditionType.WARM_POOL)
    is_known = find_condition(session_class.status.conditions, ConditionType.WARM_POOL) is not None
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
