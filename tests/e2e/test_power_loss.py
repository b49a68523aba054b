"""The node loses its power under everything at once. When it is back each piece of work ends by its own rule, and nobody has to help."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.streams import QUICK, SECONDS, ask_savepoint, assert_each_once, count_up, savepoint, stop, wait_batch
from tests.support.harness import ENDLESS, Cluster, Space, condition, phase, reason
from tests.support.installation import ROOT

pytestmark = pytest.mark.alone

CLUSTER = (sys.executable, str(ROOT / "tests" / "cluster" / "cluster.py"))


def lose_power() -> None:
    subprocess.run([*CLUSTER, "crash"], check=True, timeout=120)
    subprocess.run([*CLUSTER, "up"], check=True, stdout=subprocess.DEVNULL, timeout=600)


def test_everything_goes_on_after_a_power_cut(main: Space, cluster: Cluster) -> None:
    count_up(main)
    for table in ("counted (value BIGINT)", "written (n BIGINT)"):
        assert phase(main.run(f"CREATE TABLE {table} USING iceberg")) == "Finished"
    before = main.run("SELECT count(*) FROM counted")
    flow = main.statement("INSERT INTO counted SELECT value FROM STREAM ticks", streaming=QUICK)
    wait_batch(main, flow)
    assert phase(savepoint(main, "old", flow, reclaimPolicy="Delete")) == "Completed"
    insert = main.statement(f"INSERT INTO written {ENDLESS}")
    select = main.statement(ENDLESS)
    for name in (insert, select):
        main.wait_phase(name, "Running")
    cluster.delete("SqlSavepoint", main.name, "old")
    ask_savepoint(main, "new", flow)
    cluster.wait(
        "SqlSavepoint", main.name, "new", lambda s: phase(s) in ("InProgress", "Completed"), "under way", SECONDS
    )

    lose_power()

    cluster.wait_operator()
    lost = cluster.wait_finished(main.name, insert, SECONDS)
    assert (phase(lost), reason(lost)) == ("Error", "SessionLost"), lost["status"]
    again = cluster.wait(
        "SqlStatement", main.name, select, lambda s: phase(s) == "Running" and (s or {})["status"]["attempt"] == 2,
        "running again", SECONDS,
    )  # fmt: skip
    assert condition(again, "Finished") == "False"
    main.cancel(select)
    assert phase(cluster.wait_finished(main.name, select)) == "Canceled"
    wait_batch(main, flow)
    taken = cluster.wait(
        "SqlSavepoint", main.name, "new", lambda s: condition(s, "Finished") == "True", "Finished", SECONDS
    )
    assert phase(taken) == "Completed", taken["status"]
    cluster.wait_gone("SqlSavepoint", main.name, "old", seconds=SECONDS)
    orphaned = [e for e in cluster.events(main.name) if e["reason"] == "FinalizerDeadline"]
    assert orphaned == []
    assert main.get(before["metadata"]["name"])["status"]["operationId"] == before["status"]["operationId"]
    stop(main, flow)
    assert_each_once(main, "counted")
    assert main.rows("SELECT count(*) FROM written") == [["0"]]
