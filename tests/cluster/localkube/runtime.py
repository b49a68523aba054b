"""containerd and its image store. The store outlives the cluster, so that images need not be imported again."""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from . import processes
from .components import containerd_configuration
from .config import CONTAINERD_NAMESPACE, CONTAINERD_SOCKET, RUN, Paths
from .shell import ClusterError, run, say, succeeds, wait_for

WIPER = "containerd-wipe"
SOURCE_LABEL = "localkube/source"


def ctr(*arguments: str | Path) -> str:
    """Run containerd's own client against the cluster's containerd."""
    return run(["ctr", "--address", CONTAINERD_SOCKET, "--namespace", CONTAINERD_NAMESPACE, *arguments])


def answers() -> bool:
    return CONTAINERD_SOCKET.exists() and succeeds(["ctr", "--address", CONTAINERD_SOCKET, "version"], timeout=5)


def overlay_works(folder: Path) -> bool:
    """Say whether the kernel mounts an overlay on a folder's file system (it does not on another overlay)."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        parts = {part: Path(name) / part for part in ("lower", "upper", "work", "merged")}
        for part in parts.values():
            part.mkdir()
        options = f"lowerdir={parts['lower']},upperdir={parts['upper']},workdir={parts['work']}"
        if not succeeds(["mount", "-t", "overlay", "overlay", "-o", options, parts["merged"]]):
            return False
        run(["umount", parts["merged"]])
        return True


def snapshotter(paths: Paths) -> str:
    return "overlayfs" if overlay_works(paths.containerd_root) else "native"


def forget_containers(paths: Paths) -> None:
    """Remove what containerd still records of containers, keeping its images. No container may run.

    Must happen while kubelet's interface is off: that keeps its own memory of what it found at its start. A store that cannot be
    opened is thrown away; images are then loaded again.
    """
    if not paths.containerd_root.exists():
        return
    RUN.mkdir(parents=True, exist_ok=True)
    paths.state.mkdir(parents=True, exist_ok=True)
    config = paths.state / "containerd-wipe.toml"
    config.write_text(containerd_configuration(paths, "overlayfs", pods=False))
    processes.start(
        WIPER, ["containerd", "--config", str(config)], paths.log / f"{WIPER}.log", {"PATH": search_path(paths)}
    )
    try:
        wait_for("containerd", answers, seconds=20, watch=lambda: processes.check_alive([WIPER], paths.log))
        for container in ctr("containers", "list", "--quiet").split():
            ctr("containers", "delete", container)
    except ClusterError as error:
        say(f"containerd's store cannot be used and is thrown away; load your images again\n{error}")
        stop_wiper()
        # Renamed first: half a store would be taken for a whole one by the next start.
        discarded = paths.containerd_root.with_name(f"{paths.containerd_root.name}.discarded")
        shutil.rmtree(discarded, ignore_errors=True)
        paths.containerd_root.rename(discarded)
        shutil.rmtree(discarded)
    else:
        stop_wiper()
    config.unlink()


def stop_wiper() -> None:
    processes.end(lambda: [pid for pid, name in processes.belonging().items() if name == WIPER], grace=5)
    with suppress(FileNotFoundError):
        CONTAINERD_SOCKET.unlink()


def search_path(paths: Paths) -> str:
    """Return the PATH of the components."""
    return f"{paths.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def images() -> dict[str, str]:
    """Return the loaded images by name, each with what it was loaded from (empty if not by us)."""
    lines = ctr("images", "list").splitlines()[1:]
    named = (line for line in lines if line and not line.startswith("sha256:") and "@sha256:" not in line.split()[0])
    return {line.split()[0]: source_in(line) for line in named}


def source_in(line: str) -> str:
    """Return our label's value from a line of `ctr images list`."""
    found = re.search(rf"{re.escape(SOURCE_LABEL)}=([^,\s]+)", line)
    return found.group(1) if found else ""


def import_archive(archive: Path, image: str, source: str, snapshotter: str) -> None:
    """Import an image archive and note on the image what it was made from.

    An earlier image of this name keeps a name meanwhile: containerd collects the layers that both have as soon as nothing names
    them, and would not find them when it unpacks the next one.
    """
    earlier = f"{image}.earlier"
    is_there = image in images()
    if is_there:
        ctr("images", "tag", "--force", image, earlier)
    try:
        ctr("images", "import", "--snapshotter", snapshotter, archive)
        ctr("images", "label", image, f"{SOURCE_LABEL}={source}")
    finally:
        if is_there:
            ctr("images", "remove", earlier)
