"""Which files of a checkpoint one committed batch needs: the smallest set that Spark goes on from.

The state of batch N has version N+1. Spark loads a version from the newest whole one up to it (`.snapshot` of the HDFS-backed
store, `.zip` of RocksDB) and the changes since (`.delta`, `.changelog`); a `.zip` names the `.sst` files that it is made of.
What is older serves to go back to earlier batches, of which a checkpoint keeps the last hundred.
(HDFSBackedStateStoreProvider.loadMap, RocksDBFileManager.loadCheckpointFromDfs of Spark 4.1.)
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"[0-9]+")
# With an id behind the version (checkpoint format 2 of the state) several files of one version may be there, of which a line
# of ids tells the one that holds: none of those is left out for being older.
_STATE_FILE = re.compile(r"([0-9]+)(_[^.]*)?\.(delta|snapshot|zip|changelog)")
_WHOLE = frozenset({"snapshot", "zip"})
_SST_FOLDER, _LOG_FOLDER = "SSTs", "logs"  # of RocksDB
_METADATA = "_metadata"


@dataclass(frozen=True)
class File:
    """A file of a checkpoint: its path below it, and its bytes."""

    path: str
    size: int


def last_committed(paths: Iterable[str]) -> int | None:
    """Returns the newest batch with a commit among the files of a checkpoint."""
    return max((number for path in paths if (number := _numbered(path, "commits")) is not None), default=None)


def files_of(
    files: Iterable[File],
    batch: int,
    read: Callable[[Sequence[str]], Iterable[bytes | None]],
    *,
    with_planned: bool = False,
) -> tuple[File, ...]:
    """Returns the files that the copy pinned to `batch` consists of.

    `read` gives the bytes of files by their paths, None for one that is gone. `with_planned`: what the batch after it is
    to read as well, if that was planned. A query that goes on under its own name needs it: a sink that has this batch
    already would leave out whatever else another one of its number has.
    """
    there = [
        file for file in files if belongs(file.path, batch) or (with_planned and _is_planned(file.path, batch + 1))
    ]
    bases = _bases(file.path for file in there)
    kept = [file for file in there if not _is_superseded(file.path, bases)]
    archives = {f"{folder}/{version}.zip": folder for folder, (version, kind) in bases.items() if kind == "zip"}
    parts = {
        f"{folder}/{_SST_FOLDER}": sst_files(content)
        for folder, content in zip(archives.values(), read(list(archives)), strict=True)
        if content is not None
    }
    return tuple(file for file in kept if _is_part(file.path, parts))


def belongs(path: str, batch: int) -> bool:
    """Returns whether a file was there for `batch` or an earlier one.

    Of offsets Spark wants the batch before, too. Checksums are left out: a client of the local file system takes one
    that does not fit its file for corruption.
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
            return not (_NUMBER.fullmatch(parts[-1]) and _METADATA in parts and int(parts[-1]) > batch)
        case _:
            return True


def _is_planned(path: str, batch: int) -> bool:
    return path.startswith(("offsets/", "sources/")) and belongs(path, batch)


def certain_state(paths: Iterable[str]) -> set[str]:
    """Returns those of a copy's files without which its state cannot be loaded.

    None are certain where versions have an id: which of several files of one version holds is not known.
    """
    state = {path for path in paths if path.startswith("state/")}
    matches = (_STATE_FILE.fullmatch(path.rpartition("/")[2]) for path in state)
    return set() if any(match is not None and match[2] is not None for match in matches) else state


def is_state_of(path: str, operators: Collection[int]) -> bool:
    """Returns whether a file has values of one of these operators, by their ids, or tells their types."""
    match path.split("/"):
        case ["state", operator, partition, *_] if partition != _METADATA:
            return operator.isdecimal() and int(operator) in operators
        case _:
            return False


def whole_state(path: str, version: int) -> str | None:
    """Returns the name, as a whole state of `version`, of a file that Spark wrote as the first version of a state.

    A first version consists of changes to nothing, which have the form of a whole state. None for what is not part of it.
    Raises ValueError for a file that no such state has.
    """
    folder, _, name = path.rpartition("/")
    if _METADATA in folder.split("/") or not belongs(f"state/{path}", 0):
        return None
    if name == "1.delta":
        return f"{folder}/{version}.snapshot"
    if name == "1.zip":
        return f"{folder}/{version}.zip"
    if folder.rpartition("/")[2] in (_SST_FOLDER, _LOG_FOLDER):
        return path
    raise ValueError(f"a state of one version has {name}")


def moved_state(path: str, last: int, version: int) -> str | None:
    """Returns the name of a file of a state that was begun anew, where the last of its versions is to be `version`.

    The first one becomes a whole state, see `whole_state`. None for what is not part of it. Raises ValueError for a file that
    such a state does not have.
    """
    folder, _, name = path.rpartition("/")
    if not belongs(f"state/{path}", last):
        return None
    found = _STATE_FILE.fullmatch(name)
    match found and (found[2], found[3]):
        case None:
            return path
        case None, "delta":
            number = int(name.partition(".")[0])
            return f"{folder}/{version - last + number}.{'snapshot' if number == 1 else 'delta'}"
        case None, "zip":  # each one is whole
            return f"{folder}/{version}.zip" if name == f"{last}.zip" else None
        case _:
            raise ValueError(f"a state that was begun anew has {name}")


def sst_files(archive: bytes) -> frozenset[str]:
    """Returns the names of the files in `SSTs` that a `.zip` of RocksDB is made of.

    The metadata in it tells them: `v1`, then JSON.
    """
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        described = json.loads(opened.read("metadata").decode().partition("\n")[2])
    return frozenset(each["dfsSstFileName"] for each in described["sstFiles"])


def _bases(paths: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Version and kind of the newest whole state of each store, by its folder; of those without an id."""
    found: dict[str, tuple[int, str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        state = _STATE_FILE.fullmatch(name)
        if state is not None and state[2] is None and state[3] in _WHOLE:
            found[folder] = max(found.get(folder, (-1, "")), (int(state[1]), state[3]))
    return found


def _is_superseded(path: str, bases: Mapping[str, tuple[int, str]]) -> bool:
    folder, _, name = path.rpartition("/")
    state = _STATE_FILE.fullmatch(name)
    return state is not None and state[2] is None and folder in bases and int(state[1]) < bases[folder][0]


def _is_part(path: str, parts: Mapping[str, frozenset[str]]) -> bool:
    folder, _, name = path.rpartition("/")
    return folder not in parts or name in parts[folder]


def _numbered(path: str, folder: str) -> int | None:
    parent, _, name = path.rpartition("/")
    return int(name) if parent == folder and _NUMBER.fullmatch(name) else None
