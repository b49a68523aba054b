"""Local mode as its users run it: the command as a process, an instance in a folder of the test, real Spark."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import image_environment

COMMAND_SECONDS = 900  # catches what hangs
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class LocalInstance:
    """An instance below `folder`, with the session image's own classes."""

    folder: Path
    environment: dict[str, str]

    @property
    def data(self) -> Path:
        return self.folder / "sparksql" / "default"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "sparksql.cli.main", "local", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self.environment, stdout=pipe, stderr=pipe, text=True)

    def run(self, *arguments: str) -> Outcome:
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{arguments} did not end:\n{out}\n{err}\n{self.log_tail()}") from None
        return Outcome(process.returncode, out, err)

    def ok(self, *arguments: str) -> str:
        outcome = self.run(*arguments)
        assert outcome.code == 0, f"{outcome}\n{self.log_tail()}"
        return outcome.out

    def get(self, resource: str, name: str) -> Any:
        return json.loads(self.ok("get", resource, name))

    def stored(self, resource: str, name: str) -> Any:
        """The object in the file of an instance that another process may hold; None without one."""
        if not (self.data / "objects.db").is_file():
            return None
        connection = sqlite3.connect(f"file:{self.data / 'objects.db'}?mode=ro", uri=True)
        try:
            query = "SELECT body FROM objects WHERE resource = ? AND name = ?"
            row = connection.execute(query, (resource, name)).fetchone()
        except sqlite3.OperationalError:  # it is being made
            return None
        finally:
            connection.close()
        return None if row is None else json.loads(row[0])

    def until(self, resource: str, name: str, holds: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + COMMAND_SECONDS
        while True:
            obj = self.stored(resource, name)
            if obj is not None and holds(obj):
                return obj
            assert time.monotonic() < deadline, f"{name}: {obj}\n{self.log_tail()}"
            time.sleep(POLL_SECONDS)

    def log_tail(self) -> str:
        files = sorted((self.data / "logs").glob("*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def processes(self) -> list[int]:
        """Processes that run for a pod of this instance: all have its folder in their environment."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                variables = (folder / "environ").read_bytes()
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if b"POD_UID=" in variables and str(self.data).encode() in variables and state not in "ZX":
                found.append(int(folder.name))
        return found


def make_instance(folder: Path) -> LocalInstance:
    java = folder / "java"
    java.mkdir()
    environment = {**os.environ, **image_environment(java), "XDG_DATA_HOME": str(folder)}
    return LocalInstance(folder, environment)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[LocalInstance]:
    made = make_instance(tmp_path)
    yield made
    # A JVM ends by itself when its driver was killed, and a driver with the process that started it.
    deadline = time.monotonic() + COMMAND_SECONDS
    while (left := made.processes()) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    assert left == []
