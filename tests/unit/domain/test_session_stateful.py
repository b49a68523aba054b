"""A session under random events: one driver at a time, incarnations that only grow, Closed that stays.

The model plays Kubernetes (pods that come up, break, vanish), the gateway, the user, and an operator that may lose its
write, or die between the write and its commands.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase, SqlSession, SqlSessionStatus
from sparksql.domain.session.decide import FINALIZER_SECONDS, decide
from sparksql.domain.session.snapshot import Command, Deadlines, Decision, PodFacts, Snapshot
from sparksql.domain.violation import Violation
from sparksql.wire.control import GatewayInfo, GatewayState
from tests.unit.domain.builders.conditions import SESSION_CONDITIONS, conditions_of, reason_of
from tests.unit.domain.builders.objects import NOW
from tests.unit.domain.builders.sessions import gateway, resolved, session

LASTING = (SessionPhase.STOPPED, SessionPhase.CLOSED, SessionPhase.FAILED, SessionPhase.HIBERNATED)
MAX_RESTARTS = 2
DEADLINES = Deadlines(scheduling_seconds=60, image_pull_seconds=60, driver_start_seconds=60, drain_seconds=30)
OBSTACLES = (
    Reason.QUOTA_EXCEEDED,
    Reason.FAILED_CREATE,
    Reason.STORAGE_NOT_READY,
    Reason.NAMESPACE_TERMINATING,
    Reason.CHILD_CONFLICT,
)
POD_NEWS: dict[str, dict[str, Any]] = {
    "running": {"unschedulable": None, "image_problem": None, "container_problem": None},
    "unschedulable": {"unschedulable": "no room"},
    "image problem": {"image_problem": "ErrImagePull"},
    "container problem": {"container_problem": "CreateContainerError"},
    "ended": {"ended": "Error, exit code 1"},
    "queued": {"gates": ("kueue.x-k8s.io/admission",), "has_node": False},
    "let go by its queue": {"gates": (), "has_node": True},
}
GRACE = timedelta(seconds=20)


class SessionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.spec: dict[str, Any] = {}
        self.status = SqlSessionStatus()
        self.deleted: datetime | None = None
        self.gone = False
        self.pod: PodFacts | None = None
        self.pods = 0
        self.gateway: GatewayInfo | None = None
        self.violation: Violation | None = None
        self.start_blocker: Violation | None = None
        self.running = self.queued = 0
        self.terminating = False
        self.history: list[str] = []

    @initialize(
        idle=st.sampled_from(
            [{}, *({"timeoutSeconds": 30, "restoreState": True, "action": a} for a in ("Close", "Hibernate"))]
        ),
        lifetime=st.sampled_from([0, 2000]),
    )
    def begin(self, idle: dict[str, Any], lifetime: int) -> None:
        self.spec = {"idle": idle or None, "maxLifetimeSeconds": lifetime}

    # --- what happens around the operator

    @rule(seconds=st.sampled_from([1, 10, 40, 200]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(act=st.sampled_from(["stop", "run", "run", "restart", "change", "delete"]))
    def user_acts(self, act: str) -> None:
        match act:
            case "stop" | "run":
                self.spec["desiredState"] = "Stopped" if act == "stop" else "Running"
            case "restart":
                self.spec["restartNonce"] = str(len(self.history))
            case "change":
                self.spec["conf"] = {"spark.sql.x": str(len(self.history))}
            case "delete" if self.deleted is None:
                self.deleted = self.now

    @rule(running=st.integers(0, 1), queued=st.integers(0, 1))
    def statements_come_and_go(self, running: int, queued: int) -> None:
        self.running, self.queued = running, queued

    @precondition(lambda self: self.gateway is not None)
    @rule(sessions=st.integers(0, 2), pending=st.integers(0, 1), running=st.integers(0, 1))
    def clients_come_and_go(self, sessions: int, pending: int, running: int) -> None:
        """A driver that drains takes nothing new, a client without a session runs nothing."""
        assert self.gateway is not None
        if self.gateway.state is GatewayState.DRAINING:
            pending, running = min(pending, self.gateway.client_pending), min(running, self.gateway.client_running)
        counts = {"client_pending": pending, "client_running": running} if sessions else {}
        idle = {"client_sessions": 0, "client_pending": 0, "client_running": 0}
        self.gateway = self.gateway.model_copy(update={**idle, "client_sessions": sessions, **counts})

    @rule(
        violation=st.sampled_from(
            [None, None, Violation(Reason.CLASS_NOT_FOUND, "x"), Violation(Reason.NOT_ALLOWED, "y")]
        ),
        start_blocker=st.sampled_from([None, None, *(Violation(reason, "z") for reason in OBSTACLES)]),
    )
    def platform_changes(self, violation: Violation | None, start_blocker: Violation | None) -> None:
        self.violation, self.start_blocker = violation, start_blocker

    @rule()
    def namespace_goes_away(self) -> None:
        self.terminating = len(self.history) % 3 == 0

    @precondition(lambda self: self.pod is not None)
    @rule()
    def somebody_deletes_the_pod(self) -> None:
        self._delete_pod()

    @precondition(lambda self: self.pod is not None)
    @rule(news=st.sampled_from(sorted(POD_NEWS)))
    def pod_changes(self, news: str) -> None:
        assert self.pod is not None
        if self.pod.ended is not None or (news == "queued" and self.pod.started is not None):
            return
        self.pod = replace(self.pod, **POD_NEWS[news])
        if not self.pod.gates:
            self.pod = replace(self.pod, started=self.pod.started or self.now)

    @precondition(lambda self: self.pod is not None)
    @rule()
    def driver_comes_up(self) -> None:
        assert self.pod is not None
        if self.pod.ended is None:
            self.pod = replace(self.pod, started=self.now, gates=(), has_node=True, **POD_NEWS["running"])
            self.gateway = gateway()

    @precondition(lambda self: self.pod is not None)
    @rule()
    def pod_vanishes(self) -> None:
        self.pod = None

    @precondition(lambda self: self.pod is not None)
    @rule(state=st.sampled_from([*GatewayState, GatewayState.READY, GatewayState.READY]), holds=st.booleans())
    def gateway_speaks(self, state: GatewayState, holds: bool) -> None:
        self.gateway = gateway(state, has_session_state=holds, restorable_statements=int(holds))

    # --- the operator

    @rule(passes=st.integers(1, 4), in_time=st.booleans())
    def operator_looks(self, passes: int = 1, in_time: bool = False) -> None:
        """So many passes, each as late as the one before asked for, or all at once."""
        for _ in range(passes):
            if self.gone:
                return
            wake = self.operator_passes(written=True, acted=True)
            self.now += timedelta(seconds=wake if in_time and wake is not None else 0)

    @precondition(lambda self: not self.gone)
    @rule(written=st.booleans())
    def operator_breaks(self, written: bool) -> None:
        self.operator_passes(written=written, acted=False)

    def operator_passes(self, *, written: bool, acted: bool, start_blocker: Violation | None = None) -> float | None:
        of = session(self.status.to_dict(), deleted=self.deleted, **self.spec)
        snapshot = self._snapshot(of, start_blocker)
        decision = decide(snapshot)
        self.history.append(f"{self.status.phase} -> {decision.status.phase} {[c.name for c in decision.commands]}")
        self._check(snapshot, decision)
        if not written:
            return None
        self.status = SqlSessionStatus.parse(decision.status.to_dict())
        if acted:
            self._act(decision)
        self.gone = not decision.finalizer
        return decision.requeue_after

    def _act(self, decision: Decision) -> None:
        for command in decision.commands:
            if command is Command.DRAIN_DRIVER:
                assert self.pod is not None and self.gateway is not None
                self.gateway = self.gateway.model_copy(update={"state": GatewayState.DRAINING})
            elif command is Command.KEEP_STATE:
                assert self.gateway is not None and self.gateway.state is GatewayState.DRAINING
            elif command is Command.DELETE_DRIVER:
                self._delete_pod()
            elif self.start_blocker is not None:
                self.operator_passes(written=True, acted=True, start_blocker=self.start_blocker)
            else:
                self._start_driver()

    def _delete_pod(self) -> None:
        if self.pod is not None:
            self.pod = replace(self.pod, end_due=self.pod.end_due or self.now + GRACE)

    def _start_driver(self) -> None:
        """One that was given up stays where it is: nobody looks at it any more."""
        driver = self.status.driver
        assert driver is not None and driver.pod_name is not None
        assert self.pod is None or self._outlived(self.pod), "two drivers at once"
        self.pods += 1
        self.gateway = None
        self.pod = PodFacts(driver.pod_name, f"pod-{self.pods}", self.now)

    def _outlived(self, pod: PodFacts) -> bool:
        return pod.end_due is not None and self.now > pod.end_due + timedelta(seconds=DEADLINES.termination_seconds)

    def _snapshot(self, of: SqlSession, start_blocker: Violation | None) -> Snapshot:
        named = self.status.driver is not None and self.pod is not None
        named = named and self.pod.name == self.status.driver.pod_name  # not one that was given up
        return Snapshot(
            now=self.now,
            session=of,
            resolution=self.violation or resolved(of),
            pod=self.pod if named else None,
            gateway=self.gateway if named or self.pod is None else None,
            running=self.running,
            queued=self.queued,
            namespace_terminating=self.terminating,
            start_blocker=start_blocker,
            deadlines=DEADLINES,
            max_restarts=MAX_RESTARTS,
        )

    # --- the contract

    def _check(self, snapshot: Snapshot, decision: Decision) -> None:
        story = "\n".join(self.history[-8:])
        before, after = self.status, decision.status
        old, new = _incarnation(before), _incarnation(after)
        assert new in (old, old + 1), story
        if after.phase is SessionPhase.STARTING and before.phase is not SessionPhase.STARTING:
            assert new == old + 1, story
            self._check_handed_on(snapshot, after, story)
        if Command.START_DRIVER in decision.commands:
            assert snapshot.pod is None or self._outlived(snapshot.pod), story
            assert after.phase is SessionPhase.STARTING, story
            assert self.deleted is None and not self.terminating, story
        if before.phase is SessionPhase.CLOSED and self.deleted is None:
            assert after.phase is SessionPhase.CLOSED, story
        assert after.restarts <= MAX_RESTARTS, story
        if after.phase not in LASTING and decision.finalizer:
            assert decision.requeue_after is not None, story
        if after.phase is SessionPhase.READY and before.phase is not SessionPhase.READY:
            assert snapshot.pod is not None, story
        self._check_queue(snapshot, after, story)
        self._check_clients(snapshot, after, decision.commands, story)
        self._check_conditions(decision, story)
        self._check_letting_go(snapshot, decision, story)

    def _check_handed_on(self, snapshot: Snapshot, after: SqlSessionStatus, story: str) -> None:
        """A driver that served, and whose end nobody saw, is named to the one after it."""
        before = self.status.driver
        assert after.driver is not None
        if before is not None and before.boot_id is not None and snapshot.pod_end is None:
            assert before.boot_id in after.driver.unconfirmed, story

    def _check_queue(self, snapshot: Snapshot, after: SqlSessionStatus, story: str) -> None:
        """A pod in a queue costs its session nothing, however long it waits there."""
        pod, before = snapshot.pod, self.status
        if before.phase is not SessionPhase.STARTING or self.deleted is not None or snapshot.start_blocker is not None:
            return
        if pod is None or not pod.gates or pod.deleting or pod.ended is not None or snapshot.gateway is not None:
            return
        assert after.phase in (SessionPhase.STARTING, SessionPhase.DRAINING), story
        assert (after.restarts, _incarnation(after)) == (before.restarts, _incarnation(before)), story
        assert after.phase is SessionPhase.DRAINING or reason_of(after) == Reason.WAITING_IN_QUEUE, story

    def _check_clients(
        self, snapshot: Snapshot, after: SqlSessionStatus, commands: tuple[Command, ...], story: str
    ) -> None:
        """Nobody is sent where nothing answers, and no client is cut off before its time."""
        assert (after.endpoints is not None) is (after.phase is SessionPhase.READY), story
        assert after.clients is None or after.phase in (SessionPhase.READY, SessionPhase.DRAINING), story
        word, pod = snapshot.gateway, snapshot.pod
        if word is None or pod is None or pod.deleting or pod.ended is not None or self.deleted is not None:
            return
        if self.status.phase is SessionPhase.READY and word.client_sessions:
            assert reason_of(after) not in (Reason.IDLE_TIMEOUT, Reason.HIBERNATING), story
        if self.status.phase is SessionPhase.DRAINING and Command.DELETE_DRIVER in commands:
            assert self.status.phase_since is not None
            in_time = (self.now - self.status.phase_since).total_seconds() < DEADLINES.drain_seconds
            assert not in_time or not (word.client_pending or word.client_running), story
            assert not in_time or not word.client_sessions or word.state is GatewayState.DRAINING, story

    def _check_conditions(self, decision: Decision, story: str) -> None:
        if self.deleted is not None or decision.status.phase is None:
            return
        found = {type_: status for type_, (status, _) in conditions_of(decision.status).items()}
        ready, reconciling, stalled = SESSION_CONDITIONS[decision.status.phase]
        assert (found["Ready"], found["Reconciling"]) == (ready, reconciling), story
        assert stalled in (None, found["Stalled"]), story
        if decision.status.phase is SessionPhase.STARTING and found["Stalled"] == "True":
            assert decision.status.failed_starts > 0, story

    def _check_letting_go(self, snapshot: Snapshot, decision: Decision, story: str) -> None:
        if decision.finalizer:
            return
        assert self.deleted is not None, story
        clean = (snapshot.pod is None or snapshot.pod.ended is not None) and not self.running and not self.queued
        late = (self.now - self.deleted).total_seconds() >= FINALIZER_SECONDS
        assert clean or late or self.terminating, story
        assert bool(decision.events) is (not clean and not self.terminating), story


def _incarnation(status: SqlSessionStatus) -> int:
    return status.driver.incarnation if status.driver else 0


SessionMachine.TestCase.settings = settings(
    max_examples=500, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
test_session_keeps_the_contract_under_random_events = SessionMachine.TestCase


def test_session_machine_leaves_a_pod_that_nobody_ends() -> None:
    machine = SessionMachine()
    machine.begin(idle={}, lifetime=0)
    machine.operator_looks()
    machine.driver_comes_up()
    machine.operator_looks()
    machine.somebody_deletes_the_pod()
    machine.time_passes(40)
    machine.operator_looks()
    assert machine.status.phase == "Ready"
    machine.time_passes(200)
    machine.operator_looks()
    machine.time_passes(10)
    machine.operator_looks()
    assert (machine.status.phase, _incarnation(machine.status), machine.pods) == ("Starting", 2, 2)


def test_session_waits_in_a_queue_without_a_deadline_and_then_becomes_ready() -> None:
    machine = SessionMachine()
    machine.begin(idle={}, lifetime=0)
    machine.operator_looks()
    machine.pod_changes("queued")
    for _ in range(20):
        machine.time_passes(200)
        machine.operator_looks()
    assert (reason_of(machine.status), machine.status.restarts, machine.pods) == (Reason.WAITING_IN_QUEUE, 0, 1)
    machine.driver_comes_up()
    machine.operator_looks()
    assert machine.status.phase == "Ready"


def test_session_machine_restarts_a_driver_when_nothing_is_wrong() -> None:
    machine = SessionMachine()
    machine.begin(idle={}, lifetime=0)
    machine.operator_looks()
    machine.driver_comes_up()
    machine.operator_looks()
    assert machine.status.phase == "Ready"
    machine.pod_vanishes()
    machine.operator_looks()
    machine.time_passes(40)
    machine.operator_looks()
    assert machine.status.phase == "Starting"
    assert (_incarnation(machine.status), machine.pods) == (2, 2)
