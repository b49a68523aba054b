"""Who looks again when a statement refers to other savepoints than before."""

from __future__ import annotations

from typing import Any

import pytest

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
