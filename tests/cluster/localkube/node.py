"""The engine-free cluster: start, stop, look.

One rule makes an unclean end harmless: if etcd or containerd is not alive, whatever is left is cleared away and everything starts afresh.
Otherwise the components that are missing are started again. Images and binaries are kept in both cases.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from . import cgroups, components, images, machine, pki, processes, runtime, tools
from .api import TROUBLE, Api
from .config import MANIFESTS, NODE_NAME, RUN, SOURCE, Paths
from .shell import ClusterError, run, say, wait_for

READY_SECONDS = 90.0
RESUME_SECONDS = 30.0


def up(paths: Paths) -> None:
    """Bring the cluster up from any state; return when a pod can be created, resolved and given storage."""
    machine.install_packages()
    tools.build(paths, tools.BY_NAME)
    began = time.monotonic()
    if components.IRREPLACEABLE.issubset(processes.running()):
        try:
            resume(paths)
            return
        except (ClusterError, *TROUBLE) as error:
            say(f"what runs cannot be resumed, starting afresh\n{error}")
    clear(paths)
    start_fresh(paths)
    say(f"cluster up in {time.monotonic() - began:.1f} s")


def resume(paths: Paths) -> None:
    """Start what is missing beside a living etcd and containerd."""
    missing = [name for name in components.COMPONENTS if name not in processes.running()]
    start(paths, [name for name in missing if name in components.FOUNDATION])
    wait_for_api(paths, RESUME_SECONDS)
    start(paths, [name for name in missing if name in components.WORKERS])
    wait_until_ready(paths, RESUME_SECONDS)
    say(f"cluster resumed: {', '.join(missing)} started" if missing else "cluster is up already")


def start_fresh(paths: Paths) -> None:
    """Start every component on a machine that `clear` has left."""
    paths.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths.state.chmod(0o700)
    RUN.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths.containerd_root.mkdir(parents=True, exist_ok=True)
    machine.prepare()
    cgroups.create()
    pki.create(paths.pki)
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
    wait_for_api(paths, READY_SECONDS)
    kubectl(paths, "apply", "--server-side", "--filename", MANIFESTS)
    start(paths, components.WORKERS)
    wait_until_ready(paths, READY_SECONDS)


def start(paths: Paths, names: Iterable[str]) -> None:
    env = {"PATH": runtime.search_path(paths), "PYTHONPATH": str(SOURCE), "HOME": str(paths.state)}
    for name in names:
        processes.start(name, components.command(name, paths), paths.log / f"{name}.log", env)


def wait_for_api(paths: Paths, seconds: float) -> None:
    def watch() -> None:
        processes.check_alive(components.FOUNDATION, paths.log)

    wait_for("the API server", Api(paths.pki).is_ready, seconds=seconds, watch=watch)


def wait_until_ready(paths: Paths, seconds: float) -> None:
    """Wait until node, DNS and the default namespace's service account are ready; a component that ends meanwhile is the error."""

    def watch() -> None:
        processes.check_alive(components.COMPONENTS, paths.log)

    api = Api(paths.pki)
    pending: list[str] = []

    def ready() -> bool:
        pending[:] = unready(api)
        return not pending

    try:
        wait_for("the cluster", ready, seconds=seconds, watch=watch)
    except ClusterError as error:
        raise ClusterError(f"{error}\nnot ready: {', '.join(pending)}; logs: {paths.log}") from None
    watch()


def unready(api: Api) -> list[str]:
    """Return what a user of the cluster would still miss."""
    wanted = {
        "node": f"/api/v1/nodes/{NODE_NAME}",
        "cluster DNS": "/apis/apps/v1/namespaces/kube-system/deployments/coredns",
        "default service account": "/api/v1/namespaces/default/serviceaccounts/default",
    }
    conditions = {"node": "Ready", "cluster DNS": "Available"}
    missing: list[str] = []
    for name, path in wanted.items():
        try:
            status = api.request("GET", path).get("status", {})
        except TROUBLE:
            missing.append(name)
            continue
        found = {item["type"]: item["status"] for item in status.get("conditions", [])}
        if name in conditions and found.get(conditions[name]) != "True":
            missing.append(name)
    return missing


def kubectl(paths: Paths, *arguments: str | Path) -> str:
    return run([paths.bin / "kubectl", "--kubeconfig", paths.kubeconfig, *arguments], timeout=60)


def clear(paths: Paths) -> None:
    """Stop everything of the cluster and remove its traces, in whatever state it is. Logs, images and binaries stay."""
    machine.end_everything()
    machine.remove_network()
    machine.remove_folder(RUN)
    machine.unmount_below(paths.state)
    cgroups.remove()
    machine.remove_dead_shim_sockets()
    runtime.forget_containers(paths)
    machine.remove_folder(RUN)
    if paths.state.exists():
        for entry in paths.state.iterdir():
            if entry.is_dir() and entry != paths.log:
                machine.remove_folder(entry)
            elif entry.is_file():
                entry.unlink()


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
