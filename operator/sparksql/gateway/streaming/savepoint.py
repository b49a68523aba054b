"""Copies of a checkpoint: pinned to one committed batch, complete or not there at all.

A checkpoint may be copied while its query runs. Spark keeps what the last `spark.sql.streaming.minBatchesToRetain` batches
need, so the files of a batch N that was committed when the copy began can be taken one after the other as long as fewer batches
than that are committed meanwhile; one that vanishes under the copy is not needed for N. What belongs to later batches is left
out. Measured with Spark 4.1.4 on HDFS-backed and RocksDB state, with and without changelog: a query that goes on from such a
copy gives the rows of one that was never stopped.

The folder of a savepoint: `owner.json` first, then `checkpoint/`, and `manifest.json` last; its presence means complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

OWNER, CHECKPOINT, MANIFEST = "owner.json", "checkpoint", "manifest.json"
FORMAT_VERSION = 1
# Half of Spark's default of minBatchesToRetain (100), so that a query that retains less is not trusted either way.
MAX_BATCHES_MEANWHILE = 50
_COPIES_AT_A_TIME = 8
_NUMBER = re.compile(r"[0-9]+")
_STATE_FILE = re.compile(r"([0-9]+)(?:_[^.]*)?\.(?:delta|snapshot|zip|changelog)")


class SavepointError(Exception):
    """A copy that cannot be made, or cannot be trusted; the message says why."""


class CopyCancelled(Exception):
    """The copy was given up between two files; its folder has no manifest."""


@dataclass(frozen=True)
class Owner:
    """The SqlSavepoint that a folder belongs to; nobody else may write or remove it."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True)
class File:
    """A file of a checkpoint: its path below it, and its bytes."""

    path: str
    size: int


@dataclass(frozen=True)
class Manifest:
    """What a complete savepoint holds. `files` are those below `checkpoint/`."""

    owner: Owner
    query_id: str
    batch_id: int
    spark_version: str
    files: tuple[File, ...]
    version: int = FORMAT_VERSION

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Raises SavepointError for what is no manifest of this form."""
        try:
            raw = json.loads(text)
            if raw["version"] != FORMAT_VERSION:
                raise SavepointError(f"the manifest has version {raw['version']}, this driver knows {FORMAT_VERSION}")
            files = tuple(File(each["path"], int(each["size"])) for each in raw["files"])
            owner = Owner(**raw["owner"])
            return cls(owner, raw["query_id"], int(raw["batch_id"]), raw["spark_version"], files)
        except (KeyError, TypeError, ValueError) as broken:
            raise SavepointError("manifest.json is not a savepoint's manifest") from broken


def last_committed(paths: Iterable[str]) -> int | None:
    """The newest batch with a commit among the files of a checkpoint."""
    return max((number for path in paths if (number := _numbered(path, "commits")) is not None), default=None)


def belongs(path: str, batch: int) -> bool:
    """Whether a file of a checkpoint is part of the copy that is pinned to `batch`: the smallest set that Spark goes on from.

    The state of batch N has version N+1. Of offsets Spark wants the batch before, too. Checksums are left out: a client of the
    local file system takes one that does not fit its file for corruption.
    """
    parts = path.split("/")
    if any(part.startswith(".") for part in parts) or path.endswith((".tmp", ".crc")):
        return False
    match parts[0]:
        case "offsets" | "commits":
            number = _numbered(path, parts[0])
            return number is not None and batch - 1 <= number <= batch
        case "sources":
            found = _NUMBER.match(parts[-1])
            return found is None or int(found[0]) <= batch
        case "state":
            state = _STATE_FILE.fullmatch(parts[-1])
            if state is not None:
                return int(state[1]) <= batch + 1
            return not (_NUMBER.fullmatch(parts[-1]) and "_metadata" in parts and int(parts[-1]) > batch)
        case _:
            return True


def _numbered(path: str, folder: str) -> int | None:
    parent, _, name = path.rpartition("/")
    return int(name) if parent == folder and _NUMBER.fullmatch(name) else None


class Savepoints:
    """Makes and reads copies with the driver's own file systems and credentials. All calls block."""

    def __init__(self, jvm: Any, hadoop_conf: Any, spark_version: str) -> None:
        self._jvm = jvm
        self._conf = hadoop_conf
        self._version = spark_version

    def take(
        self, checkpoint: str, target: str, owner: Owner, is_cancelled: Callable[[], bool] = lambda: False
    ) -> Manifest:
        """Copies a checkpoint into `target`, or finds that it is there.

        Raises SavepointError, CopyCancelled, or what the JVM throws.
        """
        known = self.read(target)
        if known is not None:
            if known.owner != owner:
                raise SavepointError(f"{target} holds the savepoint of another object")
            return known
        self._claim(target, owner)
        files = list(self._files(checkpoint))
        batch = last_committed(file.path for file in files)
        if batch is None:
            raise SavepointError("the checkpoint has no committed batch yet")
        chosen = [file for file in files if belongs(file.path, batch)]
        copied = self._copy(checkpoint, f"{target}/{CHECKPOINT}", chosen, is_cancelled)
        self._check(checkpoint, copied, batch)
        query_id = str(json.loads(self._text(f"{checkpoint}/metadata"))["id"])
        manifest = Manifest(owner, query_id, batch, self._version, tuple(copied))
        self._write(f"{target}/{MANIFEST}", manifest.to_json())
        return manifest

    def read(self, target: str) -> Manifest | None:
        """The manifest of a complete savepoint, None when there is none."""
        path = self._path(f"{target}/{MANIFEST}")
        return Manifest.from_json(self._text(f"{target}/{MANIFEST}")) if self._system(path).exists(path) else None

    def restore(self, target: str, checkpoint: str, query_id: str | None = None) -> Manifest:
        """Makes a new checkpoint of a complete savepoint, with another identity if one is given. Raises SavepointError."""
        manifest = self.read(target)
        if manifest is None:
            raise SavepointError(f"{target} holds no complete savepoint")
        place = self._path(checkpoint)
        if self._system(place).exists(place):
            raise SavepointError(f"{checkpoint} exists: a checkpoint is never written over")
        copied = self._copy(f"{target}/{CHECKPOINT}", checkpoint, manifest.files, lambda: False)
        if len(copied) != len(manifest.files):
            raise SavepointError(f"{target} lacks files of its manifest")
        if query_id is not None:
            self._write(f"{checkpoint}/metadata", json.dumps({"id": query_id}))
        return manifest

    def _claim(self, target: str, owner: Owner) -> None:
        """Begins anew in a folder that is this owner's, or nobody's."""
        folder, mark = self._path(target), f"{target}/{OWNER}"
        system = self._system(folder)
        if system.exists(folder):
            path = self._path(mark)
            if not system.exists(path) or json.loads(self._text(mark)) != asdict(owner):
                raise SavepointError(f"{target} exists and is not this savepoint's")
            system.delete(self._path(f"{target}/{CHECKPOINT}"), True)
        self._write(mark, json.dumps(asdict(owner)))

    def _files(self, folder: str) -> Iterator[File]:
        """All files below a folder, which Spark may change meanwhile. (`listFiles` of the local file system fails then.)"""
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
        """Copies files; those that are gone meanwhile are left out."""

        def copy(file: File) -> bool:
            if is_cancelled():
                raise CopyCancelled
            return self._copy_one(source, target, file)

        with ThreadPoolExecutor(_COPIES_AT_A_TIME, thread_name_prefix="savepoint") as pool:
            done = list(pool.map(copy, files))
        return [file for file, is_there in zip(files, done, strict=True) if is_there]

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

    def _check(self, checkpoint: str, copied: Sequence[File], batch: int) -> None:
        paths = {file.path for file in copied}
        needed = {"metadata", f"offsets/{batch}", f"commits/{batch}"} | ({f"offsets/{batch - 1}"} if batch else set())
        missing = needed - paths
        if missing:
            raise SavepointError(f"the copy lacks {', '.join(sorted(missing))}")
        commits = self._files(f"{checkpoint}/commits")
        now = last_committed(f"commits/{file.path}" for file in commits)
        if now is None or now - batch > MAX_BATCHES_MEANWHILE:
            raise SavepointError("too many batches were committed during the copy: files of its batch may be missing")

    def _text(self, uri: str) -> str:
        """A small file of UTF-8."""
        path = self._path(uri)
        stream = self._system(path).open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
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
