"""What the machine itself must bring and is changed by: packages, kernel settings, bridges, mounts. Linux, as root."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from . import cgroups, firewall, processes
from .config import CNI_DIRECTORIES, NODE_BRIDGE, NODE_IP, POD_BRIDGE
from .shell import ClusterError, run, say, succeeds

# Debian's package for each program. Only what is missing is installed: on a machine with another build of containerd, that one is used.
PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "runc": "runc",
    "iptables-restore": "iptables",
    "ip": "iproute2",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "openssl": "openssl",
}
CNI_PACKAGE = "containernetworking-plugins"
# kubelet, containerd and every JVM and Python watcher hold inotify instances; the usual 128 are soon gone.
SYSCTL_AT_LEAST = {"fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 524288}
BRIDGE_FILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")


def missing_packages() -> list[str]:
    """Return the Debian packages that would bring what is missing."""
    wanted = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    if not any((folder / "bridge").exists() for folder in CNI_DIRECTORIES):
        wanted.add(CNI_PACKAGE)
    return sorted(wanted)


def install_packages() -> None:
    """Install what is missing by apt, removing nothing. Raises ClusterError that names the packages if that cannot be done."""
    packages = missing_packages()
    if not packages:
        return
    if shutil.which("apt-get") is None:
        raise ClusterError(f"missing, and there is no apt-get to install them (Debian's names): {' '.join(packages)}")
    say(f"installing {' '.join(packages)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    install = [
        "apt-get",
        "install",
        "-y",
        "-qq",
        "-o",
        "DPkg::Lock::Timeout=300",
        "--no-install-recommends",
        "--no-remove",
        *packages,
    ]
    if not succeeds(install, env=quiet):
        run(["apt-get", "update", "-qq", "-o", "DPkg::Lock::Timeout=300"], env=quiet)
        run(install, env=quiet)


def prepare() -> None:
    """Make the machine a node: kernel settings, the node's bridge and address, the guard. Repeatable after `clean`."""
    succeeds(["modprobe", "-a", "br_netfilter", "overlay"])  # may be built in
    set_kernel("net/ipv4/ip_forward", 1)
    if not BRIDGE_FILTER.exists():
        raise ClusterError("the kernel lacks br_netfilter: traffic between pods could not be filtered")
    set_kernel("net/bridge/bridge-nf-call-iptables", 1)
    for name, least in SYSCTL_AT_LEAST.items():
        set_kernel(name, max(least, int((Path("/proc/sys") / name).read_text())))
    run(["ip", "link", "add", NODE_BRIDGE, "type", "bridge"])
    run(["ip", "address", "add", f"{NODE_IP}/32", "dev", NODE_BRIDGE])
    run(["ip", "link", "set", NODE_BRIDGE, "up"])
    firewall.restore(firewall.GUARD)


def set_kernel(name: str, value: int) -> None:
    file = Path("/proc/sys") / name
    if file.read_text().strip() == str(value):
        return
    try:
        file.write_text(str(value))
    except OSError as error:
        raise ClusterError(f"cannot set {file} to {value}: {error}") from None


def remove_network() -> None:
    """Remove the bridges, the ends of pods' links that are left on them, and every rule of the cluster."""
    firewall.clean()
    links = Path("/sys/class/net")
    ports = links / POD_BRIDGE / "brif"
    for link in [*(ports.iterdir() if ports.exists() else ()), links / POD_BRIDGE, links / NODE_BRIDGE]:
        if (links / link.name).exists():
            run(["ip", "link", "delete", link.name])


def mounts_below(mountinfo: str, folder: Path) -> list[str]:
    """Return the mount points at or below a folder, the innermost and latest first."""
    targets = [line.split()[4].encode().decode("unicode_escape") for line in mountinfo.splitlines()]
    return [target for target in reversed(targets) if Path(target).is_relative_to(folder)]


def unmount_below(folder: Path) -> None:
    """Detach every mount below a folder. Raises ClusterError if one stays: removing the folder would then destroy what is mounted."""
    for target in mounts_below(Path("/proc/self/mountinfo").read_text(), folder):
        succeeds(["umount", "--lazy", target])
    if left := mounts_below(Path("/proc/self/mountinfo").read_text(), folder):
        raise ClusterError(f"cannot unmount {', '.join(left)}")


def remove_folder(folder: Path) -> None:
    """Remove a folder after everything mounted below it is detached."""
    unmount_below(folder)
    if folder.exists():
        shutil.rmtree(folder)


def remove_dead_shim_sockets() -> None:
    """Remove the sockets of killed shims: a fixed place in every containerd, so only those that no process listens on."""
    listening = {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()[1:]}
    for socket in Path("/run/containerd/s").glob("*"):
        if str(socket) not in listening:
            with suppress(FileNotFoundError):
                socket.unlink()


def end_everything(grace: float = 2) -> None:
    """End the components, which have `grace` seconds to do so themselves, then their children and every process in a pod."""
    processes.end(lambda: processes.running().values(), grace=grace)
    processes.end(processes.belonging, grace=0)
    processes.end(cgroups.processes, grace=0)
