"""The calls that reach kind, by a stand-in program that keeps clusters as files and writes down how it was called."""

import os
from pathlib import Path

import pytest
from localkube.config import CLUSTER_NAME, Paths
from localkube.provider import Kind

PROGRAM = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/calls"
case "$1 $2" in
  "create cluster") echo "$4" >>"$here/clusters" ;;
  "delete cluster") : >"$here/clusters" ;;
  "get clusters") cat "$here/clusters" ;;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "kind"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (tmp_path / "bin" / "clusters").write_text("other\n")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "bin" / "calls"


def test_up_creates_once_and_down_deletes(tmp_path: Path, calls: Path) -> None:
    kind = Kind(Paths(tmp_path / "cache", tmp_path / "state"))
    assert kind.status()[0] is False
    kind.up()
    kind.up()
    kind.load(["localhost/a:dev", "localhost/b:dev"])
    kind.down()
    assert kind.status()[0] is False
    named = f"--name {CLUSTER_NAME} --kubeconfig {kind.kubeconfig()}"
    assert [line for line in calls.read_text().splitlines() if line != "get clusters"] == [
        f"create cluster {named} --wait 180s",
        f"export kubeconfig {named}",
        f"load docker-image --name {CLUSTER_NAME} localhost/a:dev localhost/b:dev",
        f"delete cluster {named}",
    ]
