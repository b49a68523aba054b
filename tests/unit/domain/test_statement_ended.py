"""Statements that have ended, run again, expire, or are deleted in any state."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.api.statement import StatementPhase
from sparksql.domain.statement import status as statuses
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import Cancel, DeleteSelf, DeleteSession
from sparksql.domain.statement.dependencies import Cycle, Failed
from sparksql.domain.statement.phases import ENDED as ENDED_PHASES
from sparksql.domain.statement.phases import WITHIN_ATTEMPT, is_legal
from sparksql.domain.statement.snapshot import SessionFacts, Unobserved
from sparksql.domain.violation import Violation
from sparksql.wire.control import OperationState
from tests.unit.domain.builders.conditions import STATEMENT_CONDITIONS, conditions, told
from tests.unit.domain.builders.objects import NOW, ago
from tests.unit.domain.builders.statements import (
    ENDED,
    READY,
    ended,
    handed_over,
    initialized,
    statement,
    statement_snapshot,
    view,
)

ALL_ENDED = pytest.mark.parametrize("phase", sorted(ENDED))
DEDICATED = {"session": {"className": "standard"}}


# --- an end stays

LATER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "canceled": ({"desiredState": "Canceled"}, {}),
    "session deleted": ({}, {"session": SessionFacts("s", SessionPhase.READY, deleting=True)}),
    "session gone": ({}, {"session": None, "settings": None}),
    "driver gone": ({}, {"operation": Unobserved.DRIVER_GONE}),
    "unknown to the gateway": ({}, {"operation": Unobserved.UNKNOWN}),
    "another word": ({}, {"operation": view(OperationState.ERROR)}),
    "dependency failed": ({}, {"dependencies": Failed("x", StatementPhase.ERROR)}),
    "cycle": ({}, {"dependencies": Cycle(("one", "one"))}),
    "not allowed any more": ({}, {"settings": Violation(Reason.NOT_ALLOWED, "x")}),
    "timeouts passed": ({"timeouts": {"queueSeconds": 1, "executionSeconds": 1}}, {}),
}


@ALL_ENDED
@pytest.mark.parametrize(("spec", "facts"), LATER.values(), ids=LATER.keys())
def test_end_stays_whatever_comes_later(phase: str, spec: dict[str, Any], facts: dict[str, Any]) -> None:
    before = statement(ended(phase), **spec)
    decision = decide(statement_snapshot(before, **facts))
    assert decision.status == before.status
    assert decision.commands == ()
    assert not decision.events


@ALL_ENDED
def test_ended_status_follows_the_generation_only(phase: str) -> None:
    before = statement(ended(phase, observedGeneration=1))
    after = decide(statement_snapshot(before)).status
    assert after.observed_generation == 3
    assert after.replace(observed_generation=1) == before.status


# --- another run


@ALL_ENDED
def test_changed_nonce_starts_one_more_run(phase: str) -> None:
    before = statement(ended(phase, met_dependencies=["a"], metDependencies=["a"]), runNonce="2")
    decision = decide(statement_snapshot(before))
    status = decision.status
    assert told(decision)[0] == "Initialized"
    assert conditions(decision) == STATEMENT_CONDITIONS["Initialized"]
    assert (status.run, status.attempt, status.observed_run_nonce) == (2, 1, "2")
    assert (status.operation_id, status.session, status.sql_hash, status.result) == (None, None, None, None)
    assert (status.completion_time, status.start_time, status.error, status.failed_attempts) == (None, None, None, 0)
    assert status.submitted_time == NOW
    assert status.met_dependencies == ("a",)  # it may be gone by now, and stays met
    assert decision.commands == ()
    assert decision.requeue_after == 0


def test_same_nonce_starts_nothing() -> None:
    of = statement(ended(observedRunNonce="2", run=2), runNonce="2")
    assert decide(statement_snapshot(of)).status.run == 2


def test_run_of_a_new_nonce_may_have_another_text() -> None:
    again = decide(statement_snapshot(statement(ended(sqlHash="of the first run"), runNonce="2"))).status
    handed = decide(statement_snapshot(statement(again.to_dict(), runNonce="2")))
    assert handed.status.phase == "Pending"


# --- retention


@pytest.mark.parametrize(("ttl", "left"), [(0, None), (1, None), (2, None), (3, 1.0), (100, 98.0)])
def test_ttl_counts_from_the_end(ttl: int, left: float | None) -> None:
    decision = decide(statement_snapshot(statement(ended(), ttlSecondsAfterFinished=ttl)))
    if left is None:
        assert decision.commands == (DeleteSelf(),)
    else:
        assert decision.commands == ()
        assert decision.requeue_after == pytest.approx(left)


def test_without_ttl_nothing_is_ever_deleted() -> None:
    decision = decide(statement_snapshot(statement(ended(completionTime=ago(10**7)))))
    assert (decision.commands, decision.requeue_after) == ((), None)


def test_expired_statement_waits_until_its_dependants_have_noted_its_end() -> None:
    decision = decide(statement_snapshot(statement(ended(), ttlSecondsAfterFinished=0), awaited=True))
    assert decision.commands == ()
    assert decision.requeue_after is not None and decision.requeue_after > 0


def test_end_of_a_statement_with_ttl_looks_again() -> None:
    of = statement(handed_over("Running"), ttlSecondsAfterFinished=0)
    assert decide(statement_snapshot(of, operation=view(OperationState.FINISHED))).requeue_after == 0


@pytest.mark.parametrize("status", [initialized(), handed_over(), handed_over("Running")])
def test_ttl_does_not_count_before_the_end(status: dict[str, Any]) -> None:
    of = statement(status, ttlSecondsAfterFinished=0)
    decision = decide(statement_snapshot(of, operation=Unobserved.UNREACHABLE))
    assert DeleteSelf() not in decision.commands


@ALL_ENDED
def test_ended_dedicated_statement_deletes_its_session_until_it_is_gone(phase: str) -> None:
    assert decide(statement_snapshot(statement(ended(phase), **DEDICATED))).commands == (DeleteSession(),)


# --- deletion


@pytest.mark.parametrize("status", [{}, initialized(), *(ended(phase) for phase in sorted(ENDED))])
def test_deleted_statement_that_nobody_runs_is_let_go_at_once(status: dict[str, Any]) -> None:
    decision = decide(statement_snapshot(statement(status, deleted=NOW)))
    assert not decision.finalizer
    assert decision.commands == ()
    assert not decision.events


@pytest.mark.parametrize("phase", ["Pending", "Running"])
@pytest.mark.parametrize("operation", [*(s for s in Unobserved if s is not Unobserved.DRIVER_GONE), "live"])
@pytest.mark.parametrize(("age", "let_go"), [(0, False), (14, False), (15, True), (100, True)])
def test_deleted_statement_is_canceled_and_let_go_at_its_deadline(
    phase: str, operation: Any, age: float, let_go: bool
) -> None:
    word = view(OperationState(phase)) if operation == "live" else operation
    decision = decide(statement_snapshot(statement(handed_over(phase), deleted=ago(age)), operation=word))
    assert decision.finalizer is not let_go
    assert decision.status.phase == phase  # no end is written that nobody confirmed
    if let_go:
        assert decision.events
        assert (decision.events[0].type, decision.events[0].reason) == ("Warning", "FinalizerDeadline")
    else:
        (cancel,) = decision.commands
        assert isinstance(cancel, Cancel)
        assert cancel.request.outcome is OperationState.CANCELED
        assert decision.requeue_after is not None and decision.requeue_after <= 1


@pytest.mark.parametrize("phase", ["Pending", "Running"])
@pytest.mark.parametrize(
    "operation", [Unobserved.DRIVER_GONE, *(view(state) for state in OperationState if state.is_terminal)]
)
def test_deleted_statement_is_let_go_when_it_has_ended(phase: str, operation: Any) -> None:
    decision = decide(statement_snapshot(statement(handed_over(phase), deleted=NOW), operation=operation))
    assert not decision.finalizer
    assert not decision.events


@pytest.mark.parametrize("status", [{}, initialized(), handed_over(), handed_over("Running"), ended()])
def test_statement_in_a_terminating_namespace_is_let_go_at_once(status: dict[str, Any]) -> None:
    of = statement(status, deleted=NOW)
    decision = decide(statement_snapshot(of, operation=Unobserved.UNREACHABLE, namespace_terminating=True))
    assert not decision.finalizer


@pytest.mark.parametrize(
    ("status", "operation"), [({}, None), (handed_over(), Unobserved.DRIVER_GONE), (ended(), None)]
)
def test_deleted_dedicated_statement_takes_its_session_with_it(status: dict[str, Any], operation: Any) -> None:
    decision = decide(statement_snapshot(statement(status, deleted=NOW, **DEDICATED), operation=operation))
    assert decision.commands == (DeleteSession(),)
    assert not decision.finalizer


# --- the tables themselves


def test_statement_conditions_of_each_phase_match_the_contract() -> None:
    for phase, wanted in STATEMENT_CONDITIONS.items():
        of = statement(desiredState="Canceled" if phase == "Canceled" else "Running")
        made = statuses.with_phase(of, NOW, StatementPhase(phase), Reason.PENDING).conditions
        assert tuple(c.type for c in made) == ("Ready", "Reconciling", "Stalled", "Succeeded", "Finished")
        assert tuple(str(c.status) for c in made) == wanted
        assert all(c.observed_generation == 3 for c in made)


def test_condition_times_move_only_with_their_status() -> None:
    first = statement(statuses.with_phase(statement(), ago(60), StatementPhase.PENDING, Reason.SUBMITTED).to_dict())
    second = statuses.with_phase(first, NOW, StatementPhase.FINISHED, Reason.FINISHED)
    times = {c.type: c.last_transition_time for c in second.conditions}
    assert times["Stalled"] == ago(60)
    assert times["Ready"] == times["Finished"] == NOW


LEGAL = {  # the contract: Initialized -> Pending -> Running -> Finished; each of the first three -> a bad end
    ("Initialized", "Pending"), ("Pending", "Running"), ("Running", "Finished"), ("Pending", "Finished"),
    *((a, b) for a in ("Initialized", "Pending", "Running") for b in ("Canceled", "Closed", "Error", "TimedOut")),
    # streaming: each of the first three rests in Stopped, which a bad end may follow
    *((a, "Stopped") for a in ("Initialized", "Pending", "Running")),
    *(("Stopped", b) for b in ("Canceled", "Closed", "Error", "TimedOut")),
}  # fmt: skip


def test_statement_phase_transitions_within_an_attempt_match_the_contract() -> None:
    assert {(str(a), str(b)) for a, following in WITHIN_ATTEMPT.items() for b in following} == LEGAL
    assert {str(phase) for phase in ENDED_PHASES} == ENDED
    for before in StatementPhase:
        for after in StatementPhase:
            allowed = before is after or (str(before), str(after)) in LEGAL
            assert is_legal(before, after, same_run=True, same_attempt=True) is allowed


def test_ways_back_are_a_new_attempt_and_a_new_run() -> None:
    for before in StatementPhase:
        attempt = is_legal(before, StatementPhase.INITIALIZED, same_run=True, same_attempt=False)
        assert attempt is (before in ("Pending", "Running", "Stopped"))
        run = is_legal(before, StatementPhase.INITIALIZED, same_run=False, same_attempt=False)
        assert run is (str(before) in ENDED)


def test_session_that_serves_does_not_matter_to_an_end() -> None:
    assert decide(statement_snapshot(statement(ended()), session=READY)).commands == ()
