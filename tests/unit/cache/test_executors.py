"""Executor pods in the store: apart from drivers, lean, found by their driver; their failures are kept for an hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sparksql.api.names import DRIVER_APP_NAME, EXECUTOR_APP_NAME, LABEL_NAME
from sparksql.cache.executors import stored_as
from sparksql.cache.indexes import EXECUTOR, EXECUTORS_BY_DRIVER, INDEXES, POD
from sparksql.cache.pod_ends import PodTerminations
from sparksql.controllers.session.pods import pod_snapshot
from sparksql.engine.store import Store

ENDED_AT = datetime(2026, 1, 31, 8, tzinfo=UTC)


def executor(uid: str = "e1", driver: str = "d1", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "n",
            "name": f"pod-{uid}",
            "uid": uid,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-31T08:00:00Z",
            "labels": {LABEL_NAME: EXECUTOR_APP_NAME, "spark-role": "executor"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "driver", "uid": driver, "controller": True}
            ],
        },
        "spec": {"nodeName": "node", "containers": [{"name": "spark", "image": "i", "env": [{"name": "A"}] * 40}]},
        "status": {"phase": "Running", "hostIP": "10.0.0.1", **status},
    }


def ended(code: int, reason: str = "Error", uid: str = "e1") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": "2026-01-31T08:00:00Z"}}
    return executor(uid, phase="Failed", containerStatuses=[{"name": "spark", "state": state}])


def test_executor_is_kept_lean_and_found_by_its_driver() -> None:
    running = {"running": {"startedAt": "2026-01-31T08:00:05Z"}}
    kind, kept = stored_as(POD, executor(containerStatuses=[{"name": "spark", "state": running, "imageID": "x"}]))
    assert kind == EXECUTOR
    assert (kept["spec"], "labels" in kept["metadata"]) == ({"nodeName": "node"}, False)
    store = Store(indexes=INDEXES)
    store.apply(kind, kept)
    (found,) = store.by_index(EXECUTORS_BY_DRIVER, "d1")
    assert pod_snapshot(found).started == ENDED_AT + timedelta(seconds=5)
    assert store.by_index(EXECUTORS_BY_DRIVER, "d2") == []


def test_driver_pod_is_kept_as_it_is() -> None:
    pod = executor()
    pod["metadata"]["labels"][LABEL_NAME] = DRIVER_APP_NAME
    assert stored_as(POD, pod) == (POD, pod)


@pytest.mark.parametrize(
    ("code", "reason", "out_of_memory"), [(137, "OOMKilled", True), (52, "Error", True), (1, "Error", False)]
)
def test_failed_executor_is_remembered_for_an_hour(code: int, reason: str, out_of_memory: bool) -> None:
    ends = PodTerminations()
    ends.observe(ended(code, reason))
    ends.observe(ended(code, reason))
    (failure,) = ends.executor_failures("d1", ENDED_AT)
    assert (failure.pod_name, failure.end, failure.out_of_memory) == (
        "pod-e1",
        f"{reason}, exit code {code}",
        out_of_memory,
    )
    assert ends.executor_failures("d1", ENDED_AT + timedelta(minutes=61)) == ()
    assert ends.executor_failures("d2", ENDED_AT) == ()


def test_executor_that_was_not_wanted_any_more_has_not_failed() -> None:
    ends = PodTerminations()
    removed = ended(143)
    removed["metadata"]["deletionTimestamp"] = "2026-01-31T08:00:00Z"
    evicted = ended(143, uid="e2")
    evicted["status"]["conditions"] = [
        {"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI", "status": "True"}
    ]
    for pod in (removed, evicted, ended(0, uid="e3")):
        ends.observe(pod)
    assert ends.executor_failures("d1", ENDED_AT) == ()
    assert ends.end_of("e1") is None
