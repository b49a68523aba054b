"""The SQLite file of an instance: one row an object, a counter of resource versions, one transaction a write.

Invariant: what a write has returned survives the end of the process and of the machine, as with etcd: the log is flushed
at each commit (`synchronous=FULL`). An intent that a status holds must not be lost while the write that follows it took place.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

Object = dict[str, Any]

FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
  resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL, body TEXT NOT NULL,
  applied TEXT NOT NULL, PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS objects_by_uid ON objects (uid);
CREATE TABLE IF NOT EXISTS owners (
  uid TEXT NOT NULL, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  PRIMARY KEY (uid, resource, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS versions (last INTEGER NOT NULL);
"""


class FormatError(Exception):
    """The file was written by another version of local mode; the message names it and what to do."""


class Place(NamedTuple):
    """Names an object: `resource` as `plural.group`."""

    resource: str
    namespace: str
    name: str


class Database:
    """Rows of objects. Every method that writes is called within `transaction`."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        found = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, FORMAT):
            self._connection.close()
            raise FormatError(
                f"{path} has format {found}, this version reads {FORMAT}: use the version of sparksql that made it, "
                "or another --instance"
            )
        if found == 0:
            self._connection.executescript(_SCHEMA)
            self._connection.execute(f"PRAGMA user_version={FORMAT}")
            self._connection.execute("INSERT INTO versions SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM versions)")

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits all writes of the block together, or none if it raises."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def next_version(self) -> str:
        """Returns a resource version that is higher than all before it."""
        self._connection.execute("UPDATE versions SET last = last + 1")
        return self.version()

    def version(self) -> str:
        """Returns the last resource version."""
        return str(self._connection.execute("SELECT last FROM versions").fetchone()[0])

    def get(self, place: Place) -> tuple[Object, Object] | None:
        """Returns the object and what its applier applied last, None if there is no object."""
        query = "SELECT body, applied FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
        row = self._connection.execute(query, place).fetchone()
        return None if row is None else (json.loads(row[0]), json.loads(row[1]))

    def put(self, place: Place, obj: Object, applied: Object) -> None:
        """Writes an object."""
        values = (*place, obj["metadata"]["uid"], json.dumps(obj), json.dumps(applied))
        self._connection.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)", values)
        self._forget_owners(place)
        owners = {owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ()}
        rows = [(uid, *place) for uid in owners]
        self._connection.executemany("INSERT INTO owners VALUES (?, ?, ?, ?)", rows)

    def remove(self, place: Place) -> None:
        """Removes an object."""
        self._connection.execute("DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?", place)
        self._forget_owners(place)

    def all(self, resource: str, namespace: str) -> list[Object]:
        """Returns the objects of a resource, of all namespaces when `namespace` is empty, in the order of their names."""
        query = "SELECT body FROM objects WHERE resource = ? AND (? = '' OR namespace = ?) ORDER BY namespace, name"
        rows = self._connection.execute(query, (resource, namespace, namespace))
        return [json.loads(row[0]) for row in rows]

    def owned_by(self, uid: str) -> list[Place]:
        """Returns the objects that have an owner of this UID."""
        query = "SELECT resource, namespace, name FROM owners WHERE uid = ?"
        return [Place(*row) for row in self._connection.execute(query, (uid,))]

    def orphans(self) -> list[Place]:
        """Returns the objects that have an owner which is not there."""
        query = "SELECT DISTINCT resource, namespace, name FROM owners WHERE uid NOT IN (SELECT uid FROM objects)"
        return [Place(*row) for row in self._connection.execute(query)]

    def exists(self, uid: str) -> bool:
        """Returns whether there is an object of this UID."""
        return self._connection.execute("SELECT 1 FROM objects WHERE uid = ?", (uid,)).fetchone() is not None

    def _forget_owners(self, place: Place) -> None:
        self._connection.execute("DELETE FROM owners WHERE resource = ? AND namespace = ? AND name = ?", place)
