"""The first result of local mode beside a plain PySpark script: `python -m tests.bench.local [ROUNDS]`.

Both begin as a new process with a warm cache of files. `run -e` has a new instance each time, so that its session, class and driver
are made as well. Rounds alternate, so that the machine's other work is shared by both.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.process import image_environment

SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
spark.sql("SELECT 1 AS one").show()
spark.stop()
"""
LOCAL = ("-m", "sparksql.cli.main", "local", "run", "-e", "SELECT 1 AS one")
DEFAULT_ROUNDS = 3


def _seconds(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    started = time.monotonic()
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "1" in done.stdout, done
    return time.monotonic() - started


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_ROUNDS
    plain, local = [], []
    with tempfile.TemporaryDirectory() as folder:
        java = image_environment(Path(folder), optimised=True)
        for number in range(rounds):
            plain.append(_seconds(("-c", SCRIPT), os.environ))
            data = {"XDG_DATA_HOME": f"{folder}/{number}"}
            local.append(_seconds(LOCAL, {**os.environ, **java, **data}))
            print(f"plain {plain[-1]:.1f} s, local {local[-1]:.1f} s", flush=True)
    ratio = statistics.median(local) / statistics.median(plain)
    print(f"medians: plain {statistics.median(plain):.1f} s, local {statistics.median(local):.1f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
