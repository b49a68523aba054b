"""Jars that tests run with, made once in the user's cache folder: by Maven from the project's own poms, by javac from its sources."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from sparksql.gateway.spark.jvm import spark_home

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-sql-operator" / "jars"
_TIMEOUT_SECONDS = 900


def jars(pom: str, *properties: str) -> list[str]:
    """Jars of a pom of the repository, in a fixed order. Resolved anew only when the pom or the properties change."""
    file = REPOSITORY / pom
    inputs = [file.read_bytes(), *(each.encode() for each in properties)]
    return _jars(made(file.parent.name, inputs, lambda folder: _resolve(file, properties, folder)))


def session_jar() -> str:
    """What is ours in Java in the session image, made for the Spark of the tests."""
    source, spark = REPOSITORY / "images/session/java", spark_home() / "jars"
    inputs = [str(spark).encode(), *(file.read_bytes() for file in sorted(source.rglob("*")) if file.is_file())]
    [jar] = _jars(made("java", inputs, lambda folder: _compile(source / "build.sh", spark, folder)))
    return jar


def compiled(sources: str) -> str:
    """A jar of the Java sources in a folder of the repository, made with the Spark of the tests."""
    source, spark = REPOSITORY / sources, spark_home() / "jars"
    files = sorted(source.rglob("*.java"))

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            classes, jars = Path(temporary, "classes"), Path(temporary, "jars")
            jars.mkdir()
            subprocess.run(["javac", "-cp", f"{spark}/*", "-d", classes, *files], check=True, timeout=_TIMEOUT_SECONDS)
            with zipfile.ZipFile(jars / f"{source.name}.jar", "w") as jar:
                for each in sorted(classes.rglob("*.class")):
                    jar.write(each, each.relative_to(classes))
            jars.rename(folder)

    [jar] = _jars(made(source.name, [str(spark).encode(), *(file.read_bytes() for file in files)], make))
    return jar


def made(name: str, inputs: list[bytes], make: Callable[[Path], None]) -> Path:
    """Returns the folder in the user's cache that `make` has made from these inputs, now or earlier."""
    folder = CACHE / f"{name}-{hashlib.sha256(bytes(1).join(inputs)).hexdigest()[:16]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes that run side by side
        if not folder.is_dir():
            make(folder)
    return folder


def _jars(folder: Path) -> list[str]:
    return sorted(str(jar) for jar in folder.glob("*.jar"))


def _compile(build: Path, spark: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        jars = Path(temporary, "jars")
        jars.mkdir()
        done = subprocess.run(
            ["sh", str(build), str(spark), str(jars / "sparksql-session.jar")],
            capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{build} failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
        jars.rename(folder)


def _resolve(pom: Path, properties: tuple[str, ...], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        jars = Path(temporary, "jars")
        command = [_maven(), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *properties]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={jars}"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
        jars.rename(folder)


def _maven() -> str:
    """Maven's program, installed by apt where it is missing and may be."""
    if found := shutil.which("mvn"):
        return found
    assert os.geteuid() == 0 and shutil.which("apt-get"), "Maven is missing: install it (Debian's package is maven)"
    for command in (["update"], ["install", "-y", "--no-install-recommends", "maven"]):
        subprocess.run(
            ["apt-get", "-qq", *command], env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=True
        )
    return "mvn"
