"""The queue of statements in front of a session, read from the store: who runs, who waits, who cannot go yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from sparksql.api.reasons import Reason
from sparksql.api.statement import StatementPhase
from sparksql.cache.indexes import BY_DEPENDENCY, LIVE_BY_SESSION, STATEMENT, scoped
from sparksql.cache.views import StatementView
from sparksql.domain.admission import QueueEntry, QueueState, next_in_queue
from sparksql.domain.statement import dependencies
from sparksql.drivers.tracker import DriverTracker
from sparksql.engine.key import Key
from sparksql.engine.store import Store

Object = dict[str, Any]


class StatementQueue:
    """Answers from the objects as they are now. `clock` gives aware UTC times."""

    def __init__(self, store: Store, drivers: DriverTracker, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._drivers = drivers
        self._clock = clock

    def entries(self, namespace: str, session: str) -> Iterator[QueueEntry]:
        """Yields all statements of a session that have not ended, in order; where each stands is found out as it is reached.

        Streaming statements take no slot and block nobody: they are in no queue.
        """
        views = map(StatementView, self._store.by_index(LIVE_BY_SESSION, scoped(namespace, session)))
        queued = [view for view in views if not view.is_stream]
        queued.sort(key=attrgetter("queue_order"))
        return (QueueEntry(view.name, view.created, self._state(view)) for view in queued)

    def next_in_queue(self, namespace: str, session: str) -> Key | None:
        """Returns the statement that could be handed to the session's driver next."""
        name = next_in_queue(self.entries(namespace, session))
        return Key(STATEMENT, namespace, name) if name is not None else None

    def dependency_outcome(self, obj: Object) -> dependencies.Outcome:
        """Returns what the statement's `dependsOn` allows now. A streaming dependency is met by its first committed batch."""
        return self._dependency_outcome(StatementView(obj))

    def is_awaited(self, namespace: str, name: str) -> bool:
        """Tells whether a live statement depends on this one and has not yet noted how it ended."""
        dependants = map(StatementView, self._store.by_index(BY_DEPENDENCY, scoped(namespace, name)))
        return any(
            not view.has_ended and not view.is_deleting and name not in view.met_dependencies for view in dependants
        )

    def _dependency_outcome(self, view: StatementView) -> dependencies.Outcome:
        names, namespace = view.depends_on, view.namespace
        if not names:
            return dependencies.Met()
        delivering = (name for name in names if self._has_committed(namespace, name))
        return dependencies.evaluate(
            view.name,
            names,
            [*view.met_dependencies, *delivering],
            lambda name: self._phase(namespace, name),
            lambda name: self._edges(namespace, name),
        )

    def _state(self, view: StatementView) -> QueueState:
        match view.phase:
            case StatementPhase.RUNNING:
                return QueueState.ARRIVED
            case StatementPhase.PENDING:
                is_known = self._drivers.view(view.pod_uid, view.operation_id) is not None
                return QueueState.ARRIVED if is_known else QueueState.HANDING_OVER
            case _:
                return QueueState.WAITING if self._may_go(view) else QueueState.BLOCKED

    def _may_go(self, view: StatementView) -> bool:
        if not view.is_wanted or view.ready_reason == Reason.WAITING_FOR_SOURCE:
            return False
        due = view.next_attempt_time
        if due is not None and due > self._clock():
            return False
        return isinstance(self._dependency_outcome(view), dependencies.Met)

    def _phase(self, namespace: str, name: str) -> StatementPhase | None:
        view = self._view(namespace, name)
        if view is None:
            return None
        return StatementPhase(view.phase) if view.phase else StatementPhase.INITIALIZED

    def _has_committed(self, namespace: str, name: str) -> bool:
        view = self._view(namespace, name)
        return view is not None and view.has_committed

    def _edges(self, namespace: str, name: str) -> Sequence[str]:
        view = self._view(namespace, name)
        return view.depends_on if view is not None else ()

    def _view(self, namespace: str, name: str) -> StatementView | None:
        obj = self._store.get(STATEMENT, namespace, name)
        return StatementView(obj) if obj is not None else None
