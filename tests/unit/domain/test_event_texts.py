"""Events of decisions hold no SQL, no values of it and no error message of a driver: condition, SQLSTATE and place instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.domain.savepoint.decide import decide as decide_savepoint
from sparksql.domain.savepoint.snapshot import Failed
from sparksql.domain.session.decide import decide as decide_session
from sparksql.domain.statement.decide import decide as decide_statement
from sparksql.domain.statement.decision import Decision
from sparksql.domain.statement.snapshot import Inputs, SessionFacts, Snapshot
from sparksql.domain.statement.stream.facts import stream_facts
from sparksql.domain.statement.stream.savepoints import Take, final_savepoint
from sparksql.wire.control import (
    COMPARISON,
    ErrorReason,
    GatewayState,
    InitFailure,
    OperationError,
    OperationState,
    ResultSummary,
)
from tests.unit.domain.builders.objects import ago
from tests.unit.domain.builders.savepoints import ATTEMPT, copying, savepoint, savepoint_snapshot
from tests.unit.domain.builders.sessions import gateway, pod, session_snapshot, starting
from tests.unit.domain.builders.statements import DRIVER, handed_over, initialized, statement, statement_snapshot, view
from tests.unit.domain.builders.streams import OTHER, fact, running, stream, stream_snapshot, telling
from tests.unit.domain.builders.streams import PLACE as SETTINGS

QUOTED = "[CAST_INVALID_INPUT] The value 'secret' cannot be cast. == SQL (line 2) == SELECT 'secret'"
PLACE: dict[str, Any] = {"condition": "CAST_INVALID_INPUT", "sql_state": "22018", "line": 2, "position": 8}
SUMMARY = "CAST_INVALID_INPUT, SQLSTATE 22018, line 2, position 8; see status"
ERROR = OperationError(message=QUOTED, **PLACE)
MISFIT = OperationError(reason=ErrorReason.STATE_INCOMPATIBLE, message=QUOTED, **PLACE)
REWRITABLE = MISFIT.model_copy(update={"rewritable": True})


def batch(**spec: Any) -> Snapshot:
    return statement_snapshot(
        statement(handed_over("Running"), **spec), operation=view(OperationState.ERROR, error=ERROR)
    )


def failed(error: OperationError, query: str | None = "q", **spec: Any) -> Snapshot:
    of = stream(running(streaming={"queryId": query, "committedBatchId": 2}), **spec)
    return stream_snapshot(of, operation=telling(OperationState.ERROR, error=error, start_time=None))


def own_session_failed() -> Snapshot:
    session = SessionFacts("s", SessionPhase.FAILED, problem=(Reason.INIT_FAILED, f"spec.init: {QUOTED}"))
    return statement_snapshot(statement(initialized(), session={"className": "standard"}), session=session)


def waited_too_long() -> Snapshot:
    ready = {"type": "Ready", "status": "False", "reason": "Restarting", "message": f"restart 1 of 10 in 1 s: {QUOTED}"}
    status = initialized(conditions=[ready], submittedTime=ago(100), nextAttemptTime=ago(-100), streaming={})
    return stream_snapshot(stream(status), settings=replace(SETTINGS, queue_seconds=1))


def refused_change() -> Snapshot:
    of = stream(running(streaming={"queryId": "q", "committedBatchId": 2}), sql=OTHER)
    session = SessionFacts("s", SessionPhase.READY, driver=replace(DRIVER, compares_states=True))
    answer = view(OperationState.ERROR, error=MISFIT, start_time=None)
    return stream_snapshot(of, session=session, operation=telling(), inputs=Inputs(OTHER), answer=answer)


def stopped_without_savepoint() -> Snapshot:
    spec: dict[str, Any] = {"streaming": {"upgradeMode": "Savepoint"}, "desiredState": "Stopped"}
    of = stream(running(streaming={"queryId": "q", "committedBatchId": 2}), **spec)
    over = stream_snapshot(of, operation=telling(OperationState.CANCELED))
    step = final_savepoint(over, stream_facts(over))
    assert isinstance(step, Take)
    return replace(over, savepoints=(fact(step.name, "Failed", message=QUOTED),))


def unfit_but_migrated() -> Snapshot:
    """A validation whose result names an expression of the query as a column."""
    spec = {"mode": "Validate", "validateAgainst": {"statementRef": {"name": "two"}}}
    row = dict.fromkeys(COMPARISON) | {"change": "column", "column": "x = 'secret'"}
    result = ResultSummary(row_count=1, preview=[[row[name] for name in COMPARISON]])
    operation = view(OperationState.FINISHED, result=result)
    return statement_snapshot(statement(handed_over("Running"), **spec), operation=operation)


STATEMENTS: dict[str, Snapshot] = {
    "error": batch(),
    "retried error": batch(retry={"limit": 1, "on": ["SqlError"]}),
    "own session": own_session_failed(),
    "never ran": failed(ERROR, None),
    "restarted": failed(ERROR),
    "gave up": failed(ERROR, streaming={"restart": {"limit": 0}}),
    "misfit": failed(MISFIT),
    "misfit, started fresh": failed(MISFIT, streaming={"onIncompatible": "StartFresh"}),
    "misfit, rewritten": failed(REWRITABLE),
}


@pytest.mark.parametrize("snapshot", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_event_of_a_statement_with_an_error_holds_its_summary_alone(snapshot: Snapshot) -> None:
    decision = decide_statement(snapshot)
    assert isinstance(decision, Decision)
    assert decision.events
    for event in decision.events:
        assert "secret" not in event.message.text and "see " in event.message.text
    if snapshot.operation is not None:
        assert any(SUMMARY in event.message.text for event in decision.events)
        assert "secret" in repr(decision.status)  # where the right to read the object is needed


OTHER_TEXTS: dict[str, Snapshot] = {
    "queue timeout of a restart": waited_too_long(),
    "refused change": refused_change(),
    "failed savepoint": stopped_without_savepoint(),
    "result of a validation": unfit_but_migrated(),
}


@pytest.mark.parametrize("snapshot", OTHER_TEXTS.values(), ids=OTHER_TEXTS.keys())
def test_event_of_a_statement_with_another_text_of_a_driver_holds_no_value_of_it(snapshot: Snapshot) -> None:
    decision = decide_statement(snapshot)
    assert isinstance(decision, Decision)
    assert decision.events
    assert all("secret" not in event.message.text and "see " in event.message.text for event in decision.events)


@pytest.mark.parametrize(
    ("failure", "what"),
    [
        (InitFailure(position=2, statement="SELECT 'secret'", error=ERROR), "spec.init: statement 2 failed"),
        (InitFailure(position=0, statement="USE secret", error=ERROR), "spec.database: its statement failed"),
    ],
)
def test_event_of_a_failed_init_statement_holds_its_summary_alone(failure: InitFailure, what: str) -> None:
    obj = starting()
    word = gateway(GatewayState.INIT_FAILED, init_failure=failure)
    decision = decide_session(session_snapshot(obj, pod=pod(obj), gateway=word))
    assert [event.message.text for event in decision.events] == [f"{what}: {SUMMARY}"]
    assert "secret" in (decision.status.message or "")


@pytest.mark.parametrize("final", [None, Reason.LOCATION_INVALID, Reason.SQL_ERROR])
def test_event_of_a_failed_savepoint_holds_no_message_of_the_driver(final: Reason | None) -> None:
    snapshot = savepoint_snapshot(savepoint(copying()), attempt=ATTEMPT, observation=Failed(QUOTED, final))
    decision = decide_savepoint(snapshot)
    assert decision.events
    assert all("secret" not in event.message.text and "see status" in event.message.text for event in decision.events)
