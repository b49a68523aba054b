"""What pytest's processes report to the runner: lines of JSON in one file, which they append to and the runner follows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

FILE_ENV = "SPARKSQL_TEST_EVENTS"


@dataclass(frozen=True)
class Collected:
    """pytest is about to run this many tests."""

    tests: int


@dataclass(frozen=True)
class Ended:
    """A test ended after so many seconds. `text` is what pytest prints of a failure, `cause` its place and message."""

    test: str
    outcome: Literal["passed", "failed", "skipped"]
    seconds: float = 0.0
    text: str = ""
    cause: str = ""


@dataclass(frozen=True)
class Cost:
    """What a file of tests, a fixture or the start of a program cost.

    `seconds` passed meanwhile; `cpu` is the time that the process and all of its children used: not that of pods. The cost of a
    fixture of the session is not part of the file's that used it first.
    """

    kind: Literal["file", "fixture", "start"]
    name: str
    seconds: float
    cpu: float


Event = Collected | Ended | Cost
_TYPES: dict[str, type[Event]] = {each.__name__: each for each in (Collected, Ended, Cost)}


def write(event: Event) -> None:
    """Appends an event to the runner's file, if a runner has started this process."""
    file = os.environ.get(FILE_ENV)
    if file is None:
        return
    line = json.dumps({"type": type(event).__name__, **asdict(event)}) + "\n"
    # One call of write: lines of several processes do not mix.
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


class Follower:
    """Reads the events that have come since the last call."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._position = 0

    def read(self) -> Iterator[Event]:
        """Yields the events of complete lines."""
        if not self._file.exists():
            return
        with self._file.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._position += len(line)
                values = json.loads(line)
                yield _TYPES[values.pop("type")](**values)
