"""What runs beside what, and how long it takes by the last run's times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.runner.levels import STAGES, Lane, Stage


@dataclass(frozen=True)
class Duration:
    """How long a level took, and how many tests it ran in that time."""

    seconds: float
    tests: int


@dataclass(frozen=True)
class Progress:
    """How far a level is. `total` is 0 while pytest collects."""

    done: int
    total: int
    failed: int
    seconds: float


def plan(levels: Iterable[str], stages: Sequence[Stage] = STAGES) -> list[Stage]:
    """Returns the stages with these levels only."""
    wanted = {*levels}
    kept = [[tuple(level for level in lane if level in wanted) for lane in stage] for stage in stages]
    return [stage for lanes in kept if (stage := tuple(lane for lane in lanes if lane))]


def level_left(progress: Progress | None, last: Duration | None) -> float | None:
    """Returns the seconds until a level ends; None while nothing is known. `progress` is None for a level that has not begun."""
    if progress is None:
        return None if last is None else last.seconds
    share = progress.done / progress.total if progress.total else 0.0
    if last is not None and last.tests:
        by_count = last.seconds * (1 - share)
        by_clock = last.seconds - progress.seconds
        return max(by_clock, by_count * 0.5, 0.0) if share < 1 else 0.0
    return progress.seconds * (1 - share) / share if share else None


def run_left(
    stages: Sequence[Stage], ended: Iterable[str], running: Mapping[str, Progress], last: Mapping[str, Duration]
) -> float | None:
    """Returns the seconds until the last stage ends; None when the time of a level that is left is unknown."""
    over = {*ended}

    def lane_left(lane: Lane) -> float | None:
        lefts = [level_left(running.get(level), last.get(level)) for level in lane if level not in over]
        known = [left for left in lefts if left is not None]
        return sum(known) if len(known) == len(lefts) else None

    total = 0.0
    for stage in stages:
        lanes = [lane_left(lane) for lane in stage]
        known = [left for left in lanes if left is not None]
        if len(known) < len(lanes):
            return None
        total += max(known, default=0.0)
    return total
