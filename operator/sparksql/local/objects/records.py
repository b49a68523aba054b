"""The objects in the file of an instance: each write is stored, then shown to watchers; dependents follow their owners."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from sparksql.local.objects.database import Database, Place

Object = dict[str, Any]
Change = Literal["ADDED", "MODIFIED", "DELETED"]
Watcher = Callable[[str, Change, Object], None]
"""Called with kind, change and object, which is the watcher's own copy."""


class Records:
    """Stored objects and their watchers. `delete` deletes an object that has lost its owners, as a client would."""

    def __init__(self, path: Path, delete: Callable[[Place, str], None]) -> None:
        self.database = Database(path)
        self._delete = delete
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Calls `watcher` after each change from now on, until the returned function is called."""
        self._watchers.append(watcher)

        def stop() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return stop

    def commit(self, kind: str, place: Place, obj: Object, applied: Object, change: Change | None) -> Object:
        """Writes the object and returns it; without a change only what its applier applied."""
        with self.database.transaction():
            if change is not None:
                obj["metadata"]["resourceVersion"] = self.database.next_version()
            self.database.put(place, obj, applied)
        if change is not None:
            self._notify(kind, change, obj)
        return plain(obj)

    def remove(self, kind: str, place: Place, obj: Object) -> None:
        """Removes the object, then deletes the dependents that have no other owner."""
        with self.database.transaction():
            obj["metadata"]["resourceVersion"] = self.database.next_version()
            self.database.remove(place)
        self._notify(kind, "DELETED", obj)
        for dependent in self.database.owned_by(obj["metadata"]["uid"]):
            self._collect(dependent)

    def collect_orphans(self) -> None:
        """Deletes the objects whose owners are all gone, and what they own in turn."""
        for place in self.database.orphans():
            self._collect(place)

    def _collect(self, place: Place) -> None:
        found = self.database.get(place)
        if found is None:
            return
        metadata = found[0]["metadata"]
        if not any(self.database.exists(owner["uid"]) for owner in metadata.get("ownerReferences") or ()):
            self._delete(place, metadata["uid"])

    def _notify(self, kind: str, change: Change, obj: Object) -> None:
        for watcher in tuple(self._watchers):
            watcher(kind, change, plain(obj))


def plain(obj: Object) -> Object:
    """Returns a copy as JSON has it: enums are text, tuples are lists."""
    copied: Object = json.loads(json.dumps(obj))
    return copied
