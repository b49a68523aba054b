"""What a streaming statement asks for: where its checkpoint is, how its query runs, what has changed since. Pure readings.

A run has one checkpoint. Its location is fixed at the first hand-over and stays, unless a changed text begins without state.
"""

from __future__ import annotations

import hashlib
import json
from enum import Enum, auto
from typing import Any

from sparksql.api.reasons import Reason
from sparksql.api.statement import SqlStatement, SqlStatementSpec, StatementMode
from sparksql.api.streaming import StreamingStatus, TriggerMode, UpgradeMode
from sparksql.domain.refusal import Refusal
from sparksql.domain.statement.identity import sql_hash
from sparksql.domain.statement.snapshot import Inputs, MissingReference, Settings, Snapshot
from sparksql.wire import control

STATE_MAY_NOT_FIT = (
    "spec.sql: the text changed, and it cannot be told yet whether the state in the checkpoint fits the new one. "
    "Change the text back, set upgradeMode: Stateless to start without state, or create a new SqlStatement"
)


class Change(Enum):
    """What the checkpoint or the running query does not know of the spec."""

    TEXT = auto()
    SETTINGS = auto()


def is_stream(spec: SqlStatementSpec) -> bool:
    """Whether it runs until it is stopped; a preview, an explanation or a validation of a stream does not."""
    return spec.streaming is not None and spec.mode is StatementMode.EXECUTE


def streaming_of(statement: SqlStatement) -> StreamingStatus:
    return statement.status.streaming or StreamingStatus()


def has_checkpoint(statement: SqlStatement) -> bool:
    return streaming_of(statement).checkpoint_location is not None


def checkpoint(statement: SqlStatement, root: str) -> str:
    """Location of the run's checkpoint: the one that it has, else a new one below `root`."""
    metadata, streaming = statement.metadata, streaming_of(statement)
    if streaming.checkpoint_location is not None:
        return streaming.checkpoint_location
    folder = f"{statement.status.run}-{streaming.upgrades}" if streaming.upgrades else f"{statement.status.run}"
    return f"{root.rstrip('/')}/{metadata.namespace}/{metadata.name}-{metadata.uid}/{folder}"


def settings_hash(spec: SqlStatementSpec) -> str:
    """Fingerprint of what a running query cannot take over. Defaults are left out: a field that is new changes nothing."""
    assert spec.streaming is not None
    relevant = {"trigger", "output_mode", "upsert"}
    seen = spec.streaming.model_dump(mode="json", include=relevant, exclude_defaults=True)
    text = json.dumps({**seen, "conf": dict(spec.conf)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def options(spec: SqlStatementSpec, location: str) -> control.StreamOptions:
    """How the driver is to run the query."""
    streaming = spec.streaming
    assert streaming is not None
    trigger, upsert = streaming.trigger, streaming.upsert
    return control.StreamOptions(
        checkpoint=location,
        trigger=control.TriggerMode(trigger.mode),
        interval_millis=trigger.interval_millis,
        max_rows_per_trigger=trigger.max_rows_per_trigger,
        max_files_per_trigger=trigger.max_files_per_trigger,
        output_mode=control.OutputMode(streaming.output_mode),
        upsert=control.UpsertOptions(keys=upsert.keys, order_by=upsert.order_by, delete_when=upsert.delete_when)
        if upsert is not None
        else None,
    )


def change(s: Snapshot) -> Change | None:
    """What changed since the last hand-over; a text that is kept elsewhere is looked at only when it has been read."""
    status, streaming = s.statement.status, streaming_of(s.statement)
    if not is_stream(s.statement.spec) or streaming.checkpoint_location is None:
        return None
    text = _text(s)
    if text is not None and status.sql_hash is not None and sql_hash(text) != status.sql_hash:
        return Change.TEXT
    return Change.SETTINGS if streaming.settings_hash != settings_hash(s.statement.spec) else None


def _text(s: Snapshot) -> str | None:
    if s.statement.spec.sql is not None:
        return s.statement.spec.sql
    return s.inputs.sql if isinstance(s.inputs, Inputs) else None


def obstacle(s: Snapshot) -> Refusal | None:
    """Why a streaming statement may not start now, as far as its spec and its class tell."""
    if isinstance(s.settings, Refusal):
        return s.settings
    streaming, changed, begun = s.statement.spec.streaming, change(s), has_checkpoint(s.statement)
    assert streaming is not None
    if changed is Change.TEXT and streaming.upgrade_mode is not UpgradeMode.STATELESS:
        return Refusal(Reason.STATE_INCOMPATIBLE, STATE_MAY_NOT_FIT)
    missing = _not_implemented(s.statement.spec) if changed is not None or not begun else None
    if missing is not None:
        return Refusal(Reason.NOT_IMPLEMENTED, f"spec.streaming.{missing}")
    needs_place = changed is Change.TEXT or not begun
    if needs_place and isinstance(s.settings, Settings) and not s.settings.checkpoint_root:
        message = (
            f"spec.streaming: class {s.settings.class_name} has no storage.checkpointRoot; checkpoints need a place"
        )
        return Refusal(Reason.INVALID_SPEC, message)
    return None


def unreadable(s: Snapshot) -> Refusal | None:
    """Why its text or its parameters cannot be had, if they were looked for."""
    match s.inputs:
        case Refusal() as refusal:
            return refusal
        case MissingReference(message):
            return Refusal(Reason.INVALID_SPEC, message)
        case _:
            return None


def _not_implemented(spec: SqlStatementSpec) -> str | None:
    """The first field that is accepted and does nothing yet, with what to do about it."""
    streaming = spec.streaming
    assert streaming is not None
    fields = {
        "startFrom: savepoints are not implemented yet; leave it out": streaming.start_from is not None,
        "savepoints.schedule: savepoints are not implemented yet; leave it out": streaming.savepoints.schedule
        is not None,
        "upgradeMode: Savepoint is not implemented yet; use LastState or Stateless": streaming.upgrade_mode
        is UpgradeMode.SAVEPOINT,
        "trigger.mode: RealTime is not implemented yet; use Auto, Interval or AvailableNow": streaming.trigger.mode
        is TriggerMode.REAL_TIME,
    }
    return next((message for message, is_set in fields.items() if is_set), None)


def observed(before: StreamingStatus, seen: control.StreamProgress | None) -> StreamingStatus:
    """What the query said of itself; what it does not say (yet) stays as it was."""
    return before.replace(**{name: value for name, value in seen or () if value is not None})


def at_rest(streaming: StreamingStatus, **changes: Any) -> StreamingStatus:
    """The state of a query that does not run: it has no rates, and no restart is due unless `changes` says so."""
    idle = {"input_rows_per_second": None, "processed_rows_per_second": None, "next_restart_time": None}
    return streaming.replace(**{**idle, **changes})


def renewal(s: Snapshot) -> dict[str, Any]:
    """Status fields of a start that takes in what has changed: another text begins without state."""
    streaming = streaming_of(s.statement)
    match change(s):
        case Change.TEXT:
            return {"sql_hash": None, "streaming": StreamingStatus(upgrades=streaming.upgrades + 1)}
        case Change.SETTINGS:
            return {"streaming": at_rest(streaming, restarts=0, settings_hash=settings_hash(s.statement.spec))}
        case None:
            return {"streaming": at_rest(streaming, restarts=0)}
