"""A session that is shown anything at any time: even facts that contradict each other break no promise of the contract.

Nothing here models what is outside; each snapshot is drawn by itself, and only the session's own status is carried over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sparksql.api.names import ANNOTATION_WAKE
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionDesiredState, SqlSession
from sparksql.api.session import SessionPhase as Phase
from sparksql.domain.session.decide import FINALIZER_SECONDS, decide
from sparksql.domain.session.resolve import Resolved
from sparksql.domain.session.snapshot import Command, Decision, Snapshot
from sparksql.domain.session.steps import MAX_START_BACKOFF_SECONDS
from sparksql.domain.violation import Violation
from sparksql.wire.control import GatewayState
from tests.unit.domain.builders.conditions import SESSION_CONDITIONS, conditions_of, reason_of
from tests.unit.domain.builders.objects import NOW, annotated, removed, seconds, with_spec, with_status
from tests.unit.domain.builders.sessions import gateway, pod, resolved, session, session_snapshot

LASTING = (Phase.STOPPED, Phase.CLOSED, Phase.FAILED, Phase.HIBERNATED)

PODS: list[dict[str, Any] | None] = [
    None,
    {},
    {"started": NOW},
    {"started": NOW},
    {"started": NOW},
    {"unschedulable": "0/3 nodes are available"},
    {"image_problem": "ImagePullBackOff"},
    {"container_problem": "CreateContainerConfigError"},
    {"ended": "exit code 1"},
    {"started": NOW, "end_due": NOW + seconds(10**6)},
    {"started": NOW, "end_due": NOW - seconds(61)},
    {"gates": ("kueue.x-k8s.io/admission",), "has_node": False},
]
WORDS: list[dict[str, Any] | None] = [
    None,
    {"state": GatewayState.READY},
    {"state": GatewayState.READY},
    {"state": GatewayState.READY, "has_session_state": True},
    {"state": GatewayState.READY, "has_session_state": True, "restorable_statements": 2},
    {"state": GatewayState.READY, "has_session_state": True, "restorable_statements": 2, "state_obstacle": "a block"},
    {"state": GatewayState.DRAINING, "has_session_state": True, "restorable_statements": 2},
    {"state": GatewayState.STARTING},
    {"state": GatewayState.INIT_FAILED},
    {"state": GatewayState.DRAINING},
]
REFUSALS = [
    *[None] * 15,
    Violation(Reason.CLASS_NOT_FOUND, "no class"),
    Violation(Reason.NOT_ALLOWED, "spec.image"),
    Violation(Reason.LIMIT_EXCEEDED, "spec.driver.cpu"),
]
OBSTACLES = [
    *[None] * 16,
    Violation(Reason.QUOTA_EXCEEDED, "exceeded quota"),
    Violation(Reason.STORAGE_NOT_READY, "no claim"),
    Violation(Reason.CHILD_CONFLICT, "a foreign Service"),
    Violation(Reason.NAMESPACE_TERMINATING, "the namespace is being deleted"),
]


@dataclass(frozen=True)
class Step:
    after: int
    user: str
    pod: dict[str, Any] | None
    word: dict[str, Any] | None
    violation: Violation | None
    facts: dict[str, Any]


STEPS = st.lists(
    st.builds(
        Step,
        after=st.sampled_from([0, 1, 1, 5, 20, 400, 700]),
        user=st.sampled_from([*[""] * 12, "stop", "run", "run", "resize", "nonce", "wake", "delete"]),
        pod=st.sampled_from(PODS),
        word=st.sampled_from(WORDS),
        violation=st.sampled_from(REFUSALS),
        facts=st.fixed_dictionaries(
            {
                "running": st.integers(0, 1),
                "queued": st.integers(0, 1),
                "in_hand": st.integers(0, 1),
                "start_blocker": st.sampled_from(OBSTACLES),
                "limit_violation": st.sampled_from([*[None] * 9, Violation(Reason.LIMIT_EXCEEDED, "no place")]),
                "namespace_terminating": st.sampled_from([*[False] * 9, True]),
                "max_restarts": st.just(2),
            }
        ),
    ),
    min_size=5,
    max_size=24,
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "idle": st.sampled_from(
            [
                {"timeoutSeconds": 30, "action": "Close"},
                {"timeoutSeconds": 30, "action": "Hibernate"},
                {"timeoutSeconds": 30, "action": "Hibernate", "restoreState": True},
            ]
        ),
        "maxLifetimeSeconds": st.just(1000),
    },
)


def moved(obj: SqlSession, step: Step, now: Any, count: int) -> SqlSession:
    match step.user:
        case "stop":
            return with_spec(obj, desiredState="Stopped")
        case "run":
            return with_spec(obj, desiredState="Running")
        case "resize":
            return with_spec(obj, driver={"memory": f"{count + 1}Gi"})
        case "nonce":
            return with_spec(obj, restartNonce=f"n{count}")
        case "wake":
            return annotated(obj, **{ANNOTATION_WAKE: f"n{count}"})
        case "delete" if obj.metadata.deletion_timestamp is None:
            return removed(obj, now)
        case _:
            return obj


def decisions(obj: SqlSession, steps: list[Step]) -> list[tuple[Snapshot, Decision]]:
    """Each snapshot with what was decided on it; every decision's status is the next snapshot's."""
    made, now = [], NOW
    for count, step in enumerate(steps):
        now += seconds(step.after)
        obj = moved(obj, step, now, count)
        has_pod = step.pod is not None and obj.status.driver is not None
        snapshot = session_snapshot(
            obj,
            now=now,
            resolution=step.violation or resolved(obj),
            pod=pod(obj, **(step.pod or {})) if has_pod else None,
            gateway=gateway(**step.word) if step.word is not None else None,
            **step.facts,
        )
        decision = decide(snapshot)
        made.append((snapshot, decision))
        if not decision.finalizer:
            break  # the object is gone
        obj = with_status(obj, decision)
    return made


def incarnation(status: Any) -> int:
    return status.driver.incarnation if status.driver else 0


def check_start(s: Snapshot, decision: Decision) -> None:
    """A driver is started only where nothing of the one before is left and nothing forbids it; the status knows it first."""
    before, after = incarnation(s.session.status), incarnation(decision.status)
    assert after in (before, before + 1)
    if after > before:
        assert Command.START_DRIVER in decision.commands
        assert decision.status.observed_restart_nonce == s.session.spec.restart_nonce
        driver = s.session.status.driver
        if s.is_pod_given_up and driver is not None and driver.boot_id is not None:
            assert decision.status.driver is not None
            assert driver.boot_id in decision.status.driver.unconfirmed
    if Command.START_DRIVER in decision.commands:
        assert decision.commands == (Command.START_DRIVER,)
        assert s.pod is None or s.is_pod_given_up
        assert decision.status.phase is Phase.STARTING
        assert decision.status.driver is not None
        assert decision.status.driver.pod_uid is None
        assert s.session.spec.desired_state is SessionDesiredState.RUNNING
        assert isinstance(s.resolution, Resolved)
        assert not s.session.metadata.is_deleting
        assert not s.namespace_terminating


def check_queue(s: Snapshot, decision: Decision) -> None:
    """A place in a queue is waited for without a deadline, and costs nothing."""
    before, after = s.session.status, decision.status
    if before.phase is Phase.STARTING and reason_of(after) == Reason.WAITING_IN_QUEUE:
        assert (after.phase, after.restarts, decision.commands) == (Phase.STARTING, before.restarts, ())
    if reason_of(before) == Reason.WAITING_IN_QUEUE and s.pod is not None and s.pod.gates and not s.pod.deleting:
        lost = (Reason.DRIVER_NOT_READY, Reason.DRIVER_LOST, Reason.MAX_RESTARTS_EXCEEDED)
        assert reason_of(after) not in (Reason.UNSCHEDULABLE, *lost)


def check_delete(s: Snapshot, decision: Decision) -> None:
    """A driver that serves is deleted only by way of Draining."""
    if Command.DELETE_DRIVER in decision.commands and not s.session.metadata.is_deleting:
        assert s.session.status.phase is not Phase.READY
        assert decision.status.phase not in (Phase.READY, Phase.STARTING)


def check_lasting(s: Snapshot, decision: Decision) -> None:
    before, after = s.session.status, decision.status
    if s.session.metadata.is_deleting:
        return
    if before.phase is Phase.CLOSED:  # who still names it is counted
        counters: dict[str, Any] = {"statements": None, "clients": None, "last_activity_time": None}
        kept = {"observed_generation": 0, "conditions": (), **counters}
        assert after.replace(**kept) == before.replace(**kept)
        assert not decision.events
    if before.phase is Phase.FAILED:
        assert after.phase in (Phase.FAILED, Phase.STOPPED, Phase.PENDING)
    if before.phase is Phase.STOPPED and s.session.spec.desired_state is SessionDesiredState.STOPPED:
        assert after.phase is Phase.STOPPED


def check_ready(s: Snapshot, decision: Decision) -> None:
    """Ready begins only with a gateway that says so, and its identity is known."""
    status = decision.status
    if status.phase is Phase.READY and s.session.status.phase is not Phase.READY:
        assert s.session.status.phase is Phase.STARTING
        assert s.pod is not None
        assert s.gateway is not None and s.gateway.state is GatewayState.READY
        assert status.driver is not None
        assert (status.driver.pod_uid, status.driver.boot_id) == (s.pod.uid, s.gateway.boot_id)


def check_status(s: Snapshot, decision: Decision) -> None:
    before, after = s.session.status, decision.status
    if not decision.finalizer:
        return
    assert after.phase is not None
    shown = conditions_of(after)
    for type_, wanted in zip(("Ready", "Reconciling", "Stalled"), SESSION_CONDITIONS[after.phase], strict=True):
        assert wanted is None or shown[type_][0] == wanted, (type_, after)
    assert Reason(reason_of(after))
    assert after.restarts <= s.max_restarts
    if after.phase is not before.phase:
        assert after.phase_since == s.now
    else:
        assert after.phase_since == before.phase_since


def check_losses(s: Snapshot, decision: Decision) -> None:
    """Who runs statements takes no session from their users."""
    if s.in_hand and s.session.status.phase is Phase.READY:
        assert reason_of(decision.status) != Reason.MAX_RESTARTS_EXCEEDED
        assert decision.status.restarts <= s.session.status.restarts


def check_wake_up(_: Snapshot, decision: Decision) -> None:
    if decision.finalizer and decision.status.phase not in LASTING:
        assert decision.requeue_after is not None
    # Between starts there is nothing to look at: what else matters is an event.
    longest = MAX_START_BACKOFF_SECONDS if decision.status.next_start_time is not None else 60
    assert decision.requeue_after is None or 0 <= decision.requeue_after <= longest


def check_deletion(s: Snapshot, decision: Decision) -> None:
    deleted = s.session.metadata.deletion_timestamp
    if deleted is None:
        assert decision.finalizer
        return
    gone = s.pod is None or s.pod.ended is not None
    over = s.now >= deleted + seconds(FINALIZER_SECONDS)
    clean = gone and not s.running and not s.queued
    assert decision.finalizer is not (clean or over or s.namespace_terminating)
    assert (decision.events != ()) is (not decision.finalizer and not clean and not s.namespace_terminating)


def check_hibernation(s: Snapshot, decision: Decision) -> None:
    """A session goes to sleep only unused, and with what it holds; one that is asked for wakes."""
    before, after = s.session.status, decision.status
    if s.session.metadata.is_deleting:
        return
    if before.phase is Phase.READY and reason_of(after) == Reason.HIBERNATING:
        assert not s.queued and not s.running
        held = s.gateway is not None and s.gateway.has_session_state
        assert not held or (s.gateway is not None and s.gateway.restorable_statements and not s.gateway.state_obstacle)
    if Command.KEEP_STATE in decision.commands:
        assert decision.commands == (Command.KEEP_STATE, Command.DELETE_DRIVER)
        assert s.gateway is not None and s.gateway.state is GatewayState.DRAINING
        assert after.kept_state is not None
    if before.phase is Phase.HIBERNATED:
        stays = after.phase in (Phase.HIBERNATED, Phase.STOPPED, Phase.CLOSED)
        assert stays or reason_of(after) == Reason.WAKING
        assert not (stays and s.queued) or after.phase in (Phase.STOPPED, Phase.CLOSED)
    if before.phase is Phase.STARTING and after.phase is Phase.READY:
        assert after.kept_state is None
    elif before.kept_state is not None:
        assert after.kept_state is not None


CHECKS = (
    check_hibernation,
    check_start,
    check_queue,
    check_delete,
    check_lasting,
    check_ready,
    check_status,
    check_losses,
    check_wake_up,
    check_deletion,
)


@settings(max_examples=150, deadline=None)
@given(SPECS, STEPS)
def test_session_breaks_no_promise_whatever_it_is_shown(spec: dict[str, Any], steps: list[Step]) -> None:
    for snapshot, decision in decisions(session(**spec), steps):
        for check in CHECKS:
            check(snapshot, decision)


@settings(max_examples=50, deadline=None)
@given(SPECS, STEPS)
def test_deciding_twice_on_what_was_seen_says_nothing_new(spec: dict[str, Any], steps: list[Step]) -> None:
    """A phase that lasts is quiet: the same facts again make no event and no other status."""
    for snapshot, decision in decisions(session(**spec), steps):
        if decision.status.phase in LASTING and decision.status.phase is snapshot.session.status.phase:
            assert not decision.events
            assert decision.status.conditions == snapshot.session.status.conditions


def test_session_reaches_ready_and_stopped_when_each_step_is_as_wished() -> None:
    """A sequence that never gets anywhere proves nothing: one straight way through the steps."""
    facts = {"running": 0, "queued": 0, "start_blocker": None, "limit_violation": None, "namespace_terminating": False}
    up = ({"started": NOW}, {"state": GatewayState.READY}, None, facts)
    down = (None, None, None, facts)
    steps = [
        Step(0, "", *down),
        *[Step(1, "", *up), Step(400, "", *up)],
        *[Step(0, "", *down), Step(5, "", *down)],
        *[Step(1, "", *up), Step(1, "stop", *up), Step(1, "", *down)],
    ]
    phases = [decision.status.phase for _, decision in decisions(session(idle={"timeoutSeconds": 0}), steps)]
    serving = [Phase.STARTING, Phase.READY]
    assert phases == [*serving, Phase.READY, Phase.PENDING, *serving, Phase.DRAINING, Phase.STOPPED]
