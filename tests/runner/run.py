"""Runs levels: one pytest for each, stage after stage, lanes of a stage side by side."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.runner import events
from tests.runner.levels import LEVELS, STAGE_ENV, Lane, Level, Stage
from tests.runner.order import ORDER_ENV
from tests.runner.schedule import Progress

ROOT = Path(__file__).resolve().parents[2]
READ_SECONDS = 0.5
# For the clean-up of fixtures after an interrupt; pods and sessions take a while to go.
INTERRUPT_SECONDS = 120


@dataclass(frozen=True)
class Selection:
    """Which tests of the levels run. `paths` of a level replace its folders."""

    thorough: bool = False
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment that makes `coverage` measure; empty when nothing is measured."""


@dataclass
class LevelRun:
    """A level under way, or ended when it has an exit code."""

    level: Level
    log: Path
    started: float
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: int = 0
    total: int = 0
    costs: list[events.Cost] = field(default_factory=list)
    tests: dict[str, float] = field(default_factory=dict)
    """The seconds of each test that passed."""
    seconds: float = 0.0
    exit_code: int | None = None

    @property
    def progress(self) -> Progress:
        done = self.passed + len(self.failed) + self.skipped
        seconds = self.seconds if self.exit_code is not None else time.monotonic() - self.started
        return Progress(done, self.total, len(self.failed), seconds)

    @property
    def is_good(self) -> bool:
        return self.exit_code == 0 and self.passed > 0


Failed = Callable[[LevelRun, events.Ended], None]
Closed = Callable[[LevelRun], None]


class Run:
    """Runs of levels. `order` is the file with the seconds of each file in earlier runs. `on_failure` is called at each failure, `on_end` when a level has ended."""

    def __init__(self, selection: Selection, logs: Path, order: Path, on_failure: Failed, on_end: Closed) -> None:
        self._selection = selection
        self._logs = logs
        self._order = order
        self._on_failure = on_failure
        self._on_end = on_end
        self.levels: dict[str, LevelRun] = {}

    async def stages(self, stages: Sequence[Stage]) -> None:
        """Runs all levels. When cancelled, interrupts those under way and waits for their clean-up."""
        for stage in stages:
            name = uuid.uuid4().hex
            async with asyncio.TaskGroup() as lanes:
                for lane in stage:
                    lanes.create_task(self._lane(lane, name))

    async def _lane(self, lane: Lane, stage: str) -> None:
        for name in lane:
            await self._level(LEVELS[name], stage)

    async def _level(self, level: Level, stage: str) -> None:
        made = LevelRun(level, self._logs / f"{level.name}.log", time.monotonic())
        self.levels[level.name] = made
        file = self._logs / f"{level.name}.events"
        file.unlink(missing_ok=True)
        try:
            async with self._following(made, file):
                made.exit_code = await self._pytest(level, stage, made.log, file)
        finally:
            made.seconds = time.monotonic() - made.started
        self._on_end(made)

    @asynccontextmanager
    async def _following(self, made: LevelRun, file: Path) -> AsyncIterator[None]:
        follower = events.Follower(file)

        async def follow() -> None:
            while True:
                self._read(made, follower)
                await asyncio.sleep(READ_SECONDS)

        task = asyncio.create_task(follow())
        try:
            yield
        finally:
            task.cancel()
            self._read(made, follower)

    def _read(self, made: LevelRun, follower: events.Follower) -> None:
        for event in follower.read():
            match event:
                case events.Collected(tests=count):
                    made.total = count
                case events.Cost():
                    made.costs.append(event)
                case events.Ended(outcome="passed", test=test, seconds=seconds):
                    made.passed += 1
                    made.tests[test] = seconds
                case events.Ended(outcome="skipped"):
                    made.skipped += 1
                case events.Ended(outcome="failed", test=test):
                    made.failed.append(test)
                    self._on_failure(made, event)

    async def _pytest(self, level: Level, stage: str, log: Path, file: Path) -> int:
        # Each worker reads all files of its level: it compiles them again where the environment forbids to keep what was compiled.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {events.FILE_ENV: str(file), ORDER_ENV: str(self._order), STAGE_ENV: stage}
        environment |= self._selection.variables
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *command(level, self._selection),
                cwd=ROOT, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, process_group=0,
            )  # fmt: skip
        try:
            return await process.wait()
        except asyncio.CancelledError:
            await _interrupt(process)
            raise


async def _interrupt(process: asyncio.subprocess.Process) -> None:
    """Interrupts a process group once, and kills it when it has not ended in time or is interrupted again."""
    _signal(process, signal.SIGINT)
    try:
        async with asyncio.timeout(INTERRUPT_SECONDS):
            await process.wait()
    except (TimeoutError, asyncio.CancelledError):
        _signal(process, signal.SIGKILL)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def command(level: Level, selection: Selection) -> list[str]:
    """Returns the command that runs a level's tests."""
    python = [sys.executable, "-u", "-m"]
    if selection.variables:
        python += ["coverage", "run", "-m"]
    made = [*python, "pytest", "-q", "-p", "tests.runner.plugin"]
    named = selection.paths.get(level.name)
    made += named or level.paths
    if expression := marks(level, selection.thorough, named or ()):
        made += ["-m", expression]
    files = {path.partition("::")[0] for path in named or ()}
    if level.processes > 1 and (named is None or len(files) > 1 or any(not file.endswith(".py") for file in files)):
        made += ["-n", str(level.processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    return made


def marks(level: Level, thorough: bool, named: Sequence[str]) -> str:
    """Returns pytest's expression that selects a level's tests by their marks. A test that is named runs whatever its marks."""
    if any("::" in path for path in named):
        return ""
    found = [level.mark if not named else "", "" if thorough else "not thorough"]
    return " and ".join(filter(None, found))
