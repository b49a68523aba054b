"""Copies of a checkpoint: pinned to one committed batch, complete or not there at all.

A checkpoint may be copied while its query runs. Spark keeps what the last `spark.sql.streaming.minBatchesToRetain` batches
need, so the files of a batch N that was committed when the copy began (see `batch_files`) can be taken one after the other as
long as fewer batches than that are committed meanwhile; a copy that lacks one of them is none. Measured with Spark 4.1.4 on
HDFS-backed and RocksDB state, with and without changelog: a query that goes on from such a copy gives the rows of one that was
never stopped.

The folder of a savepoint: `owner.json` first, then `checkpoint/`, and `manifest.json` last; its presence means complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from sparksql.gateway.spark.shapes import Jvm
from sparksql.gateway.streaming.checkpoints import schema_paths
from sparksql.gateway.streaming.checkpoints.batch_files import (
    File,
    belongs,
    certain_state,
    files_of,
    last_committed,
)

OWNER, CHECKPOINT, MANIFEST = "owner.json", "checkpoint", "manifest.json"
FORMAT_VERSION = 1
# Half of Spark's default of minBatchesToRetain (100), so that a query that retains less is not trusted either way.
MAX_BATCHES_MEANWHILE = 50
_FILES_AT_A_TIME = 8


class SavepointError(Exception):
    """A copy that cannot be made, or cannot be trusted; the message says why."""


class InvalidLocationError(SavepointError):
    """Says that what lies at a location is no savepoint, or is another object's: it would be the same the next time."""


class RefusedQueryError(SavepointError):
    """Says that a query does not give a state, for a `reason` that it would have again."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class CopyCancelledError(Exception):
    """The copy was given up between two files; its folder has no manifest."""


@dataclass(frozen=True)
class Owner:
    """The SqlSavepoint that a folder belongs to; nobody else may write or remove it."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Manifest:
    """Describes what a complete savepoint holds. `files` are those below `checkpoint/`; `sql_hash` is that of the query's text.

    Of a checkpoint that is adopted, neither its owner nor the Spark that wrote it is known.
    """

    owner: Owner | None
    query_id: str
    batch_id: int
    spark_version: str | None
    files: tuple[File, ...]
    sql_hash: str | None = None
    version: int = FORMAT_VERSION

    @property
    def size_bytes(self) -> int:
        """Returns the bytes of all files."""
        return sum(file.size for file in self.files)

    def to_json(self) -> str:
        """Returns the manifest's text."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Reads a manifest's text. Raises InvalidLocationError for what is no manifest of this form."""
        try:
            raw = json.loads(text)
            if raw["version"] != FORMAT_VERSION:
                raise InvalidLocationError(
                    f"the manifest has version {raw['version']}, this driver supports {FORMAT_VERSION}"
                )
            files = tuple(File(each["path"], int(each["size"])) for each in raw["files"])
            owner = Owner(**raw["owner"])
            return cls(owner, raw["query_id"], int(raw["batch_id"]), raw["spark_version"], files, raw.get("sql_hash"))
        except (KeyError, TypeError, ValueError) as broken:
            raise InvalidLocationError("manifest.json is not a savepoint's manifest") from broken


class Savepoints:
    """Makes and reads copies with the driver's own file systems and credentials. All calls block."""

    def __init__(self, jvm: Jvm, hadoop_conf: Any, spark_version: str) -> None:
        self._jvm = jvm
        self._conf = hadoop_conf
        self._version = spark_version

    def take(
        self,
        checkpoint: str,
        target: str,
        owner: Owner,
        *,
        sql_hash: str | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
        is_copied: Callable[[str], bool] = lambda path: True,
        complete: Callable[[str, int], None] | None = None,
    ) -> Manifest:
        """Copies a checkpoint into `target`, or finds that it is there.

        Of the files only those are copied for whose paths `is_copied` says so; `complete`, which is called with the folder and
        the batch of the copy, puts others there. Raises SavepointError, CopyCancelledError, what `complete` raises, or what the
        JVM throws.
        """
        known = self.read(target)
        if known is not None:
            if known.owner != owner:
                raise InvalidLocationError(f"{target} holds the savepoint of another object")
            return known
        self._claim(target, owner)
        found = self._checkpoint(checkpoint)
        found = replace(found, files=tuple(file for file in found.files if is_copied(file.path)))
        copy = f"{target}/{CHECKPOINT}"
        copied = self._copy(checkpoint, copy, found.files, is_cancelled)
        self._check(checkpoint, found, copied)
        if complete is not None:
            complete(copy, found.batch_id)
            copied = [file for file in self._files(copy) if belongs(file.path, found.batch_id)]
        manifest = replace(found, owner=owner, spark_version=self._version, files=tuple(copied), sql_hash=sql_hash)
        self._write(f"{target}/{MANIFEST}", manifest.to_json())
        return manifest

    def read(self, target: str) -> Manifest | None:
        """Returns the manifest of a complete savepoint, None when there is none."""
        return Manifest.from_json(self._text(f"{target}/{MANIFEST}")) if self._exists(f"{target}/{MANIFEST}") else None

    def inspect(self, location: str) -> Manifest:
        """Returns the manifest of what lies at `location`: a complete savepoint, or a checkpoint of whatever origin.

        Writes nothing. Raises InvalidLocationError when it is neither, or lacks files.
        """
        manifest = self.read(location)
        if manifest is None:
            if not self._exists(f"{location}/metadata"):
                message = f"{location} holds neither a complete savepoint (manifest.json) nor a checkpoint (metadata)"
                raise InvalidLocationError(message)
            return self._checkpoint(location)
        there = set(self._files(f"{location}/{CHECKPOINT}"))
        lacking = sorted(file.path for file in manifest.files if file not in there)
        if lacking:
            raise InvalidLocationError(f"{location} lacks {lacking[0]}, or its size differs from the manifest")
        return manifest

    def restore(self, location: str, checkpoint: str, query_id: str) -> None:
        """Makes a checkpoint, with the identity `query_id`, of what lies at `location`; not again if that was done.

        A query takes a checkpoint for one that has begun when there is `metadata`: that comes last, and what an earlier
        try has left behind without it is nobody's. Raises SavepointError.
        """
        if self._exists(f"{checkpoint}/metadata"):
            return
        found = self.inspect(location)
        source = location if found.owner is None else f"{location}/{CHECKPOINT}"
        files = [file for file in found.files if file.path != "metadata"]
        place = self._path(checkpoint)
        self._system(place).delete(place, True)
        if len(self._copy(source, checkpoint, files, lambda: False)) != len(files):
            raise SavepointError(f"{location} lost files while they were copied")
        self.begin(checkpoint, query_id)

    def begin(self, checkpoint: str, query_id: str) -> None:
        """Makes a checkpoint the one of the query `query_id`, once all else is there."""
        self._write(f"{checkpoint}/metadata", json.dumps({"id": query_id}))

    def copy_on(
        self, location: str, checkpoint: str, *, is_copied: Callable[[str], bool] = lambda path: True
    ) -> Manifest:
        """Copies what the query of the checkpoint at `location`, which has ended, needs to go on elsewhere.

        What is in the other place goes first; `metadata`, which comes last, is left to `begin`. Of the files only those
        are copied for whose paths `is_copied` says so. Raises SavepointError.
        """
        found = self._checkpoint(location, with_planned=True)
        files = [file for file in found.files if file.path != "metadata" and is_copied(file.path)]
        place = self._path(checkpoint)
        self._system(place).delete(place, True)
        if len(self._copy(location, checkpoint, files, lambda: False)) != len(files):
            raise SavepointError(f"{location} lost files while they were copied")
        return found

    def move_state(self, folder: str, checkpoint: str, name_of: Callable[[str], str | None]) -> None:
        """Moves the states below `folder` into a checkpoint; `name_of` gives the new path of a file, None to leave it.

        Raises SavepointError when a file cannot be moved, and what `name_of` raises.
        """

        def move(path: str, name: str) -> None:
            begin, end = self._path(f"{folder}/{path}"), self._path(f"{checkpoint}/{name}")
            system = self._system(end)
            system.mkdirs(end.getParent())
            if not system.rename(begin, end):
                raise SavepointError(f"{path} of the new state could not be moved to {name}")
            if schema_paths.has_paths(name):
                self._relocate(f"{checkpoint}/{name}", f"{checkpoint}/{name}", checkpoint, moved.values())

        found = {file.path: name_of(file.path) for file in self._files(folder)}
        moved = {path: f"state/{name}" for path, name in found.items() if name is not None}
        with ThreadPoolExecutor(_FILES_AT_A_TIME, thread_name_prefix="savepoint") as pool:
            list(pool.map(move, moved, moved.values()))

    def checkpoint_in(self, location: str) -> str:
        """Returns the folder of the checkpoint in what lies at `location`. Raises SavepointError."""
        return location if self.inspect(location).owner is None else f"{location}/{CHECKPOINT}"

    def _checkpoint(self, folder: str, *, with_planned: bool = False) -> Manifest:
        """What a copy of a checkpoint, pinned to its last committed batch, consists of.

        The batch is told first: a running query commits more while its files are listed, and the state of a batch whose commit
        is there was written before that.
        """
        batch = last_committed(f"commits/{file.path}" for file in self._files(f"{folder}/commits"))
        if batch is None:
            raise SavepointError(f"the checkpoint {folder} has no committed batch yet")
        files = list(self._files(folder))
        query_id = str(json.loads(self._text(f"{folder}/metadata"))["id"])

        def contents(paths: Sequence[str]) -> list[bytes | None]:
            return self._contents([f"{folder}/{path}" for path in paths])

        chosen = files_of(files, batch, contents, with_planned=with_planned)
        return Manifest(None, query_id, batch, None, chosen)

    def _claim(self, target: str, owner: Owner) -> None:
        """Begins anew in a folder that is this owner's, or nobody's."""
        folder, mark = self._path(target), f"{target}/{OWNER}"
        system = self._system(folder)
        if system.exists(folder):
            path = self._path(mark)
            if not system.exists(path) or json.loads(self._text(mark)) != asdict(owner):
                raise InvalidLocationError(f"{target} exists and is not this savepoint's")
            system.delete(self._path(f"{target}/{CHECKPOINT}"), True)
        self._write(mark, json.dumps(asdict(owner)))

    def _files(self, folder: str) -> Iterator[File]:
        """Yields all files below a folder, which Spark may change meanwhile.

        A folder comes before those in it: what a `.zip` of RocksDB names was there before it, and is found after it.
        `listFiles` of the local file system fails when files go meanwhile, so it is not used.
        """
        pending = [""]
        while pending:
            below = pending.pop()
            for status in self._children(f"{folder}/{below}".rstrip("/")):
                path = below + str(status.getPath().getName())
                if status.isDirectory():
                    pending.append(f"{path}/")
                else:
                    yield File(path, int(status.getLen()))

    def _children(self, folder: str) -> list[Any]:
        path = self._path(folder)
        system = self._system(path)
        try:
            return list(system.listStatus(path))
        except Exception:
            if system.exists(path):
                raise
            return []

    def _copy(self, source: str, target: str, files: Sequence[File], is_cancelled: Callable[[], bool]) -> list[File]:
        """Copies files, and returns them as they are in the copy; those that are gone meanwhile are left out."""
        paths = {file.path for file in files}

        def copy(file: File) -> File | None:
            if is_cancelled():
                raise CopyCancelledError
            if not self._copy_one(source, target, file):
                return None
            if not schema_paths.has_paths(file.path):
                return file
            return File(file.path, self._relocate(f"{source}/{file.path}", f"{target}/{file.path}", target, paths))

        with ThreadPoolExecutor(_FILES_AT_A_TIME, thread_name_prefix="savepoint") as pool:
            return [each for each in pool.map(copy, files) if each is not None]

    def _relocate(self, source: str, target: str, checkpoint: str, there: Collection[str]) -> int:
        """Writes an operator's metadata with the paths of another checkpoint; returns its bytes."""
        before = self._text(source)
        text = schema_paths.relocated(before, checkpoint, there)
        if text != before:
            self._write(target, text)
        return len(text.encode())

    def _copy_one(self, source: str, target: str, file: File) -> bool:
        begin, end = self._path(f"{source}/{file.path}"), self._path(f"{target}/{file.path}")
        here, there = self._system(begin), self._system(end)
        try:
            self._jvm.org.apache.hadoop.fs.FileUtil.copy(here, begin, there, end, False, True, self._conf)
        except Exception:
            if here.exists(begin):
                raise
            return False
        size = int(there.getFileStatus(end).getLen())
        if size != file.size:
            raise SavepointError(f"{file.path} has {size} bytes in the copy and {file.size} in the checkpoint")
        return True

    def _check(self, checkpoint: str, found: Manifest, copied: Sequence[File]) -> None:
        batch, paths = found.batch_id, {file.path for file in copied}
        needed = {"metadata", f"offsets/{batch}", f"commits/{batch}"} | ({f"offsets/{batch - 1}"} if batch else set())
        missing = (needed | certain_state(file.path for file in found.files)) - paths
        if missing:
            raise SavepointError(f"the copy lacks {', '.join(sorted(missing)[:5])}")
        commits = self._files(f"{checkpoint}/commits")
        now = last_committed(f"commits/{file.path}" for file in commits)
        if now is None or now - batch > MAX_BATCHES_MEANWHILE:
            raise SavepointError("too many batches were committed during the copy: files of its batch may be missing")

    def _exists(self, uri: str) -> bool:
        path = self._path(uri)
        return bool(self._system(path).exists(path))

    def _text(self, uri: str) -> str:
        """A small file of UTF-8."""
        return self._read(self._path(uri)).decode()

    def _contents(self, uris: Sequence[str]) -> list[bytes | None]:
        with ThreadPoolExecutor(_FILES_AT_A_TIME, thread_name_prefix="savepoint") as pool:
            return list(pool.map(self._content, uris))

    def _content(self, uri: str) -> bytes | None:
        """A small file, None when it is gone."""
        path = self._path(uri)
        try:
            return self._read(path)
        except Exception:
            if self._system(path).exists(path):
                raise
            return None

    def _read(self, path: Any) -> bytes:
        stream = self._system(path).open(path)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def _write(self, uri: str, text: str) -> None:
        path = self._path(uri)
        stream = self._system(path).create(path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _system(self, path: Any) -> Any:
        return path.getFileSystem(self._conf)

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)
