"""The operator as users install it: cluster, images, chart. For tests that need a real one, at whatever level.

A plugin of pytest, see `use`: however many levels and processes of xdist run together, they share one installation.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from tests.runner.levels import STAGE_ENV
from tests.runner.starts import measured
from tests.support.class_archive import QUICK_COMPILER_ONLY, ROOM
from tests.support.harness import OPERATOR_NAMESPACE, STORAGE_SECRET, Cluster, Space

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ("spark-sql-session", "spark-sql-operator", "spark-sql-objectstore", "spark-sql-kafka")
NEXT_SESSION_IMAGE = "localhost/spark-sql-session:dev-next"  # on the Spark version that images/images.mk names
RELEASE = "spark-sql-operator"
QUICKSTART = "spark-sql-quickstart"  # what `make demo` labels its namespaces with
# A third of a pod's CPU time went into the optimising compiler, for code that runs but a few times. The launcher of Java reads it.
QUICK_COMPILER = {"name": "JDK_JAVA_OPTIONS", "value": " ".join((QUICK_COMPILER_ONLY, *ROOM))}
QUICK_POD = {"spec": {"containers": [{"name": "spark", "env": [QUICK_COMPILER]}]}}
VALUES = {
    # Small requests, so that many sessions fit the machine that the tests run on.
    "objectStore": {
        "enabled": True,
        "buckets": ["warehouse", "tpch"],
        "accessKey": "e2e-access",
        "secretKey": STORAGE_SECRET,
    },
    "metastore": {"persistence": {"enabled": False}, "extraEnv": [QUICK_COMPILER]},
    "admissionPolicy": {"executorImages": [NEXT_SESSION_IMAGE]},
    "operator": {
        "resyncSeconds": 30,
        "logLevel": "info",
        # Short where a test waits for the deadline itself; no test has to be faster than the others.
        "deadlines": {
            "schedulingSeconds": 20,
            "imagePullSeconds": 20,
            "driverStartSeconds": 600,
            "drainSeconds": 600,
            "terminationSeconds": 20,
        },
    },
    "defaultClass": {
        "defaults": {
            "executors": {"instances": 1, "cpu": "100m", "memory": "512Mi"},
            "driver": {"memory": "768Mi"},
            # To compile a query takes longer than to run it here; drivers on this machine run with compiled stages.
            "conf": {"spark.sql.codegen.wholeStage": "false"},
        },
        "podTemplate": {"driver": QUICK_POD, "executor": QUICK_POD},
    },
}


CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-sql-operator"
RUN_LOCK = pytest.StashKey[TextIO]()


def use(config: pytest.Config) -> None:
    """Makes the fixtures of this module known to the tests, once. Waits for other runs: all share the cluster.

    Levels of one stage of the runner run side by side.
    """
    this = sys.modules[__name__]
    if config.pluginmanager.is_registered(this):
        return
    config.pluginmanager.register(this)
    is_worker = hasattr(config, "workerinput")  # of xdist: its controller has the lock
    if not is_worker and not config.option.collectonly:
        CACHE.mkdir(parents=True, exist_ok=True)
        config.stash[RUN_LOCK] = (CACHE / "e2e.lock").open("w")
        fcntl.flock(config.stash[RUN_LOCK], fcntl.LOCK_SH if STAGE_ENV in os.environ else fcntl.LOCK_EX)


def pytest_unconfigure(config: pytest.Config) -> None:
    if (lock := config.stash.get(RUN_LOCK, None)) is not None:
        lock.close()


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True, timeout=3000)
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}"
    return done.stdout


@pytest.fixture(scope="session")
def cluster(testrun_uid: str) -> Cluster:
    """The cluster with the chart installed, by the first process that asks. It stays up: `make cluster-down` ends it."""
    stage = os.environ.get(STAGE_ENV, testrun_uid)
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "e2e.installed").open("a+") as installed:
        fcntl.flock(installed, fcntl.LOCK_EX)
        installed.seek(0)
        by_this_stage = installed.read() == stage
        if not by_this_stage:
            with measured("images and cluster"):
                _run("make", "--no-print-directory", "images", "cluster-up")
        kubeconfig = Path(_run(sys.executable, "tests/cluster/cluster.py", "kubeconfig").strip())
        os.environ["KUBECONFIG"] = str(kubeconfig)
        tools = _run(sys.executable, "tests/cluster/cluster.py", "tools").strip()
        os.environ["PATH"] = os.pathsep.join((tools, os.environ["PATH"]))
        found = Cluster(kubeconfig)
        if not by_this_stage:
            with measured("chart"):
                _install(found)
            installed.truncate(0)
            installed.write(stage)
    return found


def _install(cluster: Cluster) -> None:
    """The chart with the images as they are now, and nothing left of a run that could not clean up."""
    leftovers = _sweep(cluster)
    _run(sys.executable, "tests/cluster/cluster.py", "load", *(f"localhost/{image}:dev" for image in IMAGES))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as values:
        json.dump(VALUES, values)
        values.flush()
        chart = str(ROOT / "charts" / "spark-sql-operator")
        if RELEASE in _run("helm", "list", "--pending", "--short", "--namespace", OPERATOR_NAMESPACE).split():
            _run("helm", "uninstall", RELEASE, "--namespace", OPERATOR_NAMESPACE, "--wait")  # its upgrade was killed
        _run(
            "helm", "upgrade", "--install", RELEASE, chart, "--namespace", OPERATOR_NAMESPACE, "--create-namespace",
            "--values", values.name, "--wait", "--timeout", "10m",
        )  # fmt: skip
    # Same tags, maybe other images than the last run's: the pods must be of this run.
    cluster.kubectl("rollout", "restart", "deployment", "-n", OPERATOR_NAMESPACE)
    for deployment in cluster.kubectl("get", "deployment", "-n", OPERATOR_NAMESPACE, "-o", "name").split():
        cluster.kubectl("rollout", "status", deployment, "-n", OPERATOR_NAMESPACE, "--timeout=600s")
    for namespace in leftovers:  # its pods have memory that the tests' pods wait for
        cluster.wait_gone("Namespace", "", namespace, seconds=300)


@pytest.fixture(scope="session")
def next_image(cluster: Cluster) -> str:
    """A session image on another version of Spark than the class's, with the same gateway."""
    _run("make", "--no-print-directory", "image-session-next")
    _run(sys.executable, "tests/cluster/cluster.py", "load", NEXT_SESSION_IMAGE)
    return NEXT_SESSION_IMAGE


def _sweep(cluster: Cluster) -> list[str]:
    """Takes away the namespaces of runs that were killed, and the quickstart's: it could not go on with the tests' credentials."""
    names = []
    for namespace in cluster.list("Namespace"):
        name, labels = namespace["metadata"]["name"], namespace["metadata"].get("labels", {})
        if name.startswith("e2e-") or labels.get("app.kubernetes.io/part-of") == QUICKSTART:
            print(f"takes away namespace {name}, which an earlier run has left", flush=True)
            cluster.delete("Namespace", "", name)
            names.append(name)
    return names


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
