"""Run levels of the test pyramid and show count and time of each. Usage: levels.py [--thorough] LEVEL...

Levels that do not disturb each other run side by side. A level that fails does not stop the others; the exit code is 1 when any
failed or ran no test, 130 when the run was interrupted.

Tests that are marked `thorough` run with `--thorough` alone: further draws and combinations of what another test has shown in one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent

LEVELS: dict[str, tuple[str, ...]] = {
    "unit": ("tests/unit", "tests/chart"),
    "integration": ("tests/integration",),
    # Without reorder: how many tests a file has says nothing of its time there.
    "gateway": (
        "tests/gateway",
        "--ignore=tests/gateway/streaming",
        "--ignore=tests/gateway/upgrades",
        "--ignore=tests/gateway/windows",
        "--no-loadscope-reorder",
    ),
    "streaming": ("tests/gateway/streaming", "--no-loadscope-reorder"),
    "windows": ("tests/gateway/windows", "--no-loadscope-reorder"),
    "upgrades": ("tests/gateway/upgrades", "--no-loadscope-reorder"),
    "images": ("tests/images",),
    "e2e": ("tests/e2e", "--no-loadscope-reorder"),
    "faults": ("tests/e2e",),
    "conformance": ("tests/conformance",),
}
# Which tests of its folders a level has, by their marks.
MARKS = {"e2e": "not alone", "faults": "alone"}
THOROUGH = "--thorough"
# Processes at a time for the levels whose files need nothing of each other: while one waits the others work. With two, a sixth of
# both cores was idle at the gateway's level, an eighth at that of e2e with three, and half of them at that of integration.
PROCESSES = {"unit": 2, "integration": 4, "gateway": 3, "streaming": 3, "windows": 2, "upgrades": 2, "e2e": 4}
# Levels that wait for nothing but their own results let those go first that they run beside.
NICE = {"streaming": 10, "windows": 10, "upgrades": 10}

Lane = tuple[str, ...]
Stage = tuple[Lane, ...]
# Stages follow each other, lanes of a stage run side by side, levels of a lane follow each other. What computes with all cores for
# long stands alone: gateway beside faults and conformance took as long as one after the other, and their pods waited for a core.
# A test of faults waits for two of five seconds, a client's for every other one: levels that use no pods fill them.
STAGES: tuple[Stage, ...] = (
    (("unit", "integration", "images", "upgrades", "windows"), ("faults",)),
    (("e2e",),),
    (("gateway",),),
    (("streaming",), ("conformance",)),
)
PROGRESS_SECONDS = 30
# What pytest prints with -q: a character for each test that has ended, and at the end of a full line how far it is.
ENDED = re.compile(r"^([.sxXFE]+)(?: *\[ *\d+%\])?$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    level: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    exit_code: int

    @property
    def is_good(self) -> bool:
        return self.exit_code == 0 and self.passed > 0


def plan(levels: Iterable[str]) -> list[Stage]:
    """Returns the stages with these levels alone."""
    wanted = {*levels}
    kept = [[tuple(level for level in lane if level in wanted) for lane in stage] for stage in STAGES]
    return [stage for lanes in kept if (stage := tuple(lane for lane in lanes if lane))]


@dataclass
class Run:
    """Runs of levels: those under way and what came of those that have ended."""

    thorough: bool
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    under_way: dict[str, Path] = field(default_factory=dict)
    """Levels whose output goes to a file meanwhile, and that file."""

    async def stages(self, stages: Iterable[Stage]) -> None:
        for stage in stages:
            async with asyncio.TaskGroup() as lanes:
                running = [lanes.create_task(self._lane(lane, shared=len(stage) > 1)) for lane in stage]
                progress = lanes.create_task(self._progress())
                await asyncio.wait(running)
                progress.cancel()

    async def _lane(self, lane: Lane, shared: bool) -> None:
        for level in lane:
            with tempfile.TemporaryDirectory() as folder:
                report = Path(folder, "report.xml")
                started = time.monotonic()
                if shared:
                    code = await self._captured(level, report, Path(folder, "output"))
                else:
                    print(f"\n=== {level}", flush=True)
                    code = await run(level, report, None, self.thorough)
                self.outcomes[level] = outcome(level, report, time.monotonic() - started, code)

    async def _captured(self, level: str, report: Path, output: Path) -> int:
        """Runs a level beside others: its output is shown at once when it has ended."""
        print(f"\n=== {level}: begun, its output follows when it has ended", flush=True)
        self.under_way[level] = output
        try:
            with output.open("wb") as file:
                return await run(level, report, file, self.thorough)
        finally:
            del self.under_way[level]
            show(level, output)

    async def _progress(self) -> None:
        """Says every half minute how far the levels are whose output is not seen."""
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            if self.under_way:
                print(", ".join(f"{level}: {ended(file)} tests" for level, file in self.under_way.items()), flush=True)


def marked(level: str, thorough: bool) -> tuple[str, ...]:
    """Returns pytest's arguments that select the tests of a level by their marks."""
    wanted = [each for each in (MARKS.get(level), None if thorough else "not thorough") if each is not None]
    return ("-m", " and ".join(wanted)) if wanted else ()


async def run(level: str, report: Path, output: IO[bytes] | None, thorough: bool) -> int:
    """Runs a level as a process group of its own; returns its exit code. Interrupts the group once when it is cancelled."""
    command = [sys.executable, "-u", "-m", "pytest", "-q", "--durations=5", f"--junit-xml={report}"]
    command += [*LEVELS[level], *marked(level, thorough)]
    if level in PROCESSES:
        command += ["-n", str(PROCESSES[level]), "--dist", "loadfile"]
    if level in NICE:
        command = ["nice", "-n", str(NICE[level]), *command]
    # Each worker reads all files of its level: it compiles them anew where the environment forbids to keep what was compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environment, stdout=output, stderr=output, stdin=asyncio.subprocess.DEVNULL, process_group=0
    )  # fmt: skip
    try:
        return await process.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        await process.wait()
        raise


def show(level: str, output: Path) -> None:
    print(f"\n=== {level}\n{output.read_text(errors='replace')}", flush=True)


def ended(output: Path) -> int:
    """Returns how many tests have ended, as pytest's output says."""
    return sum(map(len, ENDED.findall(output.read_text(errors="replace"))))


def outcome(level: str, report: Path, seconds: float, code: int) -> Outcome:
    """Returns what a level's report says; nothing passed where it has written none."""
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    if report.exists():
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            for name in counts:
                counts[name] += int(suite.get(name, 0))
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    return Outcome(level, passed, failed, counts["skipped"], seconds, code)


def print_table(outcomes: list[Outcome]) -> None:
    print(f"\n{'level':<14}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for o in outcomes:
        print(
            f"{o.level:<14}{o.passed:>8}{o.failed:>8}{o.skipped:>9}{o.seconds:>9.1f}{'' if o.is_good else '   FAILED'}"
        )
    total = [sum(getattr(o, name) for o in outcomes) for name in ("passed", "failed", "skipped")]
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")


async def run_stages(levels: list[str], thorough: bool) -> dict[str, Outcome] | None:
    """Runs the levels. None when the process was told to end: the levels under way have been, too."""
    this = asyncio.current_task()
    assert this is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, this.cancel)
    made = Run(thorough)
    try:
        await made.stages(plan(levels))
    except asyncio.CancelledError:
        return None
    return made.outcomes


def main(arguments: list[str]) -> int:
    levels = [each for each in arguments if each != THOROUGH]
    unknown = [level for level in levels if level not in LEVELS]
    if unknown or not levels:
        print(f"usage: levels.py [--thorough] LEVEL...; levels: {' '.join(LEVELS)}", file=sys.stderr)
        return 2
    outcomes = asyncio.run(run_stages(levels, THOROUGH in arguments))
    if outcomes is None:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    print_table([outcomes[level] for level in levels])
    return 0 if all(each.is_good for each in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
