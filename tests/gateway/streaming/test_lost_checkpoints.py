"""A checkpoint that was removed, replaced or set back while its query was stopped: nothing is started, and nothing is lost or doubled."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sparksql.wire.control import CheckpointContent, ErrorReason, OperationState
from tests.support.thorough import thorough_but

from ..streams import Streams

INSERT = "INSERT INTO $.dst SELECT id FROM STREAM $.src"
TAKEN = [(1,), (2,)]


def without_metadata(checkpoint: Path) -> None:
    (checkpoint / "metadata").unlink()


def without_commits(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "commits")


def without_offsets(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "offsets")


def without_the_last_offsets(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "1").unlink()


def without_the_log_of_files(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "sources")


def set_back(checkpoint: Path) -> None:
    for folder in ("commits", "offsets"):
        (checkpoint / folder / "1").unlink()


def of_another_query(checkpoint: Path) -> None:
    _replace_metadata(checkpoint, json.dumps({"id": "0f0d2a0c-6d9e-4d0a-9d4e-1c1f6a3f8c11"}))


def unreadable(checkpoint: Path) -> None:
    _replace_metadata(checkpoint, "{")


def _replace_metadata(checkpoint: Path, text: str) -> None:
    (checkpoint / "metadata").write_text(text)
    (checkpoint / ".metadata.crc").unlink()


DAILY = [
    (shutil.rmtree, "metadata is not there"),
    (set_back, "it has batch 0 as its last committed one, and batch 1 was committed"),
    (of_another_query, "it is of the query 0f0d2a0c-6d9e-4d0a-9d4e-1c1f6a3f8c11, not of"),
    (without_the_last_offsets, "batch 1 was committed, and the file offsets/1 of what it has read is not there"),
    (without_the_log_of_files, "the files that it has read of the source"),
]
EVERY = [
    *DAILY,
    (without_metadata, "metadata is not there"),
    (without_commits, "it has no committed batch, and batch 1 was committed"),
    (without_offsets, "batch 1 was committed, and the file offsets/1 of what it has read is not there"),
    (unreadable, "it is of the query None, not of"),
]


@pytest.mark.parametrize(("damage", "difference"), thorough_but(DAILY, EVERY))
async def test_a_checkpoint_that_is_not_the_known_one_starts_nothing(
    streams: Streams, damage: Callable[[Path], None], difference: str
) -> None:
    await streams.ok("CREATE TABLE $.dst (id INT) USING parquet")
    await streams.drained(INSERT)
    await streams.ok("INSERT INTO $.src SELECT 3, 'c', ts FROM $.src LIMIT 1")
    view = await streams.drained(INSERT)
    assert view.progress is not None and view.progress.stream is not None
    stream = view.progress.stream
    assert stream.committed_batch_id == 1
    known = CheckpointContent(query_id=stream.query_id, committed_batch_id=1)
    checkpoint, kept = streams.folder / "c", streams.folder / "kept"
    shutil.copytree(checkpoint, kept)
    await streams.ok("INSERT INTO $.src SELECT 4, 'd', ts FROM $.src LIMIT 1")

    damage(checkpoint)
    refused = await streams.run(INSERT, known=known)
    assert refused.state is OperationState.ERROR and refused.error is not None, refused
    assert refused.error.reason is ErrorReason.CHECKPOINT_LOST
    assert difference in refused.error.message and "restoreNonce" in refused.error.message
    assert await streams.rows("SELECT id FROM $.dst ORDER BY id") == [*TAKEN, (3,)]

    shutil.rmtree(checkpoint, ignore_errors=True)
    shutil.copytree(kept, checkpoint)
    await streams.drained(INSERT, known=known)
    assert await streams.rows("SELECT id FROM $.dst ORDER BY id") == [*TAKEN, (3,), (4,)]


async def test_a_restored_query_whose_checkpoint_was_removed_does_not_begin_with_its_savepoint_again(
    streams: Streams,
) -> None:
    await streams.ok("CREATE TABLE $.dst (id INT) USING parquet", "CREATE TABLE $.forked (id INT) USING iceberg")
    await streams.drained(INSERT)
    restore = {"location": await streams.saved("saved"), "query_id": "1c1f6a3f-6d9e-4d0a-9d4e-0f0d2a0c8c11"}
    await streams.ok("INSERT INTO $.src SELECT 3, 'c', ts FROM $.src LIMIT 1")
    forked = INSERT.replace("dst", "forked")
    view = await streams.drained(forked, "fork", restore=restore)
    assert view.progress is not None and view.progress.stream is not None
    known = CheckpointContent(
        query_id=restore["query_id"], committed_batch_id=view.progress.stream.committed_batch_id or 0
    )
    (streams.folder / "fork" / "metadata").unlink()
    refused = await streams.run(forked, "fork", restore=restore, known=known)
    assert refused.error is not None and refused.error.reason is ErrorReason.CHECKPOINT_LOST, refused
    assert (streams.folder / "fork" / "commits" / str(known.committed_batch_id)).exists()
    assert await streams.rows("SELECT id FROM $.forked") == [(3,)]


@pytest.mark.parametrize(
    ("older", "difference"),
    [
        ("commits", "batch 2 was planned, and batch 1 before it has no file in commits"),
        ("offsets", "batch 2 was committed, and the file offsets/2 of what it has read is not there"),
    ],
)
async def test_checkpoint_with_an_older_log_starts_nothing(streams: Streams, older: str, difference: str) -> None:
    """Also where the operator knows of no batch: its own objects may be of the same backup."""
    await streams.ok("CREATE TABLE $.dst (id INT) USING iceberg")
    await streams.drained(INSERT)
    checkpoint, kept = streams.folder / "c", streams.folder / "kept"
    shutil.copytree(checkpoint, kept)
    for row in (3, 4):
        await streams.ok(f"INSERT INTO $.src SELECT {row}, 'c', ts FROM $.src LIMIT 1")
        await streams.drained(INSERT)
    shutil.rmtree(checkpoint / older)
    shutil.copytree(kept / older, checkpoint / older)
    await streams.ok("INSERT INTO $.src SELECT 5, 'e', ts FROM $.src LIMIT 1")
    for known in (None, CheckpointContent(query_id=query_id(checkpoint), committed_batch_id=0)):
        refused = await streams.run(INSERT, known=known)
        assert refused.error is not None and refused.error.reason is ErrorReason.CHECKPOINT_LOST, refused
        assert difference in refused.error.message and "restoreNonce" in refused.error.message
    assert await streams.rows("SELECT id FROM $.dst ORDER BY id") == [*TAKEN, (3,), (4,)]


def query_id(checkpoint: Path) -> str:
    return str(json.loads((checkpoint / "metadata").read_text())["id"])
