"""Where the cluster keeps its files, and the fixed names and addresses of the one cluster a machine can hold.

The cache survives everything (binaries, containerd's image store). The state is one cluster's life: `down` removes it, logs aside.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROJECT = "spark-sql-operator"
CLUSTER_NAME = PROJECT
NODE_NAME = "node0"

# The node's address sits on a bridge without ports, so that only this machine can reach it.
NODE_BRIDGE = "kubenode0"
NODE_IP = "10.245.0.1"
POD_BRIDGE = "kubepods0"
POD_CIDR = "10.244.0.0/16"
SERVICE_CIDR = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
DNS_IP = "10.96.0.10"
API_SERVER = f"https://{NODE_IP}:6443"
ETCD_CLIENT = "http://127.0.0.1:12379"
ETCD_PEER = "http://127.0.0.1:12380"

# Every pod's cgroup lies below this one: whatever runs in it belongs to the cluster.
CGROUP = "localkube"

RUN = Path("/run/localkube")
CONTAINERD_SOCKET = RUN / "containerd.sock"
CONTAINERD_NAMESPACE = "k8s.io"
CNI_DIRECTORIES = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))

PAUSE_IMAGE = "localhost/pause:dev"
COREDNS_IMAGE = "localhost/coredns:dev"
DEBIAN_RELEASE = "bookworm"
BASE_IMAGE = f"localhost/debian:{DEBIAN_RELEASE}"

SOURCE = Path(__file__).resolve().parent.parent
MODULES = SOURCE / "modules"
MANIFESTS = SOURCE / "manifests"


@dataclass(frozen=True)
class Paths:
    """The directories of one user's cluster."""

    cache: Path
    state: Path

    @classmethod
    def from_environment(cls, env: Mapping[str, str] = os.environ) -> Paths:
        """Follow XDG_CACHE_HOME and XDG_STATE_HOME, or their defaults below HOME."""
        home = Path(env.get("HOME") or Path.home())
        cache = Path(env.get("XDG_CACHE_HOME") or home / ".cache")
        state = Path(env.get("XDG_STATE_HOME") or home / ".local" / "state")
        return cls(cache / PROJECT, state / PROJECT / "cluster")

    @property
    def bin(self) -> Path:
        return self.cache / "bin"

    @property
    def containerd_root(self) -> Path:
        return self.cache / "containerd"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def log(self) -> Path:
        return self.state / "log"

    @property
    def volumes(self) -> Path:
        return self.state / "volumes"
