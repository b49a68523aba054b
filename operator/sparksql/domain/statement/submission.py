"""The request that hands an attempt to a driver, and the streaming status that belongs to it. Pure."""

from __future__ import annotations

from sparksql.api.savepoint import SavepointPhase
from sparksql.api.streaming import StreamingStatus
from sparksql.domain.statement.comparison import dry_run_of, state_of
from sparksql.domain.statement.snapshot import Inputs, SavepointFacts, Settings, Snapshot
from sparksql.domain.statement.stream.facts import preview_source
from sparksql.domain.statement.stream.savepoints import new_query, restore
from sparksql.domain.statement.stream.spec import (
    checkpoint,
    known_content,
    options,
    rebuilds,
    settings_hash,
    streaming_of,
)
from sparksql.domain.statement.stream.status import StreamingUpdate, suspended
from sparksql.wire.control import ResultOptions, StreamOptions, SubmitRequest
from sparksql.wire.savepoints import SavepointPlace


def streaming_at_hand_over(s: Snapshot, settings: Settings, source: str | None) -> StreamingStatus:
    """Returns the streaming status at a hand-over.

    From here on the place of the checkpoint is fixed, and so is what it begins with. `source` is the location of the
    savepoint that a new checkpoint begins with, if it is not in the status already.
    """
    spec, streaming = s.statement.spec, streaming_of(s.statement)
    assert spec.streaming is not None
    update: StreamingUpdate = {
        "checkpoint_location": checkpoint(s.statement, settings.checkpoint_root or ""),
        "settings_hash": settings_hash(spec, rebuilding=rebuilds(spec)),
    }
    if streaming.checkpoint_location is not None or streaming.upgrades == 0:  # else it says what it starts fresh for
        update["observed_restore_nonce"] = spec.streaming.restore_nonce
    if source is not None:
        update["restored_from"] = source
    return suspended(streaming, **update)


def submit_request(
    s: Snapshot, boot_id: str, settings: Settings, inputs: Inputs, streaming: StreamingStatus | None
) -> SubmitRequest:
    """Returns the request of the current attempt to boot `boot_id`.

    `streaming` is the streaming status at the hand-over, None for a batch statement.
    """
    spec, metadata = s.statement.spec, s.statement.metadata
    location = streaming.checkpoint_location if streaming is not None else None
    source = restore(s.statement, streaming) if streaming is not None else None
    driver = s.session.driver if s.session is not None else None
    unconfirmed = driver.unconfirmed if driver is not None else ()
    state, dry_run = state_of(s), dry_run_of(s)
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
        streaming=options(spec.streaming, location, source, unconfirmed, known_content(streaming))
        if spec.streaming is not None and streaming is not None and location is not None
        else None,
        validate_against=state if isinstance(state, StreamOptions) else None,
        preview_from=_preview_from(s),
        dry_run=dry_run if isinstance(dry_run, StreamOptions) else None,
        savepoints=None if s.named is None else tuple(map(place_of, s.named)),
    )


def _preview_from(s: Snapshot) -> StreamOptions | None:
    """Returns how the query of a preview goes on that begins with a savepoint."""
    spec, location = s.statement.spec.streaming, preview_source(s)
    if spec is None or not isinstance(location, str):
        return None
    return options(spec, "", new_query(s.statement, location))


def place_of(savepoint: SavepointFacts) -> SavepointPlace:
    """Returns what a text may read of a savepoint: nothing before it is complete, and nothing once it goes."""
    if savepoint.deleting:
        return SavepointPlace(name=savepoint.name, phase="being deleted", statement=savepoint.statement)
    is_complete = savepoint.phase is SavepointPhase.COMPLETED
    location = savepoint.location if is_complete else None
    return SavepointPlace(
        name=savepoint.name, phase=savepoint.phase or "new", location=location, statement=savepoint.statement
    )
