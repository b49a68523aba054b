"""Properties of the scheduler as a state machine: any order of events keeps its invariants and nobody waits for ever."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sparksql.gateway.scheduler import MANIFESTS, Scheduler, Step, overlap

SLOTS = 3
LINES = (MANIFESTS, "client-1", "client-2")
TARGETS = ["file:/w/a", "file:/w/a/sub", "file:/w/b", "file:/w/ab"]
target_sets = st.frozensets(st.sampled_from(TARGETS), min_size=1, max_size=2)


class SchedulerMachine(RuleBasedStateMachine):
    """Drives a scheduler as the engine does and keeps a plain account beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(SLOTS)
        self.number = 0
        self.exclusive: set[str] = set()
        self.line: dict[str, str] = {}
        self.waiting: list[str] = []  # submitted, not admitted, in order
        self.active: set[str] = set()  # admitted and not parked
        self.parked: dict[str, frozenset[str]] = {}
        self.held: dict[str, frozenset[str]] = {}

    def follow(self, step: Step) -> None:
        for operation_id in step.resumed:
            self.held[operation_id] = self.parked.pop(operation_id)
            self.active.add(operation_id)
        for operation_id in step.admitted:
            line = self.line[operation_id]
            first = next(waiting for waiting in self.waiting if self.line[waiting] == line)
            assert operation_id == first, "admission within a line is first in, first out"
            self.waiting.remove(operation_id)
            self.active.add(operation_id)

    @rule(exclusive=st.booleans(), line=st.sampled_from(LINES))
    def submit(self, exclusive: bool, line: str) -> None:
        self.number += 1
        operation_id = f"s{self.number}"
        self.line[operation_id] = line
        self.waiting.append(operation_id)
        if exclusive:
            self.exclusive.add(operation_id)
        self.follow(self.scheduler.submit(operation_id, exclusive=exclusive, line=line))

    @precondition(lambda self: self.active - set(self.held))
    @rule(wanted=target_sets, data=st.data())
    def lock(self, wanted: frozenset[str], data: st.DataObject) -> None:
        operation_id = data.draw(st.sampled_from(sorted(self.active - set(self.held))))
        self.active.remove(operation_id)
        self.parked[operation_id] = wanted
        self.follow(self.scheduler.lock(operation_id, wanted))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def unlock(self, data: st.DataObject) -> None:
        operation_id = data.draw(st.sampled_from(sorted(self.held)))
        del self.held[operation_id]
        self.follow(self.scheduler.unlock(operation_id))

    @precondition(lambda self: self.active or self.parked or self.waiting)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        operation_id = data.draw(st.sampled_from(sorted(self.active | set(self.parked) | set(self.waiting))))
        self.forget(operation_id)
        self.follow(self.scheduler.leave(operation_id))

    def forget(self, operation_id: str) -> None:
        self.active.discard(operation_id)
        self.parked.pop(operation_id, None)
        self.held.pop(operation_id, None)
        if operation_id in self.waiting:
            self.waiting.remove(operation_id)

    def admitted(self, line: str) -> set[str]:
        return {operation_id for operation_id in (self.active | set(self.parked)) if self.line[operation_id] == line}

    @invariant()
    def slots_are_never_exceeded(self) -> None:
        assert len(self.active) == self.scheduler.slots_used <= SLOTS

    @invariant()
    def an_exclusive_statement_is_alone_in_its_line(self) -> None:
        for line in LINES:
            admitted = self.admitted(line)
            assert not (admitted & self.exclusive) or len(admitted) == 1

    @invariant()
    def holders_never_overlap(self) -> None:
        holders = list(self.held.items())
        for index, (_, targets) in enumerate(holders):
            assert not any(overlap(targets, others) for _, others in holders[index + 1 :])
        assert all(self.scheduler.holds(operation_id) == targets for operation_id, targets in holders)

    @invariant()
    def nothing_waits_without_a_reason(self) -> None:
        if len(self.active) >= SLOTS:
            return
        for line in LINES:
            admitted = self.admitted(line)
            head = next((waiting for waiting in self.waiting if self.line[waiting] == line), None)
            if head is not None:
                assert admitted & self.exclusive or (head in self.exclusive and admitted), "a free slot stays empty"
        for operation_id, targets in list(self.parked.items())[:1]:
            assert any(overlap(targets, held) for held in self.held.values()), f"{operation_id} waits for nobody"

    def teardown(self) -> None:
        """Everything ends if what runs ends: there is no cycle to wait in."""
        for _ in range(10_000):
            if not (self.active or self.parked or self.waiting):
                return
            assert self.active, "all that is left waits"
            operation_id = min(self.active)
            self.forget(operation_id)
            self.follow(self.scheduler.leave(operation_id))
        raise AssertionError("the scheduler does not come to an end")


TestScheduler = SchedulerMachine.TestCase


def test_a_path_below_another_is_the_same_target() -> None:
    assert overlap(frozenset({"file:/w/a"}), frozenset({"file:/w/a/p=1"}))
    assert not overlap(frozenset({"file:/w/a"}), frozenset({"file:/w/ab"}))
    assert not overlap(frozenset(), frozenset({"file:/w/a"}))
