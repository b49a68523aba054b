"""Sessions as they see their drivers' pods and the statements of their drivers."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.cache.indexes import INDEXES
from sparksql.controllers.session.gather import in_hand
from sparksql.controllers.session.pods import pod_snapshot
from sparksql.engine.store import Store
from tests.unit.domain.builders.sessions import session

DRIVER = {"podName": "s-2", "podUID": "uid-2", "incarnation": 2}


def statement(namespace: str = "team-a", **status: Any) -> dict[str, Any]:
    metadata = {"name": "one", "namespace": namespace, "uid": "uid-one", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"sessionRef": {"name": "analytics"}}, "status": status}


def at(pod_uid: str) -> dict[str, Any]:
    return {"session": {"name": "analytics", "podUID": pod_uid}}


@pytest.mark.parametrize(
    ("obj", "count"),
    [
        (statement(phase="Running", **at("uid-2")), 1),
        (statement(phase="Pending", **at("uid-2")), 1),
        (statement(phase="Running", **at("uid-1")), 0),
        (statement(phase="Finished", **at("uid-2")), 0),
        (statement(phase="Initialized", lostDrivers=["s-2"]), 1),
        (statement(phase="Error", lostDrivers=["s-1", "s-2"]), 1),
        (statement(phase="Initialized", lostDrivers=["s-1"]), 0),
        (statement("team-b", phase="Error", lostDrivers=["s-2"]), 0),
    ],
)
def test_driver_has_in_hand_what_it_runs_and_what_has_noted_its_loss(obj: dict[str, Any], count: int) -> None:
    store = Store(indexes=INDEXES)
    store.apply("SqlStatement", obj)
    assert in_hand(store, session({"phase": "Ready", "driver": DRIVER})) == count
    assert in_hand(store, session()) == 0


def pod(status: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "s-2", "namespace": "team-a", "uid": "uid-2", "creationTimestamp": "2026-01-31T08:00:00Z"}
    return {"metadata": metadata, "spec": {}, "status": status}


def ended_pod(terminated: dict[str, Any] | None, **status: Any) -> dict[str, Any]:
    containers = [] if terminated is None else [{"name": "spark", "state": {"terminated": terminated}}]
    return pod({"phase": "Failed", "containerStatuses": containers, **status})


@pytest.mark.parametrize(
    ("code", "remedies"),
    [
        (11, ("too many executors failed", "spec.executors.memory", "spark.executor.maxNumFailures")),
        (52, ("heap is exhausted", "spec.driver.memory")),
        (137, ("its pod's limit", "spec.driver.memory")),
    ],
)
def test_ended_driver_with_a_known_exit_code_has_its_remedy(code: int, remedies: tuple[str, ...]) -> None:
    ended = pod_snapshot(ended_pod({"reason": "Error", "exitCode": code})).ended
    assert ended is not None and ended.startswith(f"Error, exit code {code} (")
    assert all(remedy in ended for remedy in remedies)


@pytest.mark.parametrize(
    ("obj", "ended"),
    [
        (ended_pod({"reason": "StartError", "exitCode": 128, "message": "exec: no such file\n"}),
         "StartError, exit code 128: exec: no such file"),
        (ended_pod(None, reason="Evicted", message="The node was low on resource: memory."),
         "Evicted: The node was low on resource: memory."),
        (ended_pod({"exitCode": 3, "message": "m"}, message="m"), "Terminated, exit code 3: m"),
        (ended_pod({"exitCode": 3, "message": "a"}, message="b" * 900), f"Terminated, exit code 3: a: {'b' * 300}"),
    ],
)  # fmt: skip
def test_ended_driver_has_the_words_of_kubelet_and_container(obj: dict[str, Any], ended: str) -> None:
    assert pod_snapshot(obj).ended == ended


def waiting_pod(reason: str, message: str = "", kind: str = "containerStatuses") -> dict[str, Any]:
    waiting = {"reason": reason, "message": message}
    return pod({"phase": "Pending", kind: [{"name": "spark", "image": "spark:1", "state": {"waiting": waiting}}]})


@pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "CreateContainerError", "RunContainerError", "Other"])
def test_container_that_waits_for_any_unknown_reason_has_a_problem_with_the_kubelets_words(
    reason: str, kind: str
) -> None:
    facts = pod_snapshot(waiting_pod(reason, 'secret "keys" not found', kind))
    assert (facts.image_problem, facts.container_problem) == (None, f'{reason}: secret "keys" not found')


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ImageInspectError"])
def test_container_that_waits_for_its_image_has_an_image_problem_alone(reason: str) -> None:
    facts = pod_snapshot(waiting_pod(reason))
    assert (facts.image_problem, facts.container_problem) == (f"{reason}: spark:1", None)


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_container_that_starts_as_it_should_has_no_problem(reason: str) -> None:
    facts = pod_snapshot(waiting_pod(reason))
    assert (facts.image_problem, facts.container_problem) == (None, None)
