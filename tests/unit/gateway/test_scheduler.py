"""Properties of the scheduler as a state machine: any order of events keeps its invariants and nobody waits for ever."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sparksql.gateway.operations.scheduler import (
    BESIDE,
    BESIDE_OF_QUEUE,
    OPERATOR_QUEUE,
    PATIENCE,
    Scheduler,
    Step,
    overlap,
)

SLOTS = 3
QUEUES = (OPERATOR_QUEUE, "client-1", "client-2")
TARGETS = ["file:/w/a", "file:/w/a/sub", "file:/w/b", "file:/w/ab"]
target_sets = st.frozensets(st.sampled_from(TARGETS), min_size=1, max_size=2)


class SchedulerMachine(RuleBasedStateMachine):
    """Drives a scheduler as the engine does and keeps a plain account beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(SLOTS)
        self.number = 0
        self.exclusive: set[str] = set()
        self.local: set[str] = set()
        self.beside: set[str] = set()
        self.queue: dict[str, str] = {}
        self.waiting: list[str] = []  # submitted, not admitted, in order
        self.active: set[str] = set()  # admitted and not parked
        self.parked: dict[str, frozenset[str]] = {}
        self.held: dict[str, frozenset[str]] = {}

    def follow(self, step: Step) -> None:
        for operation_id in step.resumed:
            self.held[operation_id] = self.parked.pop(operation_id)
            self.active.add(operation_id)
        for operation_id in step.admitted:
            queue = self.queue[operation_id]
            first = next(waiting for waiting in self.waiting if self.queue[waiting] == queue)
            assert operation_id == first, "admission within a queue is first in, first out"
            self.waiting.remove(operation_id)
            (self.beside if self.may_go_beside(operation_id) else self.active).add(operation_id)

    def may_go_beside(self, operation_id: str) -> bool:
        of_queue = [other for other in self.beside if self.queue[other] == self.queue[operation_id]]
        return operation_id in self.local and len(self.beside) < BESIDE and len(of_queue) < BESIDE_OF_QUEUE

    @rule(exclusive=st.booleans(), local=st.booleans(), queue=st.sampled_from(QUEUES))
    def submit(self, exclusive: bool, local: bool, queue: str) -> None:
        self.number += 1
        operation_id = f"s{self.number}"
        self.queue[operation_id] = queue
        self.waiting.append(operation_id)
        if exclusive:
            self.exclusive.add(operation_id)
        if local:
            self.local.add(operation_id)
        self.follow(self.scheduler.submit(operation_id, exclusive=exclusive, queue=queue, local=local))

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

    @precondition(lambda self: self.active or self.beside or self.parked or self.waiting)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        present = self.active | self.beside | set(self.parked) | set(self.waiting)
        operation_id = data.draw(st.sampled_from(sorted(present)))
        self.forget(operation_id)
        self.follow(self.scheduler.leave(operation_id))

    def forget(self, operation_id: str) -> None:
        self.active.discard(operation_id)
        self.beside.discard(operation_id)
        self.parked.pop(operation_id, None)
        self.held.pop(operation_id, None)
        if operation_id in self.waiting:
            self.waiting.remove(operation_id)

    def admitted(self, queue: str) -> set[str]:
        present = self.active | self.beside | set(self.parked)
        return {operation_id for operation_id in present if self.queue[operation_id] == queue}

    @invariant()
    def slots_are_never_exceeded(self) -> None:
        assert len(self.active) == self.scheduler.slots_used <= SLOTS

    @invariant()
    def a_local_statement_waits_for_no_slot(self) -> None:
        for queue in QUEUES:
            head = next((waiting for waiting in self.waiting if self.queue[waiting] == queue), None)
            if head is not None and self.may_go_beside(head):
                admitted = self.admitted(queue)
                assert admitted & self.exclusive or (head in self.exclusive and admitted)

    @invariant()
    def an_exclusive_statement_is_alone_in_its_line(self) -> None:
        for queue in QUEUES:
            admitted = self.admitted(queue)
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
        for queue in QUEUES:
            admitted = self.admitted(queue)
            head = next((waiting for waiting in self.waiting if self.queue[waiting] == queue), None)
            if head is not None:
                assert admitted & self.exclusive or (head in self.exclusive and admitted), "a free slot stays empty"
        for operation_id, targets in list(self.parked.items())[:1]:
            assert any(overlap(targets, held) for held in self.held.values()), f"{operation_id} waits for nobody"

    def teardown(self) -> None:
        """Everything ends if what runs ends: there is no cycle to wait in."""
        for _ in range(10_000):
            if not (self.active or self.beside or self.parked or self.waiting):
                return
            assert self.active or self.beside, "all that is left waits"
            operation_id = min(self.active | self.beside)
            self.forget(operation_id)
            self.follow(self.scheduler.leave(operation_id))
        raise AssertionError("the scheduler does not come to an end")


TestScheduler = SchedulerMachine.TestCase


def test_a_path_below_another_is_the_same_target() -> None:
    assert overlap(frozenset({"file:/w/a"}), frozenset({"file:/w/a/p=1"}))
    assert not overlap(frozenset({"file:/w/a"}), frozenset({"file:/w/ab"}))
    assert not overlap(frozenset(), frozenset({"file:/w/a"}))


def admitted_in_order(scheduler: Scheduler, running: str, rounds: int) -> list[str]:
    """Who gets the slot that `running` has, and so on."""
    order: list[str] = []
    for _ in range(rounds):
        (running,) = scheduler.leave(running).admitted
        order.append(running)
    return order


def test_a_free_slot_goes_to_the_line_that_has_the_fewest() -> None:
    scheduler = Scheduler(2)
    scheduler.submit("a1", exclusive=False, queue="a")
    scheduler.submit("x", exclusive=False, queue="x")
    for waiting in ("a2", "a3", "a4"):
        scheduler.submit(waiting, exclusive=False, queue="a")
    scheduler.submit("b1", exclusive=False, queue="b")
    assert admitted_in_order(scheduler, "x", 3) == ["b1", "a2", "a3"]


def test_a_waiting_statement_is_passed_over_a_bounded_number_of_times() -> None:
    scheduler = Scheduler(2)
    scheduler.submit("long", exclusive=False, queue="a")
    scheduler.submit("x", exclusive=False, queue="x")
    scheduler.submit("patient", exclusive=False, queue="a")
    for number in range(PATIENCE + 5):
        scheduler.submit(f"b{number}", exclusive=False, queue=f"b{number}")
    assert admitted_in_order(scheduler, "x", PATIENCE + 1).index("patient") == PATIENCE


def test_a_local_statement_goes_beside_full_slots_and_few_of_one_line_do() -> None:
    scheduler = Scheduler(1)
    scheduler.submit("big", exclusive=False, queue="a")
    for number in range(BESIDE_OF_QUEUE):
        assert scheduler.submit(f"probe{number}", exclusive=False, queue="b", local=True).admitted
    assert not scheduler.submit("one-more", exclusive=False, queue="b", local=True).admitted
    assert scheduler.submit("other", exclusive=True, queue="c", local=True).admitted == ("other",)
    assert scheduler.slots_used == 1
    assert scheduler.leave("probe0").admitted == ("one-more",)


def test_an_unbound_statement_gives_its_slot_and_its_turn_to_others() -> None:
    scheduler = Scheduler(1)
    scheduler.submit("query", exclusive=True, queue="a")
    assert not scheduler.submit("next", exclusive=True, queue="a").admitted

    assert scheduler.unbind("query").admitted == ("next",)
    assert (scheduler.slots_used, scheduler.admitted) == (1, ("query", "next"))
    scheduler.leave("query")
    assert scheduler.admitted == ("next",)
