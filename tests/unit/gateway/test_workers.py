"""The pool of threads that run statements: how many live, which are used again, and that no work is forgotten."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sparksql.gateway.operations.threads import Workers

DEADLINE = 60.0


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


class Exits:
    """Counts the threads that have ended."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()

    def __call__(self) -> None:
        with self.lock:
            self.count += 1


def test_a_thread_is_used_again_after_work_that_allows_it() -> None:
    seen: list[int] = []

    def work() -> bool:
        seen.append(threading.get_ident())
        return True

    workers = Workers(1, 4, 60.0, Exits())
    for count in range(1, 6):
        workers.submit(work)
        until(lambda count=count: len(seen) == count and workers.busy == 0, f"{seen}")  # type: ignore[misc]
    assert len(set(seen)) == 1
    assert workers.threads == 1


def test_a_thread_ends_after_work_that_does_not_allow_it() -> None:
    exits = Exits()
    workers = Workers(1, 4, 60.0, exits)
    workers.submit(lambda: False)
    until(lambda: exits.count == 1 and workers.threads == 0, f"{workers.threads} threads")


def test_there_are_never_more_threads_than_the_maximum_and_no_work_is_forgotten() -> None:
    gate, running, most, done = threading.Event(), 0, 0, 0
    lock = threading.Lock()

    def work() -> bool:
        nonlocal running, most, done
        with lock:
            running += 1
            most = max(most, running)
        gate.wait(DEADLINE)
        with lock:
            running -= 1
            done += 1
        return done % 3 != 0  # some threads end

    workers = Workers(2, 3, 60.0, Exits())
    for _ in range(50):
        workers.submit(work)
    until(lambda: workers.threads == 3, f"{workers.threads} threads")
    gate.set()
    until(lambda: done == 50, f"{done} of 50 done")
    assert most == 3


def test_idle_threads_beyond_the_minimum_end() -> None:
    exits, barrier = Exits(), threading.Barrier(4)

    def work() -> bool:
        barrier.wait(DEADLINE)
        return True

    workers = Workers(1, 4, 0.05, exits)
    for _ in range(4):
        workers.submit(work)
    until(lambda: workers.threads == 1, f"{workers.threads} threads")
    assert exits.count == 3
