"""Installs released clients the way their users do, each into a folder of its own below the user's cache.

A folder is made aside and renamed when it is complete, so an interrupted run leaves nothing half done; a finished one is used as it is
until its pins change. Programs of the machine that are missing (Maven, npm) are installed by apt when this runs as root.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
SECONDS = 900  # of one installation on a slow network
STAMP = ".complete"


class CannotInstall(Exception):
    """What is missing and how to get it."""


@dataclass(frozen=True)
class Client:
    """A released client. `pins` are the files that say what is installed; `make` fills an empty folder."""

    name: str
    version: str
    pins: tuple[Path, ...]
    make: Callable[[Path], None]

    @property
    def folder(self) -> Path:
        return cache() / f"{self.name}-{self.version}"

    @property
    def wanted(self) -> str:
        digest = hashlib.sha256(f"{self.version} {sys.version_info[:2]}".encode())
        for pin in self.pins:
            digest.update(pin.read_bytes())
        return digest.hexdigest()

    def install(self) -> Path:
        """The client's folder, made when it is missing or of other pins. Raises CannotInstall."""
        with _lock(self.name):
            stamp = self.folder / STAMP
            if stamp.exists() and stamp.read_text() == self.wanted:
                return self.folder
            aside = self.folder.with_name(f".{self.folder.name}")
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            self.make(aside)
            (aside / STAMP).write_text(self.wanted)
            shutil.rmtree(self.folder, ignore_errors=True)
            aside.rename(self.folder)
            return self.folder


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-sql-operator" / "clients"


@contextmanager
def _lock(name: str) -> Iterator[None]:
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    try:
        done = subprocess.run(
            [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"{command[0]} did not end within {SECONDS} s: is its registry reachable?") from None
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-2000:]
        raise CannotInstall(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{tail}")


def require(program: str, package: str) -> None:
    """Makes sure that a program of the machine is there. Raises CannotInstall, which names the Debian package."""
    if shutil.which(program):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise CannotInstall(f"{program} is missing: install it (on Debian: apt-get install {package})")
    with _lock("apt"):
        if not shutil.which(program):
            _run("apt-get", "-qq", "update")
            _run("apt-get", "-qq", "install", "-y", "--no-install-recommends", package)


def _venv(pins: Path) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        _run(sys.executable, "-m", "venv", folder)
        # Programs start as `python -m`: scripts of a renamed environment would name the folder that it was made in.
        _run(folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", pins)

    return make


def _maven(pom: Path, version: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        require("java", "openjdk-17-jdk-headless")
        require("mvn", "maven")
        _run(
            "mvn", "-q", "-B", "-f", pom, f"-Dflink.version={version}", MAVEN_COPY,
            f"-DoutputDirectory={folder}", "-DincludeScope=runtime",
        )  # fmt: skip

    return make


def _npm(folder: Path) -> None:
    require("npm", "npm")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "node" / name, folder / name)
    _run("npm", "ci", "--silent", "--no-audit", "--no-fund", cwd=folder)


def _python(name: str, version: str, pins: str = "") -> Client:
    file = HERE / "pins" / f"{pins or name}.txt"
    return Client(name, version, (file,), _venv(file))


def _with_source(name: str, version: str, package: str) -> Client:
    """Beside the environment there is the package's source, which has its tests: `source/NAME-VERSION`."""
    file = HERE / "pins" / f"{name}.txt"

    def make(folder: Path) -> None:
        _venv(file)(folder)
        archives = folder / "archives"
        download = ("download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:")
        _run(folder / "bin" / "python", "-m", "pip", *download, "-d", archives, package)
        for archive in archives.iterdir():
            shutil.unpack_archive(archive, folder / "source", filter="data")

    return Client(name, version, (file,), make)


def _flink(name: str, version: str, pom: Path) -> Client:
    return Client(name, version, (pom,), _maven(pom, version))


CLIENT_POM = HERE / "flink" / "client" / "pom.xml"
JDBC_POM = HERE / "flink" / "jdbc" / "pom.xml"

FLINK_SQL_CLIENT = _flink("flink-sql-client", "2.3.0", CLIENT_POM)
FLINK_SQL_CLIENT_OLD = _flink("flink-sql-client", "1.20.3", CLIENT_POM)
FLINK_JDBC = _flink("flink-jdbc", "2.3.0", JDBC_POM)
FLINK_JDBC_OLD = _flink("flink-jdbc", "1.18.0", JDBC_POM)
PYHIVE = _python("pyhive", "0.7.0")
IMPYLA = _python("impyla", "0.24.0")
IMPYLA_TESTS = _python("impyla-tests", "0.24.0")
DBT = _python("dbt-spark", "1.11.0", "dbt")
DBT_TESTS = _with_source("dbt-tests", "1.20.0", "dbt-spark==1.11.0")
HIVE_DRIVER = Client(
    "hive-driver", "1.0.0", (HERE / "node" / "package.json", HERE / "node" / "package-lock.json"), _npm
)
CONNECT = _python("pyspark-client", "4.2.0", "connect-4.2")
CONNECT_OLD = _python("pyspark-client", "4.1.3", "connect-4.1")

ALL: Sequence[Client] = (
    FLINK_SQL_CLIENT, FLINK_SQL_CLIENT_OLD, FLINK_JDBC, FLINK_JDBC_OLD, PYHIVE, IMPYLA, DBT, HIVE_DRIVER, CONNECT, CONNECT_OLD,
)  # fmt: skip


def main() -> int:
    for client in ALL:
        started = time.monotonic()
        try:
            client.install()
        except CannotInstall as missing:
            print(f"{client.name} {client.version}: {missing}", file=sys.stderr)
            return 1
        print(f"{client.name} {client.version}: {client.folder} ({time.monotonic() - started:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
