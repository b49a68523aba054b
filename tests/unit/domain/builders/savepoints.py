"""Savepoints and the snapshots to decide on: a streaming statement that runs, a class with a place for savepoints, a driver."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from sparksql.api.savepoint import SqlSavepoint
from sparksql.api.statement import SqlStatement
from sparksql.domain.savepoint.decide import decide
from sparksql.domain.savepoint.snapshot import Attempt, Completed, Decision, SavepointStorage, Snapshot
from sparksql.domain.savepoint.steps import copy_id
from tests.unit.domain.builders.objects import NOW, ago
from tests.unit.domain.builders.statements import DRIVER, STATEMENT_UID
from tests.unit.domain.builders.streams import LOCATION, running, stream

SAVEPOINT_UID = "5f0c2a9e-0000-4000-8000-00000000000a"
CHECKPOINT = LOCATION
ROOT = "s3a://bucket/savepoints"
TARGET = f"{ROOT}/team-a/one/before-{SAVEPOINT_UID}"
ELSEWHERE = "s3a://old/savepoints/7"
PLACE = SavepointStorage("standard", ROOT, "writer")
ATTEMPT = Attempt(DRIVER, STATEMENT_UID, "standard", "writer")
WHOLE = Completed(batch_id=41, query_id="q", spark_version="4.1.4", size_bytes=123, file_count=9)


def savepoint(
    status: dict[str, Any] | None = None,
    *,
    created: datetime | None = None,
    deleted: datetime | None = None,
    **spec: Any,
) -> SqlSavepoint:
    """A savepoint of statement `one`, made ten seconds ago; API field names."""
    metadata = {
        "name": "before", "namespace": "team-a", "uid": SAVEPOINT_UID, "generation": 2,
        "creationTimestamp": created or ago(10), "deletionTimestamp": deleted,
    }  # fmt: skip
    return SqlSavepoint.parse(
        {"metadata": metadata, "spec": {"statementRef": {"name": "one"}, **spec}, "status": status or {}}
    )


def existing(status: dict[str, Any] | None = None, **spec: Any) -> SqlSavepoint:
    return savepoint(status, **{"source": "Existing", "location": ELSEWHERE, **spec})


def saved(**streaming: Any) -> SqlStatement:
    """Statement `one`, which runs and has committed two batches."""
    return stream(running(streaming={"queryId": "q", "committedBatchId": 2, **streaming}))


def savepoint_snapshot(of: SqlSavepoint, **facts: Any) -> Snapshot:
    """Everything is well; once a driver was asked, it was `DRIVER`."""
    kept = ATTEMPT if of.status.location is not None else None
    return replace(Snapshot(NOW, of, saved(), storage=PLACE, driver=DRIVER, attempt=kept), **facts)


def waiting(reason: str, **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "False", "reason": reason}]
    return {"observedGeneration": 2, "phase": "Pending", "trigger": "Manual", "conditions": conditions, **status}


def copying(reason: str = "InProgress", **status: Any) -> dict[str, Any]:
    """Status of one that a driver began to copy five seconds ago."""
    begun = {"phase": "InProgress", "location": TARGET, "startTime": ago(5), "queryId": "q", "sqlHash": "h"}
    return {**waiting(reason), **begun, **status}


def settled(phase: str = "Completed", **status: Any) -> dict[str, Any]:
    return {**copying(phase), "phase": phase, "completionTime": ago(1), **status}


def decided(of: SqlSavepoint, **facts: Any) -> Decision:
    return decide(savepoint_snapshot(of, **facts))


def id_of(failures: int) -> str:
    return copy_id(SAVEPOINT_UID, failures)
