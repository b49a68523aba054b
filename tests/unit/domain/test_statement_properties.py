"""A statement that is shown anything at any time: even facts that contradict each other break no promise of the contract.

Nothing here models what is outside; each snapshot is drawn by itself, and only the statement's own status is carried over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sparksql.api.names import FINALIZER
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.api.statement import MAX_LOST_DRIVERS, SqlStatement
from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.api.statement import StatementPhase as Phase
from sparksql.cache.views import StatementView
from sparksql.domain.admission import Turn
from sparksql.domain.statement.decide import FINALIZER_SECONDS, decide
from sparksql.domain.statement.decision import Cancel, CreateSession, Decision, DeleteSelf, DeleteSession, Submit
from sparksql.domain.statement.dependencies import Cycle, Failed, Met, Unmet
from sparksql.domain.statement.identity import operation_id, sql_hash
from sparksql.domain.statement.phases import ENDED, HANDED_OVER, is_legal
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
from sparksql.wire.control import ErrorReason, OperationError, OperationState, OperationView
from tests.unit.domain.builders.conditions import STATEMENT_CONDITIONS, conditions_of
from tests.unit.domain.builders.objects import NOW, removed, seconds, with_spec, with_status
from tests.unit.domain.builders.statements import (
    READY,
    SQL,
    STARTING,
    check_unread,
    statement,
    statement_snapshot,
    view,
)


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """`usual` nine times out of ten: a sequence that never reaches a driver shows little."""
    return st.integers(0, 9).flatmap(lambda n: st.just(usual) if n else st.sampled_from(others))


QUOTED = "the value 'secret' of SELECT cannot be cast"  # an error that quotes SQL and a value of it
SESSIONS = mostly(
    READY,
    None,
    STARTING,
    replace(READY, driver=Driver("s-2", "pod-2", "boot-2")),
    SessionFacts("s", SessionPhase.STOPPED),
    SessionFacts("s", SessionPhase.FAILED, problem=(Reason.INIT_FAILED, QUOTED)),
    SessionFacts("s", SessionPhase.CLOSED),
    SessionFacts("s", SessionPhase.READY, deleting=True),
)
RULINGS = mostly(
    Settings(),
    None,
    Settings(queue_seconds=60),
    Settings(execution_seconds=30),
    Violation(Reason.NOT_ALLOWED, "spec.conf"),
)
OUTCOMES = mostly(
    Met(),
    Met(("a",)),
    Unmet((), ("a",), ()),
    Unmet(("a",), (), ("b",)),
    Failed("a", Phase.CANCELED),
    Cycle(("one", "one")),
)
TEXTS = mostly(
    Inputs(SQL),
    Inputs(f"{SQL} WHERE a"),
    MissingReference("no ConfigMap"),
    Violation(Reason.INVALID_SPEC, "empty"),
)
WORDS = st.one_of(
    st.none(),
    st.sampled_from(list(Unobserved)),
    st.tuples(st.sampled_from(list(OperationState)), st.booleans(), st.booleans(), st.sampled_from(list(ErrorReason))),
)


@dataclass(frozen=True)
class Step:
    """`word` is what the driver says of the current operation: a silence, or (state, started, read only, error reason)."""

    after: int
    user: str
    word: Any
    facts: dict[str, Any]


USERS = st.sampled_from([*[""] * 8, "cancel", "resume", "nonce", "nonce", "nonce", "delete"])
FACTS = st.fixed_dictionaries(
    {
        "session": SESSIONS,
        "settings": RULINGS,
        "dependencies": OUTCOMES,
        "turn": mostly(Turn(True), Turn(False, 1)),
        "inputs": TEXTS,
        "queue_full": mostly(False, True),
        "is_disrupted": mostly(False, True),
        "is_deleted": mostly(False, True),
        "awaited": st.booleans(),
        "namespace_terminating": mostly(False, True),
    }
)
STEPS = st.lists(st.builds(Step, st.sampled_from([0, 1, 5, 20, 61, 700]), USERS, WORDS, FACTS), min_size=4, max_size=20)
SPECS = st.fixed_dictionaries(
    {
        "retry": st.fixed_dictionaries(
            {
                "limit": st.integers(0, 2),
                "on": st.sets(st.sampled_from(["SessionLost", "SqlError", "ExecutionTimeout"])).map(sorted),
            }
        ),
        "timeouts": st.sampled_from([{}, {"queueSeconds": 60}]),
    },
    optional={"ttlSecondsAfterFinished": st.sampled_from([0, 30]), "session": st.just({"className": "standard"})},
)


def edited(obj: SqlStatement, **fields: Any) -> SqlStatement:
    """The object with another spec, which is another generation to the API server."""
    changed = with_spec(obj, **fields)
    metadata = obj.metadata.replace(generation=obj.metadata.generation + (changed.spec != obj.spec))
    return changed.replace(metadata=metadata)


def moved(obj: SqlStatement, step: Step, now: Any, count: int) -> SqlStatement:
    match step.user:
        case "cancel":
            return edited(obj, desiredState="Canceled")
        case "resume":
            return edited(obj, desiredState="Running")
        case "nonce":
            return edited(obj, runNonce=f"n{count}")
        case "delete" if obj.metadata.deletion_timestamp is None:
            return removed(obj, now)
        case _:
            return obj


def word_of(obj: SqlStatement, step: Step, now: Any) -> OperationView | Unobserved | None:
    if step.word is None or isinstance(step.word, Unobserved):
        return step.word
    state, started, read_only, reason = step.word
    started = started or state is OperationState.RUNNING
    return view(
        state,
        operation_id=obj.status.operation_id or "",
        start_time=(obj.status.start_time or now) if started else None,
        completion_time=now if state.is_terminal else None,
        read_only=read_only,
        error=OperationError(reason=reason, message=QUOTED) if state is OperationState.ERROR else None,
    )


def decisions(obj: SqlStatement, steps: list[Step]) -> list[tuple[Snapshot, Decision]]:
    """Each snapshot with what was decided on it; every decision's status is the next snapshot's."""
    made, now = [], NOW
    for count, step in enumerate(steps):
        now += seconds(step.after)
        obj = moved(obj, step, now, count)
        snapshot = statement_snapshot(obj, now=now, operation=word_of(obj, step, now), **step.facts)
        decision = decide(snapshot)
        made.append((snapshot, decision))
        if not decision.finalizer:
            break  # the object is gone
        obj = with_status(obj, decision)
    return made


def check_events(_: Snapshot, decision: Decision) -> None:
    assert all(QUOTED not in event.message.text and SQL not in event.message.text for event in decision.events)


def check_transition(snapshot: Snapshot, decision: Decision) -> None:
    before, after = snapshot.statement.status, decision.status
    if snapshot.statement.metadata.is_deleting:
        assert after == before
        return
    assert after.phase is not None
    same_run, same_attempt = before.run == after.run, before.attempt == after.attempt
    assert is_legal(before.phase, after.phase, same_run=same_run, same_attempt=same_attempt)
    assert after.run in (before.run, before.run + 1)
    assert after.attempt in (before.attempt, before.attempt + 1) if same_run else after.attempt == 1
    assert after.observed_generation == snapshot.statement.metadata.generation
    is_wished = snapshot.statement.spec.desired_state is not DesiredState.RUNNING
    wanted = STATEMENT_CONDITIONS[after.phase if after.phase is not Phase.CANCELED or is_wished else Phase.ERROR]
    assert tuple(value for value, _ in conditions_of(after).values()) == wanted


def check_end_is_kept(snapshot: Snapshot, decision: Decision) -> None:
    before, obj = snapshot.statement.status, snapshot.statement
    if before.phase not in ENDED or obj.metadata.is_deleting:
        return
    if obj.spec.run_nonce == before.observed_run_nonce:
        # A wish to cancel that is taken back is one that is not fulfilled: only the conditions say so.
        generation, said = obj.metadata.generation, decision.status.conditions
        kept = tuple(each.replace(observed_generation=generation) for each in before.conditions)
        assert before.phase is Phase.CANCELED or said == kept
        assert decision.status == before.replace(observed_generation=generation, conditions=said)
        assert not decision.events
    else:
        assert (decision.status.phase, decision.status.run) == (Phase.INITIALIZED, before.run + 1)
        assert decision.status.observed_run_nonce == obj.spec.run_nonce
        assert decision.status.sql_hash is None
        assert not decision.commands


def check_requests(snapshot: Snapshot, decision: Decision) -> None:
    obj, status = snapshot.statement, decision.status
    for command in decision.commands:
        if isinstance(command, Submit):
            assert status.phase is Phase.PENDING
            assert command.operation_id == status.operation_id
            assert command.operation_id == operation_id(obj.metadata.uid, status.run, status.attempt)
            assert status.session is not None
            assert command.request.boot_id == status.session.boot_id
            assert sql_hash(command.request.sql) == status.sql_hash
            assert not obj.metadata.is_deleting
            assert obj.spec.desired_state == "Running"
        if isinstance(command, Cancel):
            assert obj.status.phase in HANDED_OVER
            assert command.operation_id == obj.status.operation_id
            assert obj.status.session is not None
            assert command.request.boot_id == obj.status.session.boot_id


def check_word_before_end(snapshot: Snapshot, decision: Decision) -> None:
    before, after, word = snapshot.statement.status, decision.status, snapshot.operation
    if before.phase not in HANDED_OVER or after.phase in HANDED_OVER:
        return
    told = isinstance(word, OperationView) and word.state.is_terminal
    # A driver that answers and has forgotten what it ran is as good as another one.
    forgotten = word is Unobserved.UNKNOWN and before.phase is Phase.RUNNING
    assert told or forgotten or word is Unobserved.DRIVER_GONE
    if after.phase is Phase.FINISHED:
        assert isinstance(word, OperationView)
        assert word.state is OperationState.FINISHED


def check_attempts_are_bounded(snapshot: Snapshot, decision: Decision) -> None:
    before, after, word = snapshot.statement.status, decision.status, snapshot.operation
    assert after.failed_attempts <= snapshot.statement.spec.retry.limit
    if before.phase not in HANDED_OVER or after.phase is not Phase.INITIALIZED:
        return
    is_retry = after.failed_attempts > before.failed_attempts  # `retry` bounds these
    assert is_retry or len(after.lost_drivers) < MAX_LOST_DRIVERS
    failed = isinstance(word, OperationView) and word.state is not OperationState.CLOSED
    never_began = isinstance(word, OperationView) and word.start_time is None
    is_counted = len(after.lost_drivers) > len(before.lost_drivers)
    assert failed or never_began or is_counted or snapshot.is_disrupted or snapshot.is_deleted


def check_wake_up(_: Snapshot, decision: Decision) -> None:
    if decision.finalizer and decision.status.phase not in ENDED:
        assert decision.requeue_after is not None
    assert decision.requeue_after is None or decision.requeue_after >= 0


def check_objects(snapshot: Snapshot, decision: Decision) -> None:
    """Objects are made and deleted only when their time has come."""
    obj, phase = snapshot.statement, decision.status.phase
    if CreateSession() in decision.commands:
        assert obj.spec.session is not None
        assert snapshot.session is None
        assert phase is Phase.INITIALIZED
    if DeleteSelf() in decision.commands:
        ttl, ended = obj.spec.ttl_seconds_after_finished, obj.status.completion_time
        assert ttl is not None and ended is not None and snapshot.now >= ended + seconds(ttl)
        assert obj.status.phase in ENDED
        assert not snapshot.awaited
    if phase in ENDED:
        assert (DeleteSession() in decision.commands) is (obj.spec.session is not None)


def check_deletion(snapshot: Snapshot, decision: Decision) -> None:
    """It ends by its deadline, and not before the driver has spoken."""
    deleted, word = snapshot.statement.metadata.deletion_timestamp, snapshot.operation
    if deleted is None:
        assert decision.finalizer
        return
    told = isinstance(word, OperationView) and word.state.is_terminal
    over = snapshot.now >= deleted + seconds(FINALIZER_SECONDS)
    safe = snapshot.statement.status.phase not in HANDED_OVER or told or word is Unobserved.DRIVER_GONE
    assert decision.finalizer is not (safe or over or snapshot.namespace_terminating)


def check_what_is_settled(snapshot: Snapshot, decision: Decision) -> None:
    """The views' short answer, by which a start leaves history alone, is never another than the decision's."""
    raw = snapshot.statement.to_dict()
    raw["metadata"]["finalizers"] = [FINALIZER]
    if StatementView(raw).is_settled:
        assert decision == Decision(snapshot.statement.status)


CHECKS = (
    check_events,
    check_transition,
    check_end_is_kept,
    check_requests,
    check_word_before_end,
    check_attempts_are_bounded,
    check_wake_up,
    check_objects,
    check_deletion,
    check_what_is_settled,
    check_unread,
)


@settings(max_examples=150, deadline=None)
@given(SPECS, STEPS)
def test_statement_breaks_no_promise_whatever_it_is_shown(spec: dict[str, Any], steps: list[Step]) -> None:
    for snapshot, decision in decisions(statement(**spec), steps):
        for check in CHECKS:
            check(snapshot, decision)


@settings(max_examples=50, deadline=None)
@given(STEPS)
def test_a_statement_that_has_ended_is_settled_once_its_status_is_of_its_spec(steps: list[Step]) -> None:
    for snapshot, _ in decisions(statement(), steps):
        obj = snapshot.statement
        raw = obj.to_dict()
        assert not StatementView(raw).is_settled  # the finalizer is missing
        raw["metadata"]["finalizers"] = [FINALIZER]
        is_of_spec = obj.status.observed_generation == obj.metadata.generation
        is_of_run = obj.status.observed_run_nonce == obj.spec.run_nonce
        is_kept = obj.status.phase in ENDED and not obj.metadata.is_deleting
        assert StatementView(raw).is_settled is (is_kept and is_of_spec and is_of_run)


@settings(max_examples=50, deadline=None)
@given(SPECS, STEPS)
def test_an_effect_is_never_tried_again_unasked(spec: dict[str, Any], steps: list[Step]) -> None:
    """One that a driver which was shut down had never begun may be handed over again: here all have begun."""
    effects = [replace(s, word=(s.word[0], True, False, s.word[3])) if isinstance(s.word, tuple) else s for s in steps]
    for _, decision in decisions(statement(**{**spec, "retry": {"limit": 0}}), effects):
        assert decision.status.attempt in (0, 1)
