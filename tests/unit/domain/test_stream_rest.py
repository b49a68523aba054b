"""A stream at rest and its session: what it gives back, needs again, and loses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparksql.api.session import SessionPhase
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import CreateSession, DeleteSession
from sparksql.domain.statement.snapshot import SavepointFacts, SessionFacts
from tests.unit.domain.builders.conditions import told
from tests.unit.domain.builders.statements import READY
from tests.unit.domain.builders.streams import LOCATION, fact, parked, resting, stream, stream_snapshot

OWN = {"session": {"className": "standard"}}
CLOSED = SessionFacts("s", SessionPhase.CLOSED)


@pytest.mark.parametrize("status", [resting(), parked()])
def test_stream_at_rest_deletes_its_dedicated_session(status: dict[str, Any]) -> None:
    spec = {"desiredState": "Stopped"} if "error" not in status else {}
    decision = decide(stream_snapshot(stream(status, **OWN, **spec)))
    assert decision.status.phase == "Stopped"
    assert decision.commands == (DeleteSession(),)


def test_stream_at_rest_leaves_a_shared_session_alone() -> None:
    assert decide(stream_snapshot(stream(resting(), desiredState="Stopped"))).commands == ()


@pytest.mark.parametrize(
    ("savepoint", "session", "commands"),
    [
        (fact(phase="Pending"), READY, ()),
        (fact(phase="InProgress"), READY, ()),
        (fact(phase="Pending"), None, (CreateSession(),)),
        (fact(phase=None), None, (CreateSession(),)),
        (fact(phase="Pending", deleting=True), READY, (DeleteSession(),)),
        (fact(phase="Completed"), READY, (DeleteSession(),)),
        (fact(phase="Failed"), READY, (DeleteSession(),)),
    ],
)
def test_a_savepoint_that_is_to_be_made_needs_the_session(
    savepoint: SavepointFacts, session: SessionFacts | None, commands: tuple[Any, ...]
) -> None:
    status = resting(streaming={"committedBatchId": 2})
    obj = stream(status, desiredState="Stopped", **OWN)
    assert decide(stream_snapshot(obj, savepoints=(savepoint,), session=session)).commands == commands


def test_stopped_stream_without_a_state_waits_for_no_savepoint() -> None:
    obj = stream(resting(), desiredState="Stopped", **OWN)
    assert decide(stream_snapshot(obj, savepoints=(fact(phase="Pending"),))).commands == (DeleteSession(),)


@pytest.mark.parametrize("session", [replace(READY, deleting=True, driver=None), CLOSED, None])
def test_stream_at_rest_outlives_the_end_of_its_dedicated_session(session: SessionFacts | None) -> None:
    rests = decide(stream_snapshot(stream(resting(), desiredState="Stopped", **OWN), session=session))
    assert told(rests) == ("Stopped", "StoppedByUser")
    goes_on = decide(stream_snapshot(stream(resting(), **OWN), session=session))
    assert goes_on.status.phase == "Initialized"


def test_parked_stream_outlives_a_session_that_closed() -> None:
    assert decide(stream_snapshot(stream(parked()), session=CLOSED)).status.phase == "Stopped"


def test_stream_resumed_in_a_closed_session_closes_and_says_where_its_state_is() -> None:
    decision = decide(stream_snapshot(stream(resting()), session=CLOSED))
    assert told(decision) == ("Closed", "SessionClosed")
    assert LOCATION in decision.status.conditions[0].message
