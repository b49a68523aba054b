"""The line of statements in front of a session, read from the store: who runs, who waits, who cannot go yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sparksql.api.reasons import Reason
from sparksql.api.statement import StatementDesiredState, StatementPhase
from sparksql.cache.indexes import (
    BY_DEPENDENCY,
    LIVE_BY_SESSION,
    STATEMENT,
    has_committed,
    has_ended,
    is_stream,
    phase_of,
    scoped,
)
from sparksql.domain.admission import QueueEntry, QueueState, next_in_queue, order
from sparksql.domain.statement import dependencies
from sparksql.drivers.tracker import DriverTracker
from sparksql.engine.key import Key
from sparksql.engine.store import Store

Object = dict[str, Any]


class StatementQueue:
    def __init__(self, store: Store, drivers: DriverTracker, clock: Any) -> None:
        self._store = store
        self._gateways = drivers
        self._clock = clock

    def line(self, namespace: str, session: str) -> Iterator[QueueEntry]:
        """All statements of a session that have not ended, in order; where each stands is found out as it is reached.

        Streaming statements take no slot and block nobody: they are in no line.
        """
        live = [s for s in self._store.by_index(LIVE_BY_SESSION, scoped(namespace, session)) if not is_stream(s)]
        live.sort(key=_order)
        return (self._contender(namespace, obj) for obj in live)

    def next_in_queue(self, namespace: str, session: str) -> Key | None:
        name = next_in_queue(self.line(namespace, session))
        return Key(STATEMENT, namespace, name) if name is not None else None

    def dependency_outcome(self, namespace: str, obj: Object) -> dependencies.Outcome:
        """What the statement's `dependsOn` allows now. A streaming dependency is met by its first committed batch."""
        wanted = _dependencies(obj)
        if not wanted:
            return dependencies.Met()
        delivering = (name for name in wanted if has_committed(self._store.get(STATEMENT, namespace, name)))
        met = [*obj.get("status", {}).get("metDependencies", ()), *delivering]
        return dependencies.evaluate(
            obj["metadata"]["name"],
            wanted,
            met,
            lambda name: self._phase(namespace, name),
            lambda name: self._edges(namespace, name),
        )

    def is_awaited(self, namespace: str, name: str) -> bool:
        """Whether a living statement depends on this one and has not yet noted how it ended."""
        dependants = self._store.by_index(BY_DEPENDENCY, scoped(namespace, name))
        return any(
            not has_ended(obj)
            and not obj["metadata"].get("deletionTimestamp")
            and name not in obj.get("status", {}).get("metDependencies", ())
            for obj in dependants
        )

    def _contender(self, namespace: str, obj: Object) -> QueueEntry:
        metadata = obj["metadata"]
        return QueueEntry(metadata["name"], metadata["creationTimestamp"], self._place(namespace, obj))

    def _place(self, namespace: str, obj: Object) -> QueueState:
        status = obj.get("status", {})
        match phase_of(obj):
            case StatementPhase.RUNNING:
                return QueueState.ARRIVED
            case StatementPhase.PENDING:
                pod = status.get("session", {}).get("podUID", "")
                known = self._gateways.view(pod, status.get("operationId", ""))
                return QueueState.HANDING_OVER if known is None else QueueState.ARRIVED
            case _:
                return QueueState.WAITING if self._may_go(namespace, obj, status) else QueueState.BLOCKED

    def _may_go(self, namespace: str, obj: Object, status: Object) -> bool:
        spec = obj["spec"]
        if (
            obj["metadata"].get("deletionTimestamp")
            or spec.get("desiredState", "Running") != StatementDesiredState.RUNNING
        ):
            return False
        if _ready_reason(status) == Reason.WAITING_FOR_SOURCE:
            return False
        due = status.get("nextAttemptTime")
        if due is not None and datetime.fromisoformat(due) > self._clock():
            return False
        return isinstance(self.dependency_outcome(namespace, obj), dependencies.Met)

    def _phase(self, namespace: str, name: str) -> StatementPhase | None:
        obj = self._store.get(STATEMENT, namespace, name)
        if obj is None:
            return None
        phase = phase_of(obj)
        return StatementPhase(phase) if phase else StatementPhase.INITIALIZED

    def _edges(self, namespace: str, name: str) -> Sequence[str]:
        obj = self._store.get(STATEMENT, namespace, name)
        return _dependencies(obj) if obj is not None else ()


def _order(obj: Object) -> tuple[int, str, str]:
    metadata = obj["metadata"]
    return order(obj["spec"].get("priority", 0), metadata["creationTimestamp"], metadata["name"])


def _dependencies(obj: Object) -> tuple[str, ...]:
    return tuple(d["name"] for d in obj["spec"].get("dependsOn", ()))


def _ready_reason(status: Object) -> str:
    return next((c.get("reason", "") for c in status.get("conditions", ()) if c.get("type") == "Ready"), "")
