"""The node stops answering, and its pods run on. Their session goes on without them, and a stream is never written twice at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.streams import QUICK, SECONDS, assert_each_once, count_up, stop, stream, wait_batch
from tests.support.harness import ENDLESS, Cluster, Space, phase, reason
from tests.support.installation import ROOT

pytestmark = pytest.mark.alone

CLUSTER = (sys.executable, str(ROOT / "tests" / "cluster" / "cluster.py"))


@contextmanager
def node_lost() -> Iterator[None]:
    subprocess.run([*CLUSTER, "kubelet", "stop"], check=True, timeout=60)
    try:
        yield
    finally:
        subprocess.run([*CLUSTER, "kubelet", "start"], check=True, timeout=60)


def test_a_session_goes_on_without_the_pod_of_a_lost_node(main: Space, cluster: Cluster) -> None:
    count_up(main)
    for table in ("counted (value BIGINT)", "written (n BIGINT)"):
        assert phase(main.run(f"CREATE TABLE {table} USING iceberg")) == "Finished"
    flow = main.statement("INSERT INTO counted SELECT value FROM STREAM ticks", streaming=QUICK)
    wait_batch(main, flow)
    insert, select = main.statement(f"INSERT INTO written {ENDLESS}"), main.statement(ENDLESS)
    for name in (insert, select):
        main.wait_phase(name, "Running")
    before = main.get_session()["status"]["driver"]

    with node_lost():
        cluster.delete("Pod", main.name, before["podName"], grace_seconds=1)
        main.wait_reason("SqlSession", "main", "DriverTerminating")
        lost = cluster.wait_finished(main.name, insert)
        assert (phase(lost), reason(lost)) == ("Error", "SessionLost"), lost["status"]
        after = cluster.wait(
            "SqlSession", main.name, "main", lambda s: (s or {})["status"]["driver"]["podName"] != before["podName"],
            "starting its next driver", SECONDS,
        )["status"]["driver"]  # fmt: skip
        assert after["unconfirmed"] == [before["bootId"]]
        old = cluster.get("Pod", main.name, before["podName"])
        assert old is not None and "deletionTimestamp" in old["metadata"]

    again = main.wait_phase(select, "Running", seconds=SECONDS)
    assert again["status"]["attempt"] == 2
    main.cancel(select)
    assert phase(cluster.wait_finished(main.name, select)) == "Canceled"
    assert stream(wait_batch(main, flow))["restarts"] == 1
    stop(main, flow)
    assert_each_once(main, "counted")
    assert main.rows("SELECT count(*) FROM written") == [["0"]]
