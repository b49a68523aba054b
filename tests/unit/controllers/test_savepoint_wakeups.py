"""Which statements and savepoints are looked at again when a savepoint, its statement or their session changes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from sparksql.cache.indexes import INDEXES
from sparksql.controllers.enqueue import Enqueuer
from sparksql.engine.key import Key
from sparksql.engine.queue import WorkQueue
from sparksql.engine.store import Store

STATEMENT, SAVEPOINT, SESSION = "SqlStatement", "SqlSavepoint", "SqlSession"
START = {"startFrom": {"savepointRef": {"name": "before"}}}
SESSION_READY = {"phase": "Ready", "driver": {"bootId": "b-1"}}


def key(kind: str, name: str) -> Key:
    return Key(kind, "team-a", name)


ONE, OTHER, BATCH = (key(STATEMENT, name) for name in ("one", "other", "batch"))
BEFORE, OPEN, DONE, THEIRS = (key(SAVEPOINT, name) for name in ("before", "open", "done", "theirs"))


class Cluster:
    """A store with the queue that it fills, and what is in it. Only what was added since `quiet` counts."""

    def __init__(self) -> None:
        self._versions = itertools.count(1)
        self.now = 0.0
        self.queue = WorkQueue(clock=lambda: self.now)
        self.store = Store(indexes=INDEXES)
        self.store.subscribe(Enqueuer(self.queue, self.store, lambda _namespace, _session: None).object_changed)

    def put(self, kind: str, name: str, status: dict[str, Any] | None = None, **fields: Any) -> None:
        """The object with another spec or status than before; `fields` beside `spec` are metadata."""
        spec = fields.pop("spec", {})
        namespace = fields.pop("namespace", "team-a")
        metadata = {
            "name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "generation": 1,
            "creationTimestamp": "2026-01-31T08:00:00Z", "resourceVersion": str(next(self._versions)), **fields,
        }  # fmt: skip
        self.store.apply(kind, {"metadata": metadata, "spec": spec, "status": status or {}})

    def stream(self, name: str, status: dict[str, Any] | None = None, **fields: Any) -> None:
        streaming = fields.pop("streaming", {})
        self.put(STATEMENT, name, status, spec={"sessionRef": {"name": "s"}, "streaming": streaming}, **fields)

    def savepoint(self, name: str, phase: str | None = None, of: str = "one", **fields: Any) -> None:
        status = {"phase": phase} if phase is not None else {}
        self.put(SAVEPOINT, name, status, spec={"statementRef": {"name": of}}, **fields)

    def woken(self) -> set[Key]:
        """Keys that are due, of statements and savepoints; none of them afterwards."""
        self.now += 60.0
        found = set()
        while (due := self.queue.get_nowait()) is not None:
            self.queue.done(due)
            found.add(due)
        return {each for each in found if each.kind in (STATEMENT, SAVEPOINT)}


@pytest.fixture
def cluster() -> Cluster:
    """Statement `one` with three savepoints; `other` is to start from one of them, and has one of its own."""
    made = Cluster()
    made.put(SESSION, "s", SESSION_READY)
    made.stream("one", {"phase": "Running", "streaming": {}})
    made.stream("other", {"phase": "Initialized"}, streaming=START)
    made.put(STATEMENT, "batch", {"phase": "Running"}, spec={"sessionRef": {"name": "s"}})
    made.savepoint("before", "InProgress")
    made.savepoint("open", "Pending")
    made.savepoint("done", "Completed")
    made.savepoint("theirs", "Completed", of="other")
    made.savepoint("far", "Pending", namespace="team-b")
    made.woken()
    return made


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Abandoned", "Pending"])
def test_savepoint_phase_change_wakes_its_statement_and_statements_starting_from_it(
    cluster: Cluster, phase: str
) -> None:
    cluster.savepoint("before", phase)
    assert {ONE, OTHER} <= cluster.woken()


def test_savepoint_phase_change_wakes_the_other_savepoints_of_its_statement(cluster: Cluster) -> None:
    """Whether they are kept depends on it."""
    cluster.savepoint("before", "Completed")
    assert {OPEN, DONE} <= (woken := cluster.woken())
    assert not woken & {THEIRS, BATCH, Key(SAVEPOINT, "team-b", "far")}


def test_savepoint_that_is_created_wakes_itself_and_its_statement(cluster: Cluster) -> None:
    cluster.savepoint("new")
    woken = cluster.woken()
    assert {key(SAVEPOINT, "new"), ONE} <= woken
    assert OTHER not in woken


def test_savepoint_that_a_statement_waits_for_wakes_the_statement_when_created(cluster: Cluster) -> None:
    cluster.store.delete(SAVEPOINT, "team-a", "before")
    cluster.woken()
    cluster.savepoint("before", None, of="one", uid="again")
    assert OTHER in cluster.woken()


def test_savepoint_that_is_being_deleted_wakes_all_concerned(cluster: Cluster) -> None:
    cluster.savepoint("before", "InProgress", deletionTimestamp="2026-01-31T09:00:00Z")
    assert {BEFORE, ONE, OTHER} <= cluster.woken()


def test_savepoint_that_is_gone_wakes_all_concerned(cluster: Cluster) -> None:
    cluster.store.delete(SAVEPOINT, "team-a", "before")
    assert {ONE, OTHER, OPEN, DONE} <= cluster.woken()


def test_status_of_a_savepoint_that_does_not_move_wakes_nobody(cluster: Cluster) -> None:
    """Its controller wrote it, and goes on by itself."""
    cluster.put(SAVEPOINT, "before", {"phase": "InProgress", "message": "more"}, spec={"statementRef": {"name": "one"}})
    assert cluster.woken() == set()


def test_first_batch_wakes_the_savepoints_that_wait_for_a_state(cluster: Cluster) -> None:
    cluster.stream("one", {"phase": "Running", "streaming": {"committedBatchId": 0}})
    assert {BEFORE, OPEN} <= (woken := cluster.woken())
    assert not woken & {ONE, DONE, THEIRS, Key(SAVEPOINT, "team-b", "far")}
    cluster.stream("one", {"phase": "Running", "streaming": {"committedBatchId": 1}})
    assert cluster.woken() == set()


def test_statement_that_moves_wakes_the_savepoints_that_are_under_way(cluster: Cluster) -> None:
    cluster.stream("one", {"phase": "Stopped", "streaming": {}})
    assert {BEFORE, OPEN} <= cluster.woken()


def test_statement_that_is_being_deleted_wakes_the_savepoints_that_are_under_way(cluster: Cluster) -> None:
    cluster.stream("one", {"phase": "Running", "streaming": {}}, deletionTimestamp="2026-01-31T09:00:00Z")
    assert {ONE, BEFORE, OPEN} <= cluster.woken()


def test_statement_that_is_gone_wakes_the_savepoints_that_wait_for_that(cluster: Cluster) -> None:
    """A savepoint that is deleted is held while somebody refers to it."""
    cluster.savepoint("done", "Completed", deletionTimestamp="2026-01-31T09:00:00Z")
    cluster.woken()
    cluster.store.delete(STATEMENT, "team-a", "other")
    assert {BEFORE, OPEN, DONE} <= cluster.woken()


def test_dropped_reference_wakes_the_savepoint_whose_deletion_waits_for_it(cluster: Cluster) -> None:
    cluster.savepoint("before", "Completed", deletionTimestamp="2026-01-31T09:00:00Z")
    cluster.woken()
    cluster.stream("other", {"phase": "Initialized"}, generation=2)
    assert {OTHER, BEFORE} <= cluster.woken()


@pytest.mark.parametrize(
    ("status", "streaming"),
    [
        ({"phase": "Initialized"}, {}),
        ({"phase": "Initialized", "streaming": {"restoredFrom": "s3a://b/before"}}, START),
        ({"phase": "Initialized", "streaming": {"lastSavepoint": {"name": "theirs"}}}, START),
    ],
    ids=["startFrom", "restoredFrom", "lastSavepoint"],
)
def test_references_that_change_wake_the_savepoints_that_may_be_meant(
    cluster: Cluster, status: dict[str, Any], streaming: dict[str, Any]
) -> None:
    """Who uses them is shown in their status, and whether they are kept depends on it."""
    cluster.savepoint("before", "Completed")
    cluster.woken()
    cluster.stream("other", status, streaming=streaming)
    assert {BEFORE, THEIRS} <= cluster.woken()


def test_batch_statement_wakes_no_savepoint(cluster: Cluster) -> None:
    cluster.put(STATEMENT, "batch", {"phase": "Finished"}, spec={"sessionRef": {"name": "s"}})
    assert not [each for each in cluster.woken() if each.kind == SAVEPOINT]


@pytest.mark.parametrize(
    "status",
    [{"phase": "Ready", "driver": {"bootId": "b-2"}}, {"phase": "Starting", "driver": {}}, {"phase": "Closed"}],
    ids=["another driver", "no driver", "closed"],
)
def test_session_that_serves_or_ceases_to_wakes_statements_and_open_savepoints(
    cluster: Cluster, status: dict[str, Any]
) -> None:
    cluster.put(SESSION, "s", status)
    assert {ONE, OTHER, BATCH, BEFORE, OPEN} <= (woken := cluster.woken())
    assert not woken & {DONE, THEIRS}


def test_counters_of_a_session_wake_nobody(cluster: Cluster) -> None:
    cluster.put(SESSION, "s", {**SESSION_READY, "statements": {"running": 2}})
    assert cluster.woken() == set()
