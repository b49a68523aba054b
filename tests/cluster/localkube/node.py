"""The engine-free cluster: start, stop, look.

An unclean end loses nothing: while etcd and containerd live, what is missing beside them is started again; without them the machine is
cleared as a reboot clears one, and everything starts on the objects, volumes and records of containers that are on the disk. A new,
empty cluster is made where there is none, or when it is asked for. Images and binaries are kept in any case.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from . import cgroups, components, images, machine, pki, processes, runtime, tools
from .api import TROUBLE, Api
from .config import MANIFESTS, NODE_NAME, RUN, SOURCE, Paths
from .shell import ClusterError, run, say, wait_for

READY_SECONDS = 90.0
RESTART_SECONDS = 180.0  # every pod that was there starts as well
RESUME_SECONDS = 30.0


def up(paths: Paths, *, fresh: bool = False) -> None:
    """Bring the cluster up from any state; return when a pod can be created, resolved and given storage.

    What was in it is in it again, unless a `fresh` one is asked for. Raises ClusterError if that cannot be had.
    """
    machine.install_packages()
    tools.build(paths, tools.NODE_TOOLS)
    began = time.monotonic()
    if not fresh and components.IRREPLACEABLE.issubset(processes.running()):
        try:
            resume(paths)
            return
        except (ClusterError, *TROUBLE) as error:
            say(f"what runs cannot be resumed, starting all of it again\n{error}")
    if not fresh and is_kept(paths):
        try:
            restart(paths)
        except (ClusterError, *TROUBLE) as error:
            remedy = "a new, empty one in its place: `cluster.py up --fresh`, or `make cluster-up FRESH=1`"
            raise ClusterError(f"the cluster that was here does not start again; {remedy}\n{error}") from error
        say(f"cluster up in {time.monotonic() - began:.1f} s, with all that was in it")
        return
    clear(paths)
    start_fresh(paths)
    say(f"cluster up in {time.monotonic() - began:.1f} s, new and empty")


def is_kept(paths: Paths) -> bool:
    """Say whether a cluster is on the disk: its objects, and the keys that they were signed with."""
    return (paths.state / "etcd" / "member").is_dir() and pki.is_complete(paths.pki)


def resume(paths: Paths) -> None:
    """Start what is missing beside a living etcd and containerd."""
    missing = [name for name in components.COMPONENTS if name not in processes.running()]
    start(paths, [name for name in missing if name in components.FOUNDATION])
    wait_for_api(paths, RESUME_SECONDS)
    start(paths, [name for name in missing if name in components.WORKERS])
    kubelet(answers=True)  # who held it may be gone
    wait_until_ready(paths, RESUME_SECONDS)
    say(f"cluster resumed: {', '.join(missing)} started" if missing else "cluster is up already")


def restart(paths: Paths) -> None:
    """Start everything on what is on the disk, as a machine does after a power cut: pods' processes are gone, their records are not."""
    clear_machine(paths)
    start_all(paths, RESTART_SECONDS, since=time.time())


def start_fresh(paths: Paths) -> None:
    """Make a new cluster on a machine that `clear` has left."""
    paths.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths.state.chmod(0o700)
    pki.create(paths.pki)
    start_all(paths, READY_SECONDS)


def start_all(paths: Paths, seconds: float, since: float = 0.0) -> None:
    """Start every component and wait until they serve. `since`: see `unready`."""
    RUN.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths.containerd_root.mkdir(parents=True, exist_ok=True)
    machine.prepare()
    cgroups.create()
    for name in pki.CLIENTS:
        pki.write_kubeconfig(
            paths.pki, name, paths.kubeconfig if name == "admin" else paths.state / f"{name}.kubeconfig"
        )
    for file, text in components.files(paths, runtime.snapshotter(paths)).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    start(paths, components.FOUNDATION)
    wait_for("containerd", runtime.answers, seconds=30, watch=lambda: processes.check_alive(["containerd"], paths.log))
    images.load_system_images(paths)
    wait_for_api(paths, seconds)
    kubectl(paths, "apply", "--server-side", "--filename", MANIFESTS)
    start(paths, components.WORKERS)
    wait_until_ready(paths, seconds, since)


def start(paths: Paths, names: Iterable[str]) -> None:
    env = {"PATH": runtime.search_path(paths), "PYTHONPATH": str(SOURCE), "HOME": str(paths.state)}
    for name in names:
        processes.start(name, components.command(name, paths), paths.log / f"{name}.log", env)


def wait_for_api(paths: Paths, seconds: float) -> None:
    def watch() -> None:
        processes.check_alive(components.FOUNDATION, paths.log)

    wait_for("the API server", Api(paths.pki).is_ready, seconds=seconds, watch=watch)


def wait_until_ready(paths: Paths, seconds: float, since: float = 0.0) -> None:
    """Wait until node, DNS and the default namespace's service account are ready; a component that ends meanwhile is the error."""

    def watch() -> None:
        processes.check_alive(components.COMPONENTS, paths.log)

    api = Api(paths.pki)
    pending: list[str] = []

    def ready() -> bool:
        pending[:] = unready(api, since)
        return not pending

    try:
        wait_for("the cluster", ready, seconds=seconds, watch=watch)
    except ClusterError as error:
        raise ClusterError(f"{error}\nnot ready: {', '.join(pending)}; logs: {paths.log}") from None
    watch()


DNS_PODS = "/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkube-dns"
NODE_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE_NAME}"


def unready(api: Api, since: float = 0.0) -> list[str]:
    """Return what a user of the cluster would still miss.

    What was written before `since` (in epoch seconds) does not count: after a power cut a node and its pods say that they are well until
    somebody looks.
    """

    def node() -> bool:
        renewed = api.request("GET", NODE_LEASE)["spec"]["renewTime"]
        return is_true(api.request("GET", f"/api/v1/nodes/{NODE_NAME}"), "Ready") and instant(renewed) >= since

    def dns() -> bool:
        found = api.request("GET", DNS_PODS)["items"]
        return any(is_true(pod, "Ready") and started(pod) >= int(since) for pod in found)

    def account() -> bool:
        return bool(api.request("GET", "/api/v1/namespaces/default/serviceaccounts/default"))

    missing: list[str] = []
    for name, is_ready in {"node": node, "cluster DNS": dns, "default service account": account}.items():
        try:
            if not is_ready():
                missing.append(name)
        except (*TROUBLE, KeyError):
            missing.append(name)
    return missing


def is_true(found: Mapping[str, Any], condition: str) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    return {item["type"]: item["status"] for item in conditions}.get(condition) == "True"


def started(pod: Mapping[str, Any]) -> float:
    """Return when the last of a pod's containers was started; 0 while one does not run."""
    running = [status["state"].get("running") for status in pod["status"].get("containerStatuses", [])]
    return max((instant(each["startedAt"]) for each in running), default=0.0) if all(running) else 0.0


def instant(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def kubectl(paths: Paths, *arguments: str | Path) -> str:
    return run([paths.bin / "kubectl", "--kubeconfig", paths.kubeconfig, *arguments], timeout=60)


def clear_machine(paths: Paths) -> None:
    """Stop everything of the cluster, in whatever state it is, and remove what a reboot would: all but what is on the disk."""
    machine.end_everything()
    machine.remove_network()
    machine.remove_folder(RUN)
    machine.unmount_below(paths.state)
    cgroups.remove()
    machine.remove_dead_shim_sockets()


def clear(paths: Paths) -> None:
    """Stop everything of the cluster and remove its traces. Logs, images and binaries stay."""
    clear_machine(paths)
    runtime.forget_containers(paths)
    machine.remove_folder(RUN)
    if paths.state.exists():
        for entry in paths.state.iterdir():
            if entry.is_dir() and entry != paths.log:
                machine.remove_folder(entry)
            elif entry.is_file():
                entry.unlink()


def crash() -> None:
    """End every process of the cluster and of its pods at once, as a power cut does. What is on the disk stays."""
    machine.end_everything(grace=0)
    say("every process of the cluster has been killed")


def kubelet(*, answers: bool) -> None:
    """Hold the kubelet, or let it go on. To the API server a held one is a node that is lost; its pods run on.

    Raises ClusterError if it does not run.
    """
    for handle in processes.open_handles(_kubelet).values():
        processes.send(handle, signal.SIGCONT if answers else signal.SIGSTOP)
        os.close(handle)


def _kubelet() -> list[int]:
    pid = processes.running().get("kubelet")
    if pid is None:
        raise ClusterError("the kubelet does not run; run `up` first")
    return [pid]


def down(paths: Paths) -> None:
    """Stop the cluster and leave the machine as it was, logs and caches aside."""
    clear(paths)
    say(f"cluster is down; logs: {paths.log}")


def load(paths: Paths, names: Iterable[str]) -> None:
    """Load images from buildah's storage. Raises ClusterError if the cluster is down."""
    if "containerd" not in processes.running():
        raise ClusterError("the cluster is down; run `up` first")
    for name in names:
        images.load(paths, name)


def status(paths: Paths) -> tuple[bool, str]:
    """Say whether everything is well, and tell what runs, what is not ready and what is loaded."""
    alive = processes.running()
    lines = [
        f"{name:24} {alive.get(name, 'not running')!s:12} {components.describe(name)}" for name in components.COMPONENTS
    ]
    healthy = all(name in alive for name in components.COMPONENTS)
    if "kube-apiserver" in alive and (paths.pki / "admin.crt").exists():
        missing = unready(Api(paths.pki))
        healthy = healthy and not missing
        lines.append(f"{'not ready':24} {', '.join(missing) or 'nothing'}")
    if "containerd" in alive:
        lines += [f"{'image':24} {name}" for name in sorted(runtime.images())]
    lines += [f"{'kubeconfig':24} {paths.kubeconfig}", f"{'logs':24} {paths.log}"]
    return healthy, "\n".join(lines)
