"""Statements and the snapshots to decide on: a ready session, nobody ahead, and whatever a test says otherwise."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from sparksql.api.session import SessionPhase
from sparksql.api.statement import SqlStatement
from sparksql.domain.admission import Turn
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import Decision, NeedsInputs
from sparksql.domain.statement.dependencies import Met
from sparksql.domain.statement.identity import operation_id, sql_hash
from sparksql.domain.statement.snapshot import (
    Driver,
    Inputs,
    SessionFacts,
    Settings,
    Snapshot,
)
from sparksql.wire.control import OperationError, OperationState, OperationView
from tests.unit.domain.builders.conditions import STATEMENT_CONDITIONS
from tests.unit.domain.builders.objects import NOW, ago

STATEMENT_UID = "5f0c2a9e-0000-4000-8000-000000000001"
SQL = "INSERT INTO t SELECT 1"
DRIVER = Driver("s-1", "pod-1", "boot-1", plans_streams=True)
READY = SessionFacts("s", SessionPhase.READY, driver=DRIVER)
STARTING = SessionFacts("s", SessionPhase.STARTING)

ENDED = frozenset(STATEMENT_CONDITIONS) - {"Initialized", "Pending", "Running"}


def statement(status: dict[str, Any] | None = None, *, deleted: datetime | None = None, **spec: Any) -> SqlStatement:
    """A statement of session `s` unless `spec` says otherwise; API field names."""
    where = {} if "session" in spec else {"sessionRef": {"name": "s"}}
    text = {} if "sqlFrom" in spec else {"sql": SQL}
    metadata = {
        "name": "one", "namespace": "team-a", "uid": STATEMENT_UID, "generation": 3, "resourceVersion": "7",
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
        **initialized(), "phase": phase, "operationId": operation_id(STATEMENT_UID, run, attempt), "sqlHash": sql_hash(SQL),
        "session": {"name": "s", "podName": "s-1", "podUID": "pod-1", "bootId": "boot-1"},
        **({"startTime": ago(5)} if phase == "Running" else {}), **status,
    }  # fmt: skip


def ended(phase: str = "Finished", **status: Any) -> dict[str, Any]:
    return {**handed_over("Running"), "phase": phase, "completionTime": ago(2), **status}


def statement_snapshot(of: SqlStatement, **facts: Any) -> Snapshot:
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
    defaults = {
        "operation_id": operation_id(STATEMENT_UID, 1, 1),
        "boot_id": "boot-1",
        "seq": 1,
        "statement_type": "INSERT",
    }
    return OperationView(**{**defaults, **started, **completed, **error, "state": state, **fields})


def check_unread(s: Snapshot, decision: Decision) -> None:
    """Before its inputs are read, the same is decided of a statement, or that they are needed."""
    unread = decide(replace(s, inputs=None, answer=None))
    assert isinstance(unread, NeedsInputs) or unread == decision
