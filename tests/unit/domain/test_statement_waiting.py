"""Statements before the hand-over: what they wait for, in which order the causes count, and the hand-over itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparksql.api.execution import StatementMode
from sparksql.api.names import dedicated_session_name
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.api.statement import StatementPhase
from sparksql.domain.admission import Turn
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import CreateSession, Decision, DeleteSession, Submit
from sparksql.domain.statement.dependencies import Cycle, Failed, Met, Unmet
from sparksql.domain.statement.identity import operation_id, sql_hash
from sparksql.domain.statement.snapshot import Inputs, MissingReference, SessionFacts, Settings
from sparksql.domain.violation import Violation
from sparksql.wire.control import Parameter
from tests.support.mistakes import assert_answered
from tests.unit.domain.builders.conditions import STATEMENT_CONDITIONS, conditions, message, reason_of, told
from tests.unit.domain.builders.objects import NOW, ago
from tests.unit.domain.builders.statements import (
    DRIVER,
    READY,
    SQL,
    STATEMENT_UID,
    initialized,
    statement,
    statement_snapshot,
)

DEDICATED = {"session": {"className": "standard"}}
CYCLE, FAILED = Cycle(("one", "two", "one")), Failed("two", StatementPhase.ERROR)
UNMET = Unmet(met=("a",), open=("b",), missing=("c",))


def facts(phase: str | None, **more: Any) -> SessionFacts:
    return SessionFacts("s", SessionPhase(phase) if phase else None, **more)


# --- what it waits for

WAITS: dict[str, tuple[dict[str, Any], str]] = {
    "session never existed": ({"session": None, "settings": None, "turn": Turn(False)}, "SessionNotReady"),
    "session is new": ({"session": facts(None)}, "SessionNotReady"),
    "session is starting": ({"session": facts("Starting")}, "SessionNotReady"),
    "session is draining": ({"session": facts("Draining")}, "SessionNotReady"),
    "session is stopped": ({"session": facts("Stopped")}, "SessionNotReady"),
    "session failed": ({"session": facts("Failed", problem=(Reason.INIT_FAILED, "x"))}, "SessionNotReady"),
    "session is hibernated": ({"session": facts("Hibernated")}, "SessionNotReady"),
    "class is unknown": ({"settings": None}, "SessionNotReady"),
    "others come first": ({"turn": Turn(granted=False, ahead=4)}, "QueuedBehindStatements"),
    "dependencies are open": ({"dependencies": UNMET}, "WaitingForDependencies"),
    "text is missing": ({"inputs": MissingReference("spec.sqlFrom: create it")}, "WaitingForSource"),
}


@pytest.mark.parametrize("phase", ["Failed", "Pending"])
def test_statement_that_waits_for_a_stalled_session_has_its_reason_and_message(phase: str) -> None:
    session = facts(phase, problem=(Reason.UNSCHEDULABLE, "0/3 nodes are available"))
    decision = decide(statement_snapshot(statement(), session=session))
    assert isinstance(decision, Decision)
    assert reason_of(decision.status) == Reason.SESSION_NOT_READY
    assert message(decision) == f"session s is {phase}: Unschedulable: 0/3 nodes are available"


@pytest.mark.parametrize("status", [{}, initialized()], ids=["new", "initialized"])
@pytest.mark.parametrize(("facts_", "wanted"), WAITS.values(), ids=WAITS.keys())
def test_statement_that_cannot_start_yet_waits_and_tells_the_reason(
    facts_: dict[str, Any], wanted: str, status: dict[str, Any]
) -> None:
    decision = decide(statement_snapshot(statement(status), **facts_))
    assert told(decision) == ("Initialized", wanted)
    assert decision.requeue_after is not None and decision.requeue_after > 0
    assert decision.commands == ()
    assert decision.finalizer
    assert conditions(decision) == STATEMENT_CONDITIONS["Initialized"]
    assert (decision.status.run, decision.status.attempt, decision.status.observed_generation) == (1, 1, 3)


def test_message_names_open_and_missing_dependencies_and_keeps_the_met_ones() -> None:
    decision = decide(statement_snapshot(statement(initialized()), dependencies=UNMET))
    assert "b" in message(decision) and "c (does not exist)" in message(decision)
    assert decision.status.met_dependencies == ("a",)


@pytest.mark.parametrize("facts_", [{"session": facts("Stopped")}, {"turn": Turn(False, 1)}, {"session": None}])
def test_met_dependencies_are_kept_whatever_the_statement_waits_for_next(facts_: dict[str, Any]) -> None:
    decision = decide(statement_snapshot(statement(initialized()), dependencies=Met(("a", "b")), **facts_))
    assert decision.status.met_dependencies == ("a", "b")


@pytest.mark.parametrize(("facts_", "wanted"), WAITS.values(), ids=WAITS.keys())
def test_queue_timeout_ends_every_wait(facts_: dict[str, Any], wanted: str) -> None:
    of = statement(initialized(submittedTime=ago(31)), timeouts={"queueSeconds": 30})
    given = {"settings": Settings(queue_seconds=30), **facts_}
    decision = decide(statement_snapshot(of, **given))
    assert told(decision) == ("TimedOut", "QueueTimeout")
    assert conditions(decision) == STATEMENT_CONDITIONS["TimedOut"]
    assert decision.status.completion_time == NOW


def test_wake_up_comes_when_the_queue_timeout_does() -> None:
    of = statement(initialized(submittedTime=ago(57)), timeouts={"queueSeconds": 60})
    decision = decide(statement_snapshot(of, settings=Settings(queue_seconds=60), turn=Turn(False, 1)))
    assert decision.requeue_after == pytest.approx(3.05)


def test_queue_timeout_comes_from_the_sessions_layers_too() -> None:
    of = statement(initialized(submittedTime=ago(61)))
    assert (
        told(decide(statement_snapshot(of, settings=Settings(queue_seconds=60), turn=Turn(False, 1))))[0] == "TimedOut"
    )
    assert (
        told(decide(statement_snapshot(of, settings=Settings(queue_seconds=0), turn=Turn(False, 1))))[0]
        == "Initialized"
    )


# --- ends before the hand-over, in the order in which they count

ENDS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, str]]] = {
    "canceled": ({"desiredState": "Canceled"}, {}, ("Canceled", "CanceledByUser")),
    "conf not allowed": ({}, {"settings": Violation(Reason.NOT_ALLOWED, "spec.conf: key")}, ("Error", "NotAllowed")),
    "limit": ({}, {"settings": Violation(Reason.LIMIT_EXCEEDED, "too long")}, ("Error", "LimitExceeded")),
    "session closed": ({}, {"session": facts("Closed")}, ("Closed", "SessionClosed")),
    "session deleted": ({}, {"session": facts("Ready", deleting=True)}, ("Closed", "SessionClosed")),
    "queue full": ({}, {"queue_full": True, "turn": Turn(False, 9)}, ("Error", "LimitExceeded")),
    "cycle": ({}, {"dependencies": CYCLE}, ("Error", "DependencyCycle")),
    "dependency failed": ({}, {"dependencies": FAILED}, ("Error", "DependencyFailed")),
    "secret is no text": ({}, {"inputs": Violation(Reason.INVALID_SPEC, "not UTF-8")}, ("Error", "InvalidSpec")),
}


@pytest.mark.parametrize("status", [{}, initialized()], ids=["new", "initialized"])
@pytest.mark.parametrize(("spec", "facts_", "wanted"), ENDS.values(), ids=ENDS.keys())
def test_statement_canceled_closed_or_refused_before_the_hand_over_ends_at_once(
    spec: dict[str, Any], facts_: dict[str, Any], wanted: tuple[str, str], status: dict[str, Any]
) -> None:
    decision = decide(statement_snapshot(statement(status, **spec), **facts_))
    assert told(decision) == wanted
    assert conditions(decision) == STATEMENT_CONDITIONS[wanted[0]]
    assert decision.commands == ()
    assert decision.status.completion_time == NOW
    assert decision.events
    assert decision.events[0].reason == wanted[1]
    assert decision.events[0].type == ("Normal" if wanted[0] == "Canceled" else "Warning")


@pytest.mark.parametrize(
    ("spec", "facts_", "wanted"),
    [
        ({"desiredState": "Canceled"}, {"session": facts("Closed"), "dependencies": FAILED}, "Canceled"),
        ({}, {"session": facts("Closed"), "dependencies": FAILED}, "Closed"),
        ({}, {"session": facts("Closed"), "queue_full": True}, "Closed"),
        ({}, {"session": None, "dependencies": CYCLE}, "Error"),
    ],
)
def test_phase_of_a_waiting_statement_follows_the_cause_that_counts_first(
    spec: dict[str, Any], facts_: dict[str, Any], wanted: str
) -> None:
    assert decide(statement_snapshot(statement(initialized(), **spec), **facts_)).status.phase == wanted


def test_message_of_a_cycle_shows_its_path() -> None:
    cycle = message(decide(statement_snapshot(statement(), dependencies=CYCLE)))
    remedy = "delete one of these statements and create it without its dependency"
    assert_answered("cycle", cycle)
    assert cycle == f"spec.dependsOn is a cycle: one -> two -> one; {remedy}"


def test_message_of_dependencies_has_field_and_remedy() -> None:
    failed = message(decide(statement_snapshot(statement(), dependencies=FAILED)))
    assert failed == (
        "spec.dependsOn: two ended in Error; run it again, and then this statement (spec.runNonce), "
        "or delete this statement and create it without it"
    )
    waiting = message(decide(statement_snapshot(statement(initialized()), dependencies=UNMET)))
    assert_answered("missing dependency", waiting)
    assert waiting == (
        "spec.dependsOn: waits for b, c (does not exist); create what does not exist, "
        "or delete this statement and create it with another list"
    )


def test_message_of_a_missing_dependency_has_the_statement_that_it_resembles() -> None:
    unmet = Unmet((), ("b",), ("load-order", "other"))
    facts_ = {"dependencies": unmet, "statements": ("load-orders", "report", "b")}
    waiting = message(decide(statement_snapshot(statement(initialized()), **facts_)))
    assert (
        "load-order (does not exist), other (does not exist); did you mean load-orders for load-order? create"
        in waiting
    )


def missing_session(*sessions: str) -> str:
    of = statement(initialized(), sessionRef={"name": "analitics"})
    facts_ = {"session": None, "settings": None, "turn": Turn(False), "sessions": sessions}
    return message(decide(statement_snapshot(of, **facts_)))


def test_message_of_a_missing_session_has_field_name_and_existing_sessions_nearest_first() -> None:
    answer = missing_session("etl", "bi", "analytics", "reports")
    assert_answered("missing session", answer)
    assert answer == (
        "spec.sessionRef.name: SqlSession analitics does not exist in this namespace (there are: analytics, etl, reports, bi); "
        "create it, or delete this statement and create it with another one"
    )


def test_message_of_a_missing_session_is_bounded_however_many_exist() -> None:
    shown = missing_session("analytics", *(f"session-{number:04}" for number in range(4_000)))
    assert "(there are: analytics, " in shown and " and 3996 more)" in shown
    assert len(shown) < 300


def test_message_of_a_missing_session_in_an_empty_namespace_has_no_names() -> None:
    assert "does not exist in this namespace (there are: none);" in missing_session()


def test_queue_timeout_of_a_waiting_statement_has_field_limit_and_cause() -> None:
    of = statement(initialized(submittedTime=ago(31)))
    ended = message(decide(statement_snapshot(of, settings=Settings(queue_seconds=30), dependencies=UNMET)))
    assert "spec.timeouts.queueSeconds of 30 s" in ended and "waits for b" in ended


def test_missing_reference_is_waited_for_a_minute() -> None:
    missing = {"inputs": MissingReference("spec.sqlFrom: ConfigMap q does not exist")}
    early = decide(statement_snapshot(statement(initialized(submittedTime=ago(59))), **missing))
    late = decide(statement_snapshot(statement(initialized(submittedTime=ago(61))), **missing))
    assert told(early) == ("Initialized", "WaitingForSource")
    assert early.requeue_after is not None and early.requeue_after <= 5
    assert told(late) == ("Error", "InvalidSpec")
    assert "ConfigMap q" in message(late)


# --- the hand-over


def test_hand_over_records_the_intent_with_the_submit() -> None:
    of = statement(
        initialized(),
        mode="Explain",
        conf={"spark.sql.ansi.enabled": "true"},
        result={"maxRows": 7, "previewRows": 20, "retentionSeconds": 60},
    )
    settings = Settings(conf={"spark.sql.ansi.enabled": "true"}, execution_seconds=9, preview_rows=5)
    parameters = (Parameter(name="a", value="1", secret=True),)
    decision = decide(
        statement_snapshot(of, settings=settings, inputs=Inputs(SQL, parameters), dependencies=Met(("x",)))
    )
    status, operation = decision.status, operation_id(STATEMENT_UID, 1, 1)
    assert told(decision) == ("Pending", "Submitted")
    assert conditions(decision) == STATEMENT_CONDITIONS["Pending"]
    assert (status.operation_id, status.sql_hash, status.met_dependencies) == (operation, sql_hash(SQL), ("x",))
    assert status.session is not None
    assert (status.session.name, status.session.pod_name) == ("s", DRIVER.pod_name)
    assert (status.session.pod_uid, status.session.boot_id) == (DRIVER.pod_uid, DRIVER.boot_id)
    (submit,) = decision.commands
    assert isinstance(submit, Submit)
    request = submit.request
    assert (submit.operation_id, request.boot_id, request.sql) == (operation, DRIVER.boot_id, SQL)
    assert (request.namespace, request.name, request.mode) == ("team-a", "one", StatementMode.EXPLAIN)
    assert (request.parameters, request.conf) == (parameters, {"spark.sql.ansi.enabled": "true"})
    assert request.execution_seconds == 9
    assert (request.result.max_rows, request.result.preview_rows, request.result.retention_seconds) == (7, 5, 60)
    assert decision.finalizer
    assert decision.requeue_after is not None


def test_each_run_and_attempt_has_an_operation_of_its_own() -> None:
    ids = {
        decide(statement_snapshot(statement(initialized(run=run, attempt=attempt)))).status.operation_id
        for run in (1, 2)
        for attempt in (1, 2, 3)
    }
    assert len(ids) == 6
    assert operation_id(STATEMENT_UID, 1, 1) in ids


def test_later_attempt_of_a_run_must_have_the_same_text() -> None:
    other = statement(initialized(attempt=2, sqlHash=sql_hash("INSERT 2")), sqlFrom=_source())
    decision = decide(statement_snapshot(other))
    assert told(decision) == ("Error", "InvalidSpec")
    assert "runNonce" in message(decision)
    same = statement(initialized(attempt=2, sqlHash=sql_hash(SQL)), sqlFrom=_source())
    assert decide(statement_snapshot(same)).status.phase == "Pending"


def test_retried_statement_waits_for_its_next_attempt_time() -> None:
    early = decide(statement_snapshot(statement(initialized(attempt=2, nextAttemptTime=ago(-7)))))
    assert told(early) == ("Initialized", "Retrying")
    assert early.requeue_after == pytest.approx(7)
    due = decide(statement_snapshot(statement(initialized(attempt=2, nextAttemptTime=ago(1)))))
    assert due.status.phase == "Pending"
    assert due.status.next_attempt_time is None


# --- dedicated sessions


def test_dedicated_session_is_created_when_it_is_missing_and_only_then() -> None:
    missing = decide(statement_snapshot(statement(initialized(), **DEDICATED), session=None))
    assert told(missing) == ("Initialized", "SessionNotReady")
    assert missing.commands == (CreateSession(),)
    starting = decide(statement_snapshot(statement(initialized(), **DEDICATED), session=facts("Starting")))
    assert starting.commands == ()
    leaving = decide(
        statement_snapshot(statement(initialized(), **DEDICATED), session=facts("Draining", deleting=True))
    )
    assert (told(leaving), leaving.commands) == (("Initialized", "SessionNotReady"), ())


def test_session_of_a_statement_is_named_by_its_status_from_the_start() -> None:
    own = statement({}, **DEDICATED)
    name = dedicated_session_name(own.metadata.name, own.metadata.uid)
    assert decide(statement_snapshot(own, session=None)).status.session_name == name
    named = statement({}, sessionRef={"name": "analytics"})
    assert decide(statement_snapshot(named, session=None)).status.session_name == "analytics"


def test_dedicated_session_is_not_created_before_the_dependencies_are_met() -> None:
    decision = decide(statement_snapshot(statement(initialized(), **DEDICATED), session=None, dependencies=UNMET))
    assert decision.commands == ()


@pytest.mark.parametrize(
    ("problem", "wanted"),
    [
        (Reason.NOT_ALLOWED, "NotAllowed"),
        (Reason.LIMIT_EXCEEDED, "LimitExceeded"),
        (Reason.CLASS_NOT_FOUND, "InvalidSpec"),
        (Reason.INIT_FAILED, "InvalidSpec"),
        (Reason.UNSCHEDULABLE, "SessionLost"),
        (Reason.DRIVER_LOST, "SessionLost"),
        (Reason.MAX_RESTARTS_EXCEEDED, "SessionLost"),
    ],
)
def test_dedicated_session_that_cannot_start_ends_its_statement(problem: Reason, wanted: str) -> None:
    decision = decide(
        statement_snapshot(
            statement(initialized(), **DEDICATED), session=facts("Failed", problem=(problem, "spec.image: no"))
        )
    )
    assert told(decision) == ("Error", wanted)
    assert "spec.image: no" in message(decision)
    assert decision.commands == (DeleteSession(),)


def test_dedicated_session_that_closed_closes_its_statement() -> None:
    decision = decide(statement_snapshot(statement(initialized(), **DEDICATED), session=facts("Closed")))
    assert told(decision) == ("Closed", "SessionClosed")


@pytest.mark.parametrize("status", [{}, initialized()])
def test_every_end_of_a_dedicated_statement_deletes_its_session(status: dict[str, Any]) -> None:
    decision = decide(statement_snapshot(statement(status, desiredState="Canceled", **DEDICATED)))
    assert decision.commands == (DeleteSession(),)


# --- restored and new objects


def test_object_without_status_is_a_new_statement() -> None:
    decision = decide(statement_snapshot(statement({}, runNonce="x"), turn=Turn(False, 1)))
    assert (decision.status.run, decision.status.attempt, decision.status.observed_run_nonce) == (1, 1, "x")
    assert decision.status.submitted_time == NOW


def test_waiting_statement_keeps_the_time_since_when_it_waits() -> None:
    decision = decide(statement_snapshot(statement(initialized()), turn=Turn(False, 1)))
    assert decision.status.submitted_time == ago(10)


def test_driver_that_is_there_but_not_serving_takes_nothing() -> None:
    decision = decide(statement_snapshot(statement(initialized()), session=replace(READY, driver=None)))
    assert (told(decision), decision.commands) == (("Initialized", "SessionNotReady"), ())
    assert reason_of(decision.status) == "SessionNotReady"


def _source() -> dict[str, Any]:
    return {"configMapKeyRef": {"name": "q", "key": "k"}}
