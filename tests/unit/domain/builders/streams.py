"""Streaming statements and the snapshots to decide on: on top of `statements`, with a class that has a place for checkpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sparksql.api.conditions import find_condition
from sparksql.api.savepoint import SavepointPhase, SavepointTrigger
from sparksql.api.statement import SqlStatement
from sparksql.api.streaming import StreamingStatus
from sparksql.domain.statement.decision import Cancel, CreateSavepoint, Decision, Submit
from sparksql.domain.statement.snapshot import SavepointFacts, Settings, Snapshot
from sparksql.domain.statement.stream.spec import settings_hash
from sparksql.wire.control import ErrorReason, OperationError, OperationState, OperationView, Progress, StreamProgress
from tests.unit.domain.builders.conditions import conditions
from tests.unit.domain.builders.objects import NOW, ago
from tests.unit.domain.builders.statements import SQL, STATEMENT_UID, handed_over, statement, statement_snapshot, view

OTHER = f"{SQL} WHERE true"
ROOT = "s3a://bucket/checkpoints"
LOCATION = f"{ROOT}/team-a/one-{STATEMENT_UID}/1"
PLACE = Settings(class_name="standard", checkpoint_root=ROOT)
UNFIT = OperationError(reason=ErrorReason.STATE_INCOMPATIBLE, message="aggregate 1: key day became month")
START = {"startFrom": {"savepointRef": {"name": "before"}}}
SAVED_AT = f"s3a://bucket/savepoints/team-a/one/before-{STATEMENT_UID}"


def stream(status: dict[str, Any] | None = None, *, deleted: datetime | None = None, **spec: Any) -> SqlStatement:
    return statement(status, deleted=deleted, **{"streaming": {}, **spec})


def stream_snapshot(of: SqlStatement, **facts: Any) -> Snapshot:
    return statement_snapshot(of, **{"settings": PLACE, **facts})


def known(**streaming: Any) -> dict[str, Any]:
    """`status.streaming` of a statement that was handed over with the settings of `stream()`."""
    return {"checkpointLocation": LOCATION, "settingsHash": settings_hash(stream().spec), **streaming}


def running(*, streaming: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return handed_over("Running", streaming=known(**(streaming or {})), **status)


def resting(phase: str = "Stopped", *, streaming: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {**running(streaming=streaming), "phase": phase, "startTime": None, **status}


def telling(
    state: OperationState = OperationState.RUNNING, *, told: dict[str, Any] | None = None, **fields: Any
) -> OperationView:
    """What the gateway says; `told` are fields of the query's progress."""
    query = StreamProgress(**{"query_id": "q", "run_id": "r", "batch_id": 3, "committed_batch_id": 2, **(told or {})})
    return view(state, **{"progress": Progress(stream=query), "streaming": True, **fields})


def unfit() -> OperationView:
    """The driver's word that the state does not fit the text: the query never started."""
    return telling(OperationState.ERROR, error=UNFIT, start_time=None, progress=None)


def parked(*, error: OperationError = UNFIT, streaming: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """Status of a statement that a driver has refused."""
    ready = {"type": "Ready", "status": "False", "reason": str(error.reason), "message": error.message}
    told = {"error": {"message": error.message}, "conditions": [ready]}
    return resting(streaming={"queryId": "q", "committedBatchId": 2, **(streaming or {})}, **{**told, **status})


def fact(name: str = "before", phase: str | None = "Completed", *, age: float = 10, **fields: Any) -> SavepointFacts:
    """A savepoint as its statement sees it; by default a complete one that was asked for."""
    over = phase is not None and SavepointPhase(phase).is_terminal
    known = {"location": SAVED_AT, "ended": NOW if over else None, "trigger": SavepointTrigger.MANUAL, **fields}
    return SavepointFacts(name, SavepointPhase(phase) if phase is not None else None, ago(age), **known)


def created(decision: Decision) -> CreateSavepoint:
    """Its only command, which is to make a savepoint."""
    (command,) = decision.commands
    assert isinstance(command, CreateSavepoint)
    return command


def shown(decision: Decision) -> tuple[str, ...]:
    """The conditions that batch statements have as well."""
    return conditions(decision)[:5]


def health(decision: Decision) -> tuple[tuple[str, str], tuple[str, str]]:
    """Status and reason of Healthy and of CheckpointFresh."""
    healthy, fresh = (find_condition(decision.status.conditions, type_) for type_ in ("Healthy", "CheckpointFresh"))
    assert healthy is not None and fresh is not None
    return (str(healthy.status), healthy.reason), (str(fresh.status), fresh.reason)


def submitted(decision: Decision) -> Submit:
    """Its only command, which is to submit."""
    (command,) = decision.commands
    assert isinstance(command, Submit)
    return command


def canceled(decision: Decision) -> Cancel:
    """Its only command, which is to cancel."""
    (command,) = decision.commands
    assert isinstance(command, Cancel)
    return command


def streaming_of(decision: Decision) -> StreamingStatus:
    assert decision.status.streaming is not None
    return decision.status.streaming
