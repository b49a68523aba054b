"""Who looks again when a statement refers to other savepoints than before, and which statements a start looks at."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.names import FINALIZER
from sparksql.cache.indexes import INDEXES
from sparksql.controllers.enqueue import Enqueuer
from sparksql.engine.key import Key
from sparksql.engine.queue import WorkQueue
from sparksql.engine.store import Store

Object = dict[str, Any]


class Heard(WorkQueue):
    """Keeps the keys that are put in."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[Key] = []

    def add(self, key: Key) -> None:
        self.keys.append(key)


def _statement(version: int, start: str | None = None, generation: int = 1, **streaming: Any) -> Object:
    options = {"startFrom": {"savepointRef": {"name": start}}} if start else {}
    return {
        "metadata": {
            "namespace": "n",
            "name": "st",
            "uid": "1",
            "generation": generation,
            "resourceVersion": str(version),
        },
        "spec": {"sessionRef": {"name": "s"}, "streaming": options},
        "status": {"phase": "Running", "streaming": streaming},
    }


def _savepoint(name: str, statement: str) -> Object:
    """One that is complete: nothing of its own changes any more."""
    return {
        "metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"statementRef": {"name": statement}},
        "status": {"phase": "Completed"},
    }


def _woken(before: Object, after: Object) -> set[str]:
    queue = Heard()
    store = Store(indexes=INDEXES)
    store.subscribe(Enqueuer(queue, store, lambda _namespace, _session: None).object_changed)
    for savepoint in (_savepoint("own", "st"), _savepoint("others", "another")):
        store.apply("SqlSavepoint", savepoint)
    store.apply("SqlStatement", before)
    queue.keys.clear()
    store.apply("SqlStatement", after)
    return {key.name for key in queue.keys if key.kind == "SqlSavepoint"}


@pytest.mark.parametrize(
    ("before", "after", "woken"),
    [
        (_statement(1), _statement(2, lastSavepoint={"name": "own"}), {"own"}),
        (_statement(1, restoredFrom="file:///a"), _statement(2, restoredFrom="file:///b"), {"own"}),
        (_statement(1, start="others"), _statement(2), {"own", "others"}),
        (_statement(1), _statement(2, start="others"), {"own", "others"}),
        (_statement(1), _statement(2, generation=2), {"own"}),  # of a rule of retention, say
        (_statement(1), _statement(2, inputRowsPerSecond="1.0"), set()),
    ],
)
def test_statement_whose_spec_or_references_change_wakes_the_savepoints_concerned(
    before: Object, after: Object, woken: set[str]
) -> None:
    assert _woken(before, after) == woken


def test_savepoints_are_told_that_their_statement_is_gone() -> None:
    queue = Heard()
    store = Store(indexes=INDEXES)
    store.subscribe(Enqueuer(queue, store, lambda _namespace, _session: None).object_changed)
    store.apply("SqlSavepoint", _savepoint("own", "st"))
    store.apply("SqlStatement", _statement(1, lastSavepoint={"name": "own"}))
    queue.keys.clear()
    store.delete("SqlStatement", "n", "st")
    assert Key("SqlSavepoint", "n", "own") in queue.keys


def _ended(**fields: Any) -> Object:
    metadata = {
        "namespace": "n",
        "name": "old",
        "uid": "2",
        "generation": 1,
        "resourceVersion": "1",
        "finalizers": [FINALIZER],
    }
    obj: Object = {
        "metadata": metadata,
        "spec": {"sessionRef": {"name": "s"}},
        "status": {"phase": "Finished", "observedGeneration": 1},
    }
    for part, values in fields.items():
        obj[part] |= values
    return obj


@pytest.mark.parametrize(
    ("obj", "is_woken"),
    [
        (_ended(), False),
        (_ended(spec={"runNonce": "a"}, status={"observedRunNonce": "a"}), False),
        (_ended(spec={"runNonce": "a"}), True),
        (_ended(metadata={"generation": 2}), True),
        (_ended(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), True),
        (_ended(metadata={"finalizers": []}), True),
        (_ended(spec={"ttlSecondsAfterFinished": 9}), True),
        (_ended(spec={"session": {}}), True),
        (_ended(spec={"streaming": {}}), True),
        (_ended(status={"phase": "Stopped"}), True),
        (_ended(status={"phase": "Running"}), True),
    ],
)
def test_a_start_looks_at_statements_that_are_not_settled(obj: Object, is_woken: bool) -> None:
    queue = Heard()
    store = Store(indexes=INDEXES)
    store.subscribe(Enqueuer(queue, store, lambda _namespace, _session: None).object_changed)
    store.apply("SqlStatement", obj)
    store.apply("Namespace", {"metadata": {"name": "n", "uid": "3", "resourceVersion": "1"}})
    assert (Key("SqlStatement", "n", "old") in queue.keys) is is_woken


def test_a_settled_statement_that_changes_is_looked_at() -> None:
    queue = Heard()
    store = Store(indexes=INDEXES)
    store.subscribe(Enqueuer(queue, store, lambda _namespace, _session: None).object_changed)
    store.apply("SqlStatement", _ended())
    store.apply("SqlStatement", _ended(metadata={"generation": 2, "resourceVersion": "2"}))
    assert Key("SqlStatement", "n", "old") in queue.keys
