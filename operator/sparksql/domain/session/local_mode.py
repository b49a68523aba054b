"""Fields of a session that have no effect in local mode, reported once in a condition. Pure.

The manifests are those of a cluster, so nothing is refused for it. The driver is a process of this machine, without executors.
"""

from __future__ import annotations

from dataclasses import replace

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase, SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.domain.session.snapshot import Decision, Snapshot


def fields_not_applied(session: SqlSession, session_class: SqlSessionClass | None) -> tuple[str, ...]:
    """Returns the fields of a session and of its class that have no effect without pods."""
    spec = session.spec
    found: list[str] = []
    if spec.executors is not None:
        found.append("spec.executors")
    if spec.image is not None:
        found.append("spec.image")
    if spec.service_account_name is not None:
        found.append("spec.serviceAccountName")
    if session_class is not None:
        offered = session_class.spec
        unused = {
            "podTemplate": bool(offered.pod_template.driver or offered.pod_template.executor),
            "scheduling": offered.scheduling != type(offered.scheduling)(),
            "warmPool": bool(offered.warm_pool.size),
        }
        found += [f"spec.{field} of class {session_class.metadata.name}" for field, is_set in unused.items() if is_set]
    return tuple(found)


def with_fields_not_applied(s: Snapshot, decision: Decision) -> Decision:
    """Returns the decision with a condition that names the fields without effect, if there are any."""
    status = decision.status
    if not s.not_applied or status.phase is SessionPhase.CLOSED:
        return decision
    message = f"local mode has no executors and no images; without effect: {', '.join(s.not_applied)}"
    condition = Condition(
        type=ConditionType.LOCAL_MODE, status=ConditionStatus.TRUE, reason=Reason.NOT_APPLIED, message=message
    )
    others = tuple(each for each in status.conditions if each.type != condition.type)
    generation = s.session.metadata.generation
    before = (*others, *(each for each in s.session.status.conditions if each.type == condition.type))
    conditions = merge_conditions(before, (*others, condition), generation=generation, now=s.now)
    return replace(decision, status=status.replace(conditions=conditions))
