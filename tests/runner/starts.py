"""Measures what tests start: Spark, API servers, metastores, sessions. The runner lists the sums."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.runner.events import Cost, write

_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Reports the cost of the block as that of one start of `name`; a block that fails is not reported."""
    before = Meter()
    yield
    write(Cost("start", name, *before.read()))


class Meter:
    """Time and CPU time since it was made, of this process and all of its children, also those that ended meanwhile."""

    def __init__(self) -> None:
        self._clock, self._cpu = time.monotonic(), tree_cpu()

    def read(self) -> tuple[float, float]:
        """Returns seconds and seconds of CPU."""
        return time.monotonic() - self._clock, max(0.0, tree_cpu() - self._cpu)


def tree_cpu(root: int | None = None) -> float:
    """Returns the seconds of CPU that a process used with all of its descendants; by default this process.

    The kernel adds the time of a child that ended to its parent's, see proc(5), /proc/pid/stat.
    """
    own = os.getpid() if root is None else root
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:  # it ended meanwhile
                continue
            fields = stat.rpartition(")")[2].split()
            process = int(folder.name)
            parents[process] = int(fields[1])
            ticks[process] = sum(map(int, fields[11:15]))
    return sum(ticks[each] for each in ticks if _descends(each, own, parents)) / _TICKS


def _descends(process: int, root: int, parents: dict[int, int]) -> bool:
    while process != root:
        if process not in parents:
            return False
        process = parents[process]
    return True
