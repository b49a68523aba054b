"""Drawn histories of a source and of the checkpoint of its stream: every row arrives once, or the stream is parked.

The model knows what the source has now, and nothing of how a source is read. A run that ends well has each row that the source
has in the target, and none of them twice. Any other run was refused with a reason that parks the stream, and only after
something was taken from the source or from the checkpoint.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sparksql.wire.control import CheckpointContent, ErrorReason, OperationState, OperationView
from tests.support.process import GatewayProcess

from ..streams import Streams
from .kafka_admin import delete_records, delete_topic
from .kafka_broker import Broker
from .kafka_tables import Kafka

_LONG_AGO = 1_700_000_000
PARKING = (ErrorReason.SOURCE_LOST, ErrorReason.CHECKPOINT_LOST)
EXPIRE = "CALL lake.system.expire_snapshots(table => '{src}', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


class FileTable:
    """A table of files: each INSERT gives it files of new names."""

    def __init__(self, streams: Streams, name: str) -> None:
        self.streams, self.src = streams, f"{streams.database}.{name}"
        self.read = f"SELECT id FROM STREAM {self.src}"

    async def make(self) -> None:
        await self.streams.ok(f"CREATE TABLE {self.src} (id INT) USING parquet")

    async def append(self, rows: range) -> None:
        await self.streams.ok(f"INSERT INTO {self.src} SELECT id FROM range({rows.start}, {rows.stop})")

    async def make_anew(self) -> None:
        await self.streams.ok(f"DROP TABLE {self.src}")
        await self.make()

    async def cut(self, how: int) -> None:
        """Takes all rows away; `how` is one of four ways, where there are several."""
        await self.streams.ok(f"TRUNCATE TABLE {self.src}")

    async def rows(self) -> set[int]:
        """The rows that a batch reads."""
        return {row[0] for row in await self.streams.rows(self.read.replace("STREAM ", ""))}


class Folder(FileTable):
    """A table over a folder of text files, whose names come again when it is filled once more."""

    def __init__(self, streams: Streams, name: str) -> None:
        super().__init__(streams, name)
        self.folder = streams.folder / name
        self.written = 0  # since the folder was empty
        self.age = 0

    async def make(self) -> None:
        self.folder.mkdir()
        await self.streams.ok(f"CREATE TABLE {self.src} (id INT) USING csv LOCATION '{self.folder.as_uri()}'")

    async def append(self, rows: range) -> None:
        path = self.folder / f"{self.written}.csv"
        path.write_text("".join(f"{row}\n" for row in rows))
        self.written, self.age = self.written + 1, self.age + 10
        then = _LONG_AGO + self.age  # a store may tell times in whole seconds
        os.utime(path, (then, then))

    async def make_anew(self) -> None:
        """Empties the folder: what is put there next has the names of before."""
        await self.cut(1)
        self.written = 0

    async def cut(self, how: int) -> None:
        for path in self.folder.iterdir():
            path.unlink()


class IcebergTable(FileTable):
    """A table of Iceberg; to cut it is to remove, replace or roll back commits, or to let snapshots expire."""

    def __init__(self, streams: Streams, name: str) -> None:
        super().__init__(streams, name)
        self.short, self.src = self.src, f"lake.{self.src}"
        self.read = f"SELECT id FROM STREAM {self.src}"

    async def make(self) -> None:
        await self.streams.ok(f"CREATE TABLE {self.src} (id INT) USING iceberg")

    async def cut(self, how: int) -> None:
        await self.streams.ok(await self.statement(how))

    async def statement(self, how: int) -> str:
        match how:
            case 1:
                return EXPIRE.format(src=self.short)
            case 2:
                return f"CREATE OR REPLACE TABLE {self.src} (id INT) USING iceberg"
            case 3:
                return f"INSERT OVERWRITE {self.src} VALUES (-1)"
            case _:
                [(first,)] = await self.streams.rows(
                    f"SELECT min_by(snapshot_id, committed_at) FROM {self.src}.snapshots"
                )
                return f"CALL lake.system.set_current_snapshot('{self.short}', {first})"


class DeltaTable(FileTable):
    """A table of Delta; to cut it is to remove, replace or restore."""

    async def make(self) -> None:
        await self.streams.ok(f"CREATE TABLE {self.src} (id INT) USING delta")

    async def cut(self, how: int) -> None:
        match how:
            case 1:
                await self.streams.ok(f"TRUNCATE TABLE {self.src}")
            case 2:
                await self.streams.ok(f"CREATE OR REPLACE TABLE {self.src} (id INT) USING delta")
            case 3:
                await self.streams.ok(f"INSERT OVERWRITE {self.src} VALUES (-1)")
            case _:
                await self.streams.ok(f"RESTORE TABLE {self.src} TO VERSION AS OF 0")


class Topic(FileTable):
    """A topic of Kafka, made by its first record."""

    def __init__(self, streams: Streams, name: str, broker: Broker) -> None:
        super().__init__(streams, name)
        self.kafka = Kafka(streams, broker, f"t-{uuid.uuid4().hex[:12]}")
        self.read = f"SELECT CAST(CAST(value AS STRING) AS INT) AS id FROM STREAM {self.src}"
        self.next = 0

    async def make(self) -> None:
        table = f"CREATE TABLE IF NOT EXISTS {self.src} USING kafka OPTIONS (@, 'startingOffsets' = 'earliest')"
        await self.kafka.ok(table, "DROP TABLE IF EXISTS $.put")

    async def append(self, rows: range) -> None:
        await self.kafka.put_values(*rows)
        self.next += len(rows)

    async def make_anew(self) -> None:
        if self.next:
            delete_topic(self.kafka.broker, self.kafka.topic)
            self.next = 0

    async def cut(self, how: int) -> None:
        if self.next:
            delete_records(self.kafka.broker, self.kafka.topic, self.next)


def removed(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)


def without_metadata(checkpoint: Path) -> None:
    (checkpoint / "metadata").unlink()


def of_another_query(checkpoint: Path) -> None:
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    (checkpoint / ".metadata.crc").unlink(missing_ok=True)


def set_back(checkpoint: Path) -> None:
    for folder in ("commits", "offsets"):
        last = max(
            (each for each in (checkpoint / folder).iterdir() if each.name.isdecimal()), key=lambda e: int(e.name)
        )
        last.unlink()


def without_commits(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "commits")


def without_offsets(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "offsets")


def without_the_last_offsets(checkpoint: Path) -> None:
    numbers = [int(each.name) for each in (checkpoint / "offsets").iterdir() if each.name.isdecimal()]
    (checkpoint / "offsets" / str(max(numbers))).unlink()


def of_its_first_run(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    shutil.copytree(checkpoint.with_name(f"{checkpoint.name}-first"), checkpoint)


def with_older_commits(checkpoint: Path) -> None:
    _of_the_first_run(checkpoint, "commits")


def with_older_offsets(checkpoint: Path) -> None:
    _of_the_first_run(checkpoint, "offsets")


def _of_the_first_run(checkpoint: Path, log: str) -> None:
    shutil.rmtree(checkpoint / log)
    shutil.copytree(checkpoint.with_name(f"{checkpoint.name}-first") / log, checkpoint / log)


DAMAGES: dict[str, Callable[[Path], None]] = {
    each.__name__: each
    for each in (
        removed,
        without_metadata,
        of_another_query,
        set_back,
        without_commits,
        without_offsets,
        without_the_last_offsets,
        of_its_first_run,
        with_older_commits,
        with_older_offsets,
    )
}
OF_THE_FIRST_RUN = (of_its_first_run.__name__, with_older_commits.__name__, with_older_offsets.__name__)


@dataclass
class History:
    """One source, its stream, and the model of both."""

    streams: Streams
    source: FileTable
    number: str
    rows: set[int] = field(default_factory=set)  # what the source has now
    ids: itertools.count[int] = field(default_factory=itertools.count)
    known: CheckpointContent | None = None
    is_taken_from: bool = False  # the source or the checkpoint, since the last good run
    is_parked: bool = False
    reuses_names: bool = (
        False  # the next file gets the name of one that was read, also after a good run of the empty folder
    )

    @property
    def checkpoint(self) -> Path:
        return self.streams.folder / f"c{self.number}"

    @property
    def dst(self) -> str:
        return f"lake.{self.streams.database}.dst{self.number}"

    async def do(self, action: str, size: int) -> None:
        match action:
            case "append":
                await self.append(size)
            case "make anew":
                await self.source.make_anew()
                self.rows, self.is_taken_from = set(), True
                self.reuses_names = isinstance(self.source, Folder)
                if size > 1:
                    await self.append(4 * size)  # may be more than were read of the old one
            case "cut":
                await self.source.cut(size)
                self.is_taken_from = True
                self.rows = await self.source.rows() if isinstance(self.source, IcebergTable | DeltaTable) else set()
            case copy if copy in OF_THE_FIRST_RUN and self.known is not None and self.known.committed_batch_id == 0:
                pass  # it still is
            case damage:
                await self.damaged(damage, is_put_back=size > 1)

    async def append(self, size: int) -> None:
        first = next(self.ids) * 100
        await self.source.append(range(first, first + size))
        self.rows |= {*range(first, first + size)}

    async def damaged(self, damage: str, *, is_put_back: bool) -> None:
        kept = self.streams.folder / f"kept{self.number}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.checkpoint, kept)
        DAMAGES[damage](self.checkpoint)
        view = await self.run()
        assert view.state is OperationState.ERROR and view.error is not None, (damage, view)
        assert view.error.reason is ErrorReason.CHECKPOINT_LOST, (damage, view.error)
        if not is_put_back:
            self.is_taken_from = True
            return
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        shutil.copytree(kept, self.checkpoint)

    async def run(self) -> OperationView:
        insert = f"INSERT INTO {self.dst} {self.source.read}"
        return await self.streams.run(insert, self.checkpoint.name, known=self.known)

    async def check(self) -> None:
        """Runs the stream, and holds what it did against the model."""
        view = await self.run()
        found = Counter(row[0] for row in await self.streams.rows(f"SELECT id FROM {self.dst}"))
        assert max(found.values(), default=1) == 1, (found, view)
        if view.state is OperationState.FINISHED:
            assert self.rows <= found.keys(), (self.rows - found.keys(), view)
            assert not self.is_parked, view
            self.is_taken_from = False
            assert view.progress is not None and view.progress.stream is not None
            stream = view.progress.stream
            if stream.committed_batch_id is not None:
                self.known = CheckpointContent(query_id=stream.query_id, committed_batch_id=stream.committed_batch_id)
            return
        assert view.state is OperationState.ERROR and view.error is not None, view
        assert view.error.reason in PARKING, view.error
        assert self.is_taken_from or self.reuses_names, view.error
        self.is_parked = True


actions = st.sampled_from(("append", "append", "make anew", "cut", *DAMAGES))
histories = st.lists(st.tuples(actions, st.integers(1, 4)), min_size=3, max_size=5)


async def follow(streams: Streams, source: FileTable, history: list[tuple[str, int]]) -> None:
    followed = History(streams, source, source.src.rpartition("_")[2])
    await source.make()
    await streams.ok(f"CREATE TABLE {followed.dst} (id INT) USING iceberg")
    await followed.append(3)
    await followed.check()
    assert followed.known is not None
    shutil.copytree(followed.checkpoint, followed.checkpoint.with_name(f"{followed.checkpoint.name}-first"))
    for action, size in history:
        if followed.is_parked:
            break
        await followed.do(action, size)
        await followed.check()


def drawn(examples: int) -> settings:
    return settings(
        max_examples=examples, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
    )


def new_name() -> str:
    return f"src_{uuid.uuid4().hex[:10]}"


@drawn(2)
@given(history=histories)
async def test_each_row_of_a_file_table_arrives_once_or_the_stream_is_parked(
    streams: Streams, history: list[tuple[str, int]]
) -> None:
    await follow(streams, FileTable(streams, new_name()), history)


@drawn(2)
@given(history=histories)
async def test_each_row_of_a_folder_of_files_arrives_once_or_the_stream_is_parked(
    streams: Streams, history: list[tuple[str, int]]
) -> None:
    await follow(streams, Folder(streams, new_name()), history)


@drawn(2)
@given(history=histories)
async def test_each_row_of_an_iceberg_table_arrives_once_or_the_stream_is_parked(
    streams: Streams, history: list[tuple[str, int]]
) -> None:
    await follow(streams, IcebergTable(streams, new_name()), history)


@drawn(2)
@given(history=histories)
async def test_each_row_of_a_delta_table_arrives_once_or_the_stream_is_parked(
    streams: Streams, history: list[tuple[str, int]]
) -> None:
    await follow(streams, DeltaTable(streams, new_name()), history)


@drawn(2)
@given(history=histories)
async def test_each_record_of_a_topic_arrives_once_or_the_stream_is_parked(
    streams: Streams, broker: Broker, history: list[tuple[str, int]]
) -> None:
    await follow(streams, Topic(streams, new_name(), broker), history)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["files", "folder", "iceberg", "delta", "kafka"])
@drawn(20)
@given(history=histories)
async def test_rows_arrive_once_or_the_stream_is_parked_in_many_histories(
    streams: Streams, broker: Broker, kind: str, history: list[tuple[str, int]]
) -> None:
    match kind:
        case "files":
            source = FileTable(streams, new_name())
        case "folder":
            source = Folder(streams, new_name())
        case "iceberg":
            source = IcebergTable(streams, new_name())
        case "delta":
            source = DeltaTable(streams, new_name())
        case _:
            source = Topic(streams, new_name(), broker)
    await follow(streams, source, history)
