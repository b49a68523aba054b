"""A streaming statement under random events: the user, the drivers with their gateways, savepoints, and an operator that
may lose any write or request. What must hold of each decision is in `stream_contract_monitor`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparksql.api.conditions import ConditionStatus
from sparksql.api.savepoint import SavepointPhase as Moves
from sparksql.api.session import SessionPhase
from sparksql.api.statement import SqlStatementStatus
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.admission import Turn
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import Ask, Cancel, CreateSavepoint, Decision, DeleteSavepoint, Question, Submit
from sparksql.domain.statement.dependencies import Met
from sparksql.domain.statement.phases import ENDED, HANDED_OVER
from sparksql.domain.statement.snapshot import (
    Inputs,
    SavepointFacts,
    SessionFacts,
    Snapshot,
    Unobserved,
)
from sparksql.domain.statement.stream.compatibility import question
from sparksql.wire.control import OperationState, OperationView
from tests.unit.domain.builders.objects import NOW
from tests.unit.domain.builders.statements import SQL, check_unread
from tests.unit.domain.builders.streams import PLACE, stream
from tests.unit.domain.stream_contract_monitor import BACKOFF, LIMIT, RESET, Pass, begins_restoring, check
from tests.unit.domain.stream_stateful_model import TEXTS, Checkpoints, Gateway, Held, Shelf, fits

GIVEN = ("first", "second")  # savepoints that a user brings


class StreamMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.deleted: datetime | None = None
        self.gone = False
        self.spec: dict[str, Any] = {"sql": SQL}
        self.status = SqlStatementStatus()
        self.checkpoints = Checkpoints()
        self.shelf = Shelf()
        self.history: list[str] = []
        self.drivers = 0
        self.gateway: Gateway | None = None
        self.closed = False
        self.unreachable = False
        self.is_restoring = False
        self.asked: tuple[Question, OperationView] | None = None
        self.generations: list[Any] = []  # specs
        self.has_news = True  # since the statement was parked: a reason to leave that

    @initialize(
        mode=st.sampled_from(["LastState", "Savepoint", "Savepoint", "Stateless"]),
        start=st.sampled_from([None, *GIVEN]),
        schedule=st.booleans(),
    )
    def begin(self, mode: str = "LastState", start: str | None = None, schedule: bool = False) -> None:
        restart = {"limit": LIMIT, "backoffSeconds": BACKOFF, "resetAfterSeconds": RESET}
        self.spec["streaming"] = {"restart": restart, "upgradeMode": mode}
        if start is not None:
            self._sets(startFrom={"savepointRef": {"name": start}})
        if schedule:
            self._sets(savepoints={"schedule": {"intervalSeconds": 60}, "onDelete": "Delete"})
        self.driver_dies_or_starts()

    def _sets(self, **streaming: Any) -> None:
        self.spec["streaming"] = {**self.spec["streaming"], **streaming}

    # --- what happens around the operator

    @rule(seconds=st.sampled_from([1, 5, 20, 120]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.has_news = True  # a savepoint, or a driver, may be waited for no longer

    @rule(desired=st.sampled_from(["Running", "Running", "Stopped", "Stopped", "Canceled"]))
    def user_wishes(self, desired: str) -> None:
        self.spec["desiredState"] = desired
        self.has_news = True

    @rule(text=st.sampled_from(TEXTS))
    def user_changes_the_text(self, text: str) -> None:
        self.spec["sql"] = text
        self.has_news = True

    @rule(what=st.sampled_from(["conf", "run", "mode", "mode", "unfit"]), value=st.integers(0, 2))
    def user_changes(self, what: str, value: int) -> None:
        self.has_news = True
        match what:
            case "conf":
                self.spec["conf"] = {"a": str(value)}
            case "run":
                self.spec["runNonce"] = str(value)
            case "mode":
                self._sets(upgradeMode=("LastState", "Stateless", "Savepoint")[value])
            case "unfit":
                self._sets(onIncompatible=("Park", "Park", "StartFresh")[value])

    @rule(name=st.sampled_from([*GIVEN, None]), nonce=st.sampled_from(["", "1", "2"]))
    def user_restores(self, name: str | None, nonce: str) -> None:
        self._sets(startFrom={"savepointRef": {"name": name}} if name is not None else None, restoreNonce=nonce)
        self.has_news = True

    @rule(name=st.sampled_from(GIVEN))
    def user_brings_a_savepoint(self, name: str) -> None:
        self.shelf.facts.setdefault(name, SavepointFacts(name, None, self.now))
        self.has_news = True

    @precondition(lambda self: self.shelf.facts)
    @rule(data=st.data(), phase=st.sampled_from([Moves.IN_PROGRESS, Moves.COMPLETED, Moves.COMPLETED, Moves.FAILED]))
    def savepoint_goes_on(self, data: st.DataObject, phase: Moves) -> None:
        self._moves(data.draw(st.sampled_from(sorted(self.shelf.facts))), phase)

    def _moves(self, name: str, phase: Moves) -> None:
        facts = self.shelf.facts[name]
        if facts.phase is not None and facts.phase.is_terminal:
            return
        held = None
        if phase is Moves.COMPLETED:
            streaming = self.status.streaming
            place = (streaming.checkpoint_location or "") if streaming is not None else ""
            held = Held(TEXTS[len(name) % 2], 7) if name in GIVEN else self.checkpoints.held.get(place)
            if held is None or self.gateway is None:
                return
            held = Held(held.text, held.batch, place)
        self.shelf.move(name, phase, self.now, held)
        self.has_news = True

    @precondition(lambda self: self.shelf.facts)
    @rule(data=st.data(), really=st.booleans())
    def savepoint_is_deleted(self, data: st.DataObject, really: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.shelf.facts)))
        self.has_news = True
        if really:
            del self.shelf.facts[name]
        else:
            self.shelf.facts[name] = replace(self.shelf.facts[name], deleting=True)

    @precondition(lambda self: self.deleted is None and self.status.phase is not None)
    @rule(really=st.integers(0, 3))
    def user_deletes(self, really: int) -> None:
        if not really:
            self.deleted = self.now

    @rule()
    def driver_dies_or_starts(self) -> None:
        self.has_news = True
        if self.gateway is not None:
            self.gateway.die()
            self.gateway = None
            return
        self.drivers += 1
        self.gateway = Gateway(self.drivers, self.checkpoints, self.shelf)

    @rule()
    def operator_starts_again(self) -> None:
        """What it has only in memory is gone."""
        self.asked = None

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

    @precondition(lambda self: not self.gone and self.deleted is None)
    @rule(passes=st.integers(2, 6))
    def nothing_happens(self, passes: int) -> None:
        """What is parked stays as it is, however often it is looked at."""
        self.operator_looks()
        if self.is_parked():
            self.has_news = False
            parked = self.status
            self.operator_looks(passes=passes)
            assert self.status == parked, self._story()

    def is_parked(self) -> bool:
        stalled = self.status.conditions[2].status is ConditionStatus.TRUE if self.status.conditions else False
        return self.status.phase is Phase.STOPPED and stalled

    @rule()
    def it_runs_as_far_as_it_can(self) -> None:
        self.unreachable = False
        if self.gateway is None:
            self.driver_dies_or_starts()
        for _ in range(4):
            self.operator_looks(passes=2, in_time=True)
            for name in sorted(self.shelf.facts):
                self._moves(name, Moves.COMPLETED)
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

    @precondition(lambda self: not self.gone and self.deleted is None and not self.closed)
    @rule()
    def all_is_well(self) -> None:
        """Nothing that can be mended keeps it from running for ever."""
        self.user_wishes("Running")
        self._sets(startFrom=None, onIncompatible="StartFresh")
        failed = [each.name for each in self.shelf.facts.values() if each.phase in (Moves.FAILED, Moves.ABANDONED)]
        for name in failed:
            self.shelf.facts.pop(name)
        if self.is_parked():  # after a failure, which has no other end here
            self.user_wishes("Stopped")
            self.operator_looks(passes=2)
            self.user_wishes("Running")
        for _ in range(3):
            self.it_runs_as_far_as_it_can()
        assert self.status.phase in {Phase.RUNNING, *ENDED}, self._story()

    @precondition(lambda self: not self.gone)
    @rule(written=st.booleans())
    def operator_breaks(self, written: bool) -> None:
        """Its write fails, so nothing is sent; or it dies before it has sent anything."""
        self.operator_passes(written=written, sent=False)

    def operator_passes(self, *, written: bool, sent: bool) -> float | None:
        snapshot = self._snapshot()
        decision = decide(snapshot)
        check_unread(snapshot, decision)
        ready = decision.status.conditions[0].reason if decision.status.conditions else ""
        word = snapshot.operation.state if isinstance(snapshot.operation, OperationView) else snapshot.operation
        asked = [type(command).__name__ for command in decision.commands]
        self.history.append(f"{word} -> {decision.status.phase}/{decision.status.attempt} {ready} {asked}")
        try:
            one = self._check(snapshot, decision)
        except AssertionError as error:
            raise AssertionError(self._story()) from error
        if not written:
            return None
        was_parked = self.is_parked()
        self.is_restoring = begins_restoring(one)
        self.status = SqlStatementStatus.parse(decision.status.to_dict())
        self.has_news = self.has_news and (was_parked or not self.is_parked())
        if sent:
            self._send(decision)
        self.gone = not decision.finalizer
        return decision.requeue_after

    def _check(self, snapshot: Snapshot, decision: Decision) -> Pass:
        one = Pass(snapshot, decision, self.checkpoints, self.shelf, self.is_restoring)
        if self.deleted is not None:
            assert _rested(decision.status) == _rested(self.status)
            return one
        check(one)
        if self.is_parked() and decision.status.phase is not Phase.STOPPED:
            assert self.has_news or one.drops or one.after.phase is Phase.CLOSED, "it leaves the park by itself"
        return one

    def _story(self) -> str:
        return "\n".join([f"spec {self.spec}", f"savepoints {list(self.shelf.facts.values())}", *self.history[-8:]])

    def _send(self, decision: Decision) -> None:
        session = self.status.session
        for command in decision.commands:
            match command:
                case CreateSavepoint():
                    self.shelf.create(command, self.now)
                case DeleteSavepoint():
                    self.shelf.delete(command)
                case Ask(question) if self.gateway is not None and not self.unreachable:
                    assert question.request.boot_id == self.gateway.driver.boot_id
                    assert self.asked is None or self.asked[0] != question, "it is asked twice"
                    self.asked = question, self.gateway.look(question.request, self.now)
                case Ask():
                    pass
                case Submit() | Cancel():
                    if self.gateway is None or session is None or self.unreachable:
                        continue
                    if session.pod_uid != self.gateway.driver.pod_uid:
                        continue
                    if isinstance(command, Submit):
                        self.gateway.submit(command.operation_id, command.request)
                    else:
                        self.gateway.cancel(command.operation_id, command.request, self.now)
                case _:
                    raise AssertionError(command)

    def _snapshot(self) -> Snapshot:
        handed_over = self.status.phase in HANDED_OVER
        phase = SessionPhase.CLOSED if self.closed else SessionPhase.READY if self.gateway else SessionPhase.PENDING
        driver = self.gateway.driver if self.gateway is not None and not self.closed else None
        start = (self.spec["streaming"].get("startFrom") or {}).get("savepointRef", {}).get("name", "")
        statement = stream(self.status.to_dict(), deleted=self.deleted, **self.spec)
        if self.generations[-1:] != [statement.spec]:
            self.generations.append(statement.spec)
        metadata = statement.metadata.replace(generation=len(self.generations))
        gathered = Snapshot(
            now=self.now,
            statement=statement.replace(metadata=metadata),
            session=SessionFacts("s", phase, driver=driver),
            settings=PLACE,
            dependencies=Met(),
            turn=Turn(not handed_over),
            inputs=Inputs(self.spec["sql"]),
            operation=self._operation() if handed_over else None,
            savepoints=tuple(each for each in self.shelf.facts.values() if each.name not in GIVEN),
            start_from=self.shelf.facts.get(start),
        )
        if self.asked is not None and self.asked[0] != question(gathered):
            self.asked = None
        return replace(gathered, answer=self.asked[1] if self.asked is not None else None)

    def _operation(self) -> OperationView | Unobserved:
        session = self.status.session
        assert session is not None
        if self.gateway is None or self.gateway.driver.pod_uid != session.pod_uid:
            return Unobserved.DRIVER_GONE
        if self.unreachable:
            return Unobserved.UNREACHABLE
        return self.gateway.views.get(self.status.operation_id or "", Unobserved.UNKNOWN)

    # --- the contract

    @invariant()
    def files_are_used_as_they_may_be(self) -> None:
        """No checkpoint has two queries at once; each is made once, and no text runs on a state that it does not fit."""
        assert self.checkpoints.wrongs == [], self._story()
        for texts in self.checkpoints.texts.values():
            assert all(fits(one, other) for one in texts for other in texts), self._story()


def _rested(status: SqlStatementStatus) -> SqlStatementStatus:
    """Without what goes on being told of savepoints."""
    return status.replace(streaming=status.streaming.replace(last_savepoint=None) if status.streaming else None)
