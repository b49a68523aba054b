"""Whether another process of the same user can look into the gateway's. Tests may run as root, who always can: children give that up."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

from sparksql.gateway.main import _hide_memory

NOBODY = 65534
PR_SET_DUMPABLE = 4


def as_nobody(work: Callable[[], int]) -> int:
    """Runs `work` in a child process of another user; the child's exit code."""
    child = start_as_nobody(work)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def start_as_nobody(work: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        code = 99
        try:
            if os.geteuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as a process that was started as this user
            code = work()
        finally:
            os._exit(code)
    return child


def can_look_into(pid: int) -> bool:
    def look() -> int:
        try:
            return 0 if Path(f"/proc/{pid}/environ").read_bytes() else 1
        except OSError:
            return 1

    return as_nobody(look) == 0


def test_the_gateway_memory_is_hidden_from_other_processes_of_its_user() -> None:
    said, go_on = os.pipe(), os.pipe()

    def be_looked_into() -> int:
        os.write(said[1], b"x")
        os.read(go_on[0], 1)
        _hide_memory()
        os.write(said[1], b"x")
        signal.pause()
        return 0

    child = start_as_nobody(be_looked_into)
    try:
        os.read(said[0], 1)
        assert can_look_into(child), "otherwise this shows nothing"
        os.write(go_on[1], b"x")
        os.read(said[0], 1)
        assert not can_look_into(child)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for end in (*said, *go_on):
            os.close(end)
