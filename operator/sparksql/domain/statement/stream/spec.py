"""What a streaming statement asks for: where its checkpoint is, how its query runs, what has changed since. Pure readings.

A checkpoint's location is fixed at a hand-over and stays, until the statement begins anew: without state, or with a savepoint.
"""

from __future__ import annotations

import hashlib
import json
from enum import Enum, auto
from typing import Any

from sparksql.api.conditions import ConditionType, find_condition
from sparksql.api.execution import StatementMode
from sparksql.api.reasons import Reason
from sparksql.api.statement import SqlStatement, SqlStatementSpec, StatementPhase
from sparksql.api.streaming import OnIncompatible, Streaming, StreamingStatus, UpgradeMode
from sparksql.domain.savepoint.schedule import violation as schedule_violation
from sparksql.domain.statement.identity import sql_hash
from sparksql.domain.statement.snapshot import Inputs, MissingReference, Settings, Snapshot
from sparksql.domain.violation import Violation
from sparksql.wire import control


class Change(Enum):
    """What the checkpoint or the running query does not know of the spec."""

    RESTORE = auto()  # it goes back to `startFrom`
    ANEW = auto()  # another text, or one that the state does not fit, begins without state
    TEXT = auto()  # another text goes on with the state, if that fits
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


def begins_with_savepoint(statement: SqlStatement) -> bool:
    """Whether the first checkpoint of the run is still to be made, and begins with `startFrom`."""
    spec, streaming = statement.spec.streaming, streaming_of(statement)
    if spec is None or spec.start_from is None or streaming.checkpoint_location is not None:
        return False
    return streaming.upgrades == 0


def options(
    streaming: Streaming,
    location: str,
    restore: control.RestoreOptions | None = None,
    unconfirmed: tuple[str, ...] = (),
) -> control.StreamOptions:
    """How the driver is to run the query. `unconfirmed` are boots of drivers before it whose end nobody has seen."""
    trigger = streaming.trigger
    return control.StreamOptions(
        checkpoint=location,
        trigger=trigger.mode,
        interval_millis=trigger.interval_millis,
        max_rows_per_trigger=trigger.max_rows_per_trigger,
        max_files_per_trigger=trigger.max_files_per_trigger,
        output_mode=streaming.output_mode,
        upsert=streaming.upsert,
        restore=restore,
        unconfirmed=unconfirmed,
    )


def change(s: Snapshot) -> Change | None:
    """What changed since the last hand-over; a text that is kept elsewhere is looked at only when it has been read."""
    spec, streaming = s.statement.spec.streaming, streaming_of(s.statement)
    if spec is None or not is_stream(s.statement.spec) or streaming.checkpoint_location is None:
        return None
    if spec.start_from is not None and spec.restore_nonce != streaming.observed_restore_nonce:
        return Change.RESTORE
    stateless = spec.upgrade_mode is UpgradeMode.STATELESS
    if _is_other_text(s):
        return Change.ANEW if stateless else Change.TEXT
    refused = drivers_word(s.statement)
    may_begin_anew = stateless or spec.on_incompatible is OnIncompatible.START_FRESH
    if refused is not None and refused.reason is Reason.STATE_INCOMPATIBLE and may_begin_anew:
        return Change.ANEW
    return Change.SETTINGS if streaming.settings_hash != settings_hash(s.statement.spec) else None


def _is_other_text(s: Snapshot) -> bool:
    text, known = _text(s), s.statement.status.sql_hash
    return text is not None and known is not None and sql_hash(text) != known


def drivers_word(statement: SqlStatement) -> Violation | None:
    """Why a parked statement cannot run as it is written: a driver has said so, and would again."""
    status = statement.status
    ready = find_condition(status.conditions, ConditionType.READY)
    if status.phase is not StatementPhase.STOPPED or status.error is None or ready is None:
        return None
    return Violation(Reason(ready.reason), ready.message)


def _text(s: Snapshot) -> str | None:
    if s.statement.spec.sql is not None:
        return s.statement.spec.sql
    return s.inputs.sql if isinstance(s.inputs, Inputs) else None


def obstacle(s: Snapshot) -> Violation | None:
    """Why a streaming statement may not start now, as far as its spec and its class tell."""
    if isinstance(s.settings, Violation):
        return s.settings
    streaming, changed, begun = s.statement.spec.streaming, change(s), has_checkpoint(s.statement)
    assert streaming is not None
    refused = drivers_word(s.statement) if changed is None else None
    if refused is not None:
        return refused
    schedule = streaming.savepoints.schedule
    unfit = schedule_violation(schedule) if schedule is not None and (changed is not None or not begun) else None
    if unfit is not None:
        return unfit
    needs_place = changed in (Change.RESTORE, Change.ANEW) or not begun
    if needs_place and isinstance(s.settings, Settings) and not s.settings.checkpoint_root:
        message = (
            f"spec.streaming: class {s.settings.class_name} has no storage.checkpointRoot; checkpoints need a place"
        )
        return Violation(Reason.INVALID_SPEC, message)
    return None


def unreadable(s: Snapshot) -> Violation | None:
    """Why its text or its parameters cannot be had, if they were looked for."""
    match s.inputs:
        case Violation() as violation:
            return violation
        case MissingReference(message):
            return Violation(Reason.INVALID_SPEC, message)
        case _:
            return None


def observed(before: StreamingStatus, seen: control.StreamProgress | None) -> StreamingStatus:
    """What the query said of itself; what it does not say (yet) stays as it was."""
    return before.replace(**{name: value for name, value in seen or () if value is not None})


def at_rest(streaming: StreamingStatus, **changes: Any) -> StreamingStatus:
    """The state of a query that does not run: it has no rates, and no restart is due unless `changes` says so."""
    idle = {
        "input_rows_per_second": None,
        "processed_rows_per_second": None,
        "next_restart_time": None,
        "next_savepoint_time": None,
    }
    return streaming.replace(**{**idle, **changes})


def renewal(s: Snapshot, origin: str | None = None) -> dict[str, Any]:
    """Status fields of a start that takes in what has changed; `origin` is the savepoint that is gone back to.

    That is fixed together with the loss of the checkpoint: taking `restoreNonce` back later must not leave it without state.
    """
    spec, streaming = s.statement.spec.streaming, streaming_of(s.statement)
    taken_in = {"restarts": 0, "settings_hash": settings_hash(s.statement.spec)}
    match change(s):
        case Change.RESTORE:
            assert spec is not None and origin is not None
            return _anew(streaming.upgrades + 1, spec.restore_nonce, origin)
        case Change.ANEW:
            return begun_anew(s.statement)
        case Change.TEXT:
            return {"sql_hash": None, "streaming": at_rest(streaming, **taken_in)}
        case Change.SETTINGS:
            return {"streaming": at_rest(streaming, **taken_in)}
        case None:
            return {"streaming": at_rest(streaming, restarts=0)}


def begun_anew(statement: SqlStatement) -> dict[str, Any]:
    """Status fields of a start without state."""
    spec, streaming = statement.spec.streaming, streaming_of(statement)
    return _anew(streaming.upgrades + 1, spec.restore_nonce if spec is not None else "")


def _anew(upgrades: int, nonce: str, origin: str | None = None) -> dict[str, Any]:
    streaming = StreamingStatus(upgrades=upgrades, observed_restore_nonce=nonce, restored_from=origin)
    return {"sql_hash": None, "streaming": streaming}
