"""Processes of pods: they end with this one, and one that outlived an earlier instance is ended before anything else starts.

A driver must be known to be over before another takes its place: a statement that writes runs at most once. Linux ends a child
with its parent (PR_SET_PDEATHSIG), whatever ended that; the JVM ends with its driver. Both are looked for at the next start by
what only they have: process id with start time, and the pod's UID in the environment.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
_END_SECONDS = 30.0
_POLL_SECONDS = 0.02
_UID_VARIABLE = "POD_UID"
_RECORD = "process.json"


class StillRunningError(Exception):
    """A process of an earlier run does not end; the message names it."""


async def start(command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path, work: Path) -> Process:
    """Starts the program of a pod whose own `folder` notes it; its output is appended to `log`.

    It is the leader of a session of its own: a Ctrl-C typed on the terminal does not reach it.
    """
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(environment),
            cwd=work,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_dying_with_parent(os.getpid()),
        )
    finally:
        os.close(output)
    record = {"pid": process.pid, "started": _start_time(process.pid)}
    (folder / _RECORD).write_text(json.dumps(record))
    return process


def _dying_with_parent(parent: int) -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def set_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended in between
            os._exit(1)

    return set_signal


def end_left_over(pods: Path) -> None:
    """Ends what runs of pods whose folders are in `pods` and waits for it. Raises StillRunningError."""
    deadline = time.monotonic() + _END_SECONDS
    uids = {folder.name for folder in pods.iterdir()}
    while left := {*_recorded(pods), *_of_pods(uids)}:
        if time.monotonic() > deadline:
            raise StillRunningError(
                f"process {min(left)} of an earlier run does not end; end it, or choose another --instance"
            )
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            except PermissionError:
                raise StillRunningError(f"process {pid} of an earlier run belongs to another user") from None
        time.sleep(_POLL_SECONDS)


def _recorded(pods: Path) -> set[int]:
    """Processes that folders of pods note and that still run. A process id alone may be another's by now."""
    found = set()
    for file in pods.glob(f"*/{_RECORD}"):
        try:
            record = json.loads(file.read_text())
        except ValueError:
            continue  # written in part: the process was just started, and ended with its parent
        if record["started"] is not None and _start_time(record["pid"]) == record["started"]:
            found.add(int(record["pid"]))
    return found


def _of_pods(uids: set[str]) -> set[int]:
    """Processes of this user whose environment has the UID of one of the pods."""
    wanted = {f"{_UID_VARIABLE}={uid}".encode() for uid in uids}
    found = set()
    for folder in Path("/proc").glob("[0-9]*") if wanted else ():
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # another user's, or gone
        if not wanted.isdisjoint(variables):
            found.add(int(folder.name))
    return found


def _start_time(pid: int) -> str | None:
    """The process's start in clock ticks since the boot, and the boot's id; None for one that has ended. See proc(5)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"
