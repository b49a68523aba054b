"""Savepoints in the life of a streaming statement: at its start, at its end, and by its schedule. Pure.

Invariants (property tests): a checkpoint is made of a savepoint at most once, and never written over; with
`upgradeMode: Savepoint` a query with state is suspended, or takes in a change, only once its savepoint is over; at most
one is taken at a time.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from datetime import datetime

from sparksql.api.names import MAX_NAME_LENGTH
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase, SavepointTrigger
from sparksql.api.statement import SqlStatement
from sparksql.api.streaming import LastSavepoint, OnDelete, StreamingStatus, UpgradeMode
from sparksql.domain.statement.decision import CreateSavepoint, DeleteSavepoint
from sparksql.domain.statement.identity import OPERATION_NAMESPACE
from sparksql.domain.statement.snapshot import SavepointFacts, Snapshot
from sparksql.domain.statement.stream.facts import Change, StreamFacts, Waiting
from sparksql.domain.statement.stream.schedule import next_due, savepoint_name, violation
from sparksql.domain.statement.stream.spec import is_stream, streaming_of
from sparksql.domain.violation import Violation
from sparksql.wire.control import RestoreOptions

DRIVER_SECONDS = 120.0  # how long a statement waits for a driver that could take its savepoint: the time of a restart


@dataclass(frozen=True)
class Done:
    """The savepoint is complete, or none is to be taken."""


@dataclass(frozen=True)
class Take:
    """The savepoint is to be taken now, under this name."""

    name: str


@dataclass(frozen=True)
class Failed:
    """There is no savepoint, and will be none; the state is in the checkpoint all the same."""

    reason: Reason
    message: str


SavepointStep = Done | Take | Waiting | Failed


def restore(statement: SqlStatement, streaming: StreamingStatus) -> RestoreOptions | None:
    """Returns what the driver makes the checkpoint of.

    A restored query is another one: a sink that knows batches by their query would leave out those that it knows of the
    first. One whose state is made anew goes on as itself.
    """
    if streaming.rewritten_from is not None:
        return RestoreOptions(location=streaming.rewritten_from, query_id=streaming.query_id or "", rewrite=True)
    location = streaming.restored_from
    if location is None:
        return None
    return new_query(statement, location)


def new_query(statement: SqlStatement, location: str) -> RestoreOptions:
    """Returns that the statement begins with what lies at `location`, as a query of its own."""
    identity = f"{statement.metadata.uid}/{statement.status.run}/{streaming_of(statement).upgrades}/query"
    return RestoreOptions(location=location, query_id=str(uuid.uuid5(OPERATION_NAMESPACE, identity)))


def final_savepoint(s: Snapshot, facts: StreamFacts) -> SavepointStep:
    """Returns how far the final savepoint is, which a query that has ended takes before it is suspended or changed."""
    spec, streaming = s.statement.spec.streaming, streaming_of(s.statement)
    if spec is None or spec.upgrade_mode is not UpgradeMode.SAVEPOINT or streaming.committed_batch_id is None:
        return Done()
    if facts.driver_rejection is not None:  # an attempt that was refused has written nothing
        return Done()
    name = _final_name(s.statement)
    savepoint = next((each for each in s.savepoints if each.name == name), None)
    if savepoint is None:
        return Take(name)
    match savepoint.phase:
        case SavepointPhase.COMPLETED:
            return Done()
        case SavepointPhase.FAILED | SavepointPhase.ABANDONED:
            return Failed(Reason.SAVEPOINT_FAILED, f"SqlSavepoint {name} is {savepoint.phase}: {savepoint.message}")
        case SavepointPhase.IN_PROGRESS:
            return Waiting(f"savepoint {name} is in progress")
        case SavepointPhase.PENDING | None:
            has_driver = s.session is not None and s.session.driver is not None
            if not has_driver and (s.now - savepoint.created).total_seconds() > DRIVER_SECONDS:
                return Failed(Reason.SAVEPOINT_FAILED, f"there is no driver that could take SqlSavepoint {name}")
            return Waiting(f"savepoint {name} is requested: {savepoint.message}".removesuffix(": "))


def _final_name(statement: SqlStatement) -> str:
    """Returns the name of the savepoint at the end of the last attempt that a driver had.

    It is the same each time, so that a second try finds the first one.
    """
    metadata, status = statement.metadata, statement.status
    attempt = status.attempt if status.operation_id is not None else status.attempt - 1
    identity = f"{metadata.uid}/{status.run}/{attempt}"
    suffix = f"-stop-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
    return f"{metadata.name[: MAX_NAME_LENGTH - len(suffix)]}{suffix}"


def due_savepoint(s: Snapshot) -> tuple[CreateSavepoint | None, datetime | None]:
    """Returns the savepoint that the schedule wants now of a query that runs, and when the next one is due."""
    spec, metadata = s.statement.spec.streaming, s.statement.metadata
    schedule = spec.savepoints.schedule if spec is not None else None
    if schedule is None or streaming_of(s.statement).committed_batch_id is None:
        return None, None
    last = max((each.created for each in s.savepoints if each.trigger is SavepointTrigger.PERIODIC), default=None)
    since = metadata.creation_timestamp or s.now
    due = next_due(schedule, last=last, since=since, now=s.now, uid=metadata.uid)
    if due is None or due > s.now or any(is_open(each) for each in s.savepoints):
        return None, due
    return CreateSavepoint(savepoint_name(metadata.name, due), SavepointTrigger.PERIODIC), due


def savepoint_warning(s: Snapshot, facts: StreamFacts) -> str | None:
    """Returns why a query that runs is not restored, or has no periodic savepoints, although its spec asks for it."""
    if facts.change is Change.RESTORE and isinstance(facts.restore_source, Waiting | Violation):
        return f"continues; restoreNonce is not applied yet: {facts.restore_source.message}"
    spec = s.statement.spec.streaming
    schedule = spec.savepoints.schedule if spec is not None else None
    unfit = violation(schedule) if schedule is not None else None
    return f"periodic savepoints are suspended: {unfit.message}" if unfit is not None else None


def is_open(savepoint: SavepointFacts) -> bool:
    """Tells whether the savepoint is still to be made."""
    return savepoint.phase is None or not savepoint.phase.is_terminal


def last_savepoint(s: Snapshot) -> LastSavepoint | None:
    """Returns the newest savepoint that was taken and is complete.

    One that is being deleted counts no more, so that it can go.
    """
    complete = [
        (each.ended, each.name)
        for each in s.savepoints
        if each.phase is SavepointPhase.COMPLETED and each.ended is not None and not (each.deleting or each.adopted)
    ]
    if not complete:
        return None
    ended, name = max(complete)
    return LastSavepoint(name=name, time=ended)


def savepoints_to_delete(s: Snapshot) -> tuple[DeleteSavepoint, ...]:
    """Returns the savepoints that are deleted with their statement.

    If `onDelete` says so, these are what the operator has made and nobody has pinned.
    """
    spec = s.statement.spec.streaming
    if spec is None or not is_stream(s.statement.spec) or spec.savepoints.on_delete is not OnDelete.DELETE:
        return ()
    made = (SavepointTrigger.PERIODIC, SavepointTrigger.UPGRADE)
    return tuple(
        DeleteSavepoint(each.name)
        for each in s.savepoints
        if each.trigger in made and not (each.pinned or each.deleting)
    )
