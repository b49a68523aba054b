"""The command line and configuration file of every component. Pure: nothing is started or written here.

Invariant: every listener is on loopback or on the node's own bridge address.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .config import (
    API_SERVER,
    CGROUP,
    CNI_DIRECTORIES,
    CONTAINERD_SOCKET,
    DNS_IP,
    ETCD_CLIENT,
    ETCD_PEER,
    NODE_IP,
    NODE_NAME,
    PAUSE_IMAGE,
    POD_BRIDGE,
    POD_CIDR,
    RUN,
    SERVICE_CIDR,
    Paths,
)

# Started first; the others need an API server that answers.
FOUNDATION = ("etcd", "containerd", "kube-apiserver")
WORKERS = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "network-policy", "storage")
COMPONENTS = (*FOUNDATION, *WORKERS)
# Without these there is nothing to resume: the objects, or the containers that kubelet believes in, are gone.
IRREPLACEABLE = frozenset({"etcd", "containerd"})


def command(component: str, paths: Paths) -> list[str]:
    """Return the command line of a component."""
    match component:
        case "containerd":
            return ["containerd", "--config", str(paths.state / "containerd.toml")]
        case "network-policy":
            return [sys.executable, "-m", "localkube.network_policy", str(paths.pki)]
        case "storage":
            return [sys.executable, "-m", "localkube.storage", str(paths.pki), str(paths.volumes)]
        case _:
            flags = FLAGS[component](paths)
            return [str(paths.bin / component), *(f"--{name}={value}" for name, value in flags.items())]


def etcd(paths: Paths) -> dict[str, object]:
    return {
        "data-dir": paths.state / "etcd",
        "listen-client-urls": ETCD_CLIENT,
        "advertise-client-urls": ETCD_CLIENT,
        "listen-peer-urls": ETCD_PEER,
        "initial-advertise-peer-urls": ETCD_PEER,
        "initial-cluster": f"default={ETCD_PEER}",
        # What etcd has written survives its processes and an orderly reboot; when the power goes, the last seconds may be lost. A write
        # that waits for the disk takes 8 ms (p99 70 ms) on the machines that tests run on, and each object several.
        "unsafe-no-fsync": "true",
    }


def kube_apiserver(paths: Paths) -> dict[str, object]:
    pki = paths.pki
    return {
        "etcd-servers": ETCD_CLIENT,
        "bind-address": NODE_IP,
        "advertise-address": NODE_IP,
        "secure-port": 6443,
        "tls-cert-file": pki / "apiserver.crt",
        "tls-private-key-file": pki / "apiserver.key",
        "client-ca-file": pki / "ca.crt",
        "kubelet-client-certificate": pki / "admin.crt",
        "kubelet-client-key": pki / "admin.key",
        "kubelet-certificate-authority": pki / "ca.crt",
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-key-file": pki / "sa.pub",
        "service-account-signing-key-file": pki / "sa.key",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-cluster-ip-range": SERVICE_CIDR,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "cert-dir": pki,
    }


def as_client(kubeconfig: Path) -> dict[str, object]:
    """Return the flags of a control loop that serves on loopback and lets the API server judge its callers."""
    return {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "leader-elect": "false",
    }


def kube_controller_manager(paths: Paths) -> dict[str, object]:
    pki = paths.pki
    return {
        **as_client(paths.state / "controller-manager.kubeconfig"),
        "service-account-private-key-file": pki / "sa.key",
        "root-ca-file": pki / "ca.crt",
        "cluster-signing-cert-file": pki / "ca.crt",
        "cluster-signing-key-file": pki / "ca.key",
        "use-service-account-credentials": "true",
        "allocate-node-cidrs": "true",
        "cluster-cidr": POD_CIDR,
        "service-cluster-ip-range": SERVICE_CIDR,
    }


def kube_scheduler(paths: Paths) -> dict[str, object]:
    return as_client(paths.state / "scheduler.kubeconfig")


def kubelet(paths: Paths) -> dict[str, object]:
    return {
        "config": paths.state / "kubelet.json",
        "kubeconfig": paths.state / "kubelet.kubeconfig",
        "hostname-override": NODE_NAME,
        "node-ip": NODE_IP,
        "root-dir": paths.state / "kubelet",
    }


def kube_proxy(paths: Paths) -> dict[str, object]:
    return {
        "kubeconfig": paths.state / "proxy.kubeconfig",
        "proxy-mode": "iptables",
        "cluster-cidr": POD_CIDR,
        "hostname-override": NODE_NAME,
        "metrics-bind-address": "127.0.0.1:10249",
        "healthz-bind-address": "127.0.0.1:10256",
        "nodeport-addresses": f"{NODE_IP}/32",
        "conntrack-max-per-core": 0,
    }


FLAGS = {
    "etcd": etcd,
    "kube-apiserver": kube_apiserver,
    "kube-controller-manager": kube_controller_manager,
    "kube-scheduler": kube_scheduler,
    "kubelet": kubelet,
    "kube-proxy": kube_proxy,
}


def kubelet_configuration(paths: Paths) -> dict[str, Any]:
    """Return kubelet's configuration (kubelet.config.k8s.io/v1beta1)."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_IP,
        "healthzBindAddress": "127.0.0.1",
        "authentication": {
            "anonymous": {"enabled": False},
            "x509": {"clientCAFile": str(paths.pki / "ca.crt")},
            "webhook": {"enabled": True},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(paths.pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(paths.pki / "kubelet.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [DNS_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": str(paths.state / "resolv.conf"),
        "maxPods": 250,
        "serializeImagePulls": False,
        # Images come from `load` alone: collecting one would lose it.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi"},
    }


def pod_network(paths: Paths) -> dict[str, Any]:
    """Return the CNI configuration: one bridge, addresses from a range. Masquerading is the firewall's."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": POD_CIDR}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(paths.state / "cni" / "addresses"),
    }
    bridge = {"type": "bridge", "bridge": POD_BRIDGE, "isGateway": True, "hairpinMode": True, "ipam": ipam}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def containerd_configuration(paths: Paths, snapshotter: str, *, pods: bool = True) -> str:
    """Return containerd's configuration (TOML). Without `pods` it serves its stores only, not kubelet."""
    plugins = next((folder for folder in CNI_DIRECTORIES if (folder / "bridge").exists()), CNI_DIRECTORIES[0])
    disabled = [] if pods else ["io.containerd.grpc.v1.cri"]
    quoted = json.dumps
    # oom_score_adj is left alone where the machine withholds CAP_SYS_RESOURCE; network namespaces stay in our own folder.
    return f"""version = 2
root = {quoted(str(paths.containerd_root))}
state = {quoted(str(RUN / "containerd"))}
disabled_plugins = {quoted(disabled)}
[grpc]
  address = {quoted(str(CONTAINERD_SOCKET))}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {quoted(PAUSE_IMAGE)}
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {quoted(str(plugins))}
    conf_dir = {quoted(str(paths.state / "cni" / "net.d"))}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = {quoted(snapshotter)}
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = {quoted(str(RUN / "runc"))}
"""


def files(paths: Paths, snapshotter: str) -> dict[Path, str]:
    """Return every configuration file with its text."""
    state = paths.state
    return {
        state / "containerd.toml": containerd_configuration(paths, snapshotter),
        state / "kubelet.json": json.dumps(kubelet_configuration(paths), indent=2) + "\n",
        state / "cni" / "net.d" / "10-pods.conflist": json.dumps(pod_network(paths), indent=2) + "\n",
        # Pods with the node's own DNS resolve nothing: the cluster does not depend on the outside.
        state / "resolv.conf": "nameserver 127.0.0.1\n",
    }


def describe(component: str) -> str:
    """Return where a component can be reached, for `status`."""
    return {"etcd": ETCD_CLIENT, "kube-apiserver": API_SERVER, "containerd": str(CONTAINERD_SOCKET)}.get(component, "")
