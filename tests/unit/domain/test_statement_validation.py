"""`mode: Validate` with `validateAgainst`: the state comes from the other statement's status, and what it lacks is waited for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparksql.api.execution import OutputMode, StatementMode
from sparksql.api.streaming import Streaming
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import Cancel, Submit
from sparksql.domain.statement.snapshot import Snapshot, StateFacts, Unobserved
from sparksql.wire.control import ErrorReason, OperationError, OperationState
from tests.unit.domain.builders.conditions import message, told
from tests.unit.domain.builders.objects import ago
from tests.unit.domain.builders.statements import (
    DRIVER,
    READY,
    handed_over,
    initialized,
    statement,
    statement_snapshot,
    view,
)

PLACE = "s3a://bucket/checkpoints/team-a/other/1"
STATE = StateFacts("other", Streaming.parse({"outputMode": "Complete", "upsert": {"keys": ["k"]}}), PLACE)
SERVES = replace(READY, driver=replace(DRIVER, compares_states=True))
AGAINST: dict[str, Any] = {"mode": "Validate", "validateAgainst": {"statementRef": {"name": "other"}}}


def validation(status: dict[str, Any] | None = None, *, facts: dict[str, Any] | None = None, **spec: Any) -> Snapshot:
    of = statement(status or initialized(), **{**AGAINST, **spec})
    return statement_snapshot(of, **{"session": SERVES, "state": STATE, **(facts or {})})


@pytest.mark.parametrize(
    ("own", "mode"), [({}, OutputMode.COMPLETE), ({"streaming": {"outputMode": "Update"}}, OutputMode.UPDATE)]
)
def test_validation_takes_over_state_and_unset_settings_of_the_other_statement(
    own: dict[str, Any], mode: OutputMode
) -> None:
    decision = decide(validation(**own))
    assert told(decision) == ("Pending", "Submitted")
    (command,) = decision.commands
    assert isinstance(command, Submit)
    request = command.request
    assert (request.mode, request.streaming) == (StatementMode.VALIDATE, None)
    assert request.validate_against is not None
    assert (request.validate_against.checkpoint, request.validate_against.output_mode) == (PLACE, mode)
    assert (request.validate_against.upsert is None) is bool(own)
    assert decision.status.streaming is None


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, "there is no SqlStatement other in namespace team-a"),
        (replace(STATE, checkpoint=None), "no checkpoint yet"),
    ],
)
def test_validation_waits_a_minute_for_a_missing_statement_or_checkpoint(state: StateFacts | None, words: str) -> None:
    waits = decide(validation(facts={"state": state}))
    assert told(waits) == ("Initialized", "WaitingForSource")
    assert words in message(waits)
    late = decide(validation(initialized(submittedTime=ago(61)), facts={"state": state}))
    assert told(late) == ("Error", "InvalidSpec")
    assert message(late).startswith("spec.validateAgainst.statementRef.name: ")


def test_a_batch_statement_has_no_state() -> None:
    decision = decide(validation(facts={"state": replace(STATE, streaming=None)}))
    assert (told(decision), decision.commands) == (("Error", "InvalidSpec"), ())


def test_a_driver_of_an_earlier_version_is_not_asked() -> None:
    """It would only parse the text, and call that a fit."""
    decision = decide(validation(facts={"session": READY}))
    assert (told(decision), decision.commands) == (("Error", "NotImplemented"), ())
    assert "spec.restartNonce" in message(decision)


def test_ended_validation_says_whether_the_text_fits_the_state() -> None:
    fits = decide(validation(handed_over("Running"), facts={"operation": view(OperationState.FINISHED)}))
    assert (told(fits), message(fits)) == (
        ("Finished", "Finished"),
        "the query is compatible with the state of SqlStatement other",
    )
    error = OperationError(reason=ErrorReason.STATE_INCOMPATIBLE, message="key k was int, is string")
    unfit = decide(validation(handed_over("Running"), facts={"operation": view(OperationState.ERROR, error=error)}))
    assert (told(unfit), message(unfit)) == (("Error", "StateIncompatible"), error.message)


def test_lost_validation_request_is_sent_again_only_with_the_state() -> None:
    gone = {"operation": Unobserved.UNKNOWN, "state": None}
    decision = decide(validation(handed_over(), facts=gone))
    assert [type(each) for each in decision.commands] == [Cancel]
    again = decide(validation(handed_over(), facts={"operation": Unobserved.UNKNOWN}))
    (command,) = again.commands
    assert isinstance(command, Submit) and command.request.validate_against is not None


EARLIER = replace(READY, driver=replace(DRIVER, plans_streams=False))


@pytest.mark.parametrize("mode", ["Validate", "Explain"])
def test_validate_and_explain_of_a_stream_regard_its_settings_and_name_no_checkpoint(mode: str) -> None:
    of = statement(initialized(), mode=mode, streaming={"outputMode": "Update", "upsert": {"keys": ["k"]}})
    (command,) = decide(statement_snapshot(of, session=READY)).commands
    assert isinstance(command, Submit) and command.request.dry_run is not None
    request = command.request
    assert (request.mode.value, request.streaming, request.validate_against) == (mode, None, None)
    assert (request.dry_run.checkpoint, request.dry_run.output_mode) == ("", OutputMode.UPDATE)
    assert request.dry_run.upsert is not None and request.dry_run.upsert.keys == ("k",)


@pytest.mark.parametrize("mode", ["Validate", "Explain"])
def test_driver_that_does_not_plan_streams_is_not_asked(mode: str) -> None:
    decision = decide(statement_snapshot(statement(initialized(), mode=mode, streaming={}), session=EARLIER))
    assert (told(decision), decision.commands) == (("Error", "NotImplemented"), ())
    assert "spec.restartNonce" in message(decision)


@pytest.mark.parametrize("spec", [{"mode": "Explain"}, {"mode": "Preview", "streaming": {}}, {"streaming": {}}])
def test_other_modes_and_batch_texts_are_submitted_without_a_dry_run(spec: dict[str, Any]) -> None:
    for command in decide(statement_snapshot(statement(initialized(), **spec), session=READY)).commands:
        assert isinstance(command, Submit) and command.request.dry_run is None


def test_validation_of_a_text_alone_is_submitted_without_a_state() -> None:
    of = statement(initialized(), mode="Validate")
    decision = decide(statement_snapshot(of))
    (command,) = decision.commands
    assert isinstance(command, Submit)
    assert (command.request.mode, command.request.validate_against) == (StatementMode.VALIDATE, None)
    done = decide(
        statement_snapshot(statement(handed_over("Running"), mode="Validate"), operation=view(OperationState.FINISHED))
    )
    assert (told(done), message(done)) == (("Finished", "Finished"), "")
