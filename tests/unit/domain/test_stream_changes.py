"""Streaming statements whose spec changes: a text goes on with the state if the driver finds that it fits, else it is parked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import NeedsInputs
from sparksql.domain.statement.identity import sql_hash
from sparksql.domain.statement.snapshot import Inputs, MissingReference, Unobserved
from sparksql.wire.control import ErrorReason, OperationError, OperationState
from tests.unit.domain.builders.conditions import PARKED, RESTS, UNDER_WAY, message, reason_of, told
from tests.unit.domain.builders.objects import NOW, ago, with_status
from tests.unit.domain.builders.statements import SQL, ended
from tests.unit.domain.builders.streams import (
    LOCATION,
    OTHER,
    UNFIT,
    canceled,
    known,
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


def test_running_stream_with_a_changed_text_is_stopped_first() -> None:
    decision = decide(stream_snapshot(stream(running(), sql=OTHER), operation=telling()))
    assert told(decision) == ("Running", "Upgrading")
    assert shown(decision) == UNDER_WAY
    assert canceled(decision).request.outcome is OperationState.CANCELED


@pytest.mark.parametrize("word", [telling(OperationState.CANCELED), Unobserved.DRIVER_GONE], ids=["canceled", "gone"])
def test_changed_text_goes_on_with_the_same_checkpoint(word: Any) -> None:
    of = stream(running(streaming={"restarts": 3, "committedBatchId": 2, "queryId": "q"}), sql=OTHER)
    decision = decide(stream_snapshot(of, operation=word, inputs=Inputs(OTHER)))
    assert told(decision) == ("Initialized", "Upgrading")
    assert message(decision) == "the query changed, it continues from its checkpoint if the state is compatible"
    streaming = streaming_of(decision)
    assert (streaming.checkpoint_location, streaming.query_id, streaming.committed_batch_id) == (LOCATION, "q", 2)
    assert (streaming.upgrades, streaming.restarts, decision.status.attempt) == (0, 0, 2)
    goes = decide(stream_snapshot(with_status(of, decision), inputs=Inputs(OTHER)))
    assert (told(goes), goes.status.sql_hash) == (("Pending", "Submitted"), sql_hash(OTHER))
    request = submitted(goes).request
    assert request.streaming is not None
    assert (request.sql, request.streaming.checkpoint, request.streaming.restore) == (OTHER, LOCATION, None)


@pytest.mark.parametrize("status", [resting("Initialized"), resting("Initialized", nextAttemptTime=ago(-60))])
def test_changed_text_of_a_stream_between_attempts_is_taken_in_at_once(status: dict[str, Any]) -> None:
    decision = decide(stream_snapshot(stream(status, sql=OTHER)))
    assert told(decision) == ("Initialized", "Upgrading")
    assert (decision.status.next_attempt_time, decision.status.attempt) == (None, 1)
    assert streaming_of(decision).checkpoint_location == LOCATION


# --- the driver finds that the state does not fit


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_text_that_the_state_does_not_fit_is_parked_with_the_drivers_word(phase: str) -> None:
    of = stream(resting(phase, streaming={"queryId": "q", "committedBatchId": 2}))
    decision = decide(stream_snapshot(of, operation=unfit()))
    assert told(decision) == ("Stopped", "StateIncompatible")
    assert shown(decision) == PARKED
    assert message(decision) == UNFIT.message
    assert decision.status.error is not None and decision.status.error.message == UNFIT.message
    assert (streaming_of(decision).checkpoint_location, streaming_of(decision).committed_batch_id) == (LOCATION, 2)
    assert decision.events and decision.events[0].type == "Warning"


def test_parked_stream_stays_unchanged_while_its_spec_is_unchanged() -> None:
    of = stream(resting("Pending", streaming={"queryId": "q", "committedBatchId": 2}))
    first = decide(stream_snapshot(of, operation=unfit()))
    for passes in range(3):
        again = decide(stream_snapshot(with_status(of, first), now=NOW + timedelta(seconds=60 * (passes + 1))))
        assert (again.status, again.events, again.commands) == (first.status, (), ())
        of = with_status(of, again)


@pytest.mark.parametrize("start", [{}, {"startFrom": {"savepointRef": {"name": "before"}}}], ids=["begun", "restored"])
def test_first_text_that_does_not_fit_parks_as_well(start: dict[str, Any]) -> None:
    """A query that never ran may still have a state: the one that it was to begin with."""
    of = stream(resting("Pending", streaming={}), streaming=start)
    assert told(decide(stream_snapshot(of, operation=unfit()))) == ("Stopped", "StateIncompatible")


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"sql": OTHER}, "the query changed, it continues from its checkpoint if the state is compatible"),
        ({"streaming": {"outputMode": "Update"}}, "the spec changed, it continues from its checkpoint"),
        ({"conf": {"a": "b"}}, "the spec changed, it continues from its checkpoint"),
    ],
)
def test_parked_stream_whose_spec_changes_goes_on_with_its_state(spec: dict[str, Any], wanted: str) -> None:
    of = stream(parked(), **spec)
    decision = decide(stream_snapshot(of, inputs=Inputs(spec.get("sql", SQL))))
    assert told(decision) == ("Initialized", "Upgrading")
    assert message(decision) == wanted
    assert (decision.status.attempt, decision.status.error) == (2, None)
    streaming = streaming_of(decision)
    assert (streaming.checkpoint_location, streaming.committed_batch_id, streaming.upgrades) == (LOCATION, 2, 0)


@pytest.mark.parametrize("wanted", [{"upgradeMode": "Stateless"}, {"onIncompatible": "StartFresh"}])
def test_wish_to_begin_without_state_leaves_the_park(wanted: dict[str, Any]) -> None:
    of = stream(parked(), streaming=wanted)
    decision = decide(stream_snapshot(of))
    assert told(decision) == ("Initialized", "Upgrading")
    streaming = streaming_of(decision)
    assert (streaming.checkpoint_location, streaming.committed_batch_id, streaming.upgrades) == (None, None, 1)
    goes = decide(stream_snapshot(with_status(of, decision)))
    assert streaming_of(goes).checkpoint_location == f"{LOCATION}-1"


@pytest.mark.parametrize("wanted", [{"upgradeMode": "Stateless"}, {"onIncompatible": "StartFresh"}])
def test_wish_to_begin_without_state_is_none_to_leave_a_park_for_another_reason(wanted: dict[str, Any]) -> None:
    wrong = OperationError(reason=ErrorReason.INVALID_SPEC, message="no such source")
    status = parked(error=wrong, streaming={"upgrades": 1, "queryId": None, "committedBatchId": None})
    of = stream(status, streaming=wanted)
    decision = decide(stream_snapshot(of))
    assert (told(decision), message(decision)) == (("Stopped", "InvalidSpec"), wrong.message)
    assert streaming_of(decision).checkpoint_location == LOCATION


def test_start_fresh_begins_without_state_at_once() -> None:
    of = stream(
        resting("Pending", streaming={"queryId": "q", "committedBatchId": 2, "restoredFrom": "s3a://x"}),
        streaming={"onIncompatible": "StartFresh"},
    )
    decision = decide(stream_snapshot(of, operation=unfit()))
    assert told(decision) == ("Initialized", "StateIncompatible")
    assert message(decision) == f"starts without state: {UNFIT.message}"
    assert decision.events and decision.events[0].type == "Warning"
    streaming = streaming_of(decision)
    assert (streaming.checkpoint_location, streaming.restored_from, streaming.upgrades) == (None, None, 1)
    goes = decide(stream_snapshot(with_status(of, decision)))
    assert (streaming_of(goes).checkpoint_location, goes.status.attempt) == (f"{LOCATION}-1", 2)


def test_user_who_stops_and_resumes_a_parked_stream_has_the_driver_asked_once_more() -> None:
    stopped = decide(stream_snapshot(of := stream(parked(), desiredState="Stopped")))
    assert (told(stopped), shown(stopped)) == (("Stopped", "StoppedByUser"), RESTS)
    assert stopped.status.error is None
    resumed = decide(stream_snapshot(with_status(stream(), stopped)))
    assert told(resumed) == ("Initialized", "Pending")
    assert resumed.status.attempt == of.status.attempt + 1


def test_upgrade_without_state_begins_on_another_checkpoint() -> None:
    of = stream(running(streaming={"queryId": "q", "restarts": 3}), sql=OTHER, streaming={"upgradeMode": "Stateless"})
    renewed = decide(stream_snapshot(of, operation=telling(OperationState.CANCELED), inputs=Inputs(OTHER)))
    assert told(renewed) == ("Initialized", "Upgrading")
    streaming = streaming_of(renewed)
    assert (streaming.checkpoint_location, streaming.query_id, streaming.restarts) == (None, None, 0)
    goes = decide(stream_snapshot(with_status(of, renewed), inputs=Inputs(OTHER)))
    assert streaming_of(goes).checkpoint_location == f"{LOCATION}-1"
    assert goes.status.sql_hash == sql_hash(OTHER)
    assert submitted(goes).request.sql == OTHER


def test_changed_text_ends_a_back_off() -> None:
    of = stream(
        resting("Initialized", nextAttemptTime=ago(-60), streaming={"upgrades": 1}),
        sql=OTHER,
        streaming={"upgradeMode": "Stateless"},
    )
    decision = decide(stream_snapshot(of, inputs=Inputs(OTHER)))
    assert told(decision) == ("Initialized", "Upgrading")
    assert (decision.status.next_attempt_time, decision.status.attempt) == (None, 1)
    assert streaming_of(decide(stream_snapshot(with_status(of, decision)))).checkpoint_location == f"{LOCATION}-2"


@pytest.mark.parametrize(
    "spec",
    [
        {"conf": {"a": "b"}},
        {"streaming": {"outputMode": "Update"}},
        {"streaming": {"trigger": {"mode": "Interval", "intervalMillis": 1}}},
        {"streaming": {"trigger": {"maxFilesPerTrigger": 1}}},
        {"streaming": {"upsert": {"keys": ["id"]}}},
    ],
)
def test_changed_settings_restart_a_stream_with_its_restart_count_at_zero(spec: dict[str, Any]) -> None:
    of = stream(running(streaming={"restarts": 2}), **spec)
    assert told(decide(stream_snapshot(of, operation=telling()))) == ("Running", "Upgrading")
    decision = decide(stream_snapshot(of, operation=telling(OperationState.CANCELED)))
    assert told(decision) == ("Initialized", "Upgrading")
    assert (streaming_of(decision).restarts, decision.requeue_after) == (0, 0)
    assert streaming_of(decision).checkpoint_location == LOCATION


@pytest.mark.parametrize(
    "spec",
    [
        {"streaming": {"restart": {"limit": 1}}},
        {"streaming": {"upgradeMode": "Stateless"}},
        {"streaming": {"savepoints": {"onDelete": "Delete"}}},
        {"timeouts": {"queueSeconds": 5}},
    ],
)
def test_change_that_the_query_does_not_depend_on_leaves_a_stream_running(spec: dict[str, Any]) -> None:
    decision = decide(stream_snapshot(stream(running(), **spec), operation=telling()))
    assert (told(decision), decision.commands) == (("Running", "Running"), ())


def test_changed_text_in_a_config_map_is_noticed_when_the_stream_reads_it() -> None:
    source = {"sqlFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
    of = stream(resting(), **source)
    assert told(decide(stream_snapshot(of, inputs=Inputs(OTHER)))) == ("Initialized", "Upgrading")
    assert told(decide(stream_snapshot(of, inputs=Inputs(SQL)))) == ("Initialized", "Pending")
    assert told(decide(stream_snapshot(of, inputs=MissingReference("gone")))) == ("Stopped", "InvalidSpec")
    waits = stream(resting("Initialized"), **source)
    assert told(decide(stream_snapshot(waits, inputs=Inputs(OTHER)))) == ("Initialized", "Upgrading")
    assert decide(stream_snapshot(stream(parked(), **source), inputs=None)) == NeedsInputs()
    assert decide(stream_snapshot(waits, inputs=None)) == NeedsInputs()


@pytest.mark.parametrize("phase", ["Finished", "Error", "Canceled"])
def test_changed_text_of_an_ended_one_waits_for_another_run(phase: str) -> None:
    status = {**ended(phase), "streaming": known()}
    decision = decide(stream_snapshot(stream(status, sql=OTHER)))
    assert (decision.status.phase, decision.commands) == (phase, ())
    renewed = stream(status, sql=OTHER, runNonce="again")
    goes = decide(stream_snapshot(with_status(renewed, decide(stream_snapshot(renewed))), inputs=Inputs(OTHER)))
    assert streaming_of(goes).checkpoint_location == LOCATION[:-1] + "2"
    assert reason_of(goes.status) == "Submitted"
