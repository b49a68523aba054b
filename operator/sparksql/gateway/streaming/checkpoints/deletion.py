"""Removal of a savepoint's data: only what is certain to be this savepoint's, in an order that leaves no half for a whole.

First goes the manifest, so that nobody takes the rest for complete, and the marker file last but the folder itself, so that a
removal that was interrupted can be told to be ours and goes on. Invariants: nothing outside of the root and nothing without
our mark is deleted; a normal return means that the folder is gone.
"""

from __future__ import annotations

import json
import re
from typing import Protocol

from sparksql.gateway.streaming.checkpoints.savepoint import CHECKPOINT, MANIFEST, OWNER

# Scheme, authority and path, as Hadoop's Path takes a text apart: nothing in it is escaped.
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?")
_HIDDEN = (".", "_")  # of temporary and checksum files, for Hadoop as for Spark


class DeletionRefusedError(Exception):
    """Says that what lies there is not certain to be this savepoint's; nothing was deleted.

    Another attempt would find the same.
    """


class CleaningError(Exception):
    """The file system keeps what it was asked to delete."""


class OpenFile(Protocol):
    """Reads an open file."""

    def read(self) -> bytes:
        """Returns all bytes."""

    def close(self) -> None:
        """Closes the file."""


class FileTree(Protocol):
    """Does what a deletion needs of a file system; `spark.filesystem.HadoopFiles` is one."""

    def exists(self, uri: str) -> bool:
        """Returns whether anything is at a URI."""

    def children(self, folder: str) -> list[str]:
        """Returns the URIs in a folder, none when it does not exist."""

    def delete(self, uri: str) -> bool:
        """Deletes a file, or a folder with what is in it; returns whether it was there."""

    def open(self, uri: str) -> OpenFile:
        """Opens a file for reading."""


def check_place(target: str, root: str) -> None:
    """Raises DeletionRefusedError unless `target` is strictly below `root`, in the same file system."""
    below, above = _place(target), _place(root)
    (system, folders), (root_system, root_folders) = below, above
    if system != root_system or len(folders) <= len(root_folders) or folders[: len(root_folders)] != root_folders:
        raise DeletionRefusedError(
            f"{target} is not below {root}: only what lies below the class's savepointRoot is deleted"
        )


def clean(files: FileTree, target: str, root: str, owner_uid: str) -> bool:
    """Deletes the savepoint of the object `owner_uid` at `target`; False when nothing was there.

    Raises DeletionRefusedError, CleaningError, or what the file system raises.
    """
    check_place(target, root)
    if not files.exists(target):
        # A store that does not know our keys may say of all things that they are not there.
        if not files.exists(root):
            raise DeletionRefusedError(
                f"neither {target} nor {root} is there: does the class name the storage and its keys?"
            )
        return False
    names = {uri.rstrip("/").rpartition("/")[2] for uri in files.children(target)}
    _check_owner(files, target, names, owner_uid)
    for name in (MANIFEST, CHECKPOINT, OWNER):
        _delete(files, f"{target}/{name}")
    _delete(files, target)
    return True


def _place(uri: str) -> tuple[tuple[str, str], list[str]]:
    """A location as file system and folders."""
    found = _URI.fullmatch(uri)
    folders = [folder for folder in (found[3] or "").split("/") if folder] if found else []
    if found is None or {".", ".."} & set(folders):
        raise DeletionRefusedError(
            f"{uri} is no plain location: give it with its scheme and without `.` and `..` in its path"
        )
    return (found[1], found[2] or ""), folders


def _check_owner(files: FileTree, target: str, names: set[str], owner_uid: str) -> None:
    if not names:
        return  # the marker went, and then the removal was interrupted
    if OWNER not in names:
        raise DeletionRefusedError(f"{target} has no {OWNER}: it is not known to be a savepoint of this object")
    if not owner_uid or _marked_uid(files, f"{target}/{OWNER}") != owner_uid:
        raise DeletionRefusedError(f"{target}/{OWNER} does not name UID {owner_uid}: it belongs to another object")
    strange = sorted(name for name in names - {OWNER, CHECKPOINT, MANIFEST} if not name.startswith(_HIDDEN))
    if strange:
        shown = ", ".join(strange[:5])
        raise DeletionRefusedError(f"{target} holds what is no part of a savepoint: {shown}; move it elsewhere")


def _marked_uid(files: FileTree, marker: str) -> str | None:
    content = files.open(marker)
    try:
        uid = json.loads(content.read())["uid"]
    except (ValueError, KeyError, TypeError):
        return None
    finally:
        content.close()
    return uid if isinstance(uid, str) else None


def _delete(files: FileTree, uri: str) -> None:
    files.delete(uri)
    if files.exists(uri):
        raise CleaningError(
            f"{uri} is still there after it was deleted: may the session's service account delete there?"
        )
