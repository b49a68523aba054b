"""Who runs next: slots, statements that run alone, and one writer per path-based table. A pure state machine.

Statements wait in queues: those of manifests share one, each session of a client has its own. All queues share the slots: a
free one goes to the queue that has the fewest, of equal ones to who came first, and at last to whoever was passed over PATIENCE
times, so that nobody waits for ever. A statement that changes its session is exclusive: it waits until nothing else of its
queue is admitted, and while it waits nothing behind it in that queue is admitted (a barrier).

A statement that needs no executor is local: it is admitted beside the slots, since it would else wait for statements that do. A
few run so at a time, and fewer of one queue, because each occupies the driver; more of them take slots like all others.

A writer learns its target only by analysis, when it already has a slot. If the target is taken it is parked: it gives its slot
back, still counts as admitted (a barrier waits for it), and gets slot and lock again, in the order of asking, before anything
new is admitted. A statement holds the locks of one write at a time and asks for all of them at once, so there is no cycle to
wait in.

Invariants: slots in use never exceed the maximum, nor those beside them theirs; an exclusive statement is alone in its queue;
the order within a queue is that of submission; two holders' targets never overlap.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

NO_TARGETS: frozenset[str] = frozenset()
OPERATOR_QUEUE = ""  # the queue of statements that come from manifests
PATIENCE = 16
BESIDE = 8  # local statements beside the slots
BESIDE_OF_QUEUE = 2


@dataclass(frozen=True)
class Step:
    """Names what a change made possible: statements to start, and parked ones that go on."""

    admitted: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()


@dataclass
class _Waiting:
    operation_id: str
    queue: str
    exclusive: bool
    local: bool = False
    passed: int = 0  # how often a later one was admitted in its stead


@dataclass
class _Admitted:
    queue: str
    exclusive: bool
    parked: bool = False
    unbound: bool = False  # takes no slot
    beside: bool = False  # takes none because it is local
    targets: frozenset[str] = field(default=NO_TARGETS)  # held, or waited for while parked

    @property
    def has_slot(self) -> bool:
        return not (self.parked or self.unbound or self.beside)


def overlap(left: frozenset[str], right: frozenset[str]) -> bool:
    """Returns whether any path of one set is a path of the other, or lies below or above one."""
    return any(a == b or a.startswith(b + "/") or b.startswith(a + "/") for a in left for b in right)


class Scheduler:
    """Says who waits, who runs and who excludes whom.

    Every method that changes something returns the Step that follows from it.
    """

    def __init__(self, slots: int) -> None:
        self._slots = max(1, slots)
        self._waiting: deque[_Waiting] = deque()
        self._admitted: dict[str, _Admitted] = {}
        self._parked: deque[str] = deque()

    @property
    def queued(self) -> tuple[str, ...]:
        """Returns the ids of statements that wait for a slot, in order of submission."""
        return tuple(entry.operation_id for entry in self._waiting)

    @property
    def admitted(self) -> tuple[str, ...]:
        """Returns the ids of statements that are admitted, parked ones included."""
        return tuple(self._admitted)

    @property
    def parked(self) -> tuple[str, ...]:
        """Returns the ids of admitted statements that wait for their targets, in the order of asking."""
        return tuple(self._parked)

    @property
    def slots_used(self) -> int:
        """Returns the number of slots in use."""
        return sum(entry.has_slot for entry in self._admitted.values())

    def holds(self, operation_id: str) -> frozenset[str]:
        """Returns the targets that this statement may write now."""
        entry = self._admitted.get(operation_id)
        return NO_TARGETS if entry is None or entry.parked else entry.targets

    def submit(self, operation_id: str, *, exclusive: bool, queue: str = OPERATOR_QUEUE, local: bool = False) -> Step:
        """Queues a statement. `exclusive`: it runs alone in its queue; `local`: it needs no executor."""
        self._waiting.append(_Waiting(operation_id, queue, exclusive, local))
        return self._step()

    def submit_unbound(self, operation_id: str) -> Step:
        """Admits a statement at once, beside all others: a stream, which runs until it is stopped."""
        self._admitted[operation_id] = _Admitted(queue=operation_id, exclusive=False, unbound=True)
        return Step(admitted=(operation_id,))

    def unbind(self, operation_id: str) -> Step:
        """Takes an admitted statement out of its queue: it turned out to run until it is stopped, and holds nobody back."""
        self._admitted[operation_id] = _Admitted(queue=operation_id, exclusive=False, unbound=True)
        return self._step()

    def lock(self, operation_id: str, targets: frozenset[str]) -> Step:
        """Asks for the targets that an admitted statement is to write.

        The statement is among `resumed` of this step when it may write them, else it is parked.
        """
        entry = self._admitted[operation_id]
        entry.targets = targets
        entry.parked = True
        self._parked.append(operation_id)
        return self._step()

    def unlock(self, operation_id: str) -> Step:
        """Gives back the targets of a statement that has written; it keeps its slot."""
        self._admitted[operation_id].targets = NO_TARGETS
        return self._step()

    def leave(self, operation_id: str) -> Step:
        """Drops a statement that is over, wherever it was. Unknown ids change nothing."""
        self._waiting = deque(entry for entry in self._waiting if entry.operation_id != operation_id)
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
        while heads := self._heads():
            chosen = min(heads, key=lambda entry: (entry.passed < PATIENCE, self._slots_of(entry.queue)))
            for head in heads[: heads.index(chosen)]:
                head.passed += 1
            self._waiting.remove(chosen)
            beside = self._may_go_beside(chosen)
            self._admitted[chosen.operation_id] = _Admitted(chosen.queue, chosen.exclusive, beside=beside)
            admitted.append(chosen.operation_id)
        return tuple(admitted)

    def _heads(self) -> list[_Waiting]:
        """The first of each queue if it may be admitted now, in order of arrival."""
        is_free = self.slots_used < self._slots
        first: dict[str, _Waiting] = {}
        for entry in self._waiting:
            first.setdefault(entry.queue, entry)
        return [entry for entry in first.values() if (is_free or self._may_go_beside(entry)) and self._may_join(entry)]

    def _may_go_beside(self, entry: _Waiting) -> bool:
        queues = [other.queue for other in self._admitted.values() if other.beside]
        return entry.local and len(queues) < BESIDE and queues.count(entry.queue) < BESIDE_OF_QUEUE

    def _slots_of(self, queue: str) -> int:
        return sum(entry.has_slot for entry in self._admitted.values() if entry.queue == queue)

    def _may_join(self, entry: _Waiting) -> bool:
        """Whether those of its queue that are admitted leave room for it."""
        others = [other for other in self._admitted.values() if other.queue == entry.queue]
        return not others if entry.exclusive else not any(other.exclusive for other in others)
