"""The control group below which every pod of the cluster lives, in cgroup v1 and v2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .config import CGROUP

NEEDED_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")


def hierarchies(mounts: str) -> list[tuple[Path, bool]]:
    """Return the mount point of each hierarchy in a /proc/mounts, and whether it is version 2."""
    fields = (line.split() for line in mounts.splitlines())
    return [(Path(target), kind == "cgroup2") for _, target, kind, *_ in fields if kind in ("cgroup", "cgroup2")]


def create() -> None:
    """Make the cluster's group, with the controllers kubelet asks for."""
    for mount, unified in hierarchies(Path("/proc/mounts").read_text()):
        if unified:
            offered = (mount / "cgroup.controllers").read_text().split()
            enable = " ".join(f"+{name}" for name in NEEDED_CONTROLLERS if name in offered)
            if enable:
                (mount / "cgroup.subtree_control").write_text(enable)
        (mount / CGROUP).mkdir(exist_ok=True)


def roots() -> list[Path]:
    """Return the cluster's group in each hierarchy that has it."""
    found = (mount / CGROUP for mount, _ in hierarchies(Path("/proc/mounts").read_text()))
    return [root for root in found if root.is_dir()]


def processes() -> set[int]:
    """Return the processes in the cluster's group, in any hierarchy."""
    pids: set[int] = set()
    for group in groups():
        with suppress(OSError):  # a group may vanish while it is read
            pids.update(int(pid) for pid in (group / "cgroup.procs").read_text().split())
    return pids - {0}


def groups() -> Iterator[Path]:
    """Yield the cluster's groups, the innermost first."""
    for root in roots():
        found = [root, *(path for path in root.rglob("*") if path.is_dir())]
        yield from sorted(found, key=lambda path: len(path.parts), reverse=True)


def remove() -> None:
    """Remove the cluster's groups; no process may be left in them."""
    for group in groups():
        group.rmdir()
