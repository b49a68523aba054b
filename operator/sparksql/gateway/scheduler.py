"""Who runs next: slots, statements that run alone, and one writer per path-based table. A pure state machine.

Admission is strictly first in, first out. A statement that changes the session is exclusive: it waits until nothing else is
admitted, and while it waits at the head of the queue nothing behind it is admitted (a barrier).

A writer learns its target only by analysis, when it already has a slot. If the target is taken it is parked: it gives its
slot back, still counts as admitted (a barrier waits for it), and gets slot and lock again, in the order of asking, before
anything new is admitted. A statement holds the locks of one write at a time and asks for all of them at once, so there is no
cycle to wait in.

Invariants: slots in use never exceed the maximum; an exclusive statement is alone; two holders' targets never overlap.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

NO_TARGETS: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Step:
    """What a change made possible: statements to start, and parked ones that go on."""

    admitted: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()


@dataclass
class _Admitted:
    exclusive: bool
    parked: bool = False
    targets: frozenset[str] = field(default=NO_TARGETS)  # held, or waited for while parked


def overlap(left: frozenset[str], right: frozenset[str]) -> bool:
    """Whether any path of one set is a path of the other, or lies below or above one."""
    return any(a == b or a.startswith(b + "/") or b.startswith(a + "/") for a in left for b in right)


class Scheduler:
    """See the module. Every method that changes something returns the Step that follows from it."""

    def __init__(self, slots: int) -> None:
        self._slots = max(1, slots)
        self._queue: deque[tuple[str, bool]] = deque()
        self._admitted: dict[str, _Admitted] = {}
        self._parked: deque[str] = deque()

    @property
    def queued(self) -> tuple[str, ...]:
        return tuple(operation_id for operation_id, _ in self._queue)

    @property
    def admitted(self) -> tuple[str, ...]:
        return tuple(self._admitted)

    @property
    def parked(self) -> tuple[str, ...]:
        return tuple(self._parked)

    @property
    def slots_used(self) -> int:
        return sum(1 for entry in self._admitted.values() if not entry.parked)

    def holds(self, operation_id: str) -> frozenset[str]:
        """Targets that this statement may write now."""
        entry = self._admitted.get(operation_id)
        return NO_TARGETS if entry is None or entry.parked else entry.targets

    def submit(self, operation_id: str, *, exclusive: bool) -> Step:
        self._queue.append((operation_id, exclusive))
        return self._step()

    def lock(self, operation_id: str, targets: frozenset[str]) -> Step:
        """An admitted statement asks to write. It is among `resumed` of this step when it may, else it is parked."""
        entry = self._admitted[operation_id]
        entry.targets = targets
        entry.parked = True
        self._parked.append(operation_id)
        return self._step()

    def unlock(self, operation_id: str) -> Step:
        """A statement has written; it keeps its slot."""
        self._admitted[operation_id].targets = NO_TARGETS
        return self._step()

    def leave(self, operation_id: str) -> Step:
        """A statement is over, wherever it was. Unknown ids change nothing."""
        self._queue = deque(entry for entry in self._queue if entry[0] != operation_id)
        if self._admitted.pop(operation_id, None) is not None and operation_id in self._parked:
            self._parked.remove(operation_id)
        return self._step()

    def _step(self) -> Step:
        return Step(resumed=self._resume(), admitted=self._admit())

    def _resume(self) -> tuple[str, ...]:
        resumed: list[str] = []
        taken = [entry.targets for entry in self._admitted.values() if not entry.parked]
        for operation_id in tuple(self._parked):
            if self.slots_used >= self._slots:
                break
            entry = self._admitted[operation_id]
            if not any(overlap(entry.targets, targets) for targets in taken):
                entry.parked = False
                self._parked.remove(operation_id)
                resumed.append(operation_id)
            taken.append(entry.targets)  # one that still waits keeps its place before later ones
        return tuple(resumed)

    def _admit(self) -> tuple[str, ...]:
        admitted: list[str] = []
        while self._queue:
            operation_id, exclusive = self._queue[0]
            if any(entry.exclusive for entry in self._admitted.values()) or self.slots_used >= self._slots:
                break
            if exclusive and self._admitted:
                break
            self._queue.popleft()
            self._admitted[operation_id] = _Admitted(exclusive)
            admitted.append(operation_id)
        return tuple(admitted)
