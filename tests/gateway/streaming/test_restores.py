"""Streams that begin with the state of another: of a savepoint, or of a checkpoint that is adopted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparksql.api.execution import OutputMode, StatementMode
from sparksql.wire.control import (
    ErrorReason,
    OperationState,
    OperationView,
    RestoreOptions,
    ResultOptions,
    StreamOptions,
)
from tests.support.process import GatewayProcess

from ..streams import Streams

FORK = "00000000-0000-4000-8000-000000000001"
INSERT = "INSERT INTO $.dst SELECT id, name FROM STREAM $.src"


def query_id(view: OperationView) -> str:
    assert view.progress is not None and view.progress.stream is not None
    return view.progress.stream.query_id


async def test_a_stream_restored_from_a_checkpoint_goes_on_under_another_query_id(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.dst (id INT, name STRING) USING parquet")
    first = await streams.drained(INSERT)
    begin = RestoreOptions(location=streams.options().checkpoint, query_id=FORK)
    await streams.ok("INSERT INTO $.src VALUES (3, 'c', NULL)")
    second = await streams.drained(INSERT, "fork", restore=begin)
    assert query_id(second) == FORK != query_id(first)
    assert await streams.rows("SELECT id FROM $.dst ORDER BY id") == [(1,), (2,), (3,)]
    await streams.ok("INSERT INTO $.src VALUES (4, 'd', NULL)")
    again = await streams.drained(INSERT, "fork", restore=begin)
    assert query_id(again) == FORK
    assert await streams.rows("SELECT id FROM $.dst ORDER BY id") == [(1,), (2,), (3,), (4,)]


async def test_a_restored_state_behind_its_file_target_is_refused(streams: Streams) -> None:
    """The sink takes a batch whose number it has for written: rows would be lost without a word."""
    await streams.ok("CREATE TABLE $.dst (id INT, name STRING) USING parquet")
    await streams.drained(INSERT)
    begin = RestoreOptions(location=streams.options().checkpoint, query_id=FORK)
    await streams.ok("INSERT INTO $.src VALUES (3, 'c', NULL)")
    saved = await streams.drained(INSERT, "saved", restore=begin)
    assert query_id(saved) == FORK
    behind = await streams.run(INSERT, "behind", restore=begin)
    assert behind.error is not None and behind.error.reason is ErrorReason.INVALID_SPEC, behind
    assert "ends with batch 0, and this table of files has batch 1" in behind.error.message
    assert await streams.rows("SELECT id FROM $.dst ORDER BY id") == [(1,), (2,), (3,)]


async def test_a_restore_that_fails_is_reported_and_leaves_no_checkpoint(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.dst (id INT, name STRING) USING parquet")
    nowhere = RestoreOptions(location=(streams.folder / "nowhere").as_uri(), query_id=FORK)
    missing = await streams.run(INSERT, "one", restore=nowhere)
    assert missing.error is not None and missing.error.reason is ErrorReason.INVALID_SPEC, missing
    assert "spec.streaming.startFrom" in missing.error.message and "nowhere" in missing.error.message
    await streams.drained(INSERT)
    begin = RestoreOptions(location=streams.options().checkpoint, query_id=FORK)
    wrong = await streams.run("INSERT INTO $.dst SELECT id, nothing FROM STREAM $.src", "two", restore=begin)
    assert wrong.error is not None and wrong.error.condition == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert [name for name in ("one", "two") if (streams.folder / name).exists()] == []


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def preview(
    streams: Streams, sql: str, checkpoint: str = "c", output_mode: OutputMode = OutputMode.APPEND, **fields: Any
) -> OperationView:
    """What the query gives from here on that has the checkpoint."""
    begin = RestoreOptions(location=streams.options(checkpoint).checkpoint, query_id=FORK)
    start = StreamOptions(checkpoint="", restore=begin, output_mode=output_mode)
    return await streams.client.run(
        sql.replace("$", streams.database), mode=StatementMode.PREVIEW, preview_from=start, **fields
    )


def shown(view: OperationView) -> set[tuple[str | None, ...]]:
    assert view.state is OperationState.FINISHED and view.result is not None, view
    return set(view.result.preview)


WINDOWS = (
    "INSERT INTO $.dst SELECT minute(window_end), count(*), count(DISTINCT name) FROM CUMULATE(TABLE(FROM STREAM $.src WATERMARK ts "
    "DELAY OF INTERVAL 1 MINUTE), DESCRIPTOR(ts), INTERVAL 1 MINUTE, INTERVAL 2 MINUTES) GROUP BY window_start, window_end"
)
COUNTS = "INSERT INTO $.sums SELECT sum(id), name, count(*) FROM STREAM $.src GROUP BY name"


@pytest.mark.thorough
async def test_a_preview_from_a_state_shows_what_comes_next_and_leaves_all_as_it_is(
    streams: Streams, gateway: GatewayProcess
) -> None:
    """Two rows of `src` are in the states: of a window that is open, and of sums without one."""
    await streams.ok("CREATE TABLE $.dst (m INT, n BIGINT, names BIGINT) USING parquet")
    await streams.ok("CREATE TABLE $.sums (s BIGINT, name STRING, n BIGINT) USING iceberg")
    await streams.drained(WINDOWS)
    await streams.drained(COUNTS, "counts", output_mode=OutputMode.COMPLETE)
    await streams.ok(
        "INSERT INTO $.src VALUES (3, 'b', TIMESTAMP '2026-01-01 00:00:07'), (4, 'd', TIMESTAMP '2026-01-01 00:09:00')"
    )
    before = contents(streams.folder)
    assert shown(await preview(streams, WINDOWS)) == {("1", "3", "2"), ("2", "3", "2")}
    first = await preview(streams, WINDOWS.partition("INTO $.dst ")[2], result=ResultOptions(max_rows=1))
    assert first.result is not None and (first.result.row_count, first.result.truncated) == (1, True), first
    whole = await preview(streams, COUNTS, "counts", output_mode=OutputMode.COMPLETE)
    assert shown(whole) == {("4", "d", "1"), ("5", "b", "2"), ("1", "a", "1")}
    other = await preview(streams, WINDOWS.replace("count(*)", "sum(id)"))
    assert other.error is not None and other.error.reason is ErrorReason.STATE_INCOMPATIBLE, other
    batch = await preview(streams, "SELECT * FROM $.src")
    assert batch.error is not None and "reads no STREAM" in batch.error.message, batch
    assert contents(streams.folder) == before
    assert await streams.rows("SELECT * FROM $.dst") == []
    assert list(gateway.folder.rglob("*-preview")) == []
