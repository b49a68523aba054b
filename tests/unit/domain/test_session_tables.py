"""Tables of a session's decisions: what counts as idle, which changes need a driver, and deletion in every state."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession
from sparksql.domain.session.decide import decide
from sparksql.domain.session.snapshot import Command, Decision
from sparksql.domain.violation import Violation
from sparksql.wire.control import GatewayState, InitFailure, OperationError
from tests.unit.domain.builders.classes import session_class
from tests.unit.domain.builders.conditions import conditions_of, reason_of
from tests.unit.domain.builders.objects import NOW, removed, seconds, with_spec, with_status
from tests.unit.domain.builders.sessions import (
    draining,
    gateway,
    pod,
    ready,
    resolved,
    session,
    session_snapshot,
    starting,
)

DELETE = (Command.DELETE_DRIVER,)
CLOSE_AFTER_A_MINUTE = {"timeoutSeconds": 60, "action": "Close"}
RESTART, STOP = {"restartNonce": "2"}, {"desiredState": "Stopped"}


def told(decision: Decision) -> tuple[str, str]:
    return str(decision.status.phase), reason_of(decision.status)


def at(obj: SqlSession, count: float, **facts: Any) -> Decision:
    """Decision on a session whose driver serves, `count` seconds after NOW."""
    return decide(session_snapshot(obj, now=NOW + seconds(count), **{"pod": pod(obj), "gateway": gateway(), **facts}))


# --- idleness


@pytest.mark.parametrize(
    ("after", "facts", "closed"),
    [
        (59, {}, False),
        (61, {}, True),
        (61, {"running": 1}, False),
        (61, {"queued": 1}, False),
        (61, {"gateway": gateway(last_activity_time=NOW + seconds(30))}, False),  # a client's request
        (91, {"gateway": gateway(last_activity_time=NOW + seconds(30))}, True),
    ],
)
def test_only_an_idle_session_is_closed(after: float, facts: dict[str, Any], closed: bool) -> None:
    decision = at(ready(session(idle=CLOSE_AFTER_A_MINUTE)), after, **facts)
    assert told(decision) == (("Draining", "IdleTimeout") if closed else ("Ready", "Ready"))
    assert decision.requeue_after is not None
    if not closed:
        assert decision.requeue_after <= 60


def test_time_of_a_statement_that_has_just_ended_is_not_idle() -> None:
    obj = ready(session(idle=CLOSE_AFTER_A_MINUTE))
    busy = with_status(obj, at(obj, 50, running=1))
    assert told(at(busy, 111)) == ("Ready", "Ready")  # its counters say that it was busy: they are set right first
    calm = with_status(busy, at(busy, 111))
    assert told(at(calm, 160)) == ("Ready", "Ready")
    assert told(at(calm, 172)) == ("Draining", "IdleTimeout")


def test_idle_time_of_the_class_counts_for_who_has_none() -> None:
    obj = ready()
    klass = session_class(defaults={"idle": CLOSE_AFTER_A_MINUTE})
    assert told(at(obj, 61, resolution=resolved(obj, klass))) == ("Draining", "IdleTimeout")


def test_idle_session_is_reconciled_again_when_its_idle_timeout_ends() -> None:
    assert at(ready(session(idle=CLOSE_AFTER_A_MINUTE)), 40).requeue_after == pytest.approx(20)


# --- changes


@pytest.mark.parametrize(
    "change",
    [
        {"image": "session:2"},
        {"driver": {"memory": "2Gi"}},
        {"executors": {"instances": 3}},
        {"conf": {"spark.sql.ansi.enabled": "true"}},
        {"init": [{"sql": "SET a=1"}]},
        {"serviceAccountName": "other"},
        {"maxConcurrentStatements": 9},
        {"className": "other"},
    ],
)
@pytest.mark.parametrize("before", ["starting", "ready"])
def test_change_that_a_driver_cannot_take_drains_it(change: dict[str, Any], before: str) -> None:
    obj = starting() if before == "starting" else ready()
    decision = at(with_spec(obj, **change), 1)
    assert told(decision) == ("Draining", "SpecChanged")
    assert decision.commands == ()  # statements that run come first
    assert decision.requeue_after == 0


@pytest.mark.parametrize("change", [{"conf": {"spark.sql.x": "1"}}, RESTART, STOP, {"className": "other"}])
@pytest.mark.parametrize("facts", [{}, {"resolution": Violation(Reason.CLASS_NOT_FOUND, "x")}, {"queued": 3}])
def test_closed_session_keeps_its_status_whatever_changes(change: dict[str, Any], facts: dict[str, Any]) -> None:
    drained = draining(ready(session(idle=CLOSE_AFTER_A_MINUTE)), now=NOW + seconds(61))
    closed = with_status(drained, decide(session_snapshot(drained, now=NOW + seconds(62))))
    assert closed.status.phase is Phase.CLOSED
    asked_again = with_spec(closed, **change)
    decision = decide(session_snapshot(asked_again, **facts))
    assert (decision.status, decision.commands) == (closed.status, ())
    assert decision.requeue_after == (5.0 if facts.get("queued") else None)  # it goes on counting who names it


@pytest.mark.parametrize("phase", [Phase.CLOSED, Phase.STOPPED, Phase.FAILED])
def test_driver_that_an_unclean_end_left_behind_is_swept(phase: Phase) -> None:
    obj = ready().replace(status=ready().status.replace(phase=phase))
    obj = with_spec(obj, **STOP) if phase is Phase.STOPPED else obj
    decision = decide(session_snapshot(obj, pod=pod(obj)))
    assert decision.commands == DELETE
    assert decision.status.phase is phase
    assert decision.requeue_after is not None


# --- init


@pytest.mark.parametrize("state", ["serves", "ended", "gone"])
def test_failed_init_is_final_even_when_the_driver_did_not_outlive_it(state: str) -> None:
    obj = starting()
    failure = InitFailure(position=2, statement="CREATE TABEL t", error=OperationError(message="no viable alternative"))
    found = {"serves": pod(obj), "ended": pod(obj, ended="Error, exit code 1"), "gone": None}[state]
    decision = at(obj, 5, pod=found, gateway=gateway(GatewayState.INIT_FAILED, init_failure=failure))
    assert told(decision) == ("Failed", "InitFailed")
    assert decision.status.next_start_time is None


@pytest.mark.parametrize("how", ["lost", "restart"])
@pytest.mark.parametrize("held", [True, False])
def test_state_that_died_with_a_driver_is_told_once_for_each_driver(how: str, held: bool) -> None:
    obj = ready()
    if how == "restart":
        obj = draining(with_spec(obj, **RESTART), now=NOW + seconds(1))
    decision = decide(session_snapshot(obj, now=NOW + seconds(5), gateway=gateway(has_session_state=held)))
    assert decision.status.phase is Phase.PENDING
    assert ("SessionStateLost" in conditions_of(decision.status)) is held
    assert ("SessionStateLost" in [event.reason for event in decision.events]) is held


# --- deletion


@pytest.mark.parametrize("phase", [None, *Phase])
def test_deleted_session_that_has_nothing_left_is_let_go(phase: Phase | None) -> None:
    obj = ready().replace(status=ready().status.replace(phase=phase))
    decision = decide(session_snapshot(removed(obj, NOW)))
    assert not decision.finalizer
    assert (decision.events, decision.commands) == ((), ())


@pytest.mark.parametrize(
    ("age", "facts", "commands"),
    [
        (1, {}, DELETE),
        (1, {"queued": 1}, DELETE),
        (1, {"running": 1}, ()),  # its statements end first
        (16, {"running": 1}, DELETE),  # in time for the driver's grace
        (1, {"pod": None, "queued": 1}, ()),
        (1, {"pod": None, "running": 1}, ()),
    ],
)
def test_deleted_session_ends_statements_and_driver_first(
    age: float, facts: dict[str, Any], commands: tuple[Command, ...]
) -> None:
    decision = at(removed(ready(), NOW), age, **facts)
    assert decision.finalizer
    assert told(decision) == ("Draining", "Deleting")
    assert decision.commands == commands
    assert decision.requeue_after is not None
    assert decision.requeue_after <= 1


@pytest.mark.parametrize("facts", [{}, {"running": 1}, {"pod": None, "queued": 1}])
def test_deadline_of_deletion_is_thirty_seconds(facts: dict[str, Any]) -> None:
    obj = removed(ready(), NOW)
    assert at(obj, 29.9, **facts).finalizer
    late = at(obj, 30, **facts)
    assert not late.finalizer
    assert [(event.type, event.reason) for event in late.events] == [("Warning", "FinalizerDeadline")]
