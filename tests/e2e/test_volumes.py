"""Streams on a mounted volume alone, with no object store and no metastore: tables, checkpoints and savepoints are its files."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.streams import QUICK, resume, savepoint, stop, stream, wait_batch
from tests.support.harness import Classes, Object, Space, phase

CLAIM, MOUNT = "stream-data", "/data"
KEYS = 5
FEW = {"spark.sql.shuffle.partitions": "2"}
COUNT = f"SELECT value % {KEYS} AS k, count(*) AS n, max(value) AS top FROM STREAM ticks GROUP BY 1"
UPSERT = {**QUICK, "outputMode": "Update", "upsert": {"keys": ["k"]}}
STORAGE = {
    "volumeClaim": {"name": CLAIM, "mountPath": MOUNT},
    "warehouse": f"file://{MOUNT}/warehouse",
    "checkpointRoot": f"file://{MOUNT}/checkpoints",
    "savepointRoot": f"file://{MOUNT}/savepoints",
    "resultRoot": f"file://{MOUNT}/results",
}
# The metastore does not mount the volume. Iceberg keeps its tables without one; all others are made at each start.
CATALOG = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.catalog.spark_catalog.type": "hadoop",
    "spark.sql.catalog.spark_catalog.warehouse": STORAGE["warehouse"],
}
SOURCE = "CREATE TABLE IF NOT EXISTS ticks USING rate OPTIONS (rowsPerSecond '20', numPartitions '1')"


@pytest.fixture(scope="module")
def counting(space: Space, classes: Classes) -> Space:
    """A session `main` whose class has a volume, and its stream `counting`, which runs."""
    space.cluster.create(_claim(space))
    space.session(className=classes.make(storage=STORAGE, defaults={"conf": CATALOG}), init=(SOURCE,))
    _count_into(space, "counted", "counting", upgradeMode="Savepoint")
    return space


def _claim(space: Space) -> Object:
    """A claim on the cluster's default StorageClass; on one node that serves all pods, whatever the access mode."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": CLAIM, "namespace": space.name}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _count_into(space: Space, table: str, name: str, **streaming: Any) -> None:
    """Starts the stream `name`, which counts the ticks by key into a new table, and waits for its first batches."""
    made = space.run(f"CREATE TABLE {table} (k BIGINT, n BIGINT, top BIGINT) USING iceberg")
    assert phase(made) == "Finished", made["status"]
    space.statement(f"INSERT INTO {table} {COUNT}", name=name, conf=FEW, streaming={**UPSERT, **streaming})
    wait_batch(space, name)


def _check(space: Space, table: str) -> None:
    """A table holds what a batch makes of all ticks up to the last one in it."""
    found = space.rows(f"SELECT k, n, top FROM {table} ORDER BY k")
    ticks = 1 + max(int(top or 0) for _, _, top in found)
    batch = f"SELECT id % {KEYS} AS k, count(*), max(id) FROM range({ticks}) GROUP BY 1 ORDER BY 1"
    assert found == space.rows(batch)


def _files(space: Space, location: str) -> set[str]:
    """Paths of the files below a location, relative to it, as the driver sees its volume."""
    look = ("find", MOUNT, "-ignore_readdir_race", "-type", "f")
    listed = space.cluster.kubectl("exec", f"-n={space.name}", space.driver_pod(), "-c=spark", "--", *look).split()
    folder = location.removeprefix("file://") + "/"
    assert listed and folder.startswith(f"{MOUNT}/"), (location, listed)
    return {path.removeprefix(folder) for path in listed if path.startswith(folder)}


def _mounts(pod_spec: Object) -> bool:
    """Whether the pod has the claim where the class says."""
    named = {v["name"] for v in pod_spec["volumes"] if v.get("persistentVolumeClaim", {}).get("claimName") == CLAIM}
    mounts = {m["name"] for m in pod_spec["containers"][0]["volumeMounts"] if m["mountPath"] == MOUNT}
    return bool(named) and named == mounts


@pytest.mark.thorough
def test_counts_outlive_the_driver_and_a_stop(counting: Space) -> None:
    before = counting.get("counting")
    assert stream(before)["checkpointLocation"].startswith(f"{STORAGE['checkpointRoot']}/"), before["status"]
    pods = counting.cluster.list("Pod", counting.name, "sparksql.dev/session=main")
    assert len(pods) > 1 and all(_mounts(pod["spec"]) for pod in pods), [p["metadata"]["name"] for p in pods]
    # One second: the container is killed within a batch, and seen to have ended.
    counting.cluster.delete("Pod", counting.name, counting.driver_pod(), grace_seconds=1)
    resumed = wait_batch(counting, "counting")
    for field in ("queryId", "checkpointLocation"):
        assert stream(resumed)[field] == stream(before)[field]
    assert stream(resumed)["runId"] != stream(before)["runId"]
    stopped = stop(counting, "counting")
    last = counting.cluster.get("SqlSavepoint", counting.name, stream(stopped)["lastSavepoint"]["name"])
    assert last is not None and phase(last) == "Completed", stopped["status"]
    assert last["status"]["batchId"] == stream(stopped)["committedBatchId"]
    assert "manifest.json" in _files(counting, last["status"]["location"])
    _check(counting, "counted")
    resume(counting, "counting")
    wait_batch(counting, "counting", more=1)


@pytest.mark.thorough
def test_a_savepoint_on_a_volume_is_forked_and_its_files_go_with_its_object(counting: Space) -> None:
    taken = savepoint(counting, "live", "counting", reclaimPolicy="Delete")
    assert phase(taken) == "Completed", taken["status"]
    location = taken["status"]["location"]
    assert location.startswith(f"{STORAGE['savepointRoot']}/"), location
    files = _files(counting, location)
    assert {"manifest.json", "owner.json", "checkpoint/metadata"} <= files
    assert [path for path in files if path.startswith("checkpoint/state/")], files

    _count_into(counting, "forked", "fork", startFrom={"savepointRef": {"name": "live"}})
    fork = wait_batch(counting, "fork", more=1)
    assert stream(fork)["restoredFrom"] == location
    assert stream(fork)["queryId"] != stream(counting.get("counting"))["queryId"]
    stop(counting, "fork")
    _check(counting, "forked")

    # What a statement refers to keeps its data.
    counting.cluster.delete("SqlStatement", counting.name, "fork")
    counting.cluster.wait_gone("SqlStatement", counting.name, "fork")
    counting.cluster.delete("SqlSavepoint", counting.name, "live")
    counting.cluster.wait_gone("SqlSavepoint", counting.name, "live", seconds=240)
    assert [e for e in counting.cluster.events(counting.name) if e["reason"] == "FinalizerDeadline"] == []
    [job] = counting.cluster.list("Job", counting.name, "sparksql.dev/savepoint=live")
    assert _mounts(job["spec"]["template"]["spec"])
    assert _files(counting, location) == set()
