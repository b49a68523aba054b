"""What the latency benchmarks share: the machine's description, quantiles, and a watch that tells when a phase was seen."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]

Object = dict[str, Any]


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}, load {load:.1f} at the start"


def quantiles(millis: Sequence[float]) -> str:
    ordered = sorted(millis)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"p50 {statistics.median(ordered):.1f}  p99 {p99:.1f}  min {ordered[0]:.1f}  max {ordered[-1]:.1f} ms  (n={len(ordered)})"


class Stopwatch:
    """Marks of moments by name, in seconds since its making."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self.marks: dict[str, float] = {}

    def mark(self, name: str) -> None:
        self.marks.setdefault(name, time.monotonic() - self._start)

    def table(self) -> str:
        before, lines = 0.0, []
        for name, at in sorted(self.marks.items(), key=lambda item: item[1]):
            lines.append(f"  {name:<28}{at:7.2f} s  (+{at - before:.2f})")
            before = at
        return "\n".join(lines)
