"""Streaming statements, case by case: handed over, running, failing, stopped."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sparksql.api.execution import OutputMode, TriggerMode
from sparksql.api.session import SessionPhase
from sparksql.api.statement import SqlStatement
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import Decision
from sparksql.domain.statement.snapshot import SessionFacts, Settings, Unobserved
from sparksql.wire.control import ErrorReason, OperationError, OperationState
from tests.unit.domain.builders.conditions import PARKED, RESTS, STREAMS, UNDER_WAY, message, told
from tests.unit.domain.builders.objects import NOW, ago, with_status
from tests.unit.domain.builders.statements import READY, initialized, statement, view
from tests.unit.domain.builders.streams import (
    LOCATION,
    OTHER,
    PLACE,
    ROOT,
    canceled,
    health,
    resting,
    running,
    shown,
    stream,
    stream_snapshot,
    streaming_of,
    submitted,
    telling,
)

CLOSED = replace(READY, phase=SessionPhase.CLOSED)
FAILURE = OperationError(condition="FAILED", message="it failed")


# --- hand-over


def test_checkpoint_is_recorded_with_the_intent() -> None:
    spec = {"trigger": {"mode": "Interval", "intervalMillis": 500}, "outputMode": "Complete"}
    decision = decide(
        stream_snapshot(stream(streaming=spec, conf={"a": "b"}), settings=replace(PLACE, checkpoint_root=f"{ROOT}/"))
    )
    assert told(decision) == ("Pending", "Submitted")
    assert streaming_of(decision).checkpoint_location == LOCATION
    options = submitted(decision).request.streaming
    assert options is not None
    assert (options.checkpoint, options.trigger, options.interval_millis, options.output_mode) == (
        LOCATION, TriggerMode.INTERVAL, 500, OutputMode.COMPLETE
    )  # fmt: skip


def test_checkpoint_of_a_stream_stays_when_the_root_of_the_class_changes() -> None:
    decision = decide(
        stream_snapshot(stream(resting("Initialized")), settings=replace(PLACE, checkpoint_root="file:///else"))
    )
    assert streaming_of(decision).checkpoint_location == LOCATION
    no_place = decide(stream_snapshot(stream(resting("Initialized")), settings=Settings()))
    assert streaming_of(no_place).checkpoint_location == LOCATION


def test_hand_over_that_did_not_arrive_is_repeated_with_the_same_checkpoint() -> None:
    of = stream(resting("Pending"))
    request = submitted(decide(stream_snapshot(of, operation=Unobserved.UNKNOWN, settings=Settings()))).request
    assert request.streaming is not None
    assert request.streaming.checkpoint == LOCATION


def test_queue_timeout_of_a_stream_holds_only_until_its_query_first_starts() -> None:
    facts = {"settings": replace(PLACE, queue_seconds=5), "session": SessionFacts("s", SessionPhase.STARTING)}
    assert told(decide(stream_snapshot(stream(initialized()), **facts)))[0] == "TimedOut"
    begun = stream(resting("Initialized", streaming={"queryId": "q"}))
    assert told(decide(stream_snapshot(begun, **facts))) == ("Initialized", "SessionNotReady")


# --- running


def test_stream_that_runs_and_commits_is_ready() -> None:
    decision = decide(stream_snapshot(stream(running()), operation=telling()))
    assert told(decision) == ("Running", "Running")
    assert shown(decision) == STREAMS
    assert health(decision) == (("True", "Healthy"), ("True", "CheckpointFresh"))


def test_stream_status_shows_reported_progress_and_keeps_values_not_reported() -> None:
    of = stream(running(streaming={"queryId": "q", "committedBatchId": 7, "watermark": "w", "lag": 3}))
    told_ = {"batch_id": 8, "committed_batch_id": None, "state_rows": 4, "state_bytes": 5, "lag": 0}
    streaming = streaming_of(decide(stream_snapshot(of, operation=telling(told=told_))))
    assert (streaming.batch_id, streaming.committed_batch_id, streaming.watermark) == (8, 7, "w")
    assert (streaming.state_rows, streaming.state_bytes, streaming.lag) == (4, 5, 0)
    silent = streaming_of(decide(stream_snapshot(of, operation=view(OperationState.RUNNING))))
    assert (silent.query_id, silent.committed_batch_id) == ("q", 7)


def test_result_of_a_stream_has_the_rows_that_its_current_run_has_written() -> None:
    def rows_after(result: dict[str, Any] | None, **told: Any) -> int | None:
        of = stream(running(streaming={"queryId": "q", "runId": "r"}, result=result))
        shown = decide(stream_snapshot(of, operation=telling(told=told))).status.result
        return None if shown is None else shown.rows_written

    assert rows_after(None, rows_written=5) == 5
    assert rows_after({"rowsWritten": 5}, rows_written=7) == 7
    assert rows_after({"rowsWritten": 5}, batch_id=None) == 5  # it has not reported a batch
    assert rows_after({"rowsWritten": 5}, rows_written=None) is None
    assert rows_after({"rowsWritten": 5}, run_id="next", batch_id=None) is None
    assert rows_after({"rowsWritten": 5}, run_id="next", rows_written=1) == 1


def test_report_without_a_count_leaves_the_result_of_a_stream_absent() -> None:
    assert decide(stream_snapshot(stream(running()), operation=telling())).status.result is None


def test_restart_count_is_reset_once_a_stream_has_run_well_for_ten_minutes() -> None:
    of = stream(running(streaming={"restarts": 5}, startTime=ago(600)))
    assert streaming_of(decide(stream_snapshot(of, operation=telling(start_time=ago(600))))).restarts == 0
    assert streaming_of(decide(stream_snapshot(of, operation=telling(start_time=ago(599))))).restarts == 5


def test_stream_that_finished_has_ended() -> None:
    decision = decide(stream_snapshot(stream(running()), operation=telling(OperationState.FINISHED)))
    assert told(decision) == ("Finished", "Finished")
    assert decision.status.completion_time is not None


def test_execution_timeout_is_an_end() -> None:
    decision = decide(stream_snapshot(stream(running()), operation=telling(OperationState.TIMED_OUT)))
    assert told(decision) == ("TimedOut", "ExecutionTimeout")


def test_driver_out_of_reach_changes_nothing_but_the_health() -> None:
    soon = decide(stream_snapshot(stream(running(startTime=ago(179))), operation=Unobserved.UNREACHABLE))
    assert (told(soon), shown(soon)) == (("Running", "Running"), STREAMS)
    late = decide(stream_snapshot(stream(running(startTime=ago(181))), operation=Unobserved.UNREACHABLE))
    assert (told(late), shown(late)) == (("Running", "NoProgress"), UNDER_WAY)


# --- failures


def failing(of: SqlStatement, **fields: Any) -> Decision:
    return decide(stream_snapshot(of, operation=telling(OperationState.ERROR, **{"error": FAILURE, **fields})))


def test_failed_query_is_started_again_from_its_checkpoint() -> None:
    decision = failing(stream(running(streaming={"restarts": 2})))
    assert told(decision) == ("Initialized", "Restarting")
    assert message(decision) == "restart 3 of 10 in 40 s: FAILED: it failed"
    assert shown(decision) == UNDER_WAY
    due = NOW + timedelta(seconds=40)
    status, streaming = decision.status, streaming_of(decision)
    assert (status.attempt, status.next_attempt_time, status.error, status.completion_time) == (2, due, None, None)
    assert (streaming.restarts, streaming.next_restart_time) == (3, due)
    assert (streaming.checkpoint_location, streaming.committed_batch_id) == (LOCATION, 2)
    assert decision.requeue_after == 40


def test_stream_in_back_off_keeps_its_reason_and_is_handed_over_when_due() -> None:
    of = stream(running())
    of = with_status(of, failing(of))
    waits = decide(stream_snapshot(of))
    assert told(waits) == ("Initialized", "Restarting")
    assert message(waits) == "restart 1 of 10 in 10 s: FAILED: it failed"
    assert waits.requeue_after == 10
    goes = decide(stream_snapshot(of, now=NOW + timedelta(seconds=10)))
    assert told(goes) == ("Pending", "Submitted")
    assert streaming_of(goes).next_restart_time is None
    assert streaming_of(goes).restarts == 1


def test_backoff_of_a_stream_is_bounded() -> None:
    decision = failing(stream(running(streaming={"restarts": 9}), streaming={"restart": {"limit": 20}}))
    assert decision.requeue_after == 600


LAST = stream(running(streaming={"restarts": 10, "committedBatchId": 2}))
WORDS_AT_THE_LIMIT = pytest.mark.parametrize(
    ("word", "reason", "cause"),
    [
        (telling(OperationState.ERROR, error=FAILURE), "SqlError", "it failed"),
        (Unobserved.DRIVER_GONE, "SessionLost", "the driver no longer exists"),
        (Unobserved.UNKNOWN, "SessionLost", "the driver no longer has the statement"),
    ],
    ids=["failed", "gone", "forgotten"],
)


@WORDS_AT_THE_LIMIT
def test_stream_that_fails_at_its_restart_limit_is_parked_with_its_checkpoint(
    word: Any, reason: str, cause: str
) -> None:
    decision = decide(stream_snapshot(LAST, operation=word))
    assert (told(decision), shown(decision)) == (("Stopped", reason), PARKED)
    assert message(decision).startswith(f"failed after 10 restarts in a row: {cause}; set desiredState to Stopped")
    assert decision.status.error is not None and decision.status.error.message == cause
    streaming = streaming_of(decision)
    assert (streaming.checkpoint_location, streaming.committed_batch_id) == (LOCATION, 2)
    assert [event.type for event in decision.events] == ["Warning"]


@WORDS_AT_THE_LIMIT
def test_stream_without_restarts_left_stays_parked_until_its_user_acts(word: Any, reason: str, cause: str) -> None:
    parked = with_status(LAST, decide(stream_snapshot(LAST, operation=word)))
    again = decide(stream_snapshot(parked))
    assert (again.status, again.events) == (parked.status, ())
    changed = parked.replace(spec=stream(conf={"a": "b"}).spec)
    assert told(decide(stream_snapshot(changed))) == ("Initialized", "Upgrading")
    rests = decide(stream_snapshot(parked.replace(spec=stream(desiredState="Stopped").spec)))
    assert (told(rests), shown(rests)) == (("Stopped", "StoppedByUser"), RESTS)
    goes_on = decide(stream_snapshot(with_status(parked, rests)))
    assert told(goes_on) == ("Initialized", "Pending")
    assert (streaming_of(goes_on).checkpoint_location, streaming_of(goes_on).restarts) == (LOCATION, 0)


def test_stream_without_a_checkpoint_that_fails_at_its_restart_limit_ends_in_error() -> None:
    decision = failing(stream(running(streaming={"restarts": 10, "checkpointLocation": None})))
    assert told(decision) == ("Error", "SqlError")
    assert message(decision) == "failed after 10 restarts in a row: it failed"


@pytest.mark.parametrize("restarts", [0, 10])
def test_stream_remembers_the_last_driver_that_it_has_lost_and_is_bound_by_its_restarts_alone(restarts: int) -> None:
    of = stream(running(streaming={"restarts": restarts}, lostDrivers=["s-0"]))
    gone = decide(stream_snapshot(of, operation=Unobserved.DRIVER_GONE))
    assert gone.status.phase == ("Stopped" if restarts else "Initialized")
    assert gone.status.lost_drivers == ("s-1",)


def test_attempt_that_ran_long_enough_begins_the_count_anew() -> None:
    of = stream(running(streaming={"restarts": 10}, startTime=ago(700)))
    decision = failing(of, start_time=ago(700), completion_time=ago(1))
    assert streaming_of(decision).restarts == 1
    assert told(failing(of, start_time=ago(700), completion_time=ago(101))) == ("Stopped", "SqlError")


def test_query_that_never_started_does_not_heal() -> None:
    error = OperationError(reason=ErrorReason.INVALID_SPEC, message="no stream")
    decision = failing(stream(resting("Pending")), progress=None, error=error)
    assert told(decision) == ("Error", "InvalidSpec")
    after_a_script_began = failing(stream(running()), progress=None, error=error)
    assert told(after_a_script_began) == ("Error", "InvalidSpec")


def test_query_that_ran_once_is_started_again_when_it_cannot_begin() -> None:
    decision = failing(stream(resting("Pending", streaming={"queryId": "q"})), start_time=None, progress=None)
    assert told(decision) == ("Initialized", "Restarting")


@pytest.mark.parametrize("word", [Unobserved.DRIVER_GONE, Unobserved.UNKNOWN])
def test_lost_driver_counts_as_a_failure(word: Unobserved) -> None:
    decision = decide(stream_snapshot(stream(running()), operation=word))
    assert told(decision) == ("Initialized", "Restarting")
    assert streaming_of(decision).restarts == 1
    assert message(decision).startswith("restart 1 of 10 in 10 s: the driver ")


def test_driver_that_was_shut_down_does_not_count_as_a_restart() -> None:
    decision = decide(
        stream_snapshot(stream(running(streaming={"restarts": 4})), operation=telling(OperationState.CLOSED))
    )
    assert told(decision) == ("Initialized", "Restarting")
    assert (streaming_of(decision).restarts, decision.requeue_after) == (4, 0)


ENDS = [
    Unobserved.DRIVER_GONE,
    *(telling(s) for s in (OperationState.ERROR, OperationState.CLOSED, OperationState.CANCELED)),
]


@pytest.mark.parametrize("word", ENDS, ids=["gone", "error", "closed", "canceled"])
@pytest.mark.parametrize(
    ("spec", "session", "wanted"),
    [
        ({"desiredState": "Canceled"}, READY, ("Canceled", "CanceledByUser")),
        ({"desiredState": "Canceled"}, CLOSED, ("Canceled", "CanceledByUser")),
        ({"desiredState": "Stopped"}, READY, ("Stopped", "StoppedByUser")),
        ({"desiredState": "Stopped"}, CLOSED, ("Closed", "SessionClosed")),
        ({}, CLOSED, ("Closed", "SessionClosed")),
        ({}, None, ("Closed", "SessionClosed")),
        ({"sql": OTHER}, READY, ("Initialized", "Upgrading")),
    ],
)
def test_stream_whose_attempt_is_over_ends_or_goes_on_as_spec_and_session_ask(
    spec: dict[str, Any], session: Any, wanted: tuple[str, str], word: Any
) -> None:
    assert told(decide(stream_snapshot(stream(running(), **spec), session=session, operation=word))) == wanted


# --- stop and resume


def test_stop_is_asked_for_and_not_assumed() -> None:
    decision = decide(stream_snapshot(stream(running(), desiredState="Stopped"), operation=telling()))
    assert told(decision) == ("Running", "Canceling")
    assert shown(decision) == UNDER_WAY
    request = canceled(decision).request
    assert (request.outcome, request.reason) == (OperationState.CANCELED, "stopped by the user")


def test_stopped_stream_has_not_ended() -> None:
    decision = decide(
        stream_snapshot(stream(running(), desiredState="Stopped"), operation=telling(OperationState.CANCELED))
    )
    assert told(decision) == ("Stopped", "StoppedByUser")
    assert shown(decision) == RESTS
    assert health(decision) == (("Unknown", "Pending"), ("Unknown", "Pending"))
    assert (decision.status.completion_time, decision.status.start_time) == (None, None)
    assert streaming_of(decision).committed_batch_id == 2
    assert decision.events
    again = decide(stream_snapshot(with_status(stream(desiredState="Stopped"), decision)))
    assert (again.status, again.events) == (decision.status, ())


def test_stream_set_to_run_again_while_it_stops_is_resumed_at_once() -> None:
    of = stream(running())
    stopped = decide(stream_snapshot(of, operation=telling(OperationState.CANCELED)))
    assert (told(stopped), stopped.requeue_after) == (("Stopped", "StoppedByUser"), 0)
    resumed = decide(stream_snapshot(with_status(of, stopped)))
    assert told(resumed) == ("Initialized", "Pending")
    assert (resumed.status.attempt, resumed.requeue_after, resumed.status.submitted_time) == (2, 0, NOW)


def test_resumed_stream_begins_its_restart_count_anew() -> None:
    decision = decide(stream_snapshot(stream(resting(streaming={"restarts": 9}))))
    assert told(decision) == ("Initialized", "Pending")
    assert streaming_of(decision).restarts == 0
    assert streaming_of(decision).checkpoint_location == LOCATION


@pytest.mark.parametrize("status", [{}, initialized(), resting("Initialized", nextAttemptTime=ago(-60))])
def test_stream_that_does_not_run_is_stopped_at_once(status: dict[str, Any]) -> None:
    decision = decide(stream_snapshot(stream(status, desiredState="Stopped"), session=None))
    assert told(decision) == ("Stopped", "StoppedByUser")
    assert decision.status.next_attempt_time is None
    assert decision.commands == ()


@pytest.mark.parametrize(
    ("spec", "session", "wanted"),
    [
        ({"desiredState": "Canceled"}, READY, "Canceled"),
        ({"desiredState": "Canceled"}, CLOSED, "Canceled"),
        ({"desiredState": "Stopped"}, CLOSED, "Stopped"),  # it uses no session
        ({}, CLOSED, "Closed"),
        ({"desiredState": "Stopped"}, replace(CLOSED, deleting=True), "Closed"),
        ({}, replace(READY, deleting=True), "Closed"),
        ({"desiredState": "Stopped"}, None, "Stopped"),
        ({"desiredState": "Stopped", "runNonce": "later"}, READY, "Stopped"),
    ],
)
def test_stopped_stream_stays_or_is_canceled_or_closed_as_spec_and_session_ask(
    spec: dict[str, Any], session: Any, wanted: str
) -> None:
    decision = decide(stream_snapshot(stream(resting(), **spec), session=session))
    assert decision.status.phase == wanted
    assert decision.status.run == 1


def test_deleted_stopped_stream_is_let_go_at_once() -> None:
    assert decide(stream_snapshot(stream(resting(), deleted=NOW))).finalizer is False


@pytest.mark.parametrize("desired", ["Stopped", "Canceled"])
def test_batch_statement_knows_no_stop(desired: str) -> None:
    decision = decide(stream_snapshot(statement(initialized(), desiredState=desired)))
    assert told(decision) == ("Canceled", "CanceledByUser")
