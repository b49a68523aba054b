"""The queue's invariants, by example and by random histories on a clock that only the test moves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sparksql.engine.key import Key
from sparksql.engine.queue import QueueClosed, WorkQueue

KEYS = [Key("SqlStatement", "team-a", f"s{number}") for number in range(4)]
A, B, *_ = KEYS


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> WorkQueue:
    return WorkQueue(clock, random.Random(0))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)


def test_a_key_added_twice_is_handed_out_once(queue: WorkQueue) -> None:
    queue.add(A)
    queue.add(A)
    assert queue.get_nowait() == A
    assert queue.get_nowait() is None


def test_keys_are_handed_out_in_the_order_in_which_they_became_due(queue: WorkQueue, clock: Clock) -> None:
    queue.add_after(A, 5)
    queue.add_after(B, 3)
    clock.now += 6
    assert [queue.get_nowait(), queue.get_nowait()] == [B, A]


def test_the_earliest_time_asked_for_wins(queue: WorkQueue, clock: Clock) -> None:
    queue.add_after(A, 10)
    queue.add_after(A, 2)
    queue.add_after(A, 20)
    clock.now += 1.9
    assert queue.get_nowait() is None
    clock.now += 0.1
    assert queue.get_nowait() == A
    queue.done(A)
    clock.now += 100
    assert queue.get_nowait() is None


def test_a_key_added_while_processed_waits_for_done(queue: WorkQueue) -> None:
    queue.add(A)
    assert queue.get_nowait() == A
    queue.add(A)
    assert queue.get_nowait() is None
    queue.done(A)
    assert queue.get_nowait() == A


def test_done_of_a_key_that_is_not_processed_is_a_defect(queue: WorkQueue) -> None:
    with pytest.raises(KeyError):
        queue.done(A)


def test_backoff_doubles_up_to_a_minute_and_ends_with_forget(queue: WorkQueue, clock: Clock) -> None:
    for failures in range(14):
        most = min(60.0, 0.05 * 2**failures)
        queue.add_rate_limited(A)
        clock.now += most * 0.49
        assert queue.get_nowait() is None, f"too early after {failures} failures"
        clock.now += most * 0.52
        assert queue.get_nowait() == A, f"too late after {failures} failures"
        queue.done(A)
    queue.forget(A)
    queue.add_rate_limited(A)
    clock.now += 0.05
    assert queue.get_nowait() == A


@pytest.mark.parametrize(("told", "heeded"), [(5.0, 5.0), (3600.0, 60.0)])
def test_backoff_is_as_long_as_the_outside_asks_for_up_to_a_minute(
    queue: WorkQueue, clock: Clock, told: float, heeded: float
) -> None:
    queue.add_rate_limited(A, told)
    clock.now += heeded * 0.99
    assert queue.get_nowait() is None
    clock.now += heeded * 0.52
    assert queue.get_nowait() == A


def test_backoff_that_has_grown_is_not_cut_by_what_the_outside_asks_for(queue: WorkQueue, clock: Clock) -> None:
    for _ in range(12):
        queue.add_rate_limited(A, 0.1)
        clock.now += 90.0
        assert queue.get_nowait() == A
        queue.done(A)
    queue.add_rate_limited(A, 0.1)
    clock.now += 29.0
    assert queue.get_nowait() is None


def test_depth_counts_due_keys_and_age_is_that_of_the_oldest(queue: WorkQueue, clock: Clock) -> None:
    assert (queue.depth, queue.oldest_age_seconds) == (0, 0.0)
    queue.add(A)
    queue.add_after(B, 10)
    clock.now += 4
    assert (queue.depth, queue.oldest_age_seconds) == (1, 4.0)
    assert queue.get_nowait() == A
    queue.add(A)
    clock.now += 3
    assert (queue.depth, queue.oldest_age_seconds) == (0, 3.0)


async def test_getters_wake_for_added_and_for_delayed_keys() -> None:
    queue = WorkQueue()
    getters = [asyncio.create_task(queue.get()) for _ in range(2)]
    queue.add_after(A, 0.02)
    queue.add(B)
    async with asyncio.timeout(60):
        assert {await getter for getter in getters} == {A, B}


async def test_a_cancelled_getter_passes_its_turn_on(queue: WorkQueue) -> None:
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await until(lambda: len(queue._getters) == 2)
    queue.add(A)  # chooses the first getter, which is cancelled before it runs
    first.cancel()
    async with asyncio.timeout(60):
        assert await second == A
    assert first.cancelled()


async def test_a_getter_cancelled_before_its_turn_is_passed_over(queue: WorkQueue) -> None:
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await until(lambda: len(queue._getters) == 2)
    first.cancel()
    queue.add(A)
    async with asyncio.timeout(60):
        assert await second == A


async def test_close_releases_every_getter_and_drops_additions(queue: WorkQueue) -> None:
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await until(lambda: len(queue._getters) == 3)
    queue.close()
    async with asyncio.timeout(60):
        results = await asyncio.gather(*getters, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosed] * 3
    queue.add(A)
    assert queue.depth == 0
    with pytest.raises(QueueClosed):
        queue.get_nowait()


async def test_many_workers_never_hold_one_key_at_once() -> None:
    queue = WorkQueue()
    held: set[Key] = set()
    handled = dict.fromkeys(KEYS, 0)

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in held
            held.add(key)
            await asyncio.sleep(0)
            held.remove(key)
            handled[key] += 1
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(8)]
    for _ in range(200):
        for key in KEYS:
            queue.add(key)
        await asyncio.sleep(0)
    await until(lambda: queue.depth == 0 and not held)
    assert min(handled.values()) > 10, handled
    queue.close()
    results = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosed] * 8


def test_overtaken_entries_do_not_pile_up(queue: WorkQueue, clock: Clock) -> None:
    for _ in range(20_000):
        queue.add_after(A, 300)
        queue.add(A)
        assert queue.get_nowait() == A
        queue.done(A)
        clock.now += 0.001
    assert len(queue._heap) < 2_000


class QueueMachine(RuleBasedStateMachine):
    """Compares the queue with the plainest model there is: due times in one dict, and a set of keys in work."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue = WorkQueue(self.clock, random.Random(0))
        self.due: dict[Key, float] = {}
        self.processing: set[Key] = set()

    @rule(key=st.sampled_from(KEYS), seconds=st.sampled_from([0.0, 0.5, 1.0, 7.0]))
    def add_after(self, key: Key, seconds: float) -> None:
        self.queue.add_after(key, seconds)
        self.due[key] = min(self.due.get(key, float("inf")), self.clock.now + seconds)

    @rule(seconds=st.sampled_from([0.25, 1.0, 5.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def get(self) -> None:
        ready = {key: due for key, due in self.due.items() if due <= self.clock.now and key not in self.processing}
        key = self.queue.get_nowait()
        if not ready:
            assert key is None
            return
        assert key is not None
        assert ready[key] == min(ready.values())
        del self.due[key]
        self.processing.add(key)

    @precondition(lambda self: self.processing)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.processing)))
        self.processing.remove(key)
        self.queue.done(key)

    @invariant()
    def metrics_agree(self) -> None:
        ready = [key for key, due in self.due.items() if due <= self.clock.now and key not in self.processing]
        assert self.queue.depth == len(ready)
        oldest = min(self.due.values(), default=self.clock.now)
        assert self.queue.oldest_age_seconds == max(0.0, self.clock.now - oldest)

    def teardown(self) -> None:
        """Nothing added is ever lost: with enough time and every key done, exactly the model's keys come out."""
        for key in self.processing:
            self.queue.done(key)
        self.clock.now += 1000
        left = set()
        while (late := self.queue.get_nowait()) is not None:
            left.add(late)
        assert left == set(self.due)


QueueMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestQueueHistories = QueueMachine.TestCase
