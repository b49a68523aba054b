"""Runs tests: `python -m tests.runner [--thorough] [--coverage] local|cluster|LEVEL... [--tests PATH...]`.

Exit code 0 when every level ran tests and all passed, 1 otherwise, 2 for a wrong command line, 130 when the run was interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.runner import coverage, order
from tests.runner.levels import GROUPS, LEVELS, Stage, level_of
from tests.runner.report import closing_line, report
from tests.runner.run import Run, Selection
from tests.runner.schedule import Duration, plan
from tests.runner.screen import Screen, clock

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-sql-operator" / "tests"


def parser() -> argparse.ArgumentParser:
    """Returns the grammar of the command line."""
    made = argparse.ArgumentParser(prog="python -m tests.runner", description="Run levels of tests.")
    made.add_argument(
        "levels", nargs="+", choices=[*GROUPS, *LEVELS], metavar="LEVEL", help=", ".join([*GROUPS, *LEVELS])
    )
    made.add_argument("--thorough", action="store_true", help="run the tests that are marked thorough too")
    made.add_argument("--coverage", action="store_true", help="measure line and branch coverage of the product")
    made.add_argument(
        "--tests", default="", metavar="PATHS", help="files, folders or node ids to run instead of LEVELs"
    )
    return made


def selected(arguments: argparse.Namespace, variables: Mapping[str, str]) -> tuple[list[str], Selection]:
    """Returns the levels to run, and which of their tests. Raises ValueError for a path of no level."""
    paths: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for path in arguments.tests.split():
        paths[level_of(path).name] += (path,)
    names = [level for name in arguments.levels for level in GROUPS.get(name, (name,))]
    return [*paths] or names, Selection(arguments.thorough, dict(paths), variables)


async def run(run: Run, screen: Screen, stages: Sequence[Stage]) -> bool:
    """Runs the stages and shows how far they are. Returns whether the run came to its end."""
    this = asyncio.current_task()
    assert this is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, this.cancel)

    async def show() -> None:
        while True:
            await asyncio.sleep(screen.period)
            screen.show(run.levels)

    showing = asyncio.create_task(show())
    try:
        await run.stages(stages)
    except asyncio.CancelledError:
        return False
    finally:
        showing.cancel()
        screen.show({})
    return True


class History:
    """The times of each level's last whole run, in the user's cache folder."""

    def __init__(self, file: Path, thorough: bool) -> None:
        self._file = file
        self._suffix = "+thorough" if thorough else ""

    def read(self) -> dict[str, Duration]:
        """Returns the times by level; those of levels that have not run are missing."""
        found = self._all()
        return {
            name: Duration(found[key][0], int(found[key][1]))
            for name in LEVELS
            if (key := name + self._suffix) in found
        }

    def write(self, run: Run) -> None:
        """Keeps the times of levels that ended well."""
        good = {
            name + self._suffix: (each.seconds, each.progress.done) for name, each in run.levels.items() if each.is_good
        }
        self._file.write_text(json.dumps({**self._all(), **good}, indent=1))

    def _all(self) -> dict[str, list[float]]:
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, list[float]] = json.loads(self._file.read_text())
            return found
        return {}


def main(words: Sequence[str]) -> int:
    """Runs what the command line names; returns the exit code."""
    arguments = parser().parse_args(words)
    try:
        levels, selection = selected(arguments, coverage.environment(CACHE / "coverage") if arguments.coverage else {})
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    logs = CACHE / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # logs are of one run
        history = History(CACHE / "times.json", selection.thorough)
        stages = plan(levels)
        screen = Screen(stages, history.read())
        files = CACHE / "files.json"
        made = Run(selection, logs, files, screen.failure, screen.end)
        began = time.monotonic()
        is_whole = asyncio.run(run(made, screen, stages))
        runs = [*made.levels.values()]
        if not selection.paths:
            history.write(made)
            order.write(files, (cost for each in runs for cost in each.costs))
    if selection.variables:
        print(coverage.summary(selection.variables))
    print(f"\n{report(runs)}\n\ntime {clock(time.monotonic() - began)}; output of pytest: {logs}\n{closing_line(runs)}")
    if not is_whole:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0 if all(each.is_good for each in runs) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
