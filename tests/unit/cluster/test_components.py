"""The command lines and files of the components keep the promise that nothing listens beyond this machine."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from localkube import components
from localkube.config import NODE_IP, Paths

PATHS = Paths(Path("/cache"), Path("/state"))
OWN_ADDRESSES = {"127.0.0.1", NODE_IP}


@pytest.mark.parametrize("component", components.COMPONENTS)
def test_every_address_is_this_machines_own(component: str) -> None:
    listening = re.compile(r"--(?:\S*bind-address|listen-\S+-urls|nodeport-addresses)=(\S+)")
    line = " ".join(components.command(component, PATHS))
    addresses = [re.search(r"\d+\.\d+\.\d+\.\d+", value) for value in listening.findall(line)]
    assert all(found and found.group() in OWN_ADDRESSES for found in addresses), line


@pytest.mark.parametrize(
    ("component", "flag"),
    [
        ("kube-apiserver", "bind-address"),
        ("kube-controller-manager", "bind-address"),
        ("kube-scheduler", "bind-address"),
        ("kube-proxy", "metrics-bind-address"),
        ("kube-proxy", "healthz-bind-address"),
        ("kube-proxy", "nodeport-addresses"),
        ("etcd", "listen-client-urls"),
        ("etcd", "listen-peer-urls"),
    ],
)
def test_component_command_sets_every_listen_address_explicitly(component: str, flag: str) -> None:
    assert any(word.startswith(f"--{flag}=") for word in components.command(component, PATHS))


def test_kubelet_listens_on_the_node_and_asks_who_calls() -> None:
    configuration = components.kubelet_configuration(PATHS)
    assert configuration["address"] == NODE_IP
    assert configuration["healthzBindAddress"] == "127.0.0.1"
    assert configuration["authentication"]["anonymous"] == {"enabled": False}


@pytest.mark.parametrize("pods", [True, False])
def test_containerd_configuration_is_toml(pods: bool) -> None:
    parsed = tomllib.loads(components.containerd_configuration(PATHS, "native", pods=pods))
    assert parsed["root"] == "/cache/containerd"
    assert parsed["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["snapshotter"] == "native"
    assert ("io.containerd.grpc.v1.cri" in parsed["disabled_plugins"]) is not pods


def test_json_files_of_the_cluster_components_are_valid() -> None:
    files = components.files(PATHS, "overlayfs")
    parsed = [json.loads(text) for file, text in files.items() if file.suffix in (".json", ".conflist")]
    assert len(parsed) == 2
