"""Streaming statements whose spec changes while they run: the driver looks first, and what does not fit leaves the query alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparksql.api.execution import OutputMode, StatementMode
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import Ask, Cancel, Decision
from sparksql.domain.statement.identity import sql_hash
from sparksql.domain.statement.snapshot import (
    Inputs,
    MissingReference,
    SessionFacts,
    Snapshot,
    Unobserved,
)
from sparksql.domain.statement.stream.changes import AGAIN_SECONDS, ANSWER_SECONDS, LOOK_SECONDS, question
from sparksql.domain.violation import Violation
from sparksql.wire.control import ErrorReason, OperationError, OperationState, OperationView
from tests.unit.domain.builders.conditions import PARKED, STREAMS, UNDER_WAY, message, told
from tests.unit.domain.builders.objects import ago, with_status
from tests.unit.domain.builders.statements import DRIVER, READY, SQL, view
from tests.unit.domain.builders.streams import (
    LOCATION,
    OTHER,
    PLACE,
    SAVED_AT,
    START,
    UNFIT,
    canceled,
    fact,
    resting,
    running,
    shown,
    stream,
    stream_snapshot,
    streaming_of,
    telling,
)

LOOKING = SessionFacts("s", SessionPhase.READY, driver=replace(DRIVER, compares_states=True))
WRONG = OperationError(
    reason=ErrorReason.SQL_ERROR, condition="TABLE_OR_VIEW_NOT_FOUND", message="no table v", line=2, position=7
)
FITS = view(OperationState.FINISHED)


def refusing(error: OperationError = UNFIT, **fields: Any) -> OperationView:
    return view(OperationState.ERROR, error=error, start_time=None, **fields)


def changed(answer: OperationView | None = None, *, status: dict[str, Any] | None = None, **spec: Any) -> Snapshot:
    """A query that runs, whose text or whatever `spec` says has changed, and what its driver has answered."""
    spec = spec or {"sql": OTHER}
    of = stream(status or running(streaming={"queryId": "q", "committedBatchId": 2}), **spec)
    return stream_snapshot(of, session=LOOKING, operation=telling(), inputs=Inputs(of.spec.sql or SQL), answer=answer)


def asks(decision: Decision) -> Ask:
    (command,) = decision.commands
    assert isinstance(command, Ask)
    return command


def test_the_driver_is_asked_first_and_the_query_goes_on() -> None:
    decision = decide(changed())
    assert told(decision) == ("Running", "Upgrading")
    assert shown(decision) == UNDER_WAY
    assert decision.requeue_after == ANSWER_SECONDS
    look = asks(decision).question
    assert look.generation == 3
    request = look.request
    assert (request.mode, request.sql, request.streaming) == (StatementMode.VALIDATE, OTHER, None)
    assert (request.boot_id, request.execution_seconds) == ("boot-1", LOOK_SECONDS)
    assert request.validate_against is not None
    assert request.validate_against.checkpoint == LOCATION


def test_stream_is_stopped_for_a_change_that_fits_its_state() -> None:
    decision = decide(changed(FITS))
    assert told(decision) == ("Running", "Upgrading")
    assert canceled(decision).request.outcome is OperationState.CANCELED


@pytest.mark.parametrize(
    ("error", "words"), [(UNFIT, "key day became month"), (WRONG, "no table v")], ids=["state", "text"]
)
def test_change_that_does_not_fit_leaves_the_stream_running_and_tells_why(error: OperationError, words: str) -> None:
    decision = decide(changed(refusing(error)))
    assert told(decision) == ("Running", str(error.reason))
    assert shown(decision) == PARKED
    assert decision.commands == ()
    assert words in message(decision)
    assert f"the query continues with the previous query (sqlHash {sql_hash(SQL)[:12]})" in message(decision)
    assert decision.status.sql_hash == sql_hash(SQL)
    known = decision.status.error
    assert known is not None and (known.message, known.line) == (error.message, error.line)
    assert decision.events and (decision.events[0].type, decision.events[0].reason) == ("Warning", error.reason)
    again = decide(replace(changed(refusing(error)), statement=with_status(changed().statement, decision)))
    assert (again.status.conditions[:5], again.events, again.commands) == (decision.status.conditions[:5], (), ())
    healthy = next(each for each in decision.status.conditions if each.type == "Healthy")
    assert healthy.status == "True"


def test_text_that_is_put_back_heals_without_a_restart() -> None:
    refused = decide(changed(refusing()))
    back = changed(sql=SQL)
    healed = decide(replace(back, statement=with_status(back.statement, refused)))
    assert (told(healed), shown(healed), healed.commands) == (("Running", "Running"), STREAMS, ())
    assert (healed.status.error, healed.status.attempt) == (None, 1)


@pytest.mark.parametrize(
    "spec",
    [
        {"streaming": {"outputMode": "Complete"}},
        {"streaming": {"trigger": {"mode": "RealTime"}}},
        {"streaming": {"upsert": {"keys": ["id"]}}},
        {"conf": {"a": "b"}},
    ],
    ids=["outputMode", "trigger", "upsert", "conf"],
)
def test_changed_settings_that_need_a_restart_are_validated_by_the_driver_first(spec: dict[str, Any]) -> None:
    assert isinstance(decide(changed(**spec)).commands[0], Ask)
    refused = decide(changed(refusing(), **spec))
    assert (told(refused), refused.commands) == (("Running", "StateIncompatible"), ())
    assert "the query continues as before" in message(refused)
    assert isinstance(decide(changed(FITS, **spec)).commands[0], Cancel)


def test_the_question_is_about_the_attempt_that_comes_next() -> None:
    upsert = {"outputMode": "Update", "upsert": {"keys": ["id"]}, "trigger": {"mode": "Interval", "intervalMillis": 7}}
    look = question(changed(streaming=upsert))
    assert look is not None and look.request.validate_against is not None
    against = look.request.validate_against
    assert (against.output_mode, against.interval_millis) == (OutputMode.UPDATE, 7)
    assert against.upsert is not None and against.upsert.keys == ("id",)


def test_without_state_another_checkpoint_is_asked_about() -> None:
    look = question(changed(sql=OTHER, streaming={"upgradeMode": "Stateless"}))
    assert look is not None and look.request.validate_against is not None
    assert (look.request.validate_against.checkpoint, look.request.validate_against.restore) == (f"{LOCATION}-1", None)


def test_with_a_savepoint_that_is_asked_about() -> None:
    s = replace(changed(sql=OTHER, streaming={**START, "restoreNonce": "1"}), start_from=fact())
    look = asks(decide(s)).question
    assert look.request.validate_against is not None and look.request.validate_against.restore is not None
    assert look.request.validate_against.restore.location == SAVED_AT
    refused = decide(replace(s, answer=refusing()))
    assert (told(refused), refused.commands) == (("Running", "StateIncompatible"), ())
    assert streaming_of(refused).checkpoint_location == LOCATION
    assert isinstance(decide(replace(s, answer=FITS)).commands[0], Cancel)
    waits = decide(replace(s, start_from=fact(phase="InProgress")))
    assert (told(waits), waits.commands) == (("Running", "Running"), ())


def test_start_fresh_stops_the_stream_for_a_text_that_does_not_fit_the_state() -> None:
    decision = decide(changed(refusing(), sql=OTHER, streaming={"onIncompatible": "StartFresh"}))
    assert canceled(decision).request.outcome is OperationState.CANCELED
    wrong = decide(changed(refusing(WRONG), sql=OTHER, streaming={"onIncompatible": "StartFresh"}))
    assert (told(wrong), wrong.commands) == (("Running", "SqlError"), ())


def test_stream_is_stopped_for_a_change_that_its_driver_cannot_validate() -> None:
    """The driver is of an earlier version, or would have to run a part of the script."""
    older = replace(changed(), session=READY)
    assert isinstance(decide(older).commands[0], Cancel)
    script = OperationError(reason=ErrorReason.NOT_IMPLEMENTED, message="would have to be run")
    assert isinstance(decide(changed(refusing(script))).commands[0], Cancel)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"settings": Violation(Reason.NOT_ALLOWED, "spec.conf: no")}, "NotAllowed"),
        ({"settings": replace(PLACE, checkpoint_root=None)}, "InvalidSpec"),
        ({"inputs": MissingReference("no Secret")}, "InvalidSpec"),
    ],
    ids=["conf", "root", "secret"],
)
def test_change_that_the_operator_refuses_leaves_the_stream_running(facts: dict[str, Any], reason: str) -> None:
    spec = {"sql": OTHER, "streaming": {"upgradeMode": "Stateless"}}
    decision = decide(replace(changed(**spec), **facts))
    assert (told(decision), shown(decision), decision.commands) == (("Running", reason), PARKED, ())


@pytest.mark.parametrize(
    "facts",
    [
        {"settings": None},
        {"session": replace(LOOKING, driver=None)},
        {"session": replace(LOOKING, driver=replace(DRIVER, boot_id="boot-2", compares_states=True))},
    ],
    ids=["class", "driver", "boot"],
)
def test_change_that_cannot_be_validated_yet_leaves_the_stream_running(facts: dict[str, Any]) -> None:
    decision = decide(replace(changed(), **facts))
    assert (told(decision), shown(decision), decision.commands) == (("Running", "Upgrading"), UNDER_WAY, ())


@pytest.mark.parametrize("error", [UNFIT, WRONG], ids=["state", "text"])
def test_refused_change_is_asked_again_only_if_it_may_heal_and_not_often(error: OperationError) -> None:
    old = refusing(error, completion_time=ago(AGAIN_SECONDS))
    decision = decide(changed(old))
    assert told(decision) == ("Running", str(error.reason))
    assert [type(each) for each in decision.commands] == ([] if error is UNFIT else [Ask])
    assert decide(changed(refusing(error, completion_time=ago(AGAIN_SECONDS - 1)))).commands == ()


@pytest.mark.parametrize("state", [OperationState.CANCELED, OperationState.CLOSED, OperationState.TIMED_OUT])
def test_a_look_that_came_to_nothing_stops_nobody(state: OperationState) -> None:
    decision = decide(changed(view(state)))
    assert str(decision.status.phase) == "Running"
    assert not any(isinstance(each, Cancel) for each in decision.commands)
    assert [type(each) for each in decision.commands] == ([] if state is OperationState.TIMED_OUT else [Ask])


def test_operator_that_starts_again_asks_once_more_and_says_the_same_meanwhile() -> None:
    refused = decide(changed(refusing()))
    s = changed()
    waits = decide(replace(s, statement=with_status(s.statement, refused)))
    assert (waits.status, waits.events) == (refused.status, ())
    assert isinstance(waits.commands[0], Ask)
    newer = s.statement.replace(metadata=s.statement.metadata.replace(generation=4), status=refused.status)
    assert told(decide(replace(s, statement=newer))) == ("Running", "Upgrading")


def test_refusal_holds_while_the_driver_is_out_of_reach() -> None:
    refused = decide(changed(refusing()))
    s = changed()
    silent = decide(replace(s, statement=with_status(s.statement, refused), operation=Unobserved.UNREACHABLE))
    assert (told(silent), shown(silent)) == (("Running", "StateIncompatible"), PARKED)


@pytest.mark.parametrize("desired", ["Stopped", "Canceled"])
def test_wish_to_stop_is_followed_and_forgets_the_refusal(desired: str) -> None:
    refused = decide(changed(refusing()))
    s = changed(sql=OTHER, desiredState=desired)
    of = with_status(s.statement, refused)
    stopping = decide(replace(s, statement=of, answer=refusing()))
    assert isinstance(stopping.commands[0], Cancel)
    over = decide(replace(s, statement=with_status(of, stopping), operation=telling(OperationState.CANCELED)))
    assert (str(over.status.phase), over.status.error) == (desired, None)


def test_refused_text_is_what_the_next_attempt_has_when_the_query_ends_by_itself() -> None:
    """The text before is not kept: the driver checks at the start, as ever."""
    refused = decide(changed(refusing()))
    s = changed()
    lost = decide(replace(s, statement=with_status(s.statement, refused), operation=Unobserved.DRIVER_GONE))
    assert told(lost) == ("Initialized", "Upgrading")
    assert lost.status.error is None


def test_changed_text_of_a_starting_stream_is_validated_by_the_driver_first() -> None:
    s = changed(status=resting("Pending", streaming={"queryId": "q"}))
    s = replace(s, operation=telling(OperationState.PENDING, start_time=None, progress=None))
    starting = decide(s)
    assert (told(starting), shown(starting)) == (("Pending", "Submitted"), UNDER_WAY)
    assert isinstance(starting.commands[0], Ask)
    refused = decide(replace(s, answer=refusing()))
    assert (told(refused), refused.commands, shown(refused)) == (("Pending", "Submitted"), (), UNDER_WAY)


def test_change_before_the_request_arrived_is_taken_in_without_a_look() -> None:
    s = replace(changed(status=resting("Pending"), conf={"a": "b"}), operation=Unobserved.UNKNOWN)
    assert isinstance(decide(s).commands[0], Cancel)
