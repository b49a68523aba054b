"""Statements that a driver has: only its word, or its confirmed end, ends them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.domain.session.snapshot import ExecutorFailure
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import Cancel, Command, Submit
from sparksql.domain.statement.identity import operation_id
from sparksql.domain.statement.snapshot import (
    Inputs,
    MissingReference,
    SessionFacts,
    Settings,
    Unobserved,
)
from sparksql.domain.violation import Violation
from sparksql.wire.control import (
    Column,
    ErrorReason,
    OperationError,
    OperationState,
    OperationView,
    Progress,
    ResultSummary,
)
from tests.support.mistakes import assert_answered
from tests.unit.domain.builders.conditions import conditions, message, statement_row, told
from tests.unit.domain.builders.objects import NOW, ago
from tests.unit.domain.builders.statements import READY, STATEMENT_UID, handed_over, statement, statement_snapshot, view

PHASES = pytest.mark.parametrize("phase", ["Pending", "Running"])
CLOSED = SessionFacts("s", SessionPhase.CLOSED)
DELETED = SessionFacts("s", SessionPhase.READY, deleting=True)
OPERATION = operation_id(STATEMENT_UID, 1, 1)


def cancel_of(commands: tuple[Command, ...]) -> Cancel:
    (command,) = commands
    assert isinstance(command, Cancel)
    assert command.request.boot_id == "boot-1"
    assert command.operation_id == OPERATION
    return command


# --- the gateway's word

WORDS: dict[str, tuple[OperationView, tuple[str, str]]] = {
    "finished": (view(OperationState.FINISHED), ("Finished", "Finished")),
    "canceled": (view(OperationState.CANCELED), ("Canceled", "CanceledByUser")),
    "error": (view(OperationState.ERROR), ("Error", "SqlError")),
    "timed out running": (view(OperationState.TIMED_OUT), ("TimedOut", "ExecutionTimeout")),
    "timed out waiting": (view(OperationState.TIMED_OUT, start_time=None), ("TimedOut", "QueueTimeout")),
    **{
        f"error {reason}": (
            view(OperationState.ERROR, error=OperationError(reason=reason, message="m")),
            ("Error", str(reason)),
        )
        for reason in ErrorReason
    },
}


@PHASES
@pytest.mark.parametrize(("word", "wanted"), WORDS.values(), ids=WORDS.keys())
def test_statement_ends_with_the_terminal_state_that_its_driver_reports(
    phase: str, word: OperationView, wanted: tuple[str, str]
) -> None:
    decision = decide(statement_snapshot(statement(handed_over(phase)), operation=word))
    assert told(decision) == wanted
    assert conditions(decision) == statement_row(wanted[0], statement().spec)
    assert decision.commands == ()
    assert decision.status.completion_time == word.completion_time
    assert decision.events and decision.events[0].reason == wanted[1]


def test_timeout_of_the_driver_has_field_and_limit() -> None:
    limits = Settings(queue_seconds=5, execution_seconds=7, class_name="small")
    running, waiting = (
        message(decide(statement_snapshot(statement(handed_over("Running")), operation=word, settings=limits)))
        for word in (WORDS["timed out running"][0], WORDS["timed out waiting"][0])
    )
    assert "spec.timeouts.executionSeconds of 7 s; raise that, as far as class small allows" in running
    assert "spec.timeouts.queueSeconds of 5 s" in waiting
    assert_answered("limit of the execution", running)


def test_result_progress_and_times_come_from_the_view() -> None:
    result = ResultSummary(
        columns=(Column(name="a", type="int"),), row_count=1, truncated=True, preview=((None,),), bytes=4
    )
    word = view(OperationState.FINISHED, result=result, progress=Progress(tasks_done=3, tasks_total=3), read_only=True)
    status = decide(statement_snapshot(statement(handed_over("Running")), operation=word)).status
    assert status.result is not None and status.progress is not None
    assert (status.result.preview, status.result.truncated, status.result.row_count) == (((None,),), True, 1)
    assert status.progress.tasks_done == 3
    assert (status.start_time, status.completion_time, status.duration_millis) == (ago(5), ago(1), 4000)
    assert (status.statement_type, status.read_only) == ("INSERT", True)


def test_error_is_kept_as_the_gateway_told_it() -> None:
    error = OperationError(condition="TABLE_OR_VIEW_NOT_FOUND", sql_state="42P01", message="no t", line=1, position=14)
    status = decide(
        statement_snapshot(statement(handed_over()), operation=view(OperationState.ERROR, error=error))
    ).status
    assert status.error is not None
    assert (status.error.condition, status.error.sql_state, status.error.line) == (
        "TABLE_OR_VIEW_NOT_FOUND", "42P01", 1
    )  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "state", "wanted"),
    [
        ("Pending", OperationState.PENDING, ("Pending", "Submitted")),
        ("Pending", OperationState.RUNNING, ("Running", "Running")),
        ("Running", OperationState.RUNNING, ("Running", "Running")),
        ("Running", OperationState.PENDING, ("Running", "Running")),  # an older view never takes it back
    ],
)
def test_view_in_progress_is_followed(phase: str, state: OperationState, wanted: tuple[str, str]) -> None:
    decision = decide(statement_snapshot(statement(handed_over(phase)), operation=view(state)))
    assert told(decision) == wanted
    assert decision.commands == ()
    assert decision.requeue_after is not None


def test_running_statement_shows_what_the_executors_of_its_session_wait_for() -> None:
    session = replace(READY, executors="pod e-1 has no node: 0/1 nodes are available")
    of, runs = statement(handed_over("Running")), view(OperationState.RUNNING)
    waits = decide(statement_snapshot(of, operation=runs, session=session))
    assert message(waits) == "waits for executors of session s: pod e-1 has no node: 0/1 nodes are available"
    assert message(decide(statement_snapshot(of, operation=runs, session=READY))) == ""


@pytest.mark.parametrize(
    ("at", "error", "is_told"),
    [
        (NOW, OperationError(message="Job aborted"), True),
        (ago(30), OperationError(message="Job aborted"), True),
        (ago(3600), OperationError(message="Job aborted"), False),
        (NOW, OperationError(message="no column", condition="UNRESOLVED_COLUMN", sql_state="42703"), False),
    ],
)
def test_failed_statement_names_the_executors_that_failed_while_it_ran(
    at: datetime, error: OperationError, is_told: bool
) -> None:
    failure = ExecutorFailure("d-exec-3", at, "OOMKilled, exit code 137", out_of_memory=True)
    ended = view(OperationState.ERROR, error=error, start_time=ago(60), completion_time=NOW)
    session = replace(READY, executor_failures=(failure,))
    decision = decide(statement_snapshot(statement(handed_over("Running")), operation=ended, session=session))
    told = "; while it ran 1 executor failed, the last one with OOMKilled, exit code 137: raise spec.executors.memory"
    assert (told in message(decision)) is is_told
    assert error.message in message(decision)


@pytest.mark.parametrize(
    ("age", "phase", "wake"),
    [(0.0, "Pending", 0.2), (0.15, "Pending", 0.05), (0.2, "Running", None), (60.0, "Running", None)],
)
def test_statement_that_has_just_begun_is_looked_at_again_before_it_is_shown_as_running(
    age: float, phase: str, wake: float | None
) -> None:
    before = statement(handed_over())
    decision = decide(statement_snapshot(before, operation=view(OperationState.RUNNING, start_time=ago(age))))
    assert decision.status.phase == phase
    if wake is not None:
        assert (decision.status, decision.commands, decision.events) == (before.status, (), ())
        assert decision.requeue_after == pytest.approx(wake)


def test_driver_whose_clock_is_ahead_is_not_waited_for() -> None:
    began = view(OperationState.RUNNING, start_time=ago(-3600))
    assert decide(statement_snapshot(statement(handed_over()), operation=began)).status.phase == "Running"


def test_statement_that_has_just_begun_is_canceled_at_once() -> None:
    of = statement(handed_over(), desiredState="Canceled")
    began = view(OperationState.RUNNING, start_time=ago(0.1))
    assert cancel_of(decide(statement_snapshot(of, operation=began)).commands)


# --- silence


@PHASES
def test_unreachable_gateway_changes_nothing(phase: str) -> None:
    before = statement(handed_over(phase))
    decision = decide(statement_snapshot(before, operation=Unobserved.UNREACHABLE))
    assert decision.status == before.status
    assert decision.commands == ()
    assert decision.requeue_after is not None and decision.requeue_after <= 5


def test_timeout_or_cancel_ends_no_statement_while_the_gateway_is_unreachable() -> None:
    late = handed_over("Running", startTime=ago(10_000), submittedTime=ago(20_000))
    of = statement(late, desiredState="Canceled", timeouts={"queueSeconds": 1, "executionSeconds": 1})
    settings = Settings(queue_seconds=1, execution_seconds=1)
    decision = decide(statement_snapshot(of, operation=Unobserved.UNREACHABLE, settings=settings, session=CLOSED))
    assert decision.status.phase == "Running"


def test_intent_that_never_arrived_is_submitted_again_with_the_same_id_and_boot() -> None:
    decision = decide(statement_snapshot(statement(handed_over()), operation=Unobserved.UNKNOWN))
    (submit,) = decision.commands
    assert isinstance(submit, Submit)
    assert (submit.operation_id, submit.request.boot_id) == (OPERATION, "boot-1")
    assert decision.status.phase == "Pending"
    assert decision.requeue_after is not None


@pytest.mark.parametrize(
    "facts",
    [
        {"inputs": MissingReference("gone")},
        {"inputs": Violation(Reason.INVALID_SPEC, "no text")},
        {"inputs": Inputs("another text")},
        {"settings": Violation(Reason.NOT_ALLOWED, "spec.conf")},
    ],
    ids=["missing", "unusable", "changed", "not allowed"],
)
def test_intent_that_may_not_be_submitted_any_more_is_made_impossible_first(facts: dict[str, Any]) -> None:
    """The tombstone refuses a late PUT; only its confirmation ends the statement."""
    unknown = decide(statement_snapshot(statement(handed_over()), operation=Unobserved.UNKNOWN, **facts))
    cancel_of(unknown.commands)
    assert unknown.status.phase == "Pending"
    tombstone = view(OperationState.CANCELED, start_time=None)
    confirmed = decide(statement_snapshot(statement(handed_over()), operation=tombstone, **facts))
    wanted = "NotAllowed" if "settings" in facts else "InvalidSpec"
    assert told(confirmed) == ("Error", wanted)


# --- wishes to end early


@pytest.mark.parametrize(
    ("phase", "word"),
    [
        ("Pending", Unobserved.UNKNOWN),
        ("Pending", view(OperationState.PENDING)),
        ("Running", view(OperationState.RUNNING)),
    ],
    ids=["not arrived", "pending", "running"],
)
@pytest.mark.parametrize(
    ("spec", "facts", "outcome"),
    [
        ({"desiredState": "Canceled"}, {}, OperationState.CANCELED),
        ({}, {"session": CLOSED}, OperationState.CLOSED),
        ({}, {"session": DELETED}, OperationState.CLOSED),
        ({}, {"session": None}, OperationState.CLOSED),
    ],
    ids=["canceled", "session closed", "session deleted", "session gone"],
)
def test_cancel_or_close_is_asked_of_the_gateway_before_the_statement_ends(
    phase: str, word: OperationView | Unobserved, spec: dict[str, Any], facts: dict[str, Any], outcome: OperationState
) -> None:
    decision = decide(statement_snapshot(statement(handed_over(phase), **spec), operation=word, **facts))
    assert cancel_of(decision.commands).request.outcome is outcome
    assert decision.status.phase == phase
    assert decision.requeue_after is not None and decision.requeue_after <= 5


def test_queue_timeout_counts_while_the_statement_waits_in_the_driver() -> None:
    of = statement(handed_over(submittedTime=ago(61)), timeouts={"queueSeconds": 60})
    decision = decide(
        statement_snapshot(of, operation=view(OperationState.PENDING), settings=Settings(queue_seconds=60))
    )
    assert cancel_of(decision.commands).request.outcome is OperationState.TIMED_OUT
    assert decision.status.phase == "Pending"


def test_queue_timeout_does_not_count_once_the_statement_runs() -> None:
    of = statement(handed_over("Running", submittedTime=ago(61)), timeouts={"queueSeconds": 60})
    decision = decide(
        statement_snapshot(of, operation=view(OperationState.RUNNING), settings=Settings(queue_seconds=60))
    )
    assert decision.commands == ()


@pytest.mark.parametrize(("running_for", "canceled"), [(20, False), (39, False), (41, True)])
def test_execution_timeout_is_the_gateways_and_the_operators_only_after_a_grace(
    running_for: float, canceled: bool
) -> None:
    of = statement(handed_over("Running", startTime=ago(running_for)))
    settings = Settings(execution_seconds=10)
    word = view(OperationState.RUNNING, start_time=ago(running_for))
    decision = decide(statement_snapshot(of, operation=word, settings=settings))
    assert bool(decision.commands) is canceled
    if canceled:
        assert cancel_of(decision.commands).request.outcome is OperationState.TIMED_OUT


@pytest.mark.parametrize(
    ("spec", "facts", "state", "wanted"),
    [
        ({"desiredState": "Canceled"}, {}, OperationState.FINISHED, ("Finished", "Finished")),
        ({"desiredState": "Canceled"}, {}, OperationState.CANCELED, ("Canceled", "CanceledByUser")),
        ({}, {"session": DELETED}, OperationState.CLOSED, ("Closed", "SessionClosed")),
        ({}, {"session": CLOSED}, OperationState.CLOSED, ("Closed", "SessionClosed")),
        ({}, {"session": DELETED}, OperationState.FINISHED, ("Finished", "Finished")),
    ],
)
def test_statement_asked_to_end_takes_the_outcome_that_the_gateway_reports(
    spec: dict[str, Any], facts: dict[str, Any], state: OperationState, wanted: tuple[str, str]
) -> None:
    decision = decide(statement_snapshot(statement(handed_over("Running"), **spec), operation=view(state), **facts))
    assert told(decision) == wanted


# --- the driver no longer exists: the outcome is unknown


@PHASES
def test_lost_effect_ends_in_session_lost(phase: str) -> None:
    decision = decide(
        statement_snapshot(statement(handed_over(phase, readOnly=False)), operation=Unobserved.DRIVER_GONE)
    )
    assert told(decision) == ("Error", "SessionLost")
    assert "outcome unknown" in message(decision)
    assert decision.status.completion_time == NOW


@PHASES
def test_lost_read_runs_again(phase: str) -> None:
    of = statement(handed_over(phase, readOnly=True))
    decision = decide(statement_snapshot(of, operation=Unobserved.DRIVER_GONE))
    status = decision.status
    assert told(decision) == ("Initialized", "SessionLost")
    assert (status.attempt, status.lost_drivers) == (2, ("s-1",))
    assert (status.operation_id, status.session, status.start_time, status.result) == (None, None, None, None)
    assert status.sql_hash is not None  # the next attempt must run the same text
    assert decision.requeue_after is not None


LOSSES = pytest.mark.parametrize("loss", [Unobserved.DRIVER_GONE, Unobserved.UNKNOWN, OperationState.CLOSED])


def word(loss: Unobserved | OperationState, *, read_only: bool) -> OperationView | Unobserved:
    return view(loss, read_only=read_only) if isinstance(loss, OperationState) else loss


@LOSSES
@pytest.mark.parametrize("attempt", [2, 7])
def test_read_ends_with_the_second_driver_that_is_lost_while_it_runs(
    loss: Unobserved | OperationState, attempt: int
) -> None:
    of = statement(handed_over("Running", readOnly=True, attempt=attempt, lostDrivers=["s-0"]))
    decision = decide(statement_snapshot(of, operation=word(loss, read_only=True)))
    assert told(decision) == ("Error", "SessionLost")
    assert decision.status.lost_drivers == ("s-0", "s-1")
    for part in ("2 drivers were lost while the statement ran (s-0, s-1)", "It is a read", "Events", "runNonce"):
        assert part in message(decision)
    assert "target" not in message(decision)


@LOSSES
@pytest.mark.parametrize(("limit", "wanted"), [(1, "Error"), (2, "Initialized")])
def test_effect_that_may_be_repeated_ends_with_its_last_retry(
    loss: Unobserved | OperationState, limit: int, wanted: str
) -> None:
    retry = {"limit": limit, "on": ["SessionLost"]}
    before = handed_over("Running", readOnly=False, attempt=2, failedAttempts=1, lostDrivers=["s-0"])
    decision = decide(statement_snapshot(statement(before, retry=retry), operation=word(loss, read_only=False)))
    assert told(decision) == (wanted, "SessionLost")
    assert decision.status.lost_drivers == ("s-0", "s-1")
    if wanted == "Error":
        assert all(part in message(decision) for part in ("2 drivers were lost", "check its target"))


@LOSSES
@pytest.mark.parametrize(("read_only", "wanted"), [(True, "Initialized"), (False, "Error")])
def test_driver_that_the_cluster_took_away_is_not_counted_by_its_statements(
    loss: Unobserved | OperationState, read_only: bool, wanted: str
) -> None:
    of = statement(handed_over("Running", readOnly=read_only, attempt=4, lostDrivers=["s-0"]))
    decision = decide(statement_snapshot(of, operation=word(loss, read_only=read_only), is_disrupted=True))
    assert told(decision) == (wanted, "SessionLost")
    assert decision.status.lost_drivers == ("s-0",)


@LOSSES
@pytest.mark.parametrize(("read_only", "wanted"), [(True, "Initialized"), (False, "Error")])
def test_driver_whose_pod_was_deleted_is_not_counted_by_its_statements(
    loss: Unobserved | OperationState, read_only: bool, wanted: str
) -> None:
    of = statement(handed_over("Running", readOnly=read_only, attempt=4, lostDrivers=["s-0"]))
    decision = decide(statement_snapshot(of, operation=word(loss, read_only=read_only), is_deleted=True))
    assert told(decision) == (wanted, "SessionLost")
    assert decision.status.lost_drivers == ("s-0",)


@pytest.mark.parametrize(
    ("cause", "part"),
    [
        ({}, "(attempt 2; 1 of 2 drivers lost, the last one ends it)"),
        ({"is_deleted": True}, "(attempt 2; the driver's pod was deleted, which is not counted)"),
        ({"is_disrupted": True}, "(attempt 2; the cluster removed the driver, which does not count)"),
    ],
)
def test_read_that_runs_again_shows_how_many_drivers_it_may_still_lose(cause: dict[str, bool], part: str) -> None:
    of = statement(handed_over("Running", readOnly=True))
    assert part in message(decide(statement_snapshot(of, operation=Unobserved.DRIVER_GONE, **cause)))


def test_new_run_begins_without_lost_drivers() -> None:
    ended = statement({"phase": "Error", "run": 1, "attempt": 2, "lostDrivers": ["s-0", "s-1"]}, runNonce="again")
    assert decide(statement_snapshot(ended)).status.lost_drivers == ()


def test_last_word_of_a_lost_driver_says_that_the_statement_is_a_read() -> None:
    of = statement(handed_over())  # lost before that was in the status
    last = view(OperationState.RUNNING, read_only=True, statement_type="SELECT")
    decision = decide(statement_snapshot(of, operation=Unobserved.DRIVER_GONE, last_view=last))
    assert told(decision) == ("Initialized", "SessionLost")
    assert (decision.status.read_only, decision.status.statement_type) == (True, "SELECT")


def test_lost_statement_of_unknown_kind_is_treated_as_an_effect() -> None:
    of = statement(handed_over())  # handed over, lost before the parser's word arrived
    assert told(decide(statement_snapshot(of, operation=Unobserved.DRIVER_GONE))) == ("Error", "SessionLost")


@pytest.mark.parametrize(
    ("facts", "spec", "wanted"),
    [
        ({"session": None}, {}, ("Closed", "SessionClosed")),
        ({"session": DELETED}, {}, ("Closed", "SessionClosed")),
        ({"session": CLOSED}, {}, ("Closed", "SessionClosed")),
        ({"session": READY}, {"desiredState": "Canceled"}, ("Canceled", "CanceledByUser")),
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_wish_to_end_is_granted_by_the_drivers_end(
    facts: dict[str, Any], spec: dict[str, Any], wanted: tuple[str, str], read_only: bool
) -> None:
    retry = {"limit": 5, "on": ["SessionLost"]}
    of = statement(handed_over("Running", readOnly=read_only), retry=retry, **spec)
    assert told(decide(statement_snapshot(of, operation=Unobserved.DRIVER_GONE, **facts))) == wanted


@pytest.mark.parametrize("read_only", [True, False])
def test_view_closed_by_a_drain_is_a_lost_driver_while_the_session_lives(read_only: bool) -> None:
    word = view(OperationState.CLOSED, read_only=read_only)
    decision = decide(statement_snapshot(statement(handed_over("Running")), operation=word))
    assert told(decision) == (("Initialized", "SessionLost") if read_only else ("Error", "SessionLost"))


# --- retry


@pytest.mark.parametrize(
    ("on", "operation", "again"),
    [
        (["SessionLost"], Unobserved.DRIVER_GONE, True),
        (["SqlError"], Unobserved.DRIVER_GONE, False),
        (["SqlError"], view(OperationState.ERROR), True),
        (["SessionLost"], view(OperationState.ERROR), False),
        (["ExecutionTimeout"], view(OperationState.TIMED_OUT), True),
        (["ExecutionTimeout"], view(OperationState.TIMED_OUT, start_time=None), False),
        (["SqlError"], view(OperationState.ERROR, error=OperationError(reason=ErrorReason.NOT_ALLOWED)), False),
        (["SqlError", "ExecutionTimeout", "SessionLost"], view(OperationState.FINISHED), False),
        (["SqlError", "ExecutionTimeout", "SessionLost"], view(OperationState.CANCELED), False),
    ],
)
def test_statement_is_retried_only_for_the_reasons_listed_in_its_spec(
    on: list[str], operation: OperationView | Unobserved, again: bool
) -> None:
    of = statement(handed_over("Running"), retry={"limit": 1, "backoffSeconds": 10, "on": on})
    decision = decide(statement_snapshot(of, operation=operation))
    assert (decision.status.attempt == 2) is again
    assert (decision.status.phase == "Initialized") is again


@pytest.mark.parametrize(("failed", "delay"), [(0, 10), (1, 20), (2, 40), (3, None)])
def test_retry_backs_off_and_ends_at_its_limit(failed: int, delay: float | None) -> None:
    retry = {"limit": 3, "backoffSeconds": 10, "on": ["SqlError"]}
    of = statement(handed_over("Running", failedAttempts=failed, attempt=failed + 1), retry=retry)
    decision = decide(statement_snapshot(of, operation=view(OperationState.ERROR)))
    if delay is None:
        assert told(decision) == ("Error", "SqlError")
        return
    assert (decision.status.failed_attempts, decision.status.attempt) == (failed + 1, failed + 2)
    assert decision.status.next_attempt_time == ago(-delay)
    assert decision.requeue_after == pytest.approx(delay)
    assert decision.status.error is None


def test_wrong_statement_is_retried_when_its_user_asks_for_it() -> None:
    error = OperationError(condition="PARSE_SYNTAX_ERROR", sql_state="42601", message="m")
    of = statement(handed_over("Running"), retry={"limit": 1, "backoffSeconds": 10, "on": ["SqlError"]})
    decision = decide(statement_snapshot(of, operation=view(OperationState.ERROR, error=error)))
    assert told(decision) == ("Initialized", "SqlError")


@pytest.mark.parametrize("spec", [{"desiredState": "Canceled"}, {}])
def test_unwanted_statement_is_not_tried_again(spec: dict[str, Any]) -> None:
    session = READY if spec else CLOSED
    of = statement(handed_over("Running"), retry={"limit": 3, "on": ["SqlError"]}, **spec)
    decision = decide(statement_snapshot(of, operation=view(OperationState.ERROR), session=session))
    assert told(decision) == ("Error", "SqlError")


# --- a nonce changed during a run


@PHASES
def test_nonce_changed_during_a_run_waits_for_its_end_and_wakes_up_then(phase: str) -> None:
    of = statement(handed_over(phase), runNonce="2")
    going = decide(statement_snapshot(of, operation=view(OperationState(phase))))
    assert (going.status.run, going.status.phase, going.commands) == (1, phase, ())
    end = decide(statement_snapshot(of, operation=view(OperationState.FINISHED)))
    assert (end.status.run, end.status.phase, end.status.observed_run_nonce) == (1, "Finished", "")
    assert end.requeue_after == 0


def test_statement_that_a_drained_driver_never_began_is_handed_over_again() -> None:
    of = statement(handed_over())
    decision = decide(statement_snapshot(of, operation=view(OperationState.CLOSED, start_time=None, read_only=False)))
    assert (decision.status.phase, decision.status.attempt) == ("Initialized", 2)
    assert decision.status.operation_id is None
    assert "handed over again" in message(decision)


def test_statement_that_a_drained_driver_had_begun_ends_as_session_lost() -> None:
    of = statement(handed_over("Running"))
    decision = decide(statement_snapshot(of, operation=view(OperationState.CLOSED, start_time=ago(5), read_only=False)))
    assert told(decision) == ("Error", "SessionLost")
