"""Storage that is away while a savepoint is deleted: the object goes in its time, and the data when the storage is back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.streams import QUICK, SECONDS, count_up, savepoint, stop, wait_batch
from tests.support.harness import OPERATOR_NAMESPACE, Cluster, Space, condition, phase

STORE = "spark-sql-operator-objectstore"
CLEANER = "app.kubernetes.io/component=cleaner"
NOBODY = "sparksql.dev/nobody"
DELETION_SECONDS = 240.0  # the operator promises 60; the rest is for a loaded machine

pytestmark = pytest.mark.alone


@pytest.fixture
def away(cluster: Cluster) -> Iterator[Callable[[bool], None]]:
    """Takes the storage's address from its pod, or gives it back; its data stay."""

    def switch(is_away: bool) -> None:
        body = {"spec": {"selector": {NOBODY: "true" if is_away else None}}}
        cluster.patch("Service", OPERATOR_NAMESPACE, STORE, body)

    yield switch
    switch(False)


def test_data_of_a_deleted_savepoint_go_when_the_storage_is_back(
    main: Space, cluster: Cluster, away: Callable[[bool], None]
) -> None:
    count_up(main)
    assert phase(main.run("CREATE TABLE counted (value BIGINT) USING iceberg")) == "Finished"
    flow = main.statement("INSERT INTO counted SELECT value FROM STREAM ticks", streaming=QUICK)
    wait_batch(main, flow)
    assert phase(savepoint(main, "old", flow, reclaimPolicy="Delete")) == "Completed"
    assert phase(savepoint(main, "newer", flow)) == "Completed"
    stop(main, flow)
    away(True)
    cluster.delete("SqlSavepoint", main.name, "old")
    cluster.wait_gone("SqlSavepoint", main.name, "old", seconds=DELETION_SECONDS)
    warnings = [e["message"] for e in cluster.events(main.name) if e["reason"] == "FinalizerDeadline"]
    assert len(warnings) == 1 and "may hold data" in warnings[0], warnings
    (job,) = cluster.list("Job", main.name, CLEANER)
    (first,) = cluster.list("Pod", main.name, CLEANER)
    cluster.delete("Pod", main.name, first["metadata"]["name"], grace_seconds=0)  # what the next needs is still there
    away(False)
    name = job["metadata"]["name"]
    done = cluster.wait("Job", main.name, name, lambda j: condition(j, "Complete") == "True", "Complete", SECONDS)
    assert (done["status"]["succeeded"], done["status"]["failed"]) == (1, 1), done["status"]
