"""The operator as users install it: cluster, images, chart. Everything is made once for the whole run."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from gate import Gate
from harness import OPERATOR_NAMESPACE, STORAGE_SECRET, Classes, Cluster, Space

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ("spark-sql-session", "spark-sql-operator", "spark-sql-objectstore")
RELEASE = "spark-sql-operator"
VALUES = {
    # Small requests, so that many sessions fit the machine that the tests run on.
    "objectStore": {
        "enabled": True,
        "buckets": ["warehouse", "tpch"],
        "accessKey": "e2e-access",
        "secretKey": STORAGE_SECRET,
    },
    "metastore": {"persistence": {"enabled": False}},
    "operator": {
        "resyncSeconds": 30,
        "logLevel": "info",
        # Short where a test waits for the deadline itself.
        "deadlines": {"schedulingSeconds": 20, "imagePullSeconds": 20, "driverStartSeconds": 120, "drainSeconds": 60},
    },
    "defaultClass": {
        "defaults": {"executors": {"instances": 1, "cpu": "100m", "memory": "512Mi"}, "driver": {"memory": "768Mi"}}
    },
}


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True, timeout=3000)
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}"
    return done.stdout


@pytest.fixture(scope="session")
def _alone() -> Iterator[None]:
    """One run at a time: all share the cluster and the release in it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-sql-operator"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "e2e.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, _alone: None) -> Iterator[Cluster]:
    """The cluster with the chart installed. It stays up afterwards: `make cluster-down` ends it."""
    _run("make", "--no-print-directory", "images", "cluster-up")
    kubeconfig = Path(_run(sys.executable, "tests/cluster/cluster.py", "kubeconfig").strip())
    _run(sys.executable, "tests/cluster/cluster.py", "load", *(f"localhost/{image}:dev" for image in IMAGES))
    values = tmp_path_factory.mktemp("helm") / "values.json"
    values.write_text(json.dumps(VALUES))
    os.environ["KUBECONFIG"] = str(kubeconfig)
    os.environ["PATH"] = os.pathsep.join(
        (_run(sys.executable, "tests/cluster/cluster.py", "tools").strip(), os.environ["PATH"])
    )
    chart = str(ROOT / "charts" / "spark-sql-operator")
    _run(
        "helm", "upgrade", "--install", RELEASE, chart, "--namespace", OPERATOR_NAMESPACE, "--create-namespace",
        "--values", str(values), "--wait", "--timeout", "5m",
    )  # fmt: skip
    made = Cluster(kubeconfig)
    # Same tags, maybe other images than the last run's: the pods must be of this run.
    made.kubectl("rollout", "restart", "deployment", "-n", OPERATOR_NAMESPACE)
    for deployment in made.kubectl("get", "deployment", "-n", OPERATOR_NAMESPACE, "-o", "name").split():
        made.kubectl("rollout", "status", deployment, "-n", OPERATOR_NAMESPACE, "--timeout=180s")
    yield made
    _sweep(made)


def _sweep(cluster: Cluster) -> None:
    for namespace in cluster.list("Namespace"):
        name = namespace["metadata"]["name"]
        if name.startswith("e2e-"):
            cluster.delete("Namespace", "", name)


def _space(cluster: Cluster, label: str) -> Iterator[Space]:
    name = f"e2e-{label[:20].strip('-')}-{uuid.uuid4().hex[:6]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    yield Space(cluster, name)
    cluster.delete("Namespace", "", name)


@pytest.fixture(scope="module")
def space(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace for the module, restricted as Pod Security can make it."""
    yield from _space(cluster, request.module.__name__.removeprefix("test_").replace("_", "-"))


@pytest.fixture
def fresh(cluster: Cluster) -> Iterator[Space]:
    """A namespace for one test."""
    yield from _space(cluster, "one")


@pytest.fixture(scope="module")
def classes(cluster: Cluster) -> Iterator[Classes]:
    made = Classes(cluster)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def gate(cluster: Cluster, classes: Classes) -> Iterator[Gate]:
    """A class whose executors start only while the gate is open."""
    made = Gate(cluster, classes)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def gated(space: Space, gate: Gate) -> Space:
    """The module's namespace with a session `gated` that is Ready and whose gate is closed."""
    gate.session(space, "gated")
    return space


@pytest.fixture(scope="module")
def main(space: Space) -> Space:
    """The module's namespace with a session `main` that is Ready."""
    space.session("main", maxConcurrentStatements=4)
    return space
