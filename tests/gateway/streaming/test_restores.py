"""Streams that begin with the state of another: of a savepoint, or of a checkpoint that is adopted."""

from __future__ import annotations

from sparksql.wire.control import ErrorReason, OperationView, RestoreOptions

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
