"""What a run shows while it goes on: failures when they happen, and a line for each level under way."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from tests.runner.events import Ended
from tests.runner.levels import Stage
from tests.runner.run import LevelRun
from tests.runner.schedule import Duration, level_left, run_left

TERMINAL_SECONDS = 1.0
PIPELINE_SECONDS = 30.0


class Screen:
    """Prints to a terminal, where the lines of progress stay at the bottom, or to a file, where they are repeated."""

    def __init__(self, stages: Sequence[Stage], last: Mapping[str, Duration], out: TextIO = sys.stdout) -> None:
        self._stages = stages
        self._last = last
        self._out = out
        self._is_terminal = out.isatty()
        self._lines = 0
        self._causes: dict[str, str] = {}

    @property
    def period(self) -> float:
        """Seconds between two calls of `show`."""
        return TERMINAL_SECONDS if self._is_terminal else PIPELINE_SECONDS

    def show(self, levels: Mapping[str, LevelRun]) -> None:
        """Prints a line for each level under way, and when the run is expected to end."""
        running = {name: each.progress for name, each in levels.items() if each.exit_code is None}
        ended = [name for name, each in levels.items() if each.exit_code is not None]
        lines = [progress_line(each, self._last.get(name)) for name, each in levels.items() if name in running]
        left = run_left(self._stages, ended, running, self._last)
        if left is not None and lines:
            lines.append(f"{'all':<13}about {clock(left)} left")
        self._print("\n".join(lines), is_progress=True)

    def failure(self, run: LevelRun, event: Ended) -> None:
        """Prints a failure and the command that repeats its test; a cause that was printed before, as of a fixture, is named."""
        first = self._causes.setdefault(event.cause or event.test, event.test)
        text = event.text if first == event.test else f"for the same cause as {first}"
        self._print(f"--- FAILED {event.test}\n{text}\nrepeat: {repeat(event.test)}\n---")

    def end(self, run: LevelRun) -> None:
        """Prints that a level ended; the output of pytest too when it failed without a failed test."""
        progress = run.progress
        text = f"{run.level.name:<13}{'ok' if run.is_good else 'FAILED'}: {progress.done} tests, {progress.failed} failed, {clock(run.seconds)}"
        if not run.is_good and not run.failed:
            text += f"\npytest ended with {run.exit_code}:\n{run.log.read_text(errors='replace')[-20_000:]}"
        self._print(text)

    def _print(self, text: str, is_progress: bool = False) -> None:
        if self._is_terminal and self._lines:
            self._out.write(f"\x1b[{self._lines}F\x1b[J")
        self._lines = text.count("\n") + 1 if is_progress and text else 0
        if text:
            self._out.write(f"{text}\n")
        self._out.flush()


def progress_line(run: LevelRun, last: Duration | None) -> str:
    """Returns how far a level is, and how long it still takes by its last run."""
    progress = run.progress
    count = f"{progress.done} of {progress.total} tests" if progress.total else "collects"
    failed = f", {progress.failed} failed" if progress.failed else ""
    left = level_left(progress, last)
    rest = f", about {clock(left)} left" if left is not None else ""
    return f"{run.level.name:<13}{count}{failed}, {clock(progress.seconds)}{rest}"


def repeat(test: str) -> str:
    """Returns the command that runs a test again."""
    return f"make test TESTS='{test}'"


def clock(seconds: float) -> str:
    """Returns minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02}"
