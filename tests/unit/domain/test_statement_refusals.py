"""Drivers that do not take a statement, and sessions of a statement's own that do not start: an end, or a parked state."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import DeleteSession, Submit
from sparksql.domain.statement.snapshot import Inputs, Refusal, SessionFacts, Snapshot, Unobserved
from tests.unit.domain.builders.conditions import PARKED, message, told
from tests.unit.domain.builders.objects import ago, with_status
from tests.unit.domain.builders.statements import SQL, handed_over, statement, statement_snapshot
from tests.unit.domain.builders.streams import known, resting, shown, stream, stream_snapshot

WORDS = "400: unknown field secretField"


def refused(seconds: float, *, streaming: bool = False) -> Snapshot:
    facts: dict[str, Any] = {
        "operation": Unobserved.UNKNOWN,
        "inputs": Inputs(SQL),
        "refusal": Refusal(ago(seconds), WORDS),
    }
    if streaming:
        return stream_snapshot(stream(handed_over(streaming=known())), **facts)
    return statement_snapshot(statement(handed_over()), **facts)


@pytest.mark.parametrize("streaming", [False, True])
def test_refused_hand_over_is_repeated_with_the_drivers_words_until_a_deadline(streaming: bool) -> None:
    decision = decide(refused(59, streaming=streaming))
    assert told(decision) == ("Pending", "DriverRefused")
    assert WORDS in message(decision) and "tried again until" in message(decision)
    assert any(isinstance(command, Submit) for command in decision.commands)


def test_statement_that_its_driver_refuses_for_a_minute_ends_with_the_drivers_words() -> None:
    decision = decide(refused(60))
    assert told(decision) == ("Error", "DriverRefused")
    assert WORDS in message(decision) and "it did not run" in message(decision)
    assert not any(WORDS in event.message.text for event in decision.events)


def test_stream_that_its_driver_refuses_for_a_minute_is_parked_with_its_checkpoint() -> None:
    snapshot = refused(60, streaming=True)
    decision = decide(snapshot)
    assert (told(decision), shown(decision)) == (("Stopped", "DriverRefused"), PARKED)
    assert not any(WORDS in event.message.text for event in decision.events)
    again = decide(stream_snapshot(with_status(snapshot.statement, decision)))
    assert told(again) == ("Stopped", "DriverRefused")


@pytest.mark.parametrize("reason", [Reason.MAX_RESTARTS_EXCEEDED, Reason.INIT_FAILED, Reason.UNSCHEDULABLE])
def test_stream_whose_own_session_does_not_start_is_parked_with_its_checkpoint(reason: Reason) -> None:
    own = {"className": "standard"}
    of = stream(resting("Initialized"), session=own)
    failed = SessionFacts("s", SessionPhase.FAILED, problem=(reason, "more than 5 drivers in a row were lost"))
    decision = decide(stream_snapshot(of, session=failed))
    assert (decision.status.phase, shown(decision)) == ("Stopped", PARKED)
    assert "own session cannot start" in message(decision) and "go on from the checkpoint" in message(decision)
    assert decision.commands == (DeleteSession(),)
    again = decide(stream_snapshot(with_status(of, decision), session=None))
    assert (again.status.phase, shown(again)) == ("Stopped", PARKED)
