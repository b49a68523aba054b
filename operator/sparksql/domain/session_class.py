"""What a class's conditions say, and what its warm pool needs. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, find_condition, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.session_class import SqlSessionClass, SqlSessionClassStatus, WarmPoolMember, WarmPoolStatus
from sparksql.domain.conditions import Standing, stated
from sparksql.domain.event import Event
from sparksql.domain.public_text import Message, Name, compose, quote
from sparksql.domain.violation import Violation
from sparksql.domain.warm_pool import PoolMember, PoolPlan

_MAX_MESSAGE = 1000  # characters of the condition
POOL_SECONDS = 30.0  # until the next look at a pool: drivers grow old without an event


@dataclass(frozen=True)
class StartDriver:
    """Has a driver started for the class's pool. Its record, without the pod's UID, is in the status before."""

    intent: WarmPoolMember


@dataclass(frozen=True)
class RemoveDriver:
    """Has a driver of the class's pool taken away."""

    member: PoolMember


@dataclass(frozen=True)
class ClearUp:
    """Has what exists of a driver deleted whose start was recorded and did not come to an end."""

    intent: WarmPoolMember


Command = StartDriver | RemoveDriver | ClearUp


@dataclass(frozen=True)
class Decision:
    """Says what to do about a class: its status is written, and drivers of its pool are started and taken away."""

    status: SqlSessionClassStatus
    events: tuple[Event, ...] = ()
    commands: tuple[Command, ...] = ()
    finalizer: bool = False
    requeue_after: float | None = None


@dataclass(frozen=True)
class PoolSituation:
    """Holds what a pool needs, and `problems` that keep drivers from being started, by namespace.

    `limit` is the limit of sessions that leaves the least room for the pool, with its value; empty without limits. `members` are
    all drivers that the pool has, `strays` pods that name the class as their owner and are none of them. `intents` are records of
    the drivers to start, `unfinished` those of an earlier start that the status has without a pod's UID.
    """

    plan: PoolPlan = field(default_factory=PoolPlan)
    problems: dict[str, str] = field(default_factory=dict)
    limit: Message = field(default_factory=lambda: compose(""))
    members: tuple[PoolMember, ...] = ()
    strays: tuple[PoolMember, ...] = ()
    intents: tuple[WarmPoolMember, ...] = ()
    unfinished: tuple[WarmPoolMember, ...] = ()


def decide(session_class: SqlSessionClass, now: datetime, pool: PoolSituation) -> Decision:
    """Returns the decision for a class, which is Ready as soon as it is seen."""
    before, generation, size = (
        session_class.status,
        session_class.metadata.generation,
        session_class.spec.warm_pool.size,
    )
    problem = _pool_problem(session_class, pool)
    desired = (*stated(Standing.AS_ASKED, Reason.READY), *(_pool_condition(problem) if problem is not None else ()))
    conditions = merge_conditions(before.conditions, desired, generation=generation, now=now)
    counts = _counts(pool) if size or pool.members or pool.unfinished else None
    status = before.replace(observed_generation=generation, conditions=conditions, warm_pool=counts)
    commands: tuple[Command, ...] = (
        *(RemoveDriver(member) for member in (*pool.plan.remove, *pool.strays)),
        *(ClearUp(intent) for intent in pool.unfinished),
        *(StartDriver(intent) for intent in pool.intents),
    )
    next_look = (pool.plan.pause or POOL_SECONDS) if size or commands else None
    return Decision(status, _events(before, problem), commands, requeue_after=next_look)


def _counts(pool: PoolSituation) -> WarmPoolStatus:
    """The pool's part of the status, with the record of its drivers: what is not there is no driver of the pool."""
    made = (
        WarmPoolMember(
            namespace=each.namespace, uid=each.uid, pod_name=each.pod_name, pod_uid=each.pod_uid, key=each.key
        )
        for each in pool.members
    )
    records = (*made, *pool.unfinished, *pool.intents)
    members = tuple(sorted(records, key=lambda each: (each.namespace, each.pod_name)))
    return WarmPoolStatus(ready=pool.plan.ready, starting=pool.plan.starting, members=members)


def _events(before: SqlSessionClassStatus, problem: Violation | None) -> tuple[Event, ...]:
    """Warns once of a pool that cannot be filled."""
    known = find_condition(before.conditions, ConditionType.WARM_POOL)
    if problem is None or (known is not None and known.message == problem.message[:_MAX_MESSAGE]):
        return ()
    return (Event.of("Warning", problem.reason, problem.message),)


def _pool_problem(session_class: SqlSessionClass, pool: PoolSituation) -> Violation | None:
    """Only of a pool that cannot be as the class says."""
    spec = session_class.spec.warm_pool
    if not spec.size:
        return None
    reason = Reason.INVALID_SPEC
    if not spec.namespaces:
        message = compose(
            "spec.warmPool.namespaces is empty, and a pod cannot change its namespace: name those whose sessions are to start warm"
        )
    elif pool.problems:
        words = "; ".join(f"namespace {each}: {problem}" for each, problem in sorted(pool.problems.items()))
        shown = compose(
            "no driver can be started in namespaces {names}; see status", names=Name(tuple(sorted(pool.problems)))
        )
        message = quote(words, shown.public)
    elif pool.plan.is_limited:
        reason = Reason.LIMIT_EXCEEDED
        message = compose(
            "{limit} leaves no room for all {count} drivers of the pool beside the sessions "
            "that have one; raise it, or lower spec.warmPool.size",
            limit=pool.limit,
            count=spec.size * len(spec.namespaces),
        )
    else:
        return None
    return Violation(reason, message)


def _pool_condition(problem: Violation) -> tuple[Condition, ...]:
    return (
        Condition(
            type=ConditionType.WARM_POOL,
            status=ConditionStatus.FALSE,
            reason=problem.reason,
            message=problem.message[:_MAX_MESSAGE],
        ),
    )
