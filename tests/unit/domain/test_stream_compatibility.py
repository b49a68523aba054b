"""The condition Compatible of a stopped stream: when a driver validates the spec, how often, and with which result."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sparksql.api.conditions import Condition, find_condition
from sparksql.api.execution import StatementMode
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import Ask, Decision, NeedsInputs
from sparksql.domain.statement.snapshot import Inputs, Inquired, MissingReference, SessionFacts, Snapshot
from sparksql.domain.statement.stream.changes import ANSWER_SECONDS
from sparksql.domain.statement.stream.compatibility import (
    DEADLINE_SECONDS,
    FIRST_RETRY_SECONDS,
    MAX_RETRY_SECONDS,
    question,
)
from sparksql.domain.violation import Violation
from sparksql.wire.control import COMPARISON, Column, ErrorReason, OperationError, OperationState, ResultSummary
from tests.unit.domain.builders.conditions import RESTS, conditions
from tests.unit.domain.builders.objects import NOW, ago, with_status
from tests.unit.domain.builders.statements import DRIVER, SQL, view
from tests.unit.domain.builders.streams import (
    LOCATION,
    OTHER,
    SAVED_AT,
    START,
    UNFIT,
    fact,
    parked,
    resting,
    running,
    stream,
    stream_snapshot,
    telling,
)

LOOKING = SessionFacts("s", SessionPhase.READY, driver=replace(DRIVER, compares_states=True))
OUTAGE = OperationError(reason=ErrorReason.ENVIRONMENT_FAILED, message="the storage does not answer")
NO_TABLE = OperationError(
    reason=ErrorReason.SQL_ERROR, condition="TABLE_OR_VIEW_NOT_FOUND", sql_state="42P01", message="no table v"
)
TRIED = OperationError(reason=ErrorReason.NOT_IMPLEMENTED, message="would have to be run")
UNANSWERED = Inquired(NOW, 0)


def stopped(status: dict[str, Any] | None = None, *, facts: dict[str, Any] | None = None, **spec: Any) -> Snapshot:
    """A stream that is stopped, whose query or whatever `spec` has was changed."""
    of = stream(status or resting(streaming={"queryId": "q", "committedBatchId": 2}), desiredState="Stopped", **spec)
    known = {"session": LOOKING, "inputs": Inputs(of.spec.sql or SQL), **(facts or {})}
    return stream_snapshot(of, **known)


def answered(state: OperationState, *, answers: int = 1, age: float = 0.0, **fields: Any) -> dict[str, Any]:
    return {"answer": view(state, completion_time=ago(age), **fields), "inquired": Inquired(ago(age), answers)}


def compatible(decision: Decision | NeedsInputs) -> Condition:
    assert isinstance(decision, Decision)
    found = find_condition(decision.status.conditions, "Compatible")
    assert found is not None
    return found


def shown(decision: Decision | NeedsInputs) -> tuple[str, str]:
    return str(compatible(decision).status), compatible(decision).reason


def test_changed_query_of_a_stopped_stream_is_sent_to_the_driver_of_the_session() -> None:
    other = replace(LOOKING, driver=replace(DRIVER, pod_uid="pod-2", boot_id="boot-2", compares_states=True))
    decision = decide(stopped(sql=OTHER, facts={"session": other}))
    assert isinstance(decision, Decision)
    assert (shown(decision), conditions(decision)[:5]) == (("Unknown", "Validating"), RESTS)
    assert decision.requeue_after == ANSWER_SECONDS
    (command,) = decision.commands
    assert isinstance(command, Ask)
    request = command.question.request
    assert (command.pod_uid, request.boot_id) == ("pod-2", "boot-2")
    assert (request.mode, request.sql, request.streaming) == (StatementMode.VALIDATE, OTHER, None)
    assert request.validate_against is not None and request.validate_against.checkpoint == LOCATION
    assert question(stopped(sql=OTHER, facts={"session": other})) == command.question


@pytest.mark.parametrize(
    ("error", "spec", "result"),
    [
        (None, {"sql": OTHER}, ("True", "Compatible")),
        (UNFIT, {"sql": OTHER}, ("False", "StateIncompatible")),
        (NO_TABLE, {"sql": OTHER}, ("False", "SqlError")),
        (TRIED, {"sql": OTHER}, ("Unknown", "NotImplemented")),
        (UNFIT, {"sql": OTHER, "streaming": {"onIncompatible": "StartFresh"}}, ("False", "StateIncompatible")),
        (None, {"sql": OTHER, "streaming": {"upgradeMode": "Stateless"}}, ("True", "Compatible")),
        (None, {"conf": {"a": "b"}}, ("True", "Compatible")),
    ],
    ids=["fits", "state", "table", "script", "start fresh", "stateless", "settings"],
)
def test_answer_of_the_driver_is_the_condition_and_ends_the_validation(
    error: OperationError | None, spec: dict[str, Any], result: tuple[str, str]
) -> None:
    state = OperationState.FINISHED if error is None else OperationState.ERROR
    s = stopped(facts=answered(state, error=error), **spec)
    decision = decide(s)
    assert isinstance(decision, Decision)
    assert (shown(decision), decision.commands) == (result, ())
    assert compatible(decision).observed_generation == 3
    assert error is None or compatible(decision).message.startswith(error.message)
    later = decide(replace(s, statement=with_status(s.statement, decision), inputs=None, answer=None, inquired=None))
    assert isinstance(later, Decision)
    assert (compatible(later), later.commands) == (compatible(decision), ())


def test_refusal_of_a_validation_has_the_words_of_the_refused_start() -> None:
    validated = compatible(decide(stopped(sql=OTHER, facts=answered(OperationState.ERROR, error=UNFIT))))
    of = stream(running(streaming={"queryId": "q", "committedBatchId": 2}), sql=OTHER)
    refused = telling(OperationState.ERROR, error=UNFIT, start_time=None, progress=None)
    starting = of.replace(status=of.status.replace(phase="Pending", sql_hash=None))
    start = decide(stream_snapshot(starting, session=LOOKING, operation=refused, inputs=Inputs(OTHER)))
    assert isinstance(start, Decision)
    ready = find_condition(start.status.conditions, "Ready")
    assert ready is not None and str(start.status.phase) == "Stopped"
    assert (validated.reason, validated.message) == (ready.reason, ready.message)
    assert shown(start) == ("False", "StateIncompatible")


def test_rewritten_state_is_compatible_and_the_columns_are_named() -> None:
    row = ("AggregateAdded", "aggregate", "m", "", "max(v)", "none is needed")
    result = ResultSummary(
        columns=tuple(Column(name=name, type="string") for name in COMPARISON), row_count=1, preview=(row,)
    )
    found = compatible(decide(stopped(sql=OTHER, facts=answered(OperationState.FINISHED, result=result))))
    assert (str(found.status), "once that is rewritten" in found.message, "(m)" in found.message) == (
        "True",
        True,
        True,
    )


def test_changed_query_is_read_only_while_a_driver_can_validate() -> None:
    assert decide(stopped(sql=OTHER, facts={"inputs": None})) == NeedsInputs()
    for session in (None, SessionFacts("s", SessionPhase.HIBERNATED)):
        assert isinstance(decide(stopped(sql=OTHER, facts={"inputs": None, "session": session})), Decision)


@pytest.mark.parametrize(
    ("facts", "spec", "reason", "words"),
    [
        ({"session": SessionFacts("s", SessionPhase.HIBERNATED)}, {}, "SessionNotReady", "s is Hibernated"),
        ({"session": None}, {}, "SessionNotReady", "session s does not exist"),
        ({"settings": None}, {}, "SessionNotReady", "session s is Ready"),
        ({}, {"session": {"className": "standard"}}, "SessionNotReady", "its own session"),
        ({"session": replace(LOOKING, driver=DRIVER)}, {}, "OlderDriver", "restartNonce"),
        ({"inputs": MissingReference("no Secret")}, {}, "WaitingForSource", "no Secret"),
        ({"start_from": fact(phase="Pending")}, {"streaming": {**START, "restoreNonce": "1"}}, "WaitingForSavepoint", "before"),
    ],
    ids=["asleep", "no session", "no class", "own session", "older driver", "Secret", "savepoint"],
)  # fmt: skip
def test_spec_without_a_driver_to_validate_is_unknown_with_the_reason_and_starts_nothing(
    facts: dict[str, Any], spec: dict[str, Any], reason: str, words: str
) -> None:
    decision = decide(stopped(sql=OTHER, facts=facts, **spec))
    assert isinstance(decision, Decision)
    assert (shown(decision), words in compatible(decision).message) == (("Unknown", reason), True)
    assert not any(isinstance(command, Ask) for command in decision.commands)
    assert decision.requeue_after is not None and decision.requeue_after > 0


def test_spec_refused_by_the_class_is_incompatible_without_a_driver() -> None:
    refusal = Violation(Reason.NOT_ALLOWED, "spec.conf: no")
    decision = decide(stopped(sql=OTHER, facts={"settings": refusal, "session": None}))
    assert shown(decision) == ("False", "NotAllowed")


def test_restore_is_validated_with_the_savepoint() -> None:
    s = stopped(streaming={**START, "restoreNonce": "1"}, facts={"start_from": fact()})
    asked = question(s)
    assert asked is not None and asked.request.validate_against is not None
    restore = asked.request.validate_against.restore
    assert restore is not None and restore.location == SAVED_AT


@pytest.mark.parametrize("answers", [1, 2, 9])
def test_outage_is_validated_again_after_a_growing_back_off(answers: int) -> None:
    delay = min(FIRST_RETRY_SECONDS * 2 ** (answers - 1), MAX_RETRY_SECONDS)
    outage = {"answers": answers, "error": OUTAGE}
    early = decide(stopped(sql=OTHER, facts=answered(OperationState.ERROR, age=delay - 1, **outage)))
    due = decide(stopped(sql=OTHER, facts=answered(OperationState.ERROR, age=delay, **outage)))
    assert isinstance(early, Decision) and isinstance(due, Decision)
    assert (shown(early), early.commands) == (("Unknown", "Retrying"), ())
    assert early.requeue_after == pytest.approx(1.05)
    assert (shown(due), [type(each) for each in due.commands]) == (("Unknown", "Retrying"), [Ask])
    assert OUTAGE.message in compatible(due).message


@pytest.mark.parametrize(
    "facts",
    [{"answer": None}, answered(OperationState.ERROR, error=OUTAGE), answered(OperationState.TIMED_OUT)],
    ids=["silent", "outage", "slow"],
)
def test_validation_past_the_deadline_ends_until_the_next_generation(facts: dict[str, Any]) -> None:
    s = stopped(sql=OTHER, facts={**facts, "inquired": Inquired(NOW - timedelta(seconds=DEADLINE_SECONDS), 4)})
    decision = decide(s)
    assert isinstance(decision, Decision)
    assert (shown(decision), decision.commands) == (("Unknown", "EnvironmentFailed"), ())
    kept = with_status(s.statement, decision)
    later = decide(replace(s, statement=kept, inputs=None, answer=None, inquired=None))
    assert isinstance(later, Decision) and shown(later) == ("Unknown", "EnvironmentFailed")
    newer = kept.replace(metadata=kept.metadata.replace(generation=4))
    assert decide(replace(s, statement=newer, inputs=None, answer=None, inquired=None)) == NeedsInputs()


@pytest.mark.parametrize("state", [OperationState.CANCELED, OperationState.CLOSED])
def test_validation_ended_by_the_driver_is_repeated(state: OperationState) -> None:
    decision = decide(stopped(sql=OTHER, facts=answered(state, age=FIRST_RETRY_SECONDS)))
    assert isinstance(decision, Decision) and isinstance(decision.commands[-1], Ask)


def test_stream_stopped_with_an_unchanged_spec_is_compatible_without_a_validation() -> None:
    of = stream(running(streaming={"queryId": "q", "committedBatchId": 2}), desiredState="Stopped")
    canceled = telling(OperationState.CANCELED)
    s = stream_snapshot(of, session=LOOKING, operation=canceled, inputs=Inputs(SQL))
    over = decide(s)
    assert isinstance(over, Decision)
    assert (str(over.status.phase), shown(over)) == ("Stopped", ("True", "Unchanged"))
    known = with_status(of, over)
    later = known.replace(metadata=known.metadata.replace(generation=4))
    again = decide(replace(s, statement=later, operation=None))
    assert isinstance(again, Decision)
    assert (shown(again), again.commands, compatible(again).observed_generation) == (("True", "Unchanged"), (), 4)


def test_stream_stopped_before_a_changed_spec_ran_is_validated() -> None:
    of = stream(running(streaming={"queryId": "q", "committedBatchId": 2}), sql=OTHER, desiredState="Stopped")
    s = stream_snapshot(of, session=LOOKING, operation=telling(OperationState.CANCELED), inputs=Inputs(OTHER))
    over = decide(s)
    assert isinstance(over, Decision)
    assert (shown(over), over.requeue_after) == (("Unknown", "Validating"), 0.0)
    assert decide(replace(s, statement=with_status(of, over), operation=None, inputs=None)) == NeedsInputs()


def test_refused_query_of_a_parked_stream_stays_incompatible_once_stopped() -> None:
    decision = decide(stopped(parked()))
    assert isinstance(decision, Decision)
    assert (shown(decision), decision.commands) == (("False", "StateIncompatible"), ())
    known = with_status(stopped(parked()).statement, decision)
    newer = known.replace(metadata=known.metadata.replace(generation=4))
    again = decide(stream_snapshot(newer, session=LOOKING, inputs=Inputs(SQL)))
    assert isinstance(again, Decision) and isinstance(again.commands[-1], Ask)


def test_stream_parked_for_another_reason_is_not_called_incompatible() -> None:
    lost = OperationError(reason=ErrorReason.SOURCE_LOST, message="the topic is another one")
    decision = decide(stream_snapshot(stream(parked(error=lost)), session=LOOKING, inputs=Inputs(SQL)))
    assert shown(decision) == ("Unknown", "SourceLost")


@pytest.mark.parametrize(
    "of",
    [
        stream(resting(streaming={"checkpointLocation": None}), desiredState="Stopped"),
        stream(running()),
    ],
    ids=["no checkpoint", "running"],
)
def test_stream_running_or_without_a_checkpoint_has_no_condition(of: Any) -> None:
    decision = decide(stream_snapshot(of, session=LOOKING, operation=telling(), inputs=Inputs(SQL)))
    assert isinstance(decision, Decision)
    assert find_condition(decision.status.conditions, "Compatible") is None
