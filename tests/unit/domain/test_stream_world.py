"""A streaming statement in a world of random events: whatever happens, in whatever order, no query meets another one's state.

The model plays the user, the drivers with their gateways, and an operator that may lose any write or request. Checkpoints
outlive the drivers, as files do: each knows the texts that ran on it and the query that has it now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from statement_samples import NOW, SQL
from stream_samples import ON, PARKED, PLACE, RESTS, WAITS, stream

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.api.statement import SqlStatementStatus
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.admission import Turn
from sparksql.domain.backoff import exponential
from sparksql.domain.dependencies import Met
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.phases import ENDED, HANDED_OVER, is_legal
from sparksql.domain.statement.snapshot import (
    Cancel,
    Decision,
    Driver,
    Inputs,
    SessionFacts,
    Silence,
    Snapshot,
    Submit,
)
from sparksql.wire.control import (
    CancelRequest,
    OperationError,
    OperationState,
    OperationView,
    Progress,
    StreamProgress,
    SubmitRequest,
)

TEXTS = (SQL, f"{SQL} WHERE a", f"{SQL} WHERE b")
LIMIT, BACKOFF, RESET = 2, 10, 100
SHOWN = {
    Phase.INITIALIZED: {WAITS},
    Phase.PENDING: {WAITS},
    Phase.RUNNING: {WAITS, ON},
    Phase.STOPPED: {RESTS, PARKED},
}


@dataclass
class Checkpoints:
    """By location: the texts that ran there, the last batch, and the query that has it now."""

    texts: dict[str, set[str]] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    overlaps: list[str] = field(default_factory=list)


class Gateway:
    """One driver's memory, with the queries that run in it."""

    def __init__(self, number: int, checkpoints: Checkpoints) -> None:
        self.driver = Driver(f"s-{number}", f"pod-{number}", f"boot-{number}")
        self.views: dict[str, OperationView] = {}
        self._requests: dict[str, SubmitRequest] = {}
        self._checkpoints = checkpoints

    def submit(self, operation: str, request: SubmitRequest) -> None:
        if request.boot_id == self.driver.boot_id and operation not in self.views:
            self._requests[operation] = request
            self._put(operation, OperationState.PENDING)

    def cancel(self, operation: str, request: CancelRequest, now: datetime) -> None:
        known = self.views.get(operation)
        if request.boot_id == self.driver.boot_id and (known is None or not known.state.is_terminal):
            self.end(operation, request.outcome, now)

    def start(self, operation: str, now: datetime) -> None:
        place, users = self._place(operation), self._checkpoints.users
        if place in users:
            self._checkpoints.overlaps.append(f"{operation} while {users[place]} runs on {place}")
        users[place] = operation
        self._checkpoints.texts.setdefault(place, set()).add(self._requests[operation].sql)
        self._put(operation, OperationState.RUNNING, start_time=now)

    def commit(self, operation: str, now: datetime) -> None:
        place = self._place(operation)
        batch = self._checkpoints.batches.get(place, -1) + 1
        self._checkpoints.batches[place] = batch
        told = StreamProgress(query_id=place[-64:], run_id=operation, batch_id=batch + 1, committed_batch_id=batch)
        stream_ = told.model_copy(update={"last_progress_time": now})
        self._put(operation, OperationState.RUNNING, progress=Progress(stream=stream_))

    def end(self, operation: str, state: OperationState, now: datetime) -> None:
        error = OperationError(message="it failed") if state is OperationState.ERROR else None
        self._free(operation)
        self._put(operation, state, completion_time=now, error=error)

    def die(self) -> None:
        for operation in self._requests:
            self._free(operation)

    def _place(self, operation: str) -> str:
        options = self._requests[operation].streaming
        assert options is not None
        return options.checkpoint

    def _free(self, operation: str) -> None:
        if operation in self._requests and self._checkpoints.users.get(self._place(operation)) == operation:
            del self._checkpoints.users[self._place(operation)]

    def _put(self, operation: str, state: OperationState, **fields: Any) -> None:
        new = OperationView(operation_id=operation, boot_id=self.driver.boot_id, seq=0, state=state, streaming=True)
        known = self.views.get(operation, new)
        self.views[operation] = known.model_copy(update={"state": state, "seq": known.seq + 1, **fields})


class StreamWorld(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.deleted: datetime | None = None
        self.gone = False
        self.spec: dict[str, Any] = {"sql": SQL}
        self.status = SqlStatementStatus()
        self.checkpoints = Checkpoints()
        self.history: list[str] = []
        self.drivers = 0
        self.gateway: Gateway | None = None
        self.closed = False
        self.unreachable = False

    @initialize(stateless=st.booleans())
    def begin(self, stateless: bool = False) -> None:
        restart = {"limit": LIMIT, "backoffSeconds": BACKOFF, "resetAfterSeconds": RESET}
        mode = "Stateless" if stateless else "LastState"
        self.spec["streaming"] = {"restart": restart, "upgradeMode": mode}
        self.driver_dies_or_starts()

    # --- the world

    @rule(seconds=st.sampled_from([1, 5, 20, 120]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(desired=st.sampled_from(["Running", "Running", "Stopped", "Stopped", "Canceled"]))
    def user_wishes(self, desired: str) -> None:
        self.spec["desiredState"] = desired

    @rule(text=st.sampled_from(TEXTS))
    def user_changes_the_text(self, text: str) -> None:
        self.spec["sql"] = text

    @rule(what=st.sampled_from(["conf", "nonce", "mode"]), value=st.integers(0, 2))
    def user_changes(self, what: str, value: int) -> None:
        match what:
            case "conf":
                self.spec["conf"] = {"a": str(value)}
            case "nonce":
                self.spec["runNonce"] = str(value)
            case "mode":
                mode = ("LastState", "Stateless", "Savepoint")[value]
                self.spec["streaming"] = {**self.spec["streaming"], "upgradeMode": mode}

    @precondition(lambda self: self.deleted is None and self.status.phase is not None)
    @rule(really=st.integers(0, 3))
    def user_deletes(self, really: int) -> None:
        if not really:
            self.deleted = self.now

    @rule()
    def driver_dies_or_starts(self) -> None:
        if self.gateway is not None:
            self.gateway.die()
            self.gateway = None
            return
        self.drivers += 1
        self.gateway = Gateway(self.drivers, self.checkpoints)

    @rule()
    def network_breaks_or_heals(self) -> None:
        self.unreachable = not self.unreachable

    @rule(really=st.integers(0, 5))
    def session_is_closed(self, really: int) -> None:
        self.closed = self.closed or not really

    def _live(self) -> OperationView | None:
        view = self.gateway.views.get(self.status.operation_id or "") if self.gateway else None
        return view if view is not None and not view.state.is_terminal else None

    @precondition(lambda self: self._live() is not None)
    @rule(what=st.sampled_from(["goes on", "goes on", "goes on", "fails", "is closed", "finishes"]))
    def query(self, what: str) -> None:
        view = self._live()
        assert self.gateway is not None and view is not None
        match what:
            case "goes on" if view.state is OperationState.PENDING:
                self.gateway.start(view.operation_id, self.now)
            case "goes on":
                self.gateway.commit(view.operation_id, self.now)
            case "fails":
                self.gateway.end(view.operation_id, OperationState.ERROR, self.now)
            case "is closed":
                self.gateway.end(view.operation_id, OperationState.CLOSED, self.now)
            case "finishes" if view.state is OperationState.RUNNING and self.drivers % 4 == 0:
                self.gateway.end(view.operation_id, OperationState.FINISHED, self.now)

    # --- the operator

    @rule(passes=st.integers(1, 4), in_time=st.booleans())
    def operator_looks(self, passes: int = 1, in_time: bool = False) -> None:
        for _ in range(passes):
            wake = self.operator_passes(written=True, sent=True) if not self.gone else None
            self.now += timedelta(seconds=wake if in_time and wake is not None else 0)

    @rule()
    def it_runs_as_far_as_it_can(self) -> None:
        self.unreachable = False
        if self.gateway is None:
            self.driver_dies_or_starts()
        for _ in range(3):
            self.operator_looks(passes=2, in_time=True)
            if self._live() is not None:
                self.query("goes on")
        self.operator_looks()

    @rule(times=st.integers(1, LIMIT + 1))
    def it_fails_again_and_again(self, times: int) -> None:
        for _ in range(times):
            self.it_runs_as_far_as_it_can()
            if self._live() is not None:
                self.query("fails")
            self.operator_looks()

    @precondition(lambda self: not self.gone)
    @rule(written=st.booleans())
    def operator_breaks(self, written: bool) -> None:
        """Its write fails, so nothing is sent; or it dies before it has sent anything."""
        self.operator_passes(written=written, sent=False)

    def operator_passes(self, *, written: bool, sent: bool) -> float | None:
        snapshot = self._snapshot()
        decision = decide(snapshot)
        self.history.append(f"{snapshot.operation} -> {decision.status.phase}/{decision.status.attempt}")
        self._check(snapshot, decision)
        if not written:
            return None
        self.status = SqlStatementStatus.parse(decision.status.to_dict())
        if sent:
            self._send(decision)
        self.gone = not decision.finalizer
        return decision.requeue_after

    def _send(self, decision: Decision) -> None:
        session = self.status.session
        if (
            self.gateway is None
            or session is None
            or session.pod_uid != self.gateway.driver.pod_uid
            or self.unreachable
        ):
            return
        for command in decision.commands:
            match command:
                case Submit(operation, submit):
                    self.gateway.submit(operation, submit)
                case Cancel(operation, cancel):
                    self.gateway.cancel(operation, cancel, self.now)
                case _:
                    raise AssertionError(command)

    def _snapshot(self) -> Snapshot:
        handed_over = self.status.phase in HANDED_OVER
        phase = SessionPhase.CLOSED if self.closed else SessionPhase.READY if self.gateway else SessionPhase.PENDING
        driver = self.gateway.driver if self.gateway is not None and not self.closed else None
        return Snapshot(
            now=self.now,
            statement=stream(self.status.to_dict(), deleted=self.deleted, **self.spec),
            session=SessionFacts("s", phase, driver=driver),
            settings=PLACE,
            dependencies=Met(),
            turn=Turn(not handed_over),
            inputs=Inputs(self.spec["sql"]),
            operation=self._operation() if handed_over else None,
        )

    def _operation(self) -> OperationView | Silence:
        session = self.status.session
        assert session is not None
        if self.gateway is None or self.gateway.driver.pod_uid != session.pod_uid:
            return Silence.DRIVER_GONE
        if self.unreachable:
            return Silence.UNREACHABLE
        return self.gateway.views.get(self.status.operation_id or "", Silence.UNKNOWN)

    # --- the contract

    def _check(self, snapshot: Snapshot, decision: Decision) -> None:
        before, after, story = self.status, decision.status, "\n".join(self.history[-8:])
        if self.deleted is not None:
            assert after == before, story
            return
        assert after.phase is not None
        same_run, same_attempt = before.run == after.run, before.attempt == after.attempt
        assert is_legal(before.phase, after.phase, same_run=same_run, same_attempt=same_attempt), story
        if before.phase in HANDED_OVER and after.phase not in HANDED_OVER:
            word = snapshot.operation
            told = isinstance(word, OperationView) and word.state.is_terminal
            forgotten = word is Silence.UNKNOWN and before.phase is Phase.RUNNING
            assert told or forgotten or word is Silence.DRIVER_GONE, story
        if after.phase in SHOWN:
            assert tuple(str(c.status) for c in after.conditions[:5]) in SHOWN[after.phase], story
            assert decision.requeue_after is not None, story
        assert len(after.conditions) == 7
        assert (after.completion_time is not None) is (after.phase in ENDED), story
        self._check_restarts(before, after, story)
        self._check_checkpoint(before, after, story)

    def _check_restarts(self, before: SqlStatementStatus, after: SqlStatementStatus, story: str) -> None:
        count = after.streaming.restarts if after.streaming else 0
        earlier = before.streaming.restarts if before.streaming and before.run == after.run else 0
        assert count <= LIMIT, story
        assert count in (0, earlier, earlier + 1) or count == 1, story
        ready = after.conditions[0]
        if (
            before.attempt != after.attempt
            and ready.reason == Reason.RESTARTING
            and "the next one" not in ready.message
        ):
            delay = timedelta(seconds=exponential(count, BACKOFF, 600))
            assert after.next_attempt_time == self.now + delay, story
        if after.phase is Phase.PENDING and before.phase is Phase.INITIALIZED and before.next_attempt_time is not None:
            assert self.now >= before.next_attempt_time, story

    def _check_checkpoint(self, before: SqlStatementStatus, after: SqlStatementStatus, story: str) -> None:
        old, new = before.streaming, after.streaming
        if before.run != after.run or old is None or old.checkpoint_location is None:
            return
        assert new is not None, story
        if new.checkpoint_location != old.checkpoint_location:
            assert new.upgrades == old.upgrades + 1, story
            assert self.spec["streaming"]["upgradeMode"] == "Stateless", story
            assert (new.query_id, new.committed_batch_id, after.sql_hash) == (None, None, None), story
        elif old.committed_batch_id is not None:
            assert new.committed_batch_id is not None and new.committed_batch_id >= old.committed_batch_id, story

    @invariant()
    def no_checkpoint_has_two_queries_at_once(self) -> None:
        assert self.checkpoints.overlaps == [], self.history[-8:]

    @invariant()
    def no_checkpoint_has_two_texts(self) -> None:
        assert all(len(texts) == 1 for texts in self.checkpoints.texts.values()), self.checkpoints.texts


StreamWorld.TestCase.settings = settings(
    max_examples=300, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
test_random_world = StreamWorld.TestCase


def test_world_goes_the_straight_way_when_nothing_is_wrong() -> None:
    """A model in which nothing can ever run would prove nothing."""
    world = StreamWorld()
    world.begin()
    world.it_runs_as_far_as_it_can()
    assert world.status.phase == "Running"
    world.driver_dies_or_starts()
    world.driver_dies_or_starts()
    world.operator_looks(passes=3, in_time=True)
    world.it_runs_as_far_as_it_can()
    assert (world.status.phase, world.status.attempt) == ("Running", 2)
    world.user_wishes("Stopped")
    world.operator_looks(passes=3)
    assert world.status.phase == "Stopped"
    world.user_changes_the_text(TEXTS[1])
    world.user_wishes("Running")
    world.operator_looks()
    assert world.status.conditions[0].reason == "StateIncompatible"
    world.user_changes("mode", 1)
    world.it_runs_as_far_as_it_can()
    assert [sorted(texts) for texts in world.checkpoints.texts.values()] == [[TEXTS[0]], [TEXTS[1]]]
    assert sorted(world.checkpoints.batches.values()) != [0]
