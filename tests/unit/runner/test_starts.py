"""CPU time of a process tree."""

from __future__ import annotations

import subprocess
import sys

from tests.runner.starts import Meter

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_meter_counts_the_cpu_of_children_that_have_ended() -> None:
    meter = Meter()
    subprocess.run([sys.executable, "-c", BURN], check=True)
    _, cpu = meter.read()
    assert cpu >= 0.2


def test_meter_counts_the_cpu_of_a_child_of_a_child_under_way() -> None:
    meter = Meter()
    inner = f"import sys\n{BURN}print(flush=True)\nsys.stdin.read()"
    outer = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        _, cpu = meter.read()
        process.stdin.close()
    assert cpu >= 0.2
