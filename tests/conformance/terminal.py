"""A program in a terminal of its own, whose screen is read while it runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import pyte

LINES, COLUMNS = 40, 120


class Terminal:
    """Runs a program on LINES by COLUMNS characters until the `with` is left."""

    def __init__(self, command: Sequence[str | Path], work: Path, env: Mapping[str, str]) -> None:
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._side, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [str(part) for part in command], stdin=other, stdout=other, stderr=other, cwd=work,
            env={**env, "TERM": "xterm-256color"}, start_new_session=True,
        )  # fmt: skip
        os.close(other)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        os.close(self._side)

    def type(self, text: str) -> None:
        """Types text; a line ends with a carriage return, as by the return key."""
        os.write(self._side, text.encode())

    def seen(self) -> str:
        """What stands on the screen now."""
        with self._lock:
            return "\n".join(line.rstrip() for line in self._screen.display).strip("\n")

    def wait_for(self, pattern: str, seconds: float = 120) -> str:
        """The screen, once the pattern is on it. Fails with what is there instead."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, screen := self.seen(), re.MULTILINE):
            assert self._process.poll() is None, f"it ended with {self._process.returncode}:\n{screen}"
            assert time.monotonic() < deadline, f"{pattern!r} is not on the screen after {seconds} s:\n{screen}"
            time.sleep(0.05)
        return screen

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # its side is closed
            while data := os.read(self._side, 65536):
                with self._lock:
                    self._stream.feed(data)
