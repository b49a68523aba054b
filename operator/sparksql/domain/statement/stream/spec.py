"""What a streaming statement asks for: where its checkpoint is, and how its query runs. Pure readings.

A checkpoint's location is fixed at a hand-over and stays, until the statement starts fresh: without state, or with a
savepoint.
"""

from __future__ import annotations

import hashlib
import json

from sparksql.api.execution import StatementMode
from sparksql.api.statement import SqlStatement, SqlStatementSpec
from sparksql.api.streaming import Streaming, StreamingStatus, UpgradeMode
from sparksql.wire import control


def is_stream(spec: SqlStatementSpec) -> bool:
    """Tells whether the statement runs until it is stopped; a preview, explanation or validation of a stream does not."""
    return spec.streaming is not None and spec.mode is StatementMode.EXECUTE


def streaming_of(statement: SqlStatement) -> StreamingStatus:
    """Returns the streaming part of its status; an empty one before the first hand-over."""
    return statement.status.streaming or StreamingStatus()


def has_checkpoint(statement: SqlStatement) -> bool:
    """Tells whether the place of its checkpoint is fixed, so that there may be a state to lose."""
    return streaming_of(statement).checkpoint_location is not None


def checkpoint(statement: SqlStatement, root: str) -> str:
    """Returns the location of the run's checkpoint: the one that it has, else a new one below `root`."""
    metadata, streaming = statement.metadata, streaming_of(statement)
    if streaming.checkpoint_location is not None:
        return streaming.checkpoint_location
    folder = f"{statement.status.run}-{streaming.upgrades}" if streaming.upgrades else f"{statement.status.run}"
    return f"{root.rstrip('/')}/{metadata.namespace}/{metadata.name}-{metadata.uid}/{folder}"


def rebuilds(spec: SqlStatementSpec) -> bool:
    """Tells whether a state that does not fit the text is computed anew."""
    return spec.streaming is not None and spec.streaming.upgrade_mode is UpgradeMode.REBUILD


def settings_hash(spec: SqlStatementSpec, *, rebuilding: bool = False) -> str:
    """Returns a fingerprint of the settings that a running query cannot take over.

    Defaults are left out, so that a field that is new changes nothing. `rebuilding`: of an attempt that computes a state anew
    if need be; one that runs need not be ended for that.
    """
    assert spec.streaming is not None
    relevant = {"trigger", "output_mode", "upsert", "lookups"}
    fields = spec.streaming.model_dump(mode="json", include=relevant, exclude_defaults=True)
    if rebuilding:
        fields["upgrade_mode"] = UpgradeMode.REBUILD.value
    text = json.dumps({**fields, "conf": dict(spec.conf)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def starts_from_savepoint(statement: SqlStatement) -> bool:
    """Tells whether the first checkpoint of the run is still to be made, and begins with `startFrom`."""
    spec, streaming = statement.spec.streaming, streaming_of(statement)
    if spec is None or spec.start_from is None or streaming.checkpoint_location is not None:
        return False
    return streaming.upgrades == 0


def options(
    streaming: Streaming,
    location: str,
    restore: control.RestoreOptions | None = None,
    unconfirmed: tuple[str, ...] = (),
    known: control.CheckpointContent | None = None,
) -> control.StreamOptions:
    """Returns how the driver is to run the query.

    `unconfirmed` are boots of earlier drivers whose end nobody has observed. `known` is what the checkpoint must have.
    """
    trigger = streaming.trigger
    return control.StreamOptions(
        checkpoint=location,
        trigger=trigger.mode,
        interval_millis=trigger.interval_millis,
        max_rows_per_trigger=trigger.max_rows_per_trigger,
        max_files_per_trigger=trigger.max_files_per_trigger,
        output_mode=streaming.output_mode,
        upsert=streaming.upsert,
        lookups=streaming.lookups,
        restore=restore,
        unconfirmed=unconfirmed,
        rewrites=True,
        rebuilds=streaming.upgrade_mode is UpgradeMode.REBUILD,
        known=known,
    )


def known_content(streaming: StreamingStatus) -> control.CheckpointContent | None:
    """Returns what the checkpoint has by the reports of its query; None before the first committed batch."""
    if streaming.query_id is None or streaming.committed_batch_id is None:
        return None
    return control.CheckpointContent(query_id=streaming.query_id, committed_batch_id=streaming.committed_batch_id)
