"""Updates of the streaming part of a status: by reports of the query, when it is suspended, when it starts. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict, TypeVar, Unpack

from sparksql.api.statement import SqlStatement, SqlStatementStatus, StatementResult
from sparksql.api.streaming import LagTrend, StreamingStatus
from sparksql.domain.statement.status import StatusUpdate
from sparksql.domain.statement.stream.facts import Change, StreamFacts
from sparksql.domain.statement.stream.lag import lag_trend
from sparksql.domain.statement.stream.spec import rebuilds, settings_hash, streaming_of
from sparksql.wire.control import StreamProgress

_Value = TypeVar("_Value")


class StreamingUpdate(TypedDict, total=False):
    """Fields of `StreamingStatus` that a decision sets."""

    query_id: str
    run_id: str
    batch_id: int | None
    committed_batch_id: int | None
    upgrades: int
    input_rows_per_second: str | None
    processed_rows_per_second: str | None
    watermark: str | None
    last_progress_time: datetime | None
    lag: int | None
    lag_trend: LagTrend | None
    state_rows: int | None
    state_bytes: int | None
    checkpoint_location: str | None
    settings_hash: str
    restored_from: str | None
    rewritten_from: str | None
    restarts: int
    observed_restore_nonce: str
    next_restart_time: datetime | None
    next_savepoint_time: datetime | None
    message: str | None


def with_progress(before: StreamingStatus, progress: StreamProgress | None) -> StreamingStatus:
    """Returns the status after a report of the query; what it does not say (yet) stays as it was."""
    if progress is None:
        return before
    update = StreamingUpdate(
        query_id=progress.query_id,
        run_id=progress.run_id,
        batch_id=_latest(progress.batch_id, before.batch_id),
        committed_batch_id=_latest(progress.committed_batch_id, before.committed_batch_id),
        input_rows_per_second=_latest(progress.input_rows_per_second, before.input_rows_per_second),
        processed_rows_per_second=_latest(progress.processed_rows_per_second, before.processed_rows_per_second),
        watermark=_latest(progress.watermark, before.watermark),
        last_progress_time=_latest(progress.last_progress_time, before.last_progress_time),
        lag=_latest(progress.lag, before.lag),
        lag_trend=lag_trend(before, progress),
        state_rows=_latest(progress.state_rows, before.state_rows),
        state_bytes=_latest(progress.state_bytes, before.state_bytes),
    )
    return before.replace(**update)


def with_rows_written(before: SqlStatementStatus, progress: StreamProgress | None) -> StatementResult | None:
    """Returns the result after a report of the query: the rows of its current run, absent while they are unknown."""
    if progress is None or (before.result is None and progress.rows_written is None):
        return before.result
    is_same_run = before.streaming is not None and before.streaming.run_id == progress.run_id
    if is_same_run and progress.batch_id is None:  # it reports nothing yet
        return before.result
    return (before.result or StatementResult()).replace(rows_written=progress.rows_written)


def _latest(report: _Value | None, before: _Value | None) -> _Value | None:
    return before if report is None else report


def suspended(streaming: StreamingStatus, **update: Unpack[StreamingUpdate]) -> StreamingStatus:
    """Returns the streaming status of a query that does not run.

    It has no rates, and no restart is due unless `update` says so.
    """
    idle: StreamingUpdate = {
        "input_rows_per_second": None,
        "processed_rows_per_second": None,
        "next_restart_time": None,
        "next_savepoint_time": None,
    }
    return streaming.replace(**{**idle, **update})


def next_start(statement: SqlStatement, facts: StreamFacts, *, restarts: int = 0) -> StatusUpdate:
    """Returns the status fields of a start that takes in what has changed; `restarts` counts if nothing has.

    The savepoint that it goes back to is fixed together with the loss of the checkpoint: taking `restoreNonce` back
    later must not leave it without state.
    """
    spec, streaming = statement.spec, streaming_of(statement)
    match facts.change:
        case Change.RESTORE:
            assert spec.streaming is not None and isinstance(facts.restore_source, str)
            return _new_checkpoint(statement, facts.restore_source)
        case Change.START_FRESH:
            return start_fresh(statement)
        case Change.TEXT:
            fingerprint = settings_hash(spec, rebuilding=rebuilds(spec))
            return {"sql_hash": None, "streaming": suspended(streaming, restarts=0, settings_hash=fingerprint)}
        case Change.SETTINGS:
            fingerprint = settings_hash(spec, rebuilding=rebuilds(spec))
            return {"streaming": suspended(streaming, restarts=0, settings_hash=fingerprint)}
        case None:
            return {"streaming": suspended(streaming, restarts=restarts)}


def start_fresh(statement: SqlStatement) -> StatusUpdate:
    """Returns the status fields of a start without state."""
    return _new_checkpoint(statement, None)


def start_rewritten(statement: SqlStatement) -> StatusUpdate:
    """Returns the status fields of a start in another checkpoint, as the same query, with its state made anew.

    The new checkpoint has no committed batch to save until the query says so.
    """
    streaming = streaming_of(statement)
    update: StreamingUpdate = {
        "checkpoint_location": None,
        "upgrades": streaming.upgrades + 1,
        "restored_from": None,
        "rewritten_from": streaming.checkpoint_location,
        "batch_id": None,
        "committed_batch_id": None,
        "restarts": 0,
    }
    return {"sql_hash": None, "streaming": suspended(streaming, **update)}


def _new_checkpoint(statement: SqlStatement, restored_from: str | None) -> StatusUpdate:
    spec, upgrades = statement.spec.streaming, streaming_of(statement).upgrades + 1
    nonce = spec.restore_nonce if spec is not None else ""
    streaming = StreamingStatus(upgrades=upgrades, observed_restore_nonce=nonce, restored_from=restored_from)
    return {"sql_hash": None, "streaming": streaming}
