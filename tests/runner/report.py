"""What a run prints at its end: levels, the most expensive files, fixtures and starts, failures, and the closing line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tests.runner.events import Cost
from tests.runner.run import LevelRun
from tests.runner.screen import repeat

MOST = 25


def report(runs: Sequence[LevelRun]) -> str:
    """Returns the tables, and the commands that repeat failed tests."""
    parts = [
        tests_table(runs),
        costs_table(cost for run in runs for cost in run.costs),
        starts_table(runs),
        folders_table(runs),
        levels_table(runs),
    ]
    if failed := [test for run in runs for test in run.failed]:
        parts.append("\n".join(["failed:", *(f"  {repeat(test)}" for test in failed)]))
    return "\n\n".join(filter(None, parts))


def tests_table(runs: Iterable[LevelRun]) -> str:
    """Returns the tests that took longest."""
    times = sorted(((seconds, test) for run in runs for test, seconds in run.tests.items()), reverse=True)[:MOST]
    return (
        "\n".join([f"{'seconds':>8}  test", *(f"{seconds:>8.1f}  {test}" for seconds, test in times)]) if times else ""
    )


def costs_table(costs: Iterable[Cost]) -> str:
    """Returns the most expensive files and fixtures; a fixture that several processes set up is one row."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for cost in costs:
        if cost.kind != "start":
            row = sums[cost.kind, cost.name]
            row[0] += 1
            row[1] += cost.seconds
            row[2] += cost.cpu
    rows = sorted(sums.items(), key=lambda each: -max(each[1][1:]))[:MOST]
    lines = [f"{'seconds':>8}{'CPU':>8}{'times':>6}  file or fixture"]
    lines += [f"{seconds:>8.1f}{cpu:>8.1f}{times:>6.0f}  {name}" for (_, name), (times, seconds, cpu) in rows]
    return "\n".join(lines) if rows else ""


def starts_table(runs: Sequence[LevelRun]) -> str:
    """Returns how often each level started what, and at what cost."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for run in runs:
        for cost in run.costs:
            if cost.kind == "start":
                row = sums[run.level.name, cost.name]
                row[0] += 1
                row[1] += cost.seconds
                row[2] += cost.cpu
    lines = [f"{'seconds':>8}{'CPU':>8}{'times':>6}  start of"]
    lines += [f"{s:>8.1f}{cpu:>8.1f}{n:>6.0f}  {name} ({level})" for (level, name), (n, s, cpu) in sorted(sums.items())]
    return "\n".join(lines) if sums else ""


def folders_table(runs: Sequence[LevelRun]) -> str:
    """Returns the sums of the files of each folder."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for run in runs:
        for cost in run.costs:
            if cost.kind == "file":
                row = sums[cost.name.rpartition("/")[0]]
                row[0] += 1
                row[1] += cost.seconds
                row[2] += cost.cpu
    lines = [f"{'seconds':>8}{'CPU':>8}{'files':>6}  folder"]
    lines += [f"{s:>8.1f}{cpu:>8.1f}{n:>6.0f}  {name}" for name, (n, s, cpu) in sorted(sums.items())]
    return "\n".join(lines) if sums else ""


def levels_table(runs: Sequence[LevelRun]) -> str:
    """Returns counts and times of the levels. CPU is that of pytest's processes and their children, not of pods."""
    lines = [f"{'level':<14}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}{'CPU':>9}"]
    for run in runs:
        cpu = sum(cost.cpu for cost in run.costs if cost.kind == "file" or "(all)" in cost.name)
        mark = "" if run.is_good else "   interrupted" if run.exit_code is None else "   FAILED"
        lines.append(
            f"{run.level.name:<14}{run.passed:>8}{len(run.failed):>8}{run.skipped:>9}{run.seconds:>9.1f}{cpu:>9.1f}{mark}"
        )
    return "\n".join(lines)


def closing_line(runs: Sequence[LevelRun]) -> str:
    """Returns the counts of all levels."""
    passed, skipped = sum(run.passed for run in runs), sum(run.skipped for run in runs)
    return f"{passed} passed, {sum(len(run.failed) for run in runs)} failed, {skipped} skipped"
