"""Run levels of the test pyramid in order and show count and time of each. Usage: levels.py LEVEL...

A level that fails does not stop the next ones; the exit code is 1 when any failed or ran no test.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LEVELS: dict[str, tuple[str, ...]] = {
    "unit": ("tests/unit", "tests/chart"),
    "integration": ("tests/integration",),
    # Without reorder: how many tests a file has says nothing of its time there.
    "gateway": ("tests/gateway", "--no-loadscope-reorder"),
    "images": ("tests/images",),
    "e2e": ("tests/e2e", "-m", "not alone", "--no-loadscope-reorder"),
    "faults": ("tests/e2e", "-m", "alone"),
    "conformance": ("tests/conformance",),
}
# Processes at a time for the levels whose files need nothing of each other: while one waits the other works. Those of e2e wait for
# the same cluster, most of the time for a pod to start or a deadline to pass.
PROCESSES = {"unit": 2, "integration": 2, "gateway": 2, "e2e": 3}


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


def run(level: str) -> Outcome:
    print(f"\n=== {level}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "--durations=5", f"--junit-xml={report}", *LEVELS[level]]
        if level in PROCESSES:
            command += ["-n", str(PROCESSES[level]), "--dist", "loadfile"]
        started = time.monotonic()
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        seconds = time.monotonic() - started
        if not report.exists():
            return Outcome(level, 0, 0, 0, seconds, code)
        suites = ElementTree.parse(report).getroot().iter("testsuite")
        counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
        for suite in suites:
            for name in counts:
                counts[name] += int(suite.get(name, 0))
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    return Outcome(level, passed, failed, counts["skipped"], seconds, code)


def main(levels: list[str]) -> int:
    unknown = [level for level in levels if level not in LEVELS]
    if unknown or not levels:
        print(f"usage: levels.py LEVEL...; levels: {' '.join(LEVELS)}", file=sys.stderr)
        return 2
    outcomes = [run(level) for level in levels]
    print(f"\n{'level':<14}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for o in outcomes:
        print(
            f"{o.level:<14}{o.passed:>8}{o.failed:>8}{o.skipped:>9}{o.seconds:>9.1f}{'' if o.is_good else '   FAILED'}"
        )
    total = [sum(getattr(o, name) for o in outcomes) for name in ("passed", "failed", "skipped")]
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 0 if all(o.is_good for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
