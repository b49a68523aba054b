"""The calls that reach kind, by a stand-in program that keeps clusters as files and writes down how it was called."""

import os
from pathlib import Path

import pytest
from localkube.config import CLUSTER_NAME, Paths
from localkube.provider import Kind

DOCKER = """#!/bin/sh
echo "docker $*" >>"$(dirname "$0")/calls"
"""
PROGRAM = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/calls"
case "$1 $2" in
  "create cluster") echo "$4" >>"$here/clusters" ;;
  "delete cluster") : >"$here/clusters" ;;
  "get clusters") cat "$here/clusters" ;;
  "get nodes") echo "$4-control-plane" ;;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "kind"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    docker = program.with_name("docker")
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    (tmp_path / "bin" / "clusters").write_text("other\n")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "bin" / "calls"


def test_up_creates_once_and_down_deletes(tmp_path: Path, calls: Path) -> None:
    kind = Kind(Paths(tmp_path / "cache", tmp_path / "state"))
    assert kind.status()[0] is False
    kind.up()
    kind.up()
    kind.load(["localhost/a:dev", "localhost/b:dev"])
    kind.kubelet(answers=False)
    kind.crash()
    kind.up(fresh=True)
    kind.down()
    assert kind.status()[0] is False
    named = f"--name {CLUSTER_NAME} --kubeconfig {kind.kubeconfig()}"
    node = f"{CLUSTER_NAME}-control-plane"
    assert [line for line in calls.read_text().splitlines() if not line.startswith("get ")] == [
        f"create cluster {named} --wait 180s",
        f"docker start {node}",
        f"export kubeconfig {named}",
        f"load docker-image --name {CLUSTER_NAME} localhost/a:dev localhost/b:dev",
        f"docker exec {node} systemctl stop kubelet",
        f"docker kill {node}",
        f"delete cluster {named}",
        f"create cluster {named} --wait 180s",
        f"delete cluster {named}",
    ]
