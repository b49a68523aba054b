"""Who must look again when an object changes. Level-triggered: a wake-up says which object, never what happened.

A change of status alone does not wake its own object: the operator wrote it, and whoever wrote it has gone on already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.cache.indexes import (
    BY_DEPENDENCY,
    CLASS,
    LIVE_BY_SESSION,
    NAMESPACE,
    OPEN_SAVEPOINTS_BY_NAMESPACE,
    POD,
    SAVEPOINT,
    SAVEPOINTS_BY_STATEMENT,
    SESSION,
    SESSIONS_BY_NAMESPACE,
    SESSIONS_OVER_LIMIT,
    STATEMENT,
    STATEMENTS_BY_NAMESPACE,
    STATEMENTS_BY_SAVEPOINT,
    has_committed,
    has_ended,
    is_stream,
    key_of,
    phase_of,
    scoped,
    session_key_of_pod,
    session_name_of,
    start_name,
)
from sparksql.drivers.tracker import COUNTING_SECONDS
from sparksql.engine.key import Key
from sparksql.engine.queue import WorkQueue
from sparksql.engine.store import Store

Object = dict[str, Any]
NextInLine = Callable[[str, str], Key | None]


class WakingStore(Store):
    """A store that puts keys of whoever is concerned by a change into the queue, wherever the change came from."""

    def __init__(self, queue: WorkQueue, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._queue = queue
        self.next_in_line: NextInLine = lambda _namespace, _session: None

    def apply(self, kind: str, obj: Object) -> bool:
        before = self.get(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        news = super().apply(kind, obj)
        if news:
            self._wake(kind, before, obj)
        return news

    def delete(self, kind: str, namespace: str, name: str, uid: str | None = None) -> bool:
        before = self.get(kind, namespace, name)
        gone = super().delete(kind, namespace, name, uid)
        if gone and before is not None:
            self._wake(kind, before, None)
        return gone

    def _wake(self, kind: str, before: Object | None, after: Object | None) -> None:
        for key in self._concerned(kind, before, after):
            self._queue.add(key)
        if kind == "SqlStatement" and _moved(before, after):
            self._wake_session(after or before)

    def _wake_session(self, statement: Object | None) -> None:
        """The session of a statement that moved: at once if it waits for that, later if it only counts."""
        assert statement is not None
        namespace, name = statement["metadata"]["namespace"], session_name_of(statement)
        session = self.get(SESSION, namespace, name)
        counts_only = phase_of(session or {}) == SessionPhase.READY and not _is_deleted(session or {})
        self._queue.add_after(Key(SESSION, namespace, name), COUNTING_SECONDS if counts_only else 0.0)

    def _concerned(self, kind: str, before: Object | None, after: Object | None) -> Iterator[Key]:
        obj = after or before
        assert obj is not None
        match kind:
            case "SqlStatement":
                yield from self._by_statement(before, after, obj)
            case "SqlSession":
                yield from self._by_session(before, after, obj)
            case "SqlSessionClass":
                yield key_of(CLASS, obj)
                if _spec_changed(before, after):
                    yield from (key_of(SESSION, s) for s in self.list(SESSION))
                    yield from (key_of(STATEMENT, s) for s in self.list(STATEMENT) if not has_ended(s))
            case "SqlSavepoint":
                yield from self._by_savepoint(before, after, obj)
            case "Pod":
                key = session_key_of_pod(obj)
                if key is not None:
                    yield key
            case "Namespace":
                if _spec_changed(before, after) or _labels(before) != _labels(after):
                    name = obj["metadata"]["name"]
                    yield from (key_of(SESSION, s) for s in self.by_index(SESSIONS_BY_NAMESPACE, name))
                    yield from (key_of(STATEMENT, s) for s in self.by_index(STATEMENTS_BY_NAMESPACE, name))
            case _:
                raise ValueError(f"unwatched kind {kind}")

    def _by_statement(self, before: Object | None, after: Object | None, obj: Object) -> Iterator[Key]:
        namespace, session = obj["metadata"]["namespace"], session_name_of(obj)
        if _spec_changed(before, after):
            yield key_of(STATEMENT, obj)
        moved = _moved(before, after)
        if (moved and (after is None or has_ended(after))) or has_committed(before) < has_committed(after):
            waiting = self.by_index(BY_DEPENDENCY, scoped(namespace, obj["metadata"]["name"]))
            yield from (key_of(STATEMENT, s) for s in waiting)
        if is_stream(obj) and (_spec_changed(before, after) or _saved(before) != _saved(after)):
            yield from self._open_savepoints(namespace)
        if _spec_changed(before, after) or _references(before) != _references(after):
            yield from self._referred(namespace, before, after, obj)
        following = self.next_in_line(namespace, session) if moved else None
        if following is not None:
            yield following

    def _referred(self, namespace: str, before: Object | None, after: Object | None, obj: Object) -> Iterator[Key]:
        """A statement's savepoints, and those that it refers to or did: who uses them, and how long they are kept, is news."""
        own = self.by_index(SAVEPOINTS_BY_STATEMENT, scoped(namespace, obj["metadata"]["name"]))
        yield from (key_of(SAVEPOINT, s) for s in own)
        named = {start_name(s) for s in (before, after)}
        yield from (Key(SAVEPOINT, namespace, name) for name in named if name is not None)

    def _by_savepoint(self, before: Object | None, after: Object | None, obj: Object) -> Iterator[Key]:
        if _spec_changed(before, after):
            yield key_of(SAVEPOINT, obj)
        if not (_moved(before, after) or _spec_changed(before, after)):
            return
        namespace, statement = obj["metadata"]["namespace"], obj["spec"]["statementRef"]["name"]
        yield Key(STATEMENT, namespace, statement)
        starting = self.by_index(STATEMENTS_BY_SAVEPOINT, scoped(namespace, obj["metadata"]["name"]))
        yield from (key_of(STATEMENT, s) for s in starting)
        others = self.by_index(SAVEPOINTS_BY_STATEMENT, scoped(namespace, statement))
        yield from (key_of(SAVEPOINT, s) for s in others)

    def _by_session(self, before: Object | None, after: Object | None, obj: Object) -> Iterator[Key]:
        if _spec_changed(before, after):
            yield key_of(SESSION, obj)
        if _spec_changed(before, after) or _serving(before) != _serving(after):
            index = scoped(obj["metadata"]["namespace"], obj["metadata"]["name"])
            yield from (key_of(STATEMENT, s) for s in self.by_index(LIVE_BY_SESSION, index))
            yield from self._open_savepoints(obj["metadata"]["namespace"])
        if _moved(before, after) or _is_deleted(before or {}) < _is_deleted(after or {}):  # it may have left a place
            yield from (key_of(SESSION, s) for s in self.by_index(SESSIONS_OVER_LIMIT, ""))

    def _open_savepoints(self, namespace: str) -> Iterator[Key]:
        yield from (key_of(SAVEPOINT, s) for s in self.by_index(OPEN_SAVEPOINTS_BY_NAMESPACE, namespace))


def _moved(before: Object | None, after: Object | None) -> bool:
    return before is None or after is None or phase_of(before) != phase_of(after)


def _is_deleted(obj: Object) -> bool:
    return "deletionTimestamp" in obj.get("metadata", {})


def _spec_changed(before: Object | None, after: Object | None) -> bool:
    """Whether anything but the status is different: a new generation, a deletion, finalizers or owners."""
    if before is None or after is None:
        return True
    old, new = before["metadata"], after["metadata"]
    watched = ("uid", "generation", "deletionTimestamp", "annotations")
    return any(old.get(name) != new.get(name) for name in watched)


def _labels(obj: Object | None) -> object:
    return obj["metadata"].get("labels") if obj else None


def _saved(statement: Object | None) -> object:
    """What of a streaming statement's status its savepoints depend on."""
    streaming = (statement or {}).get("status", {}).get("streaming", {})
    named = (streaming.get(name) for name in ("checkpointLocation", "restoredFrom", "lastSavepoint"))
    return (phase_of(statement or {}), has_committed(statement), *named)


def _references(statement: Object | None) -> object:
    """What of a statement names savepoints."""
    streaming = (statement or {}).get("status", {}).get("streaming", {})
    return (start_name(statement), streaming.get("restoredFrom"), streaming.get("lastSavepoint"))


def _serving(session: Object | None) -> object:
    """What of a session's status its statements depend on."""
    status = (session or {}).get("status", {})
    conditions = {c.get("type"): c for c in status.get("conditions", ())}
    queued = conditions.get("Ready", {}).get("reason") == Reason.WAITING_IN_QUEUE
    stalled = conditions.get("Stalled", {}).get("status")
    return (status.get("phase"), status.get("driver", {}).get("bootId"), stalled, queued)


WATCHED = (CLASS, SESSION, STATEMENT, SAVEPOINT, POD, NAMESPACE)
