"""Java options of the tests' drivers, with an archive of Spark's classes that is made once in the user's cache folder.

A driver's start and its first three statements take 24 s of CPU without the archive, 13 s with it.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sparksql.gateway.spark.jvm import MODULE_OPTIONS
from sparksql.wire.driver import FILE_ROOTS_ENV
from tests.support.maven import CACHE, REPOSITORY, made

PROGRAM = Path(__file__).with_name("train_classes.py")
ARCHIVE = "spark.jsa"
TIMEOUT_SECONDS = 600
# When the image's drivers compile what; the reasons are there.
COMPILER = re.findall(r'"(-XX:Tier4\w+=\d+)"', (REPOSITORY / "images/session/train/main.py").read_text())
# The archive stays at its own address, as in the image: moved, each JVM writes all pointers in it, 0.2 s.
UNMOVED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
OPTIONS = (*MODULE_OPTIONS, "-XX:+UseSerialGC", "-XX:-UsePerfData", *UNMOVED, *COMPILER)
# As large as what Spark loads: no collection of all objects while classes are loaded, no code thrown away and compiled again.
ROOM = ("-XX:MetaspaceSize=256m", "-XX:ReservedCodeCacheSize=240m")
# Most tests run most code but a few times: what the optimising compiler takes for it is never given back.
QUICK_COMPILER_ONLY = "-XX:TieredStopAtLevel=1"


@functools.cache
def java_options(class_path: str, optimised: bool = False) -> Sequence[str]:
    """Returns the options of JVMs whose class path is this one or begins with it. Makes the archive where it is missing.

    `optimised` is for tests that compute for long: it has code compiled as the image's drivers do.
    """
    version = subprocess.run([java(), "-version"], capture_output=True, check=True).stderr
    inputs = [version, class_path.encode(), "\n".join(OPTIONS).encode(), PROGRAM.read_bytes()]
    folder = made("classes", inputs, lambda folder: _train(class_path, folder))
    options = OPTIONS if optimised else (*OPTIONS, QUICK_COMPILER_ONLY)
    return (*options, *ROOM, f"-XX:SharedArchiveFile={folder / ARCHIVE}")


def java() -> str:
    """Returns the path of the java program."""
    found = shutil.which("java")
    assert found is not None, "no java on the path"
    return found


def _train(class_path: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        made_here = Path(temporary, "archives")
        made_here.mkdir()
        options = [*OPTIONS, f"-XX:ArchiveClassesAtExit={made_here / ARCHIVE}"]
        environment = {**os.environ, FILE_ROOTS_ENV: tempfile.gettempdir(), "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            [sys.executable, str(PROGRAM), scratch, java(), "-cp", class_path, "-Xmx1g", *options],
            capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, env=environment, cwd=scratch,
        )  # fmt: skip
        assert done.returncode == 0, f"no archive of classes:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        made_here.rename(folder)
