"""Streaming statements whose spec changes: a text never meets the state of another one, settings are taken over."""

from __future__ import annotations

from typing import Any

import pytest
from statement_samples import SQL, ago, ended, reason, told
from stream_samples import (
    LOCATION,
    OTHER,
    PARKED,
    WAITS,
    asked,
    canceled,
    following,
    known,
    resting,
    running,
    shown,
    stream,
    streaming_of,
    submitted,
    telling,
)

from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.identity import sql_hash
from sparksql.domain.statement.snapshot import (
    Inputs,
    MissingReference,
)
from sparksql.wire.control import OperationState


def test_changed_text_stops_it_first() -> None:
    decision = decide(asked(stream(running(), sql=OTHER), operation=telling()))
    assert told(decision) == ("Running", "Upgrading")
    assert shown(decision) == WAITS
    assert canceled(decision).request.outcome is OperationState.CANCELED


@pytest.mark.parametrize("mode", ["LastState", "Savepoint"])
def test_changed_text_is_parked_with_the_hash_of_the_old_one(mode: str) -> None:
    of = stream(running(), sql=OTHER, streaming={"upgradeMode": mode})
    decision = decide(asked(of, operation=telling(OperationState.CANCELED)))
    assert told(decision) == ("Stopped", "StateIncompatible")
    assert shown(decision) == PARKED
    assert decision.status.sql_hash == sql_hash(SQL)
    assert decision.note is not None and decision.note.type == "Warning"
    again = decide(asked(following(of, decision)))
    assert (again.status, again.note) == (decision.status, None)


@pytest.mark.parametrize(
    "status", [resting(), resting("Initialized"), resting("Initialized", nextAttemptTime=ago(-60))]
)
def test_changed_text_never_starts_on_the_old_checkpoint(status: dict[str, Any]) -> None:
    assert told(decide(asked(stream(status, sql=OTHER)))) == ("Stopped", "StateIncompatible")


def test_text_that_is_changed_back_leaves_the_park() -> None:
    parked = stream(resting(conditions=[{"type": "Stalled", "status": "True", "reason": "StateIncompatible"}]))
    assert told(decide(asked(parked))) == ("Initialized", "Pending")


def test_upgrade_without_state_begins_on_another_checkpoint() -> None:
    of = stream(running(streaming={"queryId": "q", "restarts": 3}), sql=OTHER, streaming={"upgradeMode": "Stateless"})
    renewed = decide(asked(of, operation=telling(OperationState.CANCELED), inputs=Inputs(OTHER)))
    assert told(renewed) == ("Initialized", "Upgrading")
    streaming = streaming_of(renewed)
    assert (streaming.checkpoint_location, streaming.query_id, streaming.restarts) == (None, None, 0)
    goes = decide(asked(following(of, renewed), inputs=Inputs(OTHER)))
    assert streaming_of(goes).checkpoint_location == f"{LOCATION}-1"
    assert goes.status.sql_hash == sql_hash(OTHER)
    assert submitted(goes).request.sql == OTHER


def test_changed_text_ends_a_back_off() -> None:
    of = stream(
        resting("Initialized", nextAttemptTime=ago(-60), streaming={"upgrades": 1}),
        sql=OTHER,
        streaming={"upgradeMode": "Stateless"},
    )
    decision = decide(asked(of, inputs=Inputs(OTHER)))
    assert told(decision) == ("Initialized", "Upgrading")
    assert (decision.status.next_attempt_time, decision.status.attempt) == (None, 1)
    assert streaming_of(decide(asked(following(of, decision)))).checkpoint_location == f"{LOCATION}-2"


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
def test_changed_settings_restart_it_uncounted(spec: dict[str, Any]) -> None:
    of = stream(running(streaming={"restarts": 2}), **spec)
    assert told(decide(asked(of, operation=telling()))) == ("Running", "Upgrading")
    decision = decide(asked(of, operation=telling(OperationState.CANCELED)))
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
def test_other_changes_leave_it_alone(spec: dict[str, Any]) -> None:
    decision = decide(asked(stream(running(), **spec), operation=telling()))
    assert (told(decision), decision.commands) == (("Running", "Running"), ())


def test_text_kept_elsewhere_is_looked_at_when_it_is_read() -> None:
    source = {"sqlFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
    of = stream(resting(), **source)
    assert told(decide(asked(of, inputs=Inputs(OTHER)))) == ("Stopped", "StateIncompatible")
    assert told(decide(asked(of, inputs=Inputs(SQL)))) == ("Initialized", "Pending")
    assert told(decide(asked(of, inputs=MissingReference("gone")))) == ("Stopped", "InvalidSpec")
    waits = stream(resting("Initialized"), **source)
    assert told(decide(asked(waits, inputs=Inputs(OTHER)))) == ("Stopped", "StateIncompatible")


@pytest.mark.parametrize("phase", ["Finished", "Error", "Canceled"])
def test_changed_text_of_an_ended_one_waits_for_another_run(phase: str) -> None:
    status = {**ended(phase), "streaming": known()}
    decision = decide(asked(stream(status, sql=OTHER)))
    assert (decision.status.phase, decision.commands) == (phase, ())
    renewed = stream(status, sql=OTHER, runNonce="again")
    goes = decide(asked(following(renewed, decide(asked(renewed))), inputs=Inputs(OTHER)))
    assert streaming_of(goes).checkpoint_location == LOCATION[:-1] + "2"
    assert reason(goes) == "Submitted"
