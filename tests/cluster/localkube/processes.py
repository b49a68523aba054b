"""The cluster's own processes, known by a variable in their environment.

A recorded pid may be someone else's by the time it is used; the environment a process was started with cannot change hands. Children
inherit it, containerd's shims among them, so nothing of the cluster escapes a stop, not even when every record is lost.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from .shell import ClusterError, tail

MARKER = "SPARK_SQL_OPERATOR_CLUSTER"


def component_of(pid: int) -> str | None:
    """Return the component that a process was started for, or None if it is not the cluster's or is gone."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    prefix = f"{MARKER}=".encode()
    return next((item[len(prefix) :].decode() for item in environment.split(b"\0") if item.startswith(prefix)), None)


def belonging() -> dict[int, str]:
    """Return every process of the cluster on this machine with its component."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {pid: component for pid in pids if (component := component_of(pid)) is not None}


def running() -> dict[str, int]:
    """Return the components that run, with their main process: the one that leads the session it was started in."""
    return {component: pid for pid, component in belonging().items() if leads_session(pid)}


def leads_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


# The cluster's programs are written in Go and short of CPU, not of memory: a heap may grow to four times what lives in it.
GO_ENVIRONMENT = {"GOGC": "300"}


def start(component: str, argv: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
    """Start a component that outlives us; on return it can be seen. The log of its life before is kept beside the new one."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_suffix(".previous.log"))
    with log.open("w") as output:
        child = subprocess.Popen(
            argv,
            env={**GO_ENVIRONMENT, **env, MARKER: component},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    # exec has begun, but the kernel shows an empty environment until it is done: who looks then takes it for ended.
    while component_of(child.pid) is None and child.poll() is None:
        time.sleep(0.001)


def check_alive(components: Iterable[str], log_dir: Path) -> None:
    """Raise ClusterError with the end of its log if one of the components does not run."""
    alive = running()
    for component in components:
        if component not in alive:
            log = log_dir / f"{component}.log"
            raise ClusterError(f"{component} has ended ({log})\n{tail(log.read_text() if log.exists() else '')}")


def end(chosen: Callable[[], Iterable[int]], grace: float) -> None:
    """End processes: asked politely once, and by force after `grace` seconds. `chosen` is asked again until it names none.

    Raises ClusterError if some survive.
    """
    force = time.monotonic() + grace
    deadline = force + 10
    told: set[int] = set()
    while handles := open_handles(chosen):
        by_force = time.monotonic() >= force
        for pid, handle in handles.items():
            if by_force or pid not in told:
                send(handle, signal.SIGKILL if by_force else signal.SIGTERM)
        told.update(handles)
        select.select(handles.values(), [], [], 0.1)
        for handle in handles.values():
            os.close(handle)
        if time.monotonic() > deadline:
            raise ClusterError(f"processes that do not end: {sorted(handles)}")


def open_handles(chosen: Callable[[], Iterable[int]]) -> dict[int, int]:
    """Return pid file descriptors of the chosen processes. Choosing again after opening rules out a pid reused in between."""
    handles: dict[int, int] = {}
    for pid in chosen():
        try:
            handles[pid] = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
    for pid in set(handles) - set(chosen() if handles else ()):
        os.close(handles.pop(pid))
    return handles


def send(handle: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
