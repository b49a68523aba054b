"""Who looks again when something changes: all rules, as a table. Level-triggered: a key says which object, never what happened.

A change of status alone does not wake its own object: the operator wrote it, and whoever wrote it has gone on already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.cache.indexes import (
    BY_DEPENDENCY,
    BY_OPERATION,
    CLASS,
    EXECUTOR,
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
    class_key_of_pod,
    key_of,
    scoped,
    session_key_of_pod,
)
from sparksql.cache.views import ObjectView, SavepointView, SessionView, StatementView
from sparksql.domain.ownership import driver_of
from sparksql.engine.key import Key
from sparksql.engine.queue import WorkQueue
from sparksql.engine.store import Store
from sparksql.wire.control import GatewayInfo, OperationView

PROGRESS_SECONDS = 5.0  # progress alone wakes a statement at most so often
COUNTING_SECONDS = 0.5  # what a session runs is counted so late, all changes meanwhile at once

Object = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """Describes a change of an object: `before` is None for a new one, `after` for one that is gone."""

    before: Object | None
    after: Object | None

    @property
    def subject(self) -> Object:
        """Returns the object as it is now, or as it was last seen if it is gone."""
        subject = self.after or self.before
        assert subject is not None
        return subject

    @property
    def namespace(self) -> str:
        """Returns the object's namespace, empty for one of a cluster-scoped kind."""
        return ObjectView(self.subject).namespace

    @property
    def name(self) -> str:
        """Returns the object's name."""
        return ObjectView(self.subject).name

    @property
    def of_spec(self) -> bool:
        """Tells whether anything but the status is different: a new generation, a deletion, finalizers or owners."""
        if self.before is None or self.after is None:
            return True
        old, new = self.before["metadata"], self.after["metadata"]
        watched = ("uid", "generation", "deletionTimestamp", "annotations")
        return any(old.get(name) != new.get(name) for name in watched)

    @property
    def of_phase(self) -> bool:
        """Tells whether the object is new or gone, or its phase is another one."""
        return self.before is None or self.after is None or self.of(_phase)

    def of(self, part: Callable[[Object | None], object]) -> bool:
        """Tells whether the part that a function takes from the object is another one."""
        return part(self.before) != part(self.after)


@dataclass(frozen=True)
class Due:
    """A key, and in how many seconds it is to be looked at."""

    key: Key
    seconds: float = 0.0


NextInQueue = Callable[[str, str], Key | None]
"""Takes namespace and name of a session: the statement that could be handed to its driver next."""


@dataclass(frozen=True)
class View:
    """Holds what rules look at beside the change."""

    store: Store
    next_in_queue: NextInQueue

    def keys(self, kind: str, index: str, value: str) -> Iterator[Due]:
        """Yields the objects that an index of the store has under `value`, due at once."""
        return (Due(key_of(kind, obj)) for obj in self.store.by_index(index, value))

    def next_of(self, namespace: str, session: str) -> Iterator[Due]:
        """Yields the statement of the session that could be handed to its driver next, if there is one."""
        following = self.next_in_queue(namespace, session)
        if following is not None:
            yield Due(following)


Rule = Callable[[View, Change], Iterator[Due]]


# --- a class


def _every_use(view: View, change: Change) -> Iterator[Due]:
    yield Due(key_of(CLASS, change.subject))
    if change.of_spec:
        yield from (Due(key_of(SESSION, session)) for session in view.store.list(SESSION))
        yield from _live(view.store.list(STATEMENT))


# --- a session


def _session(_: View, change: Change) -> Iterator[Due]:
    if change.of_spec:
        yield Due(key_of(SESSION, change.subject))


def _work_of_session(view: View, change: Change) -> Iterator[Due]:
    if change.of_spec or change.of(_serving):
        yield from view.keys(STATEMENT, LIVE_BY_SESSION, scoped(change.namespace, change.name))
        yield from view.keys(SAVEPOINT, OPEN_SAVEPOINTS_BY_NAMESPACE, change.namespace)


def _sessions_over_limit(view: View, change: Change) -> Iterator[Due]:
    """The session may have left a place."""
    if change.of_phase or _is_deleted(change.before) < _is_deleted(change.after):
        yield from view.keys(SESSION, SESSIONS_OVER_LIMIT, "")


# --- a statement


def _statement(_: View, change: Change) -> Iterator[Due]:
    """One that had ended before it was seen is left alone: at a start these are nearly all."""
    is_history = change.before is None and change.after is not None and StatementView(change.after).is_settled
    if change.of_spec and not is_history:
        yield Due(key_of(STATEMENT, change.subject))


def _dependants(view: View, change: Change) -> Iterator[Due]:
    is_over = change.of_phase and (change.after is None or StatementView(change.after).has_ended)
    if is_over or _has_committed(change.before) < _has_committed(change.after):
        yield from view.keys(STATEMENT, BY_DEPENDENCY, scoped(change.namespace, change.name))


def _savepoints_to_take(view: View, change: Change) -> Iterator[Due]:
    if StatementView(change.subject).is_stream and (change.of_spec or change.of(_saved)):
        yield from view.keys(SAVEPOINT, OPEN_SAVEPOINTS_BY_NAMESPACE, change.namespace)


def _savepoints_referred_to(view: View, change: Change) -> Iterator[Due]:
    """A statement's savepoints, and those that it refers to or did: who uses them, and how long they are kept, is news."""
    if change.of_spec or change.of(_references):
        yield from view.keys(SAVEPOINT, SAVEPOINTS_BY_STATEMENT, scoped(change.namespace, change.name))
        names = {_start_from(change.before), _start_from(change.after)}
        yield from (Due(Key(SAVEPOINT, change.namespace, name)) for name in names if name is not None)


def _next_statement(view: View, change: Change) -> Iterator[Due]:
    """A statement that is new takes no slot and frees none."""
    if change.before is not None and change.of_phase:
        yield from view.next_of(change.namespace, StatementView(change.subject).session_name)


def _session_of_statement(view: View, change: Change) -> Iterator[Due]:
    """At once if the session waits for the statement, later if it only counts."""
    if change.of_phase:
        name = StatementView(change.subject).session_name
        session = view.store.get(SESSION, change.namespace, name)
        counts_only = _phase(session) == SessionPhase.READY and not _is_deleted(session)
        yield Due(Key(SESSION, change.namespace, name), COUNTING_SECONDS if counts_only else 0.0)


# --- a savepoint


def _savepoint(_: View, change: Change) -> Iterator[Due]:
    if change.of_spec:
        yield Due(key_of(SAVEPOINT, change.subject))


def _session_of_savepoint(view: View, change: Change) -> Iterator[Due]:
    """Whether a savepoint needs a driver is news for the session that has one or hibernates."""
    if change.of(_needs_driver):
        statement = view.store.get(STATEMENT, change.namespace, SavepointView(change.subject).statement_name)
        if statement is not None:
            yield Due(Key(SESSION, change.namespace, StatementView(statement).session_name), COUNTING_SECONDS)


def _users_of_savepoint(view: View, change: Change) -> Iterator[Due]:
    if change.of_phase or change.of_spec:
        statement = SavepointView(change.subject).statement_name
        yield Due(Key(STATEMENT, change.namespace, statement))
        yield from view.keys(STATEMENT, STATEMENTS_BY_SAVEPOINT, scoped(change.namespace, change.name))
        yield from view.keys(SAVEPOINT, SAVEPOINTS_BY_STATEMENT, scoped(change.namespace, statement))


# --- a pod, a namespace


def _pool_of_pod(_: View, change: Change) -> Iterator[Due]:
    """A pool's driver, and one that was: a session has taken it."""
    pools = {class_key_of_pod(each) for each in (change.before, change.after) if each is not None}
    yield from (Due(pool) for pool in pools if pool is not None)


def _session_of_pod(_: View, change: Change) -> Iterator[Due]:
    session = session_key_of_pod(change.subject)
    if session is not None:
        yield Due(session)


def _session_of_executor(view: View, change: Change) -> Iterator[Due]:
    """Counted a little later, all executors at once. What Spark writes into labels is no news."""
    driver = driver_of(change.subject)
    if driver is None or not change.of(_executor_state):
        return
    pod = view.store.get(POD, change.namespace, driver["name"])
    session = session_key_of_pod(pod) if pod is not None else None
    if session is not None:
        yield Due(session, PROGRESS_SECONDS)


def _objects_of_namespace(view: View, change: Change) -> Iterator[Due]:
    if change.of_spec or change.of(_labels):
        yield from view.keys(SESSION, SESSIONS_BY_NAMESPACE, change.name)
        yield from _live(view.store.by_index(STATEMENTS_BY_NAMESPACE, change.name))


RULES: Mapping[str, tuple[Rule, ...]] = {
    CLASS: (_every_use,),
    SESSION: (_session, _work_of_session, _sessions_over_limit),
    STATEMENT: (
        _statement,
        _dependants,
        _savepoints_to_take,
        _savepoints_referred_to,
        _next_statement,
        _session_of_statement,
    ),
    SAVEPOINT: (_savepoint, _session_of_savepoint, _users_of_savepoint),
    POD: (_session_of_pod, _pool_of_pod),
    EXECUTOR: (_session_of_executor,),
    NAMESPACE: (_objects_of_namespace,),
}
WATCHED = tuple(kind for kind in RULES if kind != EXECUTOR)  # executors come with the pods


class Enqueuer:
    """Puts the keys that the rules name into the queue: for changes of objects, and for what the drivers tell."""

    def __init__(self, queue: WorkQueue, store: Store, next_in_queue: NextInQueue) -> None:
        self._queue = queue
        self._view = View(store, next_in_queue)

    def object_changed(self, kind: str, before: Object | None, after: Object | None) -> None:
        """Takes a change of an object of a watched kind. Raises KeyError for another kind."""
        change = Change(before, after)
        for rule in RULES[kind]:
            self._enqueue(rule(self._view, change))

    def driver_changed(self, session: Key, before: GatewayInfo | None, after: GatewayInfo) -> None:
        """Takes what a session's driver says of itself: that it is there, ready or another one, or what its clients do."""
        if before is None or (before.state, before.boot_id) != (after.state, after.boot_id):
            self._queue.add(session)
            self._enqueue(self._view.keys(STATEMENT, LIVE_BY_SESSION, scoped(session.namespace, session.name)))
            self._enqueue(self._view.keys(SAVEPOINT, OPEN_SAVEPOINTS_BY_NAMESPACE, session.namespace))
        elif _counted(before) != _counted(after) or _holds(before) != _holds(after):
            self._queue.add_after(session, COUNTING_SECONDS)

    def operation_changed(self, before: OperationView | None, after: OperationView) -> None:
        """Takes what a driver says of an operation unasked."""
        progress_only = before is not None and _without_progress(before) == _without_progress(after)
        for due in self._view.keys(STATEMENT, BY_OPERATION, after.operation_id):
            self._queue.add_after(due.key, PROGRESS_SECONDS if progress_only else 0.0)

    def operation_arrived(self, session: Key) -> None:
        """Takes that a driver has an operation: the next statement may be handed over."""
        self._enqueue(self._view.next_of(session.namespace, session.name))

    def _enqueue(self, keys: Iterator[Due]) -> None:
        for due in keys:
            if due.seconds:
                self._queue.add_after(due.key, due.seconds)
            else:
                self._queue.add(due.key)


def _live(statements: Iterable[Object]) -> Iterator[Due]:
    """Yields the statements that have not ended: class and namespace mean nothing to the others."""
    return (Due(key_of(STATEMENT, each)) for each in statements if not StatementView(each).has_ended)


def _is_deleted(obj: Object | None) -> bool:
    return obj is not None and ObjectView(obj).is_deleting


def _phase(obj: Object | None) -> str | None:
    return ObjectView(obj).phase if obj is not None else None


def _labels(obj: Object | None) -> object:
    return ObjectView(obj).labels if obj is not None else None


def _has_committed(statement: Object | None) -> bool:
    return statement is not None and StatementView(statement).has_committed


def _start_from(statement: Object | None) -> str | None:
    return StatementView(statement).start_from if statement is not None else None


def _saved(statement: Object | None) -> object:
    """Returns what of a streaming statement's status its savepoints depend on."""
    if statement is None:
        return None
    view = StatementView(statement)
    return (view.phase, view.has_committed, view.checkpoint_location, view.restored_from, view.last_savepoint)


def _references(statement: Object | None) -> object:
    """Returns what of a statement names savepoints."""
    if statement is None:
        return None
    view = StatementView(statement)
    return (view.start_from, view.restored_from, view.last_savepoint)


def _needs_driver(savepoint: Object | None) -> bool:
    return savepoint is not None and SavepointView(savepoint).needs_driver


def _serving(session: Object | None) -> object:
    """Returns what of a session's status its statements depend on."""
    if session is None:
        return None
    view = SessionView(session)
    return (
        view.phase,
        view.boot_id,
        view.is_stalled,
        view.ready_reason == Reason.WAITING_IN_QUEUE,
        view.executors_awaited,
    )


def _executor_state(executor: Object | None) -> object:
    return (executor.get("spec"), executor.get("status")) if executor is not None else None


def _counted(info: GatewayInfo) -> tuple[int | None, ...]:
    return info.client_sessions, info.client_pending, info.client_running, info.executors_wanted


def _holds(info: GatewayInfo) -> tuple[bool, str | None]:
    return info.has_session_state, info.state_obstacle


def _without_progress(view: OperationView) -> OperationView:
    """Returns the view without what changes while a statement runs: counts, and the rows that a preview has shown so far."""
    return view.model_copy(update={"progress": None, "result": None, "seq": 0})
