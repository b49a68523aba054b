"""The register of operations: what each is in, in which order they changed, and that none ever goes back.

Invariants: an id stays known for the whole life of the process, so a repeated submission is answered and never run again; a
transition outside `TRANSITIONS` raises; sequence numbers grow by one with each change, and `changed_after` gives the current
view of everything that changed since, in order of sequence, so a reader that reconnects loses nothing.

Operations of clients are forgotten once they are closed, since nobody submits one of them again, and are told of in no event.

Not thread-safe: it belongs to the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sparksql.gateway.sql.errors import bounded
from sparksql.wire.control import AnyClientProtocol, OperationError, OperationState, OperationView

_ABNORMAL = frozenset({OperationState.CANCELED, OperationState.CLOSED, OperationState.ERROR, OperationState.TIMED_OUT})

TRANSITIONS: dict[OperationState, frozenset[OperationState]] = {
    OperationState.PENDING: frozenset({OperationState.RUNNING}) | _ABNORMAL,
    OperationState.RUNNING: frozenset({OperationState.FINISHED}) | _ABNORMAL,
    OperationState.FINISHED: frozenset(),
    OperationState.CANCELED: frozenset(),
    OperationState.CLOSED: frozenset(),
    OperationState.ERROR: frozenset(),
    OperationState.TIMED_OUT: frozenset(),
}


class IllegalTransitionError(Exception):
    """A change that the state machine does not know: a fault of this program, never of a statement."""


class OperationRegister:
    """Holds all operations of this process by id.

    `clock` gives UTC times. `on_change` is called after each change, `on_state` with the view of an operation that has
    entered a state.
    """

    def __init__(
        self,
        boot_id: str,
        clock: Callable[[], datetime],
        on_change: Callable[[], None] = lambda: None,
        on_state: Callable[[OperationView], None] = lambda _: None,
    ) -> None:
        self._boot_id = boot_id
        self._clock = clock
        self._on_change = on_change
        self._on_state = on_state
        self._views: dict[str, OperationView] = {}  # in order of `seq`: a change moves a view to the end
        self._live: dict[str, OperationView] = {}  # those that have not ended, in the same order: ids are kept for ever
        self._seq = 0
        self._counts: Counter[tuple[OperationState, bool]] = Counter()  # by state, and whether it is a client's
        self._watchers: dict[str, Callable[[OperationView], None]] = {}
        self.ended: Counter[tuple[OperationState, str, str]] = Counter()  # by state, statement type, and protocol or ""

    @property
    def boot_id(self) -> str:
        """Returns the id of this process."""
        return self._boot_id

    @property
    def last_seq(self) -> int:
        """Returns the sequence number of the last change."""
        return self._seq

    def get(self, operation_id: str) -> OperationView | None:
        """Returns the view of an operation, None for an unknown id."""
        return self._views.get(operation_id)

    def view(self, operation_id: str) -> OperationView:
        """Returns the view of an operation. Raises KeyError for an unknown id."""
        return self._views[operation_id]

    def count(self, state: OperationState) -> int:
        """Returns the number of operations in a state."""
        return self._counts[state, False] + self._counts[state, True]

    def count_of_clients(self, state: OperationState) -> int:
        """Returns the number of clients' operations in a state."""
        return self._counts[state, True]

    def live(self) -> list[OperationView]:
        """Returns the operations that have not ended, oldest change first."""
        return [*self._live.values()]

    def changed_after(self, seq: int) -> list[OperationView]:
        """Returns the current views of the operations that changed after `seq`, in order of sequence."""
        changed: list[OperationView] = []
        for view in reversed(self._views.values()):
            if view.seq <= seq:
                break
            changed.append(view)
        changed.reverse()
        return changed

    def create(
        self,
        operation_id: str,
        protocol: AnyClientProtocol | None = None,
        session: str | None = None,
        user: str | None = None,
    ) -> OperationView:
        """Registers a new operation as Pending, maybe a client's. Raises IllegalTransitionError when the id is known."""
        if operation_id in self._views:
            raise IllegalTransitionError(f"operation {operation_id} exists")
        new = self._new(operation_id, OperationState.PENDING).model_copy(
            update={"protocol": protocol, "session": session, "user": user}
        )
        return self._entered(self._put(new))

    def watch(self, operation_id: str, on_end: Callable[[OperationView], None]) -> None:
        """Calls `on_end` with the view when the operation ends. One watcher an operation."""
        self._watchers[operation_id] = on_end

    def forget(self, operation_id: str) -> None:
        """Drops a client's operation that has ended."""
        view = self._views[operation_id]
        if view.protocol is None or not view.state.is_terminal:
            raise IllegalTransitionError(f"operation {operation_id} may not be forgotten")
        del self._views[operation_id]
        self._counts[view.state, True] -= 1

    def tombstone(self, operation_id: str, state: OperationState) -> OperationView:
        """Registers an id that never came as ended, so that a late submission of it is refused."""
        if operation_id in self._views or not state.is_terminal:
            raise IllegalTransitionError(f"no tombstone {state} for operation {operation_id}")
        new = self._new(operation_id, state).model_copy(update={"completion_time": self._clock()})
        return self._entered(self._put(new))

    def update(self, operation_id: str, **changes: Any) -> OperationView:
        """Changes fields other than the state; what stays the same makes no new sequence number."""
        view = self._views[operation_id]
        if all(getattr(view, name) == value for name, value in changes.items()):
            return view
        return self._put(view.model_copy(update=changes))

    def start(self, operation_id: str) -> OperationView:
        """Marks a Pending operation as Running. Raises IllegalTransitionError."""
        return self._move(operation_id, OperationState.RUNNING, start_time=self._clock())

    def end(
        self, operation_id: str, state: OperationState, error: OperationError | None = None, **changes: Any
    ) -> OperationView:
        """Ends an operation in `state`. Raises IllegalTransitionError.

        Keeps as much of the error as can be shown; secret values are to be masked before.
        """
        error = error and bounded(error)
        return self._move(operation_id, state, completion_time=self._clock(), error=error, **changes)

    def forget_preview(self, operation_id: str) -> None:
        """Drops the preview of an expired result: ids are kept for ever, so what they hold must be small."""
        view = self._views[operation_id]
        if view.result is not None and view.result.preview:
            result = view.result.model_copy(update={"preview": ()})
            self._views[operation_id] = view.model_copy(update={"result": result})

    def _new(self, operation_id: str, state: OperationState) -> OperationView:
        return OperationView(
            operation_id=operation_id, boot_id=self._boot_id, seq=0, state=state, submitted_time=self._clock()
        )

    def _move(self, operation_id: str, state: OperationState, **changes: Any) -> OperationView:
        view = self._views[operation_id]
        if state not in TRANSITIONS[view.state]:
            raise IllegalTransitionError(f"operation {operation_id}: {view.state} -> {state}")
        moved = self._entered(self._put(view.model_copy(update={"state": state, **changes})))
        if state.is_terminal:
            self.ended[state, moved.statement_type or "", moved.protocol or ""] += 1
            on_end = self._watchers.pop(operation_id, None)
            if on_end is not None:
                on_end(moved)
        return moved

    def _entered(self, view: OperationView) -> OperationView:
        self._on_state(view)
        return view

    def _put(self, view: OperationView) -> OperationView:
        self._seq += 1
        view = view.model_copy(update={"seq": self._seq})
        old = self._views.pop(view.operation_id, None)
        if old is not None:
            self._counts[old.state, old.protocol is not None] -= 1
        self._counts[view.state, view.protocol is not None] += 1
        self._views[view.operation_id] = view
        self._live.pop(view.operation_id, None)
        if not view.state.is_terminal:
            self._live[view.operation_id] = view
        self._on_change()
        return view
