"""A statement under random events: whatever happens, in whatever order, the contract holds.

The model plays the user, the session, the driver with its gateway, and an operator that may lose any write or request, or
die between the two. What the gateway runs is counted: at most once for each attempt, and one attempt for each run unless
the statement may be repeated.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.api.statement import SqlStatementStatus, StatementPhase
from sparksql.domain.admission import Turn
from sparksql.domain.statement.decide import FINALIZER_SECONDS, decide
from sparksql.domain.statement.decision import Cancel, Decision, DeleteSelf, Submit
from sparksql.domain.statement.dependencies import Cycle, Failed, Met, Outcome, Unmet
from sparksql.domain.statement.identity import operation_id
from sparksql.domain.statement.phases import is_legal
from sparksql.domain.statement.snapshot import (
    Driver,
    Inputs,
    MissingReference,
    SessionFacts,
    Settings,
    Snapshot,
    Unobserved,
)
from sparksql.domain.violation import Violation
from sparksql.wire.control import CancelRequest, OperationError, OperationState, OperationView, SubmitRequest
from tests.unit.domain.builders.conditions import statement_row
from tests.unit.domain.builders.objects import NOW
from tests.unit.domain.builders.statements import ENDED, SQL, STATEMENT_UID, check_unread, statement

HANDED_OVER = (StatementPhase.PENDING, StatementPhase.RUNNING)
DISTURBANCES: dict[str, dict[str, Any]] = {
    "session is being deleted": {"session_deleting": True},
    "session is gone": {"session_exists": False},
    "session is closed": {"session_phase": SessionPhase.CLOSED},
    "network is broken": {"unreachable": True},
    "others come first": {"turn": False},
    "dependency is open": {"dependencies": Unmet((), ("b",), ())},
    "dependency failed": {"dependencies": Failed("b", StatementPhase.ERROR)},
    "cycle": {"dependencies": Cycle(("one", "one"))},
    "text changed": {"inputs": Inputs("another text")},
    "text is gone": {"inputs": MissingReference("gone")},
    "text is no text": {"inputs": Violation(Reason.INVALID_SPEC, "no text")},
    "class forbids it": {"settings": Violation(Reason.NOT_ALLOWED, "spec.conf")},
    "class is unknown": {"settings": None},
    "namespace goes away": {"terminating": True},
}


class Gateway:
    """One driver's memory. Ids are kept for its whole life; a cancel of an unknown id leaves a tombstone."""

    def __init__(self, number: int, ran: Counter[str], read_only: bool) -> None:
        self.driver = Driver(f"s-{number}", f"pod-{number}", f"boot-{number}")
        self.views: dict[str, OperationView] = {}
        self._ran = ran
        self._read_only = read_only

    def submit(self, operation: str, request: SubmitRequest) -> None:
        if request.boot_id == self.driver.boot_id and operation not in self.views:
            self._put(operation, OperationState.PENDING, read_only=self._read_only)

    def cancel(self, operation: str, request: CancelRequest, now: datetime) -> None:
        if request.boot_id != self.driver.boot_id:
            return
        known = self.views.get(operation)
        if known is None or not known.state.is_terminal:
            self._put(operation, request.outcome, completion_time=now)

    def step(self, operation: str, state: OperationState, now: datetime) -> None:
        known = self.views.get(operation)
        if known is None or known.state.is_terminal or known.state is state:
            return
        if state is OperationState.FINISHED and known.state is OperationState.PENDING:
            self.step(operation, OperationState.RUNNING, now)
        if state is OperationState.RUNNING:
            self._ran[operation] += 1
            self._put(operation, state, start_time=now)
        elif state is not OperationState.PENDING:
            error = OperationError(message="it failed") if state is OperationState.ERROR else None
            self._put(operation, state, completion_time=now, error=error)

    def _put(self, operation: str, state: OperationState, **fields: Any) -> None:
        new = OperationView(operation_id=operation, boot_id=self.driver.boot_id, seq=0, state=state)
        known = self.views.get(operation, new)
        self.views[operation] = known.model_copy(update={"state": state, "seq": known.seq + 1, **fields})


class StatementMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.deleted: datetime | None = None
        self.gone = False
        self.spec: dict[str, Any] = {}
        self.status = SqlStatementStatus()
        self.ran: Counter[str] = Counter()
        self.history: list[str] = []
        self.drivers = 0
        self.gateway: Gateway | None = None
        self.session_phase: SessionPhase | None = SessionPhase.PENDING
        self.session_exists = True
        self.session_deleting = False
        self.unreachable = False
        self.turn = True
        self.dependencies: Outcome = Met()
        self.settings: Settings | Violation | None = Settings()
        self.inputs: Inputs | MissingReference | Violation = Inputs(SQL)
        self.terminating = False
        self.read_only = False

    @initialize(
        read_only=st.booleans(),
        retry=st.sampled_from([0, 0, 0, 2]),
        on=st.sets(st.sampled_from(["SessionLost", "SqlError", "ExecutionTimeout"])),
        queue=st.sampled_from([0, 30]),
        ttl=st.sampled_from([None, 0, 60]),
        dedicated=st.booleans(),
    )
    def begin(self, read_only: bool, retry: int, on: set[str], queue: int, ttl: int | None, dedicated: bool) -> None:
        self.read_only = read_only
        self.spec = {"retry": {"limit": retry, "backoffSeconds": 5, "on": sorted(on)}, "ttlSecondsAfterFinished": ttl}
        self.spec["timeouts"] = {"queueSeconds": queue, "executionSeconds": 40}
        if dedicated:
            self.spec["session"] = {"className": "standard"}
        self.all_is_well_again()

    # --- what happens around the operator: few rules, so that most runs get somewhere before something breaks

    @rule(seconds=st.sampled_from([1, 5, 20, 50]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(act=st.sampled_from(["cancel", "resume", "first nonce", "second nonce", "nothing", "delete"]))
    def user_acts(self, act: str) -> None:
        match act:
            case "cancel":
                self.spec["desiredState"] = "Canceled"
            case "resume":
                self.spec["desiredState"] = "Running"
            case "first nonce" | "second nonce":
                self.spec["runNonce"] = act
            case "delete" if self.deleted is None and self.status.phase is not None:
                self.deleted = self.now

    @rule()
    def driver_dies_or_starts(self) -> None:
        if self.gateway is not None:
            self.gateway = None
            self.session_phase = SessionPhase.PENDING
            return
        self.drivers += 1
        self.gateway = Gateway(self.drivers, self.ran, self.read_only)
        self.session_phase = SessionPhase.READY

    @rule(what=st.sampled_from(sorted(DISTURBANCES)))
    def something_is_wrong(self, what: str) -> None:
        for name, value in DISTURBANCES[what].items():
            setattr(self, name, value)

    @rule()
    def all_is_well_again(self) -> None:
        if self.gateway is None:
            self.driver_dies_or_starts()
        self.session_phase, self.session_exists, self.session_deleting = SessionPhase.READY, True, False
        self.unreachable, self.turn, self.dependencies, self.inputs = False, True, Met(), Inputs(SQL)
        self.settings = Settings(queue_seconds=self.spec["timeouts"]["queueSeconds"], execution_seconds=40)

    @precondition(lambda self: self.gateway is not None and self.status.operation_id is not None)
    @rule(
        state=st.sampled_from(
            [
                OperationState.RUNNING,
                OperationState.RUNNING,
                OperationState.FINISHED,
                OperationState.ERROR,
                OperationState.TIMED_OUT,
                OperationState.CLOSED,
            ]
        )
    )
    def gateway_goes_on(self, state: OperationState) -> None:
        assert self.gateway is not None and self.status.operation_id is not None
        self.gateway.step(self.status.operation_id, state, self.now)

    @precondition(lambda self: self.gateway is not None and self.status.operation_id is not None)
    @rule()
    def it_runs_and_its_driver_is_replaced_before_anybody_saw_it(self) -> None:
        assert self.gateway is not None and self.status.operation_id is not None
        self.gateway.step(self.status.operation_id, OperationState.RUNNING, self.now)
        self.driver_dies_or_starts()
        self.driver_dies_or_starts()

    # --- the operator

    @rule(passes=st.integers(1, 4), in_time=st.booleans())
    def operator_looks(self, passes: int = 1, in_time: bool = False) -> None:
        """So many passes, each as late as the one before asked for, or all at once."""
        for _ in range(passes):
            if self.gone:
                return
            wake = self.operator_passes(written=True, sent=True)
            self.now += timedelta(seconds=wake if in_time and wake is not None else 0)

    @rule(state=st.sampled_from([OperationState.RUNNING, OperationState.FINISHED]))
    def it_goes_on_as_far_as_it_can(self, state: OperationState) -> None:
        self.all_is_well_again()
        self.operator_looks(passes=3)
        if self.gateway is not None and self.status.operation_id is not None:
            self.gateway_goes_on(state)
        self.operator_looks()

    @precondition(lambda self: not self.gone)
    @rule(written=st.booleans())
    def operator_breaks(self, written: bool) -> None:
        """Its write fails, so nothing is sent; or it dies before it has sent anything."""
        self.operator_passes(written=written, sent=False)

    def operator_passes(self, *, written: bool, sent: bool) -> float | None:
        snapshot = self._snapshot()
        decision = decide(snapshot)
        check_unread(snapshot, decision)
        self.history.append(f"{snapshot.operation} -> {decision.status.phase}/{decision.status.attempt}")
        self._check(snapshot, decision)
        if not written:
            return None
        self.status = SqlStatementStatus.parse(decision.status.to_dict())
        if sent:
            self._send(decision)
        self.gone = not decision.finalizer or (sent and DeleteSelf() in decision.commands)
        return decision.requeue_after

    def _send(self, decision: Decision) -> None:
        for command in decision.commands:
            session = self.status.session
            aimed = self.gateway and session and session.pod_uid == self.gateway.driver.pod_uid
            if self.gateway is None or not aimed or self.unreachable:
                continue
            match command:
                case Submit(operation, submit):
                    self.gateway.submit(operation, submit)
                case Cancel(operation, cancel):
                    self.gateway.cancel(operation, cancel, self.now)
                case _:
                    pass

    def _snapshot(self) -> Snapshot:
        of = statement(self.status.to_dict(), deleted=self.deleted, **self.spec)
        handed_over = self.status.phase in HANDED_OVER
        operation = self._operation() if handed_over else None
        return Snapshot(
            now=self.now,
            statement=of,
            session=self._session(),
            settings=self.settings,
            dependencies=Met() if handed_over else self.dependencies,
            turn=Turn(self.turn and not handed_over, 0 if self.turn else 2),
            inputs=self.inputs,
            operation=operation,
            namespace_terminating=self.terminating,
        )

    def _session(self) -> SessionFacts | None:
        if not self.session_exists:
            return None
        driver = None
        if self.gateway is not None and self.session_phase is SessionPhase.READY and not self.session_deleting:
            driver = self.gateway.driver
        return SessionFacts("s", self.session_phase, self.session_deleting, driver)

    def _operation(self) -> OperationView | Unobserved:
        session = self.status.session
        assert session is not None
        if self.gateway is None or self.gateway.driver.pod_uid != session.pod_uid:
            return Unobserved.DRIVER_GONE
        if self.unreachable:
            return Unobserved.UNREACHABLE
        return self.gateway.views.get(self.status.operation_id or "", Unobserved.UNKNOWN)

    # --- the contract

    def _check(self, snapshot: Snapshot, decision: Decision) -> None:
        before, after = self.status, decision.status
        same_run, same_attempt = before.run == after.run, before.attempt == after.attempt
        story = "\n".join(self.history[-8:])
        assert after.phase is not None or self.deleted is not None
        if after.phase is not None:
            legal = is_legal(before.phase, after.phase, same_run=same_run, same_attempt=same_attempt)
            assert legal, f"{before.phase} -> {after.phase}\n{story}"
        if before.phase in ENDED and before.observed_run_nonce == self.spec.get("runNonce", ""):
            kept = {"observed_generation": before.observed_generation, "conditions": before.conditions}
            assert after.replace(**kept) == before, story
        if before.phase in HANDED_OVER and same_attempt and after.phase in ENDED:
            word = snapshot.operation
            confirmed = word is Unobserved.DRIVER_GONE or (isinstance(word, OperationView) and word.state.is_terminal)
            assert confirmed, story
        self._check_commands(before, decision)
        self._check_letting_go(snapshot, decision, story)
        if decision.finalizer and after.phase not in ENDED:
            assert decision.requeue_after is not None, story
        if self.deleted is None:
            assert tuple(str(c.status) for c in after.conditions) == statement_row(
                str(after.phase), snapshot.statement.spec
            ), story

    def _check_commands(self, before: SqlStatementStatus, decision: Decision) -> None:
        after = decision.status
        for command in decision.commands:
            match command:
                case Submit(operation, request):
                    assert after.phase is StatementPhase.PENDING
                    assert operation == after.operation_id == operation_id(STATEMENT_UID, after.run, after.attempt)
                    assert after.session is not None and after.session.pod_uid
                    assert request.boot_id == after.session.boot_id
                case Cancel(operation, _):
                    assert operation == before.operation_id and before.phase in HANDED_OVER
                case DeleteSelf():
                    assert before.phase in ENDED and self.spec["ttlSecondsAfterFinished"] is not None
                case _:
                    assert "session" in self.spec

    def _check_letting_go(self, snapshot: Snapshot, decision: Decision, story: str) -> None:
        if decision.finalizer:
            return
        assert self.deleted is not None, story
        word = snapshot.operation
        ended = word in (None, Unobserved.DRIVER_GONE) or (isinstance(word, OperationView) and word.state.is_terminal)
        late = (self.now - self.deleted).total_seconds() >= FINALIZER_SECONDS
        assert ended or late or self.terminating, story
        assert bool(decision.events) is (not ended and not self.terminating), story

    @invariant()
    def no_operation_runs_twice(self) -> None:
        assert all(times == 1 for times in self.ran.values()), self.ran

    @invariant()
    def effects_run_once_for_each_run_unless_they_may_be_repeated(self) -> None:
        if self.read_only or self.spec.get("retry", {}).get("limit", 0) > 0:
            return
        assert len(self.ran) <= max(self.status.run, 1), (self.ran, self.history[-8:])


StatementMachine.TestCase.settings = settings(
    max_examples=500, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
test_statement_keeps_the_contract_under_random_events = StatementMachine.TestCase


def test_statement_machine_runs_each_attempt_once_when_nothing_is_wrong() -> None:
    """A model in which nothing can ever run would prove nothing."""
    machine = StatementMachine()
    machine.begin(read_only=False, retry=0, on=set(), queue=0, ttl=None, dedicated=False)
    machine.operator_looks()
    assert machine.status.phase == "Pending"
    machine.gateway_goes_on(OperationState.FINISHED)
    machine.operator_looks()
    assert machine.status.phase == "Finished"
    machine.user_acts("second nonce")
    machine.operator_looks()
    machine.operator_looks()
    machine.gateway_goes_on(OperationState.RUNNING)
    machine.driver_dies_or_starts()
    machine.operator_looks()
    assert (machine.status.phase, machine.status.run) == ("Error", 2)
    assert sorted(machine.ran.values()) == [1, 1]
