"""Snapshots of statements to decide on: a ready session, nobody ahead, and whatever a test says otherwise."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sparksql.api.conditions import find_condition
from sparksql.api.session import SessionPhase
from sparksql.api.statement import SqlStatement, SqlStatementSpec, StatementDesiredState
from sparksql.domain.admission import Turn
from sparksql.domain.dependencies import Met
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import Decision, NeedsInputs
from sparksql.domain.statement.identity import operation_id, sql_hash
from sparksql.domain.statement.snapshot import (
    Driver,
    Inputs,
    SessionFacts,
    Settings,
    Snapshot,
)
from sparksql.wire.control import OperationError, OperationState, OperationView

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
UID = "5f0c2a9e-0000-4000-8000-000000000001"
SQL = "INSERT INTO t SELECT 1"
DRIVER = Driver("s-1", "pod-1", "boot-1")
READY = SessionFacts("s", SessionPhase.READY, driver=DRIVER)

# The contract's table: Ready, Reconciling, Stalled, Succeeded, Finished.
CONDITIONS = {  # Canceled: by wish
    "Initialized": ("False", "True", "False", "Unknown", "False"),
    "Pending": ("False", "True", "False", "Unknown", "False"),
    "Running": ("False", "True", "False", "Unknown", "False"),
    "Finished": ("True", "False", "False", "True", "True"),
    "Canceled": ("True", "False", "False", "False", "True"),
    "Closed": ("False", "False", "True", "False", "True"),
    "Error": ("False", "False", "True", "False", "True"),
    "TimedOut": ("False", "False", "True", "False", "True"),
}
FAILED = ("False", "False", "True", "False", "True")
ENDED = frozenset(CONDITIONS) - {"Initialized", "Pending", "Running"}


def row(phase: str, spec: SqlStatementSpec) -> tuple[str, ...]:
    """The contract's row for a batch statement in `phase`: one that was canceled against its spec has failed."""
    is_wished = phase != "Canceled" or spec.desired_state is not StatementDesiredState.RUNNING
    return CONDITIONS[phase] if is_wished else FAILED


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def statement(status: dict[str, Any] | None = None, *, deleted: datetime | None = None, **spec: Any) -> SqlStatement:
    """A statement of session `s` unless `spec` says otherwise; API field names."""
    where = {} if "session" in spec else {"sessionRef": {"name": "s"}}
    text = {} if "sqlFrom" in spec else {"sql": SQL}
    metadata = {
        "name": "one", "namespace": "team-a", "uid": UID, "generation": 3, "resourceVersion": "7",
        "creationTimestamp": ago(1000), "deletionTimestamp": deleted,
    }  # fmt: skip
    return SqlStatement.parse({"metadata": metadata, "spec": {**where, **text, **spec}, "status": status or {}})


def initialized(**status: Any) -> dict[str, Any]:
    """Status of a statement that was accepted ten seconds ago."""
    return {
        "observedGeneration": 3, "phase": "Initialized", "run": 1, "attempt": 1, "submittedTime": ago(10), **status
    }  # fmt: skip


def handed_over(phase: str = "Pending", **status: Any) -> dict[str, Any]:
    """Status of a statement that was handed to `DRIVER`."""
    run, attempt = status.get("run", 1), status.get("attempt", 1)
    return {
        **initialized(), "phase": phase, "operationId": operation_id(UID, run, attempt), "sqlHash": sql_hash(SQL),
        "session": {"name": "s", "podName": "s-1", "podUID": "pod-1", "bootId": "boot-1"},
        **({"startTime": ago(5)} if phase == "Running" else {}), **status,
    }  # fmt: skip


def ended(phase: str = "Finished", **status: Any) -> dict[str, Any]:
    return {**handed_over("Running"), "phase": phase, "completionTime": ago(2), **status}


def snapshot(of: SqlStatement, **facts: Any) -> Snapshot:
    """Everything is well: the session serves, it is this statement's turn, its text is there."""
    well = Snapshot(
        now=NOW,
        statement=of,
        session=READY,
        settings=Settings(),
        dependencies=Met(),
        turn=Turn(granted=True),
        inputs=Inputs(SQL),
    )
    return replace(well, **facts)


def view(state: OperationState, **fields: Any) -> OperationView:
    """What the gateway says of the first attempt."""
    started = {} if state is OperationState.PENDING else {"start_time": ago(5)}
    completed = {"completion_time": ago(1)} if state.is_terminal else {}
    error = {"error": OperationError(message="no such table")} if state is OperationState.ERROR else {}
    defaults = {"operation_id": operation_id(UID, 1, 1), "boot_id": "boot-1", "seq": 1, "statement_type": "INSERT"}
    return OperationView(**{**defaults, **started, **completed, **error, "state": state, **fields})


def check_unread(s: Snapshot, decision: Decision) -> None:
    """Before its inputs are read, the same is decided of a statement, or that they are needed."""
    unread = decide(replace(s, inputs=None, answer=None))
    assert isinstance(unread, NeedsInputs) or unread == decision


def reason(decision: Decision) -> str:
    ready = find_condition(decision.status.conditions, "Ready")
    return ready.reason if ready else ""


def message(decision: Decision) -> str:
    ready = find_condition(decision.status.conditions, "Ready")
    return ready.message if ready else ""


def conditions(decision: Decision) -> tuple[str, ...]:
    return tuple(str(c.status) for c in decision.status.conditions)


def told(decision: Decision) -> tuple[str, str]:
    """Phase and reason."""
    return str(decision.status.phase), reason(decision)
