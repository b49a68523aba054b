"""What a driver is given of a statement: the request of an attempt, and the streaming status that belongs to it. Pure."""

from __future__ import annotations

from typing import Any

from sparksql.api.streaming import StreamingStatus
from sparksql.domain.statement.comparison import state_of
from sparksql.domain.statement.snapshot import Inputs, Settings, Snapshot
from sparksql.domain.statement.stream.savepoints import origin, restore
from sparksql.domain.statement.stream.spec import at_rest, checkpoint, options, settings_hash, streaming_of
from sparksql.wire.control import ResultOptions, StreamOptions, SubmitRequest


def begun(s: Snapshot, settings: Settings) -> StreamingStatus:
    """The streaming status at a hand-over: from here on the checkpoint has its place, and what it begins with is fixed."""
    spec, streaming = s.statement.spec, streaming_of(s.statement)
    assert spec.streaming is not None
    updates: dict[str, Any] = {
        "checkpoint_location": checkpoint(s.statement, settings.checkpoint_root or ""),
        "settings_hash": settings_hash(spec),
    }
    if streaming.checkpoint_location is not None or streaming.upgrades == 0:  # else it says what it begins anew for
        updates["observed_restore_nonce"] = spec.streaming.restore_nonce
    begins_with = origin(s)
    if isinstance(begins_with, str):
        updates["restored_from"] = begins_with
    return at_rest(streaming, **updates)


def request(
    s: Snapshot, boot_id: str, settings: Settings, inputs: Inputs, streaming: StreamingStatus | None
) -> SubmitRequest:
    spec, metadata = s.statement.spec, s.statement.metadata
    location = streaming.checkpoint_location if streaming is not None else None
    begins_with = restore(s.statement, streaming.restored_from) if streaming is not None else None
    driver = s.session.driver if s.session is not None else None
    unconfirmed = driver.unconfirmed if driver is not None else ()
    state = state_of(s)
    return SubmitRequest(
        boot_id=boot_id,
        namespace=metadata.namespace,
        name=metadata.name,
        sql=inputs.sql,
        mode=spec.mode,
        parameters=inputs.parameters,
        conf=dict(settings.conf),
        priority=spec.priority,
        execution_seconds=settings.execution_seconds,
        result=ResultOptions(
            max_rows=spec.result.max_rows,
            preview_rows=settings.preview_rows,
            retention_seconds=spec.result.retention_seconds,
        ),
        streaming=options(spec.streaming, location, begins_with, unconfirmed)
        if spec.streaming is not None and location is not None
        else None,
        validate_against=state if isinstance(state, StreamOptions) else None,
    )
