"""What a stream lives through: stops, killed drivers and operators, restarts, a drained node. It goes on where it was."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.streams import QUICK, SECONDS, assert_each_once, count_up, resume, stop, stream, wait_batch
from tests.support.harness import Cluster, Space, condition, phase, reason


@pytest.fixture(scope="module")
def ticks(main: Space) -> Space:
    """A session `main` with a source `ticks`."""
    count_up(main)
    return main


@pytest.mark.thorough
@pytest.mark.operator_lost
def test_every_row_once_through_stops_kills_and_restarts(ticks: Space, cluster: Cluster) -> None:
    assert phase(ticks.run("CREATE TABLE counted (value BIGINT, at TIMESTAMP) USING iceberg")) == "Finished"
    insert = "INSERT INTO counted (at, value) SELECT timestamp, value FROM STREAM ticks"
    name = ticks.statement(insert, streaming=QUICK)
    first = wait_batch(ticks, name)
    assert condition(first, "Ready") == "True", first["status"]
    assert condition(first, "Finished") == "False"
    assert condition(first, "Healthy") == "True"
    assert (first["status"]["statementType"], stream(first)["restarts"]) == ("INSERT", 0)
    assert {"queryId", "runId", "checkpointLocation", "lastProgressTime", "processedRowsPerSecond"} <= set(
        stream(first)
    )

    stopped = stop(ticks, name)
    assert reason(stopped) == "StoppedByUser"
    assert "completionTime" not in stopped["status"]
    resume(ticks, name)
    wait_batch(ticks, name)
    boot = ticks.get_session()["status"]["driver"]["bootId"]
    ticks.kill_driver()
    cluster.kill_operator()
    cluster.wait_operator()
    lost = wait_batch(ticks, name)
    assert stream(lost)["restarts"] == 1
    # Its pod is gone and it may still run, for all that anybody knows: the next one has waited for it.
    assert ticks.get_session()["status"]["driver"]["unconfirmed"] == [boot]
    ticks.change("SqlSession", "main", restartNonce="again")
    ticks.cluster.wait(
        "SqlSession", ticks.name, "main", lambda s: s is not None and phase(s) != "Ready", "restarting", SECONDS
    )
    last = wait_batch(ticks, name)
    for field in ("queryId", "checkpointLocation"):
        assert stream(last)[field] == stream(first)[field]
    assert stream(last)["runId"] != stream(first)["runId"]
    ticks.cancel(name)
    ended = ticks.cluster.wait_finished(ticks.name, name)
    assert (phase(ended), reason(ended)) == ("Canceled", "CanceledByUser")
    assert_each_once(ticks, "counted")


@pytest.mark.thorough
def test_a_file_stream_survives_driver_deaths_before_and_after_its_first_commit(ticks: Space) -> None:
    """Until the first commit nothing in the table but a mark tells that the log there is this stream's."""
    assert phase(ticks.run("CREATE TABLE filed (value BIGINT) USING parquet")) == "Finished"
    # Each batch computes the subquery again, for some seconds: time enough to see that nothing is committed yet.
    slow = "(SELECT max(sha2(CAST(id AS STRING), 512)) FROM range(0, 3000000, 1, 1)) IS NOT NULL"
    name = ticks.statement(f"INSERT INTO filed SELECT value FROM STREAM ticks WHERE {slow}", streaming=QUICK)
    first = ticks.cluster.wait(
        "SqlStatement", ticks.name, name, lambda s: s is not None and "queryId" in stream(s), "with a query", SECONDS
    )
    assert "committedBatchId" not in stream(first), first["status"]
    ticks.kill_driver()
    again = wait_batch(ticks, name)  # the first one may be empty
    assert stream(again)["restarts"] >= 1, again["status"]
    assert stream(again)["checkpointLocation"] == stream(first)["checkpointLocation"]
    assert_each_once(ticks, "filed")
    ticks.crash_driver()
    last = wait_batch(ticks, name, 1)
    assert stream(last)["restarts"] > stream(again)["restarts"], last["status"]
    assert_each_once(ticks, "filed")
    refused = ticks.run("INSERT INTO filed VALUES (-1)")
    assert (phase(refused), reason(refused)) == ("Error", "InvalidSpec"), refused["status"]
    ticks.cancel(name)
    assert phase(ticks.cluster.wait_finished(ticks.name, name)) == "Canceled"
    assert_each_once(ticks, "filed")


@contextmanager
def drained(space: Space, node: str, session_uid: str) -> Iterator[None]:
    """A node that takes no pods and has lost those of one session, to eviction; all others stay on it."""
    kubectl = space.cluster.kubectl
    try:
        kubectl(
            "drain", node, f"--pod-selector=sparksql.dev/session-uid={session_uid}",
            "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s",
        )  # fmt: skip
        yield
    finally:
        kubectl("uncordon", node)


@contextmanager
def followed(space: Space, pod: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Has a pod's log written to a file, by a process that ends with the pod."""
    command = (
        "kubectl",
        f"--kubeconfig={space.cluster.kubeconfig}",
        "logs",
        "--follow",
        f"--namespace={space.name}",
        pod,
    )
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out)
    try:
        space.cluster.wait_until(lambda: log.stat().st_size > 0, "following the log")
        yield process
    finally:
        process.kill()
        process.wait()


def states(log: Path, operation_id: str) -> list[str]:
    """The states that a statement went through, from the audit lines of a driver's log."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if '"sparksql.audit"' in line]
    return [line["state"] for line in lines if line.get("operation_id") == operation_id]


@pytest.mark.alone
def test_a_stream_goes_on_after_a_drain(ticks: Space, tmp_path: Path) -> None:
    assert phase(ticks.run("CREATE TABLE kept (value BIGINT) USING iceberg")) == "Finished"
    name = ticks.statement("INSERT INTO kept SELECT value FROM STREAM ticks", streaming=QUICK)
    before = wait_batch(ticks, name)
    session, pod, log = ticks.get_session(), ticks.driver_pod(), tmp_path / "driver.log"
    driver = ticks.cluster.get("Pod", ticks.name, pod)
    assert driver is not None
    with followed(ticks, pod, log) as following:
        # Without --force, which would also take pods that nobody makes again.
        with drained(ticks, driver["spec"]["nodeName"], session["metadata"]["uid"]):
            waiting = ticks.wait_reason("SqlSession", "main", "Unschedulable")
        following.wait(SECONDS)
    assert (phase(waiting), condition(waiting, "Ready")) == ("Starting", "False"), waiting["status"]
    assert "unschedulable" in waiting["status"]["message"], waiting["status"]
    assert states(log, before["status"]["operationId"]) == ["Pending", "Running", "Closed"], log.read_text()[-5000:]

    after = wait_batch(ticks, name)
    # A node that is drained is no failure of the session.
    assert ticks.get_session()["status"].get("restarts", 0) <= session["status"].get("restarts", 0)
    for field in ("queryId", "checkpointLocation"):
        assert stream(after)[field] == stream(before)[field]
    ticks.cancel(name)
    assert phase(ticks.cluster.wait_finished(ticks.name, name)) == "Canceled"
    assert_each_once(ticks, "kept")
