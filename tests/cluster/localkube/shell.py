"""Running other programs, waiting for conditions, and the one error that is meant for the user's eyes."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class ClusterError(Exception):
    """Something the user can act on; shown without a traceback."""


def say(message: str) -> None:
    """Report progress on standard error; standard output is kept for answers such as a path."""
    print(message, file=sys.stderr, flush=True)


def run(
    argv: Sequence[str | Path],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> str:
    """Return the standard output of a program; `env` is added to ours.

    Raises ClusterError with the end of its standard error if it fails, is missing or takes longer than `timeout` seconds.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            env={**os.environ, **(env or {})},
            timeout=timeout,
        )
    except FileNotFoundError:
        raise ClusterError(f"{words[0]}: no such program") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{' '.join(words[:4])} ...: no end after {timeout:.0f} s") from None
    if done.returncode:
        raise ClusterError(
            f"{' '.join(words[:6])} ...: exit code {done.returncode}\n{tail(done.stderr or done.stdout)}"
        )
    return done.stdout


def succeeds(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, timeout: float | None = None) -> bool:
    """Say whether a program exists and ends with exit code 0."""
    try:
        run(argv, env=env, timeout=timeout)
    except ClusterError:
        return False
    return True


def wait_for(
    what: str, condition: Callable[[], object], *, seconds: float, watch: Callable[[], None] | None = None
) -> None:
    """Wait until `condition` holds. `watch` is called between looks and may raise to end the wait early.

    Raises ClusterError after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if watch is not None:
            watch()
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.1)


def tail(text: str, lines: int = 20) -> str:
    """Return the last lines of a text, indented."""
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines()[-lines:])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, waiting for whoever holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another run is busy, waiting for {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
