"""What a checkpoint of a streaming statement begins with: the savepoint of `startFrom`, the first time and when it is gone back to."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.execution import OutputMode
from sparksql.api.streaming import StreamingStatus
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import Cancel, Decision
from sparksql.domain.statement.snapshot import Inputs, SavepointFacts, Unobserved
from sparksql.domain.statement.stream.facts import REFERENCE_GRACE_SECONDS
from sparksql.domain.statement.stream.savepoints import restore
from sparksql.wire.control import ErrorReason, OperationError, OperationState, RestoreOptions
from tests.unit.domain.builders.conditions import PARKED, UNDER_WAY, message, told
from tests.unit.domain.builders.objects import NOW, ago, with_status
from tests.unit.domain.builders.statements import DRIVER, READY, ended, initialized
from tests.unit.domain.builders.streams import (
    LOCATION,
    OTHER,
    PLACE,
    SAVED_AT,
    START,
    canceled,
    fact,
    parked,
    resting,
    running,
    shown,
    stream,
    stream_snapshot,
    streaming_of,
    submitted,
    telling,
    unfit,
)

FIELD = "spec.streaming.startFrom.savepointRef.name"
AGAIN = {**START, "restoreNonce": "1"}
WITH_STATE = {"queryId": "q", "committedBatchId": 2}
BEGUN = StreamingStatus(restored_from=SAVED_AT)
OVER = telling(OperationState.CANCELED)


def restored(decision: Decision) -> RestoreOptions | None:
    options = submitted(decision).request.streaming
    assert options is not None
    return options.restore


# --- what the first checkpoint begins with


def test_first_start_of_a_stream_restores_the_savepoint_of_start_from() -> None:
    decision = decide(stream_snapshot(of := stream(streaming=START), start_from=fact()))
    assert told(decision) == ("Pending", "Submitted")
    streaming = streaming_of(decision)
    assert (streaming.checkpoint_location, streaming.restored_from, streaming.upgrades) == (LOCATION, SAVED_AT, 0)
    options = restored(decision)
    assert options == restore(with_status(of, decision), BEGUN)


WAITING: dict[str, tuple[SavepointFacts | None, str]] = {
    "missing": (None, f"{FIELD}: there is no SqlSavepoint before in namespace team-a"),
    "new": (fact(phase=None), "waits for SqlSavepoint before, which is new"),
    "pending": (fact(phase="Pending"), "waits for SqlSavepoint before, which is Pending"),
    "in progress": (fact(phase="InProgress", location=SAVED_AT), "which is InProgress"),
}
REFUSED: dict[str, tuple[SavepointFacts, str]] = {
    "failed": (fact(phase="Failed"), "is Failed; name a completed one"),
    "abandoned": (fact(phase="Abandoned"), "is Abandoned; name a completed one"),
    "deleting": (fact(deleting=True), "is being deleted; name another one"),
    "deleting at work": (fact(phase="InProgress", deleting=True), "is being deleted; name another one"),
}


@pytest.mark.parametrize(("found", "says"), WAITING.values(), ids=WAITING.keys())
def test_savepoint_that_is_not_complete_is_waited_for(found: SavepointFacts | None, says: str) -> None:
    decision = decide(stream_snapshot(stream(initialized(), streaming=START), start_from=found))
    assert told(decision) == ("Initialized", "WaitingForSavepoint")
    assert (shown(decision), decision.commands) == (UNDER_WAY, ())
    assert says in message(decision)
    assert decision.requeue_after is not None and 0 < decision.requeue_after <= 5


@pytest.mark.parametrize(("found", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_savepoint_that_never_will_be_complete_ends_the_first_start(found: SavepointFacts, says: str) -> None:
    decision = decide(stream_snapshot(stream(initialized(), streaming=START), start_from=found))
    assert told(decision) == ("Error", "InvalidSpec")
    assert message(decision).startswith(f"{FIELD}: SqlSavepoint before ")
    assert says in message(decision)


@pytest.mark.parametrize(("age", "phase"), [(0, "Initialized"), (60, "Initialized"), (60.5, "Error")])
def test_savepoint_that_does_not_exist_is_waited_for_a_minute(age: float, phase: str) -> None:
    assert REFERENCE_GRACE_SECONDS == 60
    decision = decide(stream_snapshot(stream(initialized(submittedTime=ago(age)), streaming=START)))
    assert decision.status.phase == phase
    assert "there is no SqlSavepoint before" in message(decision)


PREVIEWS = replace(READY, driver=replace(DRIVER, previews_states=True))


def test_a_preview_begins_with_the_savepoint_and_has_no_checkpoint_of_its_own() -> None:
    of = stream(mode="Preview", streaming={**START, "outputMode": "Update"})
    decision = decide(snapshot := stream_snapshot(of, start_from=fact(), session=PREVIEWS))
    assert told(decision) == ("Pending", "Submitted")
    request = submitted(decision).request
    assert (decision.status.streaming, request.streaming) == (None, None)
    assert request.preview_from is not None
    assert (request.preview_from.checkpoint, request.preview_from.output_mode) == ("", OutputMode.UPDATE)
    assert request.preview_from.restore is not None and request.preview_from.restore.location == SAVED_AT
    pending = replace(snapshot, statement=with_status(of, decision), operation=Unobserved.UNKNOWN)
    assert submitted(decide(pending)).request == request
    assert isinstance(decide(replace(pending, start_from=None)).commands[0], Cancel)


@pytest.mark.parametrize(("found", "says"), WAITING.values(), ids=WAITING)
def test_a_preview_waits_for_its_savepoint(found: SavepointFacts | None, says: str) -> None:
    of = stream(initialized(submittedTime=ago(0)), mode="Preview", streaming=START)
    decision = decide(stream_snapshot(of, start_from=found, session=PREVIEWS))
    assert told(decision) == ("Initialized", "WaitingForSavepoint")
    assert says in message(decision)


def test_a_preview_is_not_given_to_a_driver_that_would_begin_without_state() -> None:
    of = stream(mode="Preview", streaming=START)
    decision = decide(stream_snapshot(of, start_from=fact()))
    assert (told(decision), decision.commands) == (("Error", "NotImplemented"), ())
    assert "restart the session" in message(decision)


def test_each_run_begins_with_the_savepoint() -> None:
    of = stream({**ended(), "streaming": {"checkpointLocation": LOCATION}}, streaming=START, runNonce="again")
    accepted = with_status(of, decide(stream_snapshot(of, start_from=fact())))
    decision = decide(stream_snapshot(accepted, start_from=fact()))
    assert streaming_of(decision).checkpoint_location == f"{LOCATION[:-1]}2"
    options = restored(decision)
    first = restore(of, BEGUN)
    assert options is not None and first is not None and options.query_id != first.query_id


def test_further_attempts_ask_for_the_same_and_need_the_savepoint_no_more() -> None:
    of = stream(streaming=START)
    first = decide(stream_snapshot(of, start_from=fact()))
    lost = decide(stream_snapshot(with_status(of, first), operation=Unobserved.DRIVER_GONE))
    assert told(lost) == ("Initialized", "Restarting")
    again = decide(stream_snapshot(with_status(of, lost), now=NOW + timedelta(seconds=10), start_from=None))
    assert (restored(again), again.status.attempt) == (restored(first), 2)
    unarrived = decide(stream_snapshot(with_status(of, again), operation=Unobserved.UNKNOWN))
    assert restored(unarrived) == restored(first)


def test_nonce_without_a_savepoint_restores_nothing() -> None:
    decision = decide(stream_snapshot(stream(running(), streaming={"restoreNonce": "1"}), operation=telling()))
    assert (told(decision), decision.commands) == (("Running", "Running"), ())


def test_savepoint_named_later_does_not_touch_a_query_that_has_its_state() -> None:
    decision = decide(stream_snapshot(stream(running(), streaming=START), operation=telling(), start_from=fact()))
    assert (told(decision), decision.commands) == (("Running", "Running"), ())


@given(st.integers(1, 50), st.integers(0, 50), st.integers(1, 50))
def test_restored_query_is_a_new_one_for_each_checkpoint_and_the_same_for_each_attempt(
    run: int, upgrades: int, attempt: int
) -> None:
    def of(run: int, upgrades: int, attempt: int) -> RestoreOptions:
        status = initialized(run=run, attempt=attempt, streaming={"upgrades": upgrades})
        found = restore(stream(status), BEGUN)
        assert found is not None and found.location == SAVED_AT
        return found

    known = of(run, upgrades, attempt)
    assert known == of(run, upgrades, attempt + 1)
    assert known.query_id not in {of(run + 1, upgrades, attempt).query_id, of(run, upgrades + 1, attempt).query_id}
    assert restore(stream(initialized()), StreamingStatus()) is None


# --- going back to it


def test_changed_restore_nonce_stops_a_running_stream_first() -> None:
    decision = decide(stream_snapshot(stream(running(), streaming=AGAIN), operation=telling(), start_from=fact()))
    assert told(decision) == ("Running", "Upgrading")
    assert message(decision) == "stops first: restoreNonce changed, it restarts from the savepoint of startFrom"
    assert canceled(decision).request.outcome is OperationState.CANCELED


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (running(streaming=WITH_STATE), OVER),
        (running(streaming=WITH_STATE), Unobserved.DRIVER_GONE),
        (resting(streaming=WITH_STATE), None),
        (parked(), None),
        (resting("Initialized", streaming=WITH_STATE, nextAttemptTime=ago(-60)), None),
    ],
    ids=["canceled", "gone", "stopped", "parked", "backing off"],
)
def test_changed_nonce_begins_another_checkpoint_with_the_savepoint(status: dict[str, Any], word: Any) -> None:
    of = stream(status, streaming=AGAIN)
    decision = decide(stream_snapshot(of, operation=word, start_from=fact()))
    assert told(decision) == ("Initialized", "Upgrading")
    streaming = streaming_of(decision)
    assert (streaming.checkpoint_location, streaming.upgrades, streaming.query_id) == (None, 1, None)
    assert (streaming.restored_from, streaming.observed_restore_nonce) == (SAVED_AT, "1")
    goes = decide(stream_snapshot(with_status(of, decision), start_from=fact()))
    assert streaming_of(goes).checkpoint_location == f"{LOCATION}-1"
    options = restored(goes)
    assert options is not None and options.location == SAVED_AT
    runs = decide(
        stream_snapshot(with_status(of, goes), operation=telling(told={"query_id": options.query_id}), start_from=None)
    )
    assert (told(runs), runs.commands) == (("Running", "Running"), ())


@pytest.mark.parametrize(
    ("status", "word", "phase"),
    [
        (running(streaming=WITH_STATE), OVER, "Running"),
        (resting(streaming=WITH_STATE), None, "Stopped"),
        (resting("Initialized", streaming=WITH_STATE), None, "Initialized"),
    ],
)
def test_state_is_given_up_only_for_a_savepoint_that_is_complete(status: dict[str, Any], word: Any, phase: str) -> None:
    of = stream(status, streaming=AGAIN)
    waits = decide(stream_snapshot(of, operation=word, start_from=fact(phase="InProgress")))
    assert told(waits) == (phase, "WaitingForSavepoint")
    assert (streaming_of(waits).checkpoint_location, streaming_of(waits).committed_batch_id) == (LOCATION, 2)
    taken_back = with_status(stream(streaming=START), waits)
    goes = decide(stream_snapshot(taken_back, operation=word, start_from=fact(phase="InProgress")))
    assert streaming_of(goes).checkpoint_location == LOCATION


@pytest.mark.parametrize("later", [{}, START, {**START, "restoreNonce": ""}], ids=["no startFrom", "no nonce", "back"])
def test_savepoint_to_restore_is_fixed_once_the_stream_gives_up_its_checkpoint(later: dict[str, Any]) -> None:
    """Without a driver there may be long between both."""
    of = stream(running(streaming=WITH_STATE), streaming=AGAIN)
    decision = decide(stream_snapshot(of, operation=OVER, start_from=fact()))
    goes = decide(stream_snapshot(with_status(stream(streaming=later), decision), start_from=None))
    options = restored(goes)
    assert options is not None and options.location == SAVED_AT


def test_nonce_that_changes_once_more_before_the_start_goes_back_once_more() -> None:
    of = stream(running(streaming=WITH_STATE), streaming=AGAIN)
    decision = decide(stream_snapshot(of, operation=OVER, start_from=fact()))
    twice = stream(streaming={**START, "restoreNonce": "2"})
    goes = decide(stream_snapshot(with_status(twice, decision), start_from=fact()))
    assert streaming_of(goes).observed_restore_nonce == "1"
    stops = decide(stream_snapshot(with_status(twice, goes), operation=telling(), start_from=fact()))
    assert told(stops) == ("Running", "Upgrading")


@pytest.mark.parametrize("found", [*(found for found, _ in REFUSED.values()), None], ids=[*REFUSED, "missing"])
def test_stream_told_to_restore_an_unusable_savepoint_is_parked_with_its_state(found: SavepointFacts | None) -> None:
    of = stream(running(streaming=WITH_STATE, submittedTime=ago(1000)), streaming=AGAIN)
    decision = decide(stream_snapshot(of, operation=OVER, start_from=found))
    assert told(decision) == ("Stopped", "InvalidSpec")
    assert shown(decision) == PARKED
    assert streaming_of(decision).checkpoint_location == LOCATION
    again = decide(stream_snapshot(with_status(of, decision), start_from=found))
    assert (again.status, again.events) == (decision.status, ())
    healed = decide(stream_snapshot(with_status(of, decision), start_from=fact()))
    assert told(healed) == ("Initialized", "Upgrading")
    taken_back = decide(stream_snapshot(with_status(stream(streaming=START), decision), start_from=found))
    assert streaming_of(taken_back).checkpoint_location == LOCATION
    assert told(taken_back) == ("Initialized", "Pending")


def test_upgrade_without_state_does_not_restore_again() -> None:
    spec = {**START, "restoreNonce": "1", "upgradeMode": "Stateless"}
    of = stream(running(streaming={**WITH_STATE, "observedRestoreNonce": "1"}), sql=OTHER, streaming=spec)
    decision = decide(stream_snapshot(of, operation=OVER, inputs=Inputs(OTHER), start_from=fact()))
    assert told(decision) == ("Initialized", "Upgrading")
    goes = decide(stream_snapshot(with_status(of, decision), inputs=Inputs(OTHER), start_from=fact()))
    assert (restored(goes), streaming_of(goes).restored_from) == (None, None)
    assert streaming_of(goes).observed_restore_nonce == "1"


def test_start_fresh_does_not_restore_again_what_did_not_fit() -> None:
    spec = {**START, "onIncompatible": "StartFresh"}
    of = stream(streaming=spec)
    first = decide(stream_snapshot(of, start_from=fact()))
    fresh = decide(stream_snapshot(with_status(of, first), operation=unfit(), start_from=fact()))
    assert told(fresh) == ("Initialized", "StateIncompatible")
    assert restored(decide(stream_snapshot(with_status(of, fresh), start_from=fact()))) is None


def test_restored_state_that_is_refused_parks_and_does_not_restore_in_a_circle() -> None:
    of = stream(running(streaming=WITH_STATE), streaming=AGAIN)
    decision = decide(stream_snapshot(of, operation=OVER, start_from=fact()))
    goes = decide(stream_snapshot(with_status(of, decision), start_from=fact()))
    refused = decide(stream_snapshot(with_status(of, goes), operation=unfit(), start_from=fact()))
    assert (told(refused), shown(refused)) == (("Stopped", "StateIncompatible"), PARKED)
    again = decide(stream_snapshot(with_status(of, refused), start_from=fact()))
    assert (again.status, again.commands) == (refused.status, ())


def test_text_that_never_ran_parks_a_stream_that_has_had_a_state() -> None:
    error = OperationError(reason=ErrorReason.INVALID_SPEC, message="no such source")
    of = stream(resting("Pending", streaming={"upgrades": 1}))
    word = telling(OperationState.ERROR, error=error, progress=None)
    decision = decide(stream_snapshot(of, operation=word))
    assert (told(decision), shown(decision)) == (("Stopped", "InvalidSpec"), PARKED)
    again = decide(stream_snapshot(with_status(of, decision)))
    assert (again.status, again.events) == (decision.status, ())
    other = stream(sql=OTHER)
    healed = decide(stream_snapshot(with_status(other, decision), inputs=Inputs(OTHER)))
    assert (told(healed), streaming_of(healed).checkpoint_location) == (("Initialized", "Upgrading"), LOCATION)


def test_place_for_checkpoints_is_needed_to_go_back() -> None:
    of = stream(running(streaming=WITH_STATE), streaming=AGAIN)
    decision = decide(
        stream_snapshot(of, operation=OVER, start_from=fact(), settings=replace(PLACE, checkpoint_root=None))
    )
    assert told(decision) == ("Stopped", "InvalidSpec")
    assert streaming_of(decision).checkpoint_location == LOCATION


@pytest.mark.parametrize("phase", [None, "InProgress", "Failed", "Completed"])
def test_stream_runs_on_until_the_savepoint_to_restore_is_complete(phase: str | None) -> None:
    of = stream(running(streaming=WITH_STATE), streaming=AGAIN)
    decision = decide(stream_snapshot(of, operation=telling(), start_from=fact(phase=phase)))
    streaming = streaming_of(decision)
    if phase == "Completed":
        assert canceled(decision).request.reason == "the spec changed"
        assert streaming.message is None
        return
    assert (told(decision), decision.commands) == (("Running", "Running"), ())
    assert streaming.message is not None and streaming.message.startswith("continues; restoreNonce is not applied yet")
