"""Savepoints in the life of a streaming statement: the one that it starts from, the one that is taken before it rests, those of
its schedule, and the last one that is complete. Pure.

Invariants (property tests): a checkpoint is made of a savepoint at most once, and never written over; with `upgradeMode: Savepoint`
a query with state comes to rest, or takes in a change, only once its savepoint is over; at most one savepoint is taken at a time.
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
from sparksql.api.streaming import LastSavepoint, OnDelete, UpgradeMode
from sparksql.domain.savepoint.schedule import next_due, savepoint_name, violation
from sparksql.domain.statement.decision import CreateSavepoint, DeleteSavepoint
from sparksql.domain.statement.identity import OPERATION_NAMESPACE
from sparksql.domain.statement.snapshot import SavepointFacts, Snapshot
from sparksql.domain.statement.stream.spec import (
    Change,
    begins_with_savepoint,
    change,
    drivers_word,
    is_stream,
    streaming_of,
)
from sparksql.domain.violation import Violation
from sparksql.wire.control import RestoreOptions

REFERENCE_GRACE_SECONDS = 60.0  # a SqlSavepoint applied beside the statement may come a little later
DRIVER_SECONDS = 120.0  # how long a statement waits for a driver that could take its savepoint: the time of a restart
FIELD = "spec.streaming.startFrom.savepointRef.name"


@dataclass(frozen=True)
class Awaited:
    """A savepoint that must be over first; the message names it."""

    message: str


def origin(s: Snapshot) -> str | Awaited | Violation | None:
    """Location of the savepoint that the next checkpoint begins with; None: it begins with nothing, or is there already."""
    if not begins_with_savepoint(s.statement) and change(s) is not Change.RESTORE:
        return None
    streaming, found = s.statement.spec.streaming, s.start_from
    assert streaming is not None and streaming.start_from is not None
    name = streaming.start_from.savepoint_ref.name
    if found is None:
        since = s.statement.status.submitted_time or s.now
        message = f"{FIELD}: there is no SqlSavepoint {name} in namespace {s.statement.metadata.namespace}"
        if (s.now - since).total_seconds() > REFERENCE_GRACE_SECONDS:
            return Violation(Reason.INVALID_SPEC, f"{message}; create it, or name another one")
        return Awaited(message)
    if found.deleting:
        return Violation(Reason.INVALID_SPEC, f"{FIELD}: SqlSavepoint {name} is being deleted; name another one")
    match found.phase:
        case SavepointPhase.COMPLETED if found.location is not None:
            return found.location
        case SavepointPhase.FAILED | SavepointPhase.ABANDONED:
            message = f"{FIELD}: SqlSavepoint {name} is {found.phase}; name a completed one"
            return Violation(Reason.INVALID_SPEC, message)
        case _:
            return Awaited(f"waits for SqlSavepoint {name}, which is {found.phase or 'new'}")


def unrestorable(s: Snapshot) -> Violation | None:
    """Why the next checkpoint cannot begin with the savepoint that it is to begin with, if that is so."""
    begins_with = origin(s)
    return begins_with if isinstance(begins_with, Violation) else None


def restore(statement: SqlStatement, location: str | None) -> RestoreOptions | None:
    """What the driver makes the checkpoint of. A restored query is another one: sinks that know batches by their query would
    leave out those that they have seen of the first."""
    if location is None:
        return None
    identity = f"{statement.metadata.uid}/{statement.status.run}/{streaming_of(statement).upgrades}/query"
    return RestoreOptions(location=location, query_id=str(uuid.uuid5(OPERATION_NAMESPACE, identity)))


def before_rest(s: Snapshot) -> CreateSavepoint | Awaited | Violation | None:
    """What must happen before a query that is over comes to rest, or takes in a change; None: nothing (more).

    A violation tells why there is no savepoint: the state is in the checkpoint all the same.
    """
    spec, streaming = s.statement.spec.streaming, streaming_of(s.statement)
    if spec is None or spec.upgrade_mode is not UpgradeMode.SAVEPOINT or streaming.committed_batch_id is None:
        return None
    if drivers_word(s.statement) is not None:  # an attempt that was refused has written nothing
        return None
    name = _final_name(s.statement)
    found = next((each for each in s.savepoints if each.name == name), None)
    if found is None:
        return CreateSavepoint(name, SavepointTrigger.UPGRADE)
    match found.phase:
        case SavepointPhase.COMPLETED:
            return None
        case SavepointPhase.FAILED | SavepointPhase.ABANDONED:
            return Violation(Reason.SAVEPOINT_FAILED, f"SqlSavepoint {name} is {found.phase}: {found.message}")
        case SavepointPhase.IN_PROGRESS:
            return Awaited(f"savepoint {name} is being taken")
        case SavepointPhase.PENDING | None:
            has_driver = s.session is not None and s.session.driver is not None
            if not has_driver and (s.now - found.created).total_seconds() > DRIVER_SECONDS:
                return Violation(Reason.SAVEPOINT_FAILED, f"there is no driver that could take SqlSavepoint {name}")
            return Awaited(f"savepoint {name} is to be taken: {found.message}".removesuffix(": "))


def _final_name(statement: SqlStatement) -> str:
    """Name of the savepoint at the end of the last attempt that a driver had: whoever asks again finds the first one."""
    metadata, status = statement.metadata, statement.status
    attempt = status.attempt if status.operation_id is not None else status.attempt - 1
    identity = f"{metadata.uid}/{status.run}/{attempt}"
    suffix = f"-stop-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
    return f"{metadata.name[: MAX_NAME_LENGTH - len(suffix)]}{suffix}"


def periodic(s: Snapshot) -> tuple[CreateSavepoint | None, datetime | None]:
    """The savepoint that the schedule wants now of a query that runs, and when the next one is due."""
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


def aside(s: Snapshot) -> str | None:
    """What of its savepoints does not come about while it runs, and why."""
    spec = s.statement.spec.streaming
    begins_with = origin(s) if change(s) is Change.RESTORE else None
    if isinstance(begins_with, Awaited | Violation):
        return f"runs on, restoreNonce is not taken in yet: {begins_with.message}"
    schedule = spec.savepoints.schedule if spec is not None else None
    unfit = violation(schedule) if schedule is not None else None
    return f"takes no periodic savepoints: {unfit.message}" if unfit is not None else None


def is_open(savepoint: SavepointFacts) -> bool:
    """Whether it is still to be made."""
    return savepoint.phase is None or not savepoint.phase.is_terminal


def last_savepoint(s: Snapshot) -> LastSavepoint | None:
    """The newest complete one that was taken; one that is being deleted counts no more, so that it can go."""
    complete = [
        (each.ended, each.name)
        for each in s.savepoints
        if each.phase is SavepointPhase.COMPLETED and each.ended is not None and not (each.deleting or each.adopted)
    ]
    if not complete:
        return None
    ended, name = max(complete)
    return LastSavepoint(name=name, time=ended)


def going_along(s: Snapshot) -> tuple[DeleteSavepoint, ...]:
    """Savepoints that are deleted with their statement: what the operator has made, if `onDelete` says so, and nobody pinned."""
    spec = s.statement.spec.streaming
    if spec is None or not is_stream(s.statement.spec) or spec.savepoints.on_delete is not OnDelete.DELETE:
        return ()
    made = (SavepointTrigger.PERIODIC, SavepointTrigger.UPGRADE)
    return tuple(
        DeleteSavepoint(each.name)
        for each in s.savepoints
        if each.trigger in made and not (each.pinned or each.deleting)
    )
