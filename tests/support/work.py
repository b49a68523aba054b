"""How much work something is, whatever else the machine does: counts, and ratios of one run, never a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

Work = Callable[[], object]
ROUNDS = 3
FACTOR = 16
LINEAR = 3.0
"""The growth that a busy machine may show for a linear function; that of a quadratic one is 16."""


def seconds(work: Work) -> float:
    """Returns what the work takes of this thread's own time, in the best of some rounds. Only to be compared with another one."""
    took = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        work()
        took.append(time.thread_time() - began)
    return min(took)


def growth(work: Callable[[int], object], size: int) -> float:
    """Returns how a unit of the size costs more when there are 16 times as many: 1 where it is linear, 16 where it is quadratic."""
    small, large = (seconds(lambda each=each: work(each)) for each in (size, FACTOR * size))  # type: ignore[misc]
    return large / small / FACTOR


def lines_run(work: Work, most: int) -> int:
    """Returns how many lines of Python the work runs, each time counted. Raises AssertionError at more than `most`."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        assert count <= most, f"more than {most} lines, now at {frame.f_code.co_qualname}:{frame.f_lineno}"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
