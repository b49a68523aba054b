"""Which cluster to use: one that KUBECONFIG names, kind on a Docker daemon, or the engine-free one."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from . import images, machine, node, tools
from .config import CLUSTER_NAME, DEBIAN_RELEASE, Paths
from .shell import ClusterError, locked, run, say, succeeds


@dataclass(frozen=True)
class Surroundings:
    """What the choice depends on. `kubeconfig` is the variable's value, `own_kubeconfig` the file this tool writes."""

    kubeconfig: str
    own_kubeconfig: str
    docker: bool
    kind: bool
    linux: bool
    root: bool


class Provider(Protocol):
    """A way to have a cluster."""

    @property
    def needs(self) -> Sequence[str]:
        """The binaries to build for it."""

    def up(self, *, fresh: bool = False) -> None: ...
    def down(self) -> None: ...
    def crash(self) -> None: ...
    def kubelet(self, *, answers: bool) -> None: ...
    def status(self) -> tuple[bool, str]: ...
    def load(self, names: Sequence[str]) -> None: ...
    def base(self) -> str: ...
    def kubeconfig(self) -> str: ...


def choose(around: Surroundings) -> str:
    """Return "existing", "kind" or "local". Raises ClusterError, saying what is missing, if none can be had.

    Our own kubeconfig in the variable is not somebody else's cluster: who exports it still means the cluster of this tool.
    """
    if around.kubeconfig and around.kubeconfig != around.own_kubeconfig:
        return "existing"
    if around.docker and around.kind:
        return "kind"
    if around.linux and around.root:
        return "local"
    missing = [
        "KUBECONFIG is not set",
        "kind is not installed" if around.docker else "no Docker daemon answers",
        "not root" if around.linux else "not Linux",
    ]
    raise ClusterError(
        f"no way to a cluster: {', '.join(missing)}. Set KUBECONFIG, or install Docker and kind, or run as root on Linux (Debian)."
    )


def select(paths: Paths) -> Provider:
    """Look around and return the provider to use."""
    around = Surroundings(
        kubeconfig=os.environ.get("KUBECONFIG", ""),
        own_kubeconfig=str(paths.kubeconfig),
        docker=shutil.which("docker") is not None and succeeds(["docker", "info"], timeout=20),
        kind=shutil.which("kind") is not None,
        linux=sys.platform == "linux",
        root=os.geteuid() == 0,
    )
    match choose(around):
        case "existing":
            return Existing(paths, around.kubeconfig)
        case "kind":
            return Kind(paths)
        case _:
            return Local(paths)


def kubectl(paths: Paths) -> str:
    """Return a kubectl: ours if built, else the one on the PATH."""
    own = paths.bin / "kubectl"
    found = str(own) if own.exists() else shutil.which("kubectl")
    if found is None:
        raise ClusterError("no kubectl: install one, or build it with `tools kubectl`")
    return found


@dataclass(frozen=True)
class Existing:
    """A cluster that KUBECONFIG names. It is used, never changed."""

    paths: Paths
    file: str
    needs = tools.CLIENT_TOOLS

    def up(self, *, fresh: bool = False) -> None:
        if fresh:
            raise ClusterError("the cluster of KUBECONFIG is not ours to make anew")
        run([kubectl(self.paths), "get", "--raw", "/readyz"], timeout=20)
        say("the cluster of KUBECONFIG answers")

    def down(self) -> None:
        say("the cluster of KUBECONFIG is not ours to stop")

    def crash(self) -> None:
        raise ClusterError("the cluster of KUBECONFIG is not ours to crash")

    def kubelet(self, *, answers: bool) -> None:
        raise ClusterError("the nodes of KUBECONFIG are not ours to stop")

    def status(self) -> tuple[bool, str]:
        return True, run([kubectl(self.paths), "get", "nodes", "-o", "wide"], timeout=20)

    def load(self, names: Sequence[str]) -> None:
        raise ClusterError(f"push to a registry that the cluster of KUBECONFIG can reach: {' '.join(names)}")

    def base(self) -> str:
        return f"docker.io/library/debian:{DEBIAN_RELEASE}-slim"

    def kubeconfig(self) -> str:
        return self.file


@dataclass(frozen=True)
class Kind:
    """kind on a Docker daemon; its own network plugin enforces NetworkPolicy and its own provisioner serves claims."""

    paths: Paths
    needs = tools.CLIENT_TOOLS

    def up(self, *, fresh: bool = False) -> None:
        if fresh and self._exists():
            self.down()
        if self._exists():
            run(["docker", "start", *self._nodes()])
            run(["kind", "export", "kubeconfig", "--name", CLUSTER_NAME, *self._file()])
            say("kind cluster is up already")
            return
        self.paths.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        run(["kind", "create", "cluster", "--name", CLUSTER_NAME, *self._file(), "--wait", "180s"])
        say("kind cluster is up")

    def down(self) -> None:
        run(["kind", "delete", "cluster", "--name", CLUSTER_NAME, *self._file()])

    def crash(self) -> None:
        run(["docker", "kill", *self._nodes()])

    def kubelet(self, *, answers: bool) -> None:
        for name in self._nodes():
            run(["docker", "exec", name, "systemctl", "start" if answers else "stop", "kubelet"])

    def status(self) -> tuple[bool, str]:
        if not self._exists():
            return False, "kind cluster is down"
        return True, run([kubectl(self.paths), *self._file(), "get", "nodes", "-o", "wide"], timeout=20)

    def load(self, names: Sequence[str]) -> None:
        run(["kind", "load", "docker-image", "--name", CLUSTER_NAME, *names])

    def base(self) -> str:
        return f"docker.io/library/debian:{DEBIAN_RELEASE}-slim"

    def kubeconfig(self) -> str:
        return str(self.paths.kubeconfig)

    def _file(self) -> tuple[str, str]:
        return "--kubeconfig", str(self.paths.kubeconfig)

    def _nodes(self) -> list[str]:
        return run(["kind", "get", "nodes", "--name", CLUSTER_NAME], timeout=30).split()

    def _exists(self) -> bool:
        return CLUSTER_NAME in run(["kind", "get", "clusters"], timeout=30).split()


@dataclass(frozen=True)
class Local:
    """The engine-free cluster on this machine. Commands that change it wait for each other."""

    paths: Paths
    needs = tuple(tools.BY_NAME)

    def up(self, *, fresh: bool = False) -> None:
        with self._alone():
            node.up(self.paths, fresh=fresh)

    def down(self) -> None:
        with self._alone():
            node.down(self.paths)

    def crash(self) -> None:
        with self._alone():
            node.crash()

    def kubelet(self, *, answers: bool) -> None:
        with self._alone():
            node.kubelet(answers=answers)
        say(f"the kubelet {'goes on' if answers else 'is held'}")

    def status(self) -> tuple[bool, str]:
        return node.status(self.paths)

    def load(self, names: Sequence[str]) -> None:
        with self._alone():
            node.load(self.paths, names)

    def base(self) -> str:
        machine.install_packages()
        return images.base()

    def kubeconfig(self) -> str:
        return str(self.paths.kubeconfig)

    def _alone(self) -> AbstractContextManager[None]:
        return locked(self.paths.cache / "cluster.lock")
