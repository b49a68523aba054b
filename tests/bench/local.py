"""The first result of local mode beside a plain PySpark script: `python -m tests.bench.local [ROUNDS]`.

Both begin as a new process with a warm cache of files. `run -e` has a new instance each time, so that its session, class and driver
are made as well. Rounds alternate, so that the machine's other work is shared by all. The third way has options and class-data archive of the
image's drivers, which local mode does not make by itself.
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

from sparksql.gateway.spark.jvm import OPTIONS_FILE_ENV
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
    plain, local, archived = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        java = image_environment(Path(folder), optimised=True)
        classes = {name: value for name, value in java.items() if name != OPTIONS_FILE_ENV}
        for number in range(rounds):
            plain.append(_seconds(("-c", SCRIPT), os.environ))
            for name, environment, figures in (("local", classes, local), ("archive", java, archived)):
                data = {"XDG_DATA_HOME": f"{folder}/{number}-{name}"}
                figures.append(_seconds(LOCAL, {**os.environ, **environment, **data}))
            print(f"plain {plain[-1]:.1f} s, local {local[-1]:.1f} s, with an archive {archived[-1]:.1f} s", flush=True)
    base, bare, quick = map(statistics.median, (plain, local, archived))
    print(
        f"medians: plain {base:.1f} s, local {bare:.1f} s ({bare / base:.2f}), archive {quick:.1f} s ({quick / base:.2f})"
    )


if __name__ == "__main__":
    main()
