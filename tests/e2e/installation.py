"""The operator as users install it: cluster, images, chart. For tests that need a real one, at whatever level.

A plugin of pytest, see `use`: however many levels run together, they share one installation.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import OPERATOR_NAMESPACE, STORAGE_SECRET, Cluster, Space

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ("spark-sql-session", "spark-sql-operator", "spark-sql-objectstore", "spark-sql-kafka")
NEXT_SESSION_IMAGE = "localhost/spark-sql-session:dev-next"  # on the Spark version that images/images.mk names
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
    "admissionPolicy": {"executorImages": [NEXT_SESSION_IMAGE]},
    "operator": {
        "resyncSeconds": 30,
        "logLevel": "info",
        # Short where a test waits for the deadline itself; no test has to be faster than the others.
        "deadlines": {"schedulingSeconds": 20, "imagePullSeconds": 20, "driverStartSeconds": 600, "drainSeconds": 600},
    },
    "defaultClass": {
        "defaults": {"executors": {"instances": 1, "cpu": "100m", "memory": "512Mi"}, "driver": {"memory": "768Mi"}}
    },
}


def use(config: pytest.Config) -> None:
    """Makes the fixtures of this module known to the tests, once."""
    this = sys.modules[__name__]
    if not config.pluginmanager.is_registered(this):
        config.pluginmanager.register(this)


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
        "--values", str(values), "--wait", "--timeout", "10m",
    )  # fmt: skip
    made = Cluster(kubeconfig)
    # Same tags, maybe other images than the last run's: the pods must be of this run.
    made.kubectl("rollout", "restart", "deployment", "-n", OPERATOR_NAMESPACE)
    for deployment in made.kubectl("get", "deployment", "-n", OPERATOR_NAMESPACE, "-o", "name").split():
        made.kubectl("rollout", "status", deployment, "-n", OPERATOR_NAMESPACE, "--timeout=600s")
    yield made
    _sweep(made)


@pytest.fixture(scope="session")
def next_image(cluster: Cluster) -> str:
    """A session image on another version of Spark than the class's, with the same gateway."""
    _run("make", "--no-print-directory", "image-session-next")
    _run(sys.executable, "tests/cluster/cluster.py", "load", NEXT_SESSION_IMAGE)
    return NEXT_SESSION_IMAGE


def _sweep(cluster: Cluster) -> None:
    for namespace in cluster.list("Namespace"):
        name = namespace["metadata"]["name"]
        if name.startswith("e2e-"):
            cluster.delete("Namespace", "", name)


@contextmanager
def new_space(cluster: Cluster, label: str) -> Iterator[Space]:
    """A namespace, restricted as Pod Security can make it. `label` is seen in its name."""
    name = f"e2e-{label[:20].strip('-')}-{uuid.uuid4().hex[:6]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    try:
        yield Space(cluster, name)
    finally:
        cluster.delete("Namespace", "", name)
