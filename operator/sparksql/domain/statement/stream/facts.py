"""Facts that all rules about a streaming statement share: its change, its next start, what stands against it. Pure.

`stream_facts` computes them once for a decision, so that all its rules see the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from sparksql.api.conditions import ConditionType, find_condition
from sparksql.api.execution import StatementMode
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase
from sparksql.api.statement import SqlStatement, StatementPhase
from sparksql.api.streaming import OnIncompatible, UpgradeMode
from sparksql.domain.statement.blockers import rejected_settings, unreadable_inputs
from sparksql.domain.statement.identity import sql_hash
from sparksql.domain.statement.snapshot import Inputs, Settings, Snapshot
from sparksql.domain.statement.stream.schedule import violation as schedule_violation
from sparksql.domain.statement.stream.spec import (
    has_checkpoint,
    is_stream,
    rebuilds,
    settings_hash,
    starts_from_savepoint,
    streaming_of,
)
from sparksql.domain.violation import Violation

REFERENCE_GRACE_SECONDS = 60.0  # a SqlSavepoint applied beside the statement may come a little later
FIELD = "spec.streaming.startFrom.savepointRef.name"


class Change(Enum):
    """Names what the checkpoint or the running query does not know of the spec."""

    RESTORE = auto()  # it goes back to `startFrom`
    START_FRESH = auto()  # another text, or one that the state does not fit, begins without state
    TEXT = auto()  # another text, or one whose state may be computed anew now, goes on with the state if that fits
    SETTINGS = auto()


@dataclass(frozen=True)
class Waiting:
    """Names, in the message, a savepoint that must be over first."""

    message: str


RestoreSource = str | Waiting | Violation | None


@dataclass(frozen=True)
class StreamFacts:
    """Holds the facts of one decision.

    For a batch statement all are empty, but for `spec_blocker`, and for a preview `restore_source`.

    `change` is what changed since the last hand-over. `restore_source` is the location of the savepoint that the next
    checkpoint begins with, or why there is none; None if it begins with nothing, or is there already.
    `driver_rejection` is why a driver has found that a stalled statement cannot run as it is written. `spec_blocker` is
    why the statement may not start as far as its spec and its class tell, `start_blocker` why it may not start at all.
    """

    is_stream: bool = False
    change: Change | None = None
    restore_source: RestoreSource = None
    driver_rejection: Violation | None = None
    spec_blocker: Violation | None = None
    start_blocker: Violation | None = None


def stream_facts(s: Snapshot) -> StreamFacts:
    """Returns the facts of snapshot `s`.

    A text that is kept elsewhere counts as unchanged until it has been read.
    """
    if not is_stream(s.statement.spec):
        return StreamFacts(restore_source=preview_source(s), spec_blocker=rejected_settings(s))
    rejection = _driver_rejection(s.statement)
    change = _change(s, rejection)
    source = _restore_source(s, change)
    spec_blocker = _spec_blocker(s, change, rejection)
    return StreamFacts(
        is_stream=True,
        change=change,
        restore_source=source,
        driver_rejection=rejection,
        spec_blocker=spec_blocker,
        start_blocker=spec_blocker or unreadable_inputs(s) or (source if isinstance(source, Violation) else None),
    )


# --- the change


def _change(s: Snapshot, rejection: Violation | None) -> Change | None:
    spec, streaming = s.statement.spec.streaming, streaming_of(s.statement)
    if spec is None or streaming.checkpoint_location is None:
        return None
    if spec.start_from is not None and spec.restore_nonce != streaming.observed_restore_nonce:
        return Change.RESTORE
    stateless = spec.upgrade_mode is UpgradeMode.STATELESS
    if _is_other_text(s):
        return Change.START_FRESH if stateless else Change.TEXT
    may_start_fresh = stateless or spec.on_incompatible is OnIncompatible.START_FRESH
    is_unfit = rejection is not None and rejection.reason is Reason.STATE_INCOMPATIBLE
    plain, rebuilding = (settings_hash(s.statement.spec, rebuilding=each) for each in (False, True))
    if is_unfit and rebuilds(s.statement.spec) and streaming.settings_hash != rebuilding:
        return Change.TEXT
    if is_unfit and may_start_fresh:
        return Change.START_FRESH
    return Change.SETTINGS if streaming.settings_hash not in (plain, rebuilding) else None


def _is_other_text(s: Snapshot) -> bool:
    text, known = _text(s), s.statement.status.sql_hash
    return text is not None and known is not None and sql_hash(text) != known


def _text(s: Snapshot) -> str | None:
    if s.statement.spec.sql is not None:
        return s.statement.spec.sql
    return s.inputs.sql if isinstance(s.inputs, Inputs) else None


# --- what the next start begins with


def preview_source(s: Snapshot) -> RestoreSource:
    """Returns the location of the savepoint that a preview begins with, or why there is none; None if it needs none."""
    if s.statement.spec.mode is not StatementMode.PREVIEW or not starts_from_savepoint(s.statement):
        return None
    driver = s.session.driver if s.session is not None else None
    if driver is not None and not driver.previews_states:
        message = (
            f"{FIELD}: the session's driver is of an earlier version, whose previews start without state; restart the "
            "session (spec.restartNonce)"
        )
        return Violation(Reason.NOT_IMPLEMENTED, message)
    return _location(s)


def _restore_source(s: Snapshot, change: Change | None) -> RestoreSource:
    if not starts_from_savepoint(s.statement) and change is not Change.RESTORE:
        return None
    return _location(s)


def _location(s: Snapshot) -> RestoreSource:
    streaming, savepoint = s.statement.spec.streaming, s.start_from
    assert streaming is not None and streaming.start_from is not None
    name = streaming.start_from.savepoint_ref.name
    if savepoint is None:
        since = s.statement.status.submitted_time or s.now
        message = f"{FIELD}: there is no SqlSavepoint {name} in namespace {s.statement.metadata.namespace}"
        if (s.now - since).total_seconds() > REFERENCE_GRACE_SECONDS:
            return Violation(Reason.INVALID_SPEC, f"{message}; create it, or name another one")
        return Waiting(message)
    if savepoint.deleting:
        return Violation(Reason.INVALID_SPEC, f"{FIELD}: SqlSavepoint {name} is being deleted; name another one")
    match savepoint.phase:
        case SavepointPhase.COMPLETED if savepoint.location is not None:
            return savepoint.location
        case SavepointPhase.FAILED | SavepointPhase.ABANDONED:
            message = f"{FIELD}: SqlSavepoint {name} is {savepoint.phase}; name a completed one"
            return Violation(Reason.INVALID_SPEC, message)
        case _:
            return Waiting(f"waits for SqlSavepoint {name}, which is {savepoint.phase or 'new'}")


# --- what stands against a start, in the order of causes


def _spec_blocker(s: Snapshot, change: Change | None, rejection: Violation | None) -> Violation | None:
    return (
        rejected_settings(s)
        or (rejection if change is None else None)  # what has changed may be taken by a driver
        or _unfit_schedule(s, change)
        or _missing_checkpoint_root(s, change)
    )


def _driver_rejection(statement: SqlStatement) -> Violation | None:
    status = statement.status
    ready = find_condition(status.conditions, ConditionType.READY)
    if status.phase is not StatementPhase.STOPPED or status.error is None or ready is None:
        return None
    return Violation(Reason(ready.reason), ready.message)


def _unfit_schedule(s: Snapshot, change: Change | None) -> Violation | None:
    """Returns why its savepoints cannot follow their schedule; one that goes on unchanged runs all the same."""
    streaming = s.statement.spec.streaming
    schedule = streaming.savepoints.schedule if streaming is not None else None
    if schedule is None or (change is None and has_checkpoint(s.statement)):
        return None
    return schedule_violation(schedule)


def _missing_checkpoint_root(s: Snapshot, change: Change | None) -> Violation | None:
    """Returns that its class has no place for the new checkpoint that it needs."""
    needs_place = change in (Change.RESTORE, Change.START_FRESH) or not has_checkpoint(s.statement)
    if not needs_place or not isinstance(s.settings, Settings) or s.settings.checkpoint_root:
        return None
    name = s.settings.class_name
    message = (
        f"spec.streaming: class {name} has no storage.checkpointRoot; checkpoints need a place: set spec.storage.checkpointRoot of "
        f"SqlSessionClass {name}, or take a session of another class"
    )
    return Violation(Reason.INVALID_SPEC, message)
