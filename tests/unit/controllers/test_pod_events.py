"""What Events say of a pod whose status does not say why it waits."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparksql.controllers.context import ControllerContext
from sparksql.controllers.session.pod_events import PodEvents
from sparksql.domain.session.snapshot import PodFacts
from sparksql.kube.errors import ApiError, Forbidden
from tests.unit.domain.builders.objects import NOW, seconds

Object = dict[str, Any]
WORDS = 'MountVolume.SetUp failed for volume "keys" : secret "keys" not found'
CREATING = PodFacts("d-1", "uid-1", NOW)


def event(reason: str, message: str, at: int, type_: str = "Warning", field: str = "lastTimestamp") -> Object:
    return {"metadata": {}, "type": type_, "reason": reason, "message": message, field: f"2026-01-31T08:00:{at:02}Z"}


SCHEDULED = event("Scheduled", "assigned", 2, "Normal", "eventTime")
FAILED_MOUNT = event("FailedMount", WORDS, 5)


class Server:
    def __init__(self, *events: Object, error: ApiError | None = None) -> None:
        self.events, self.error, self.asked = list(events), error, 0

    async def list_some(self, _resource: Any, _namespace: str, selector: str, _most: int) -> list[Object]:
        assert selector == "involvedObject.uid=uid-1"
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.events


class Clock:
    now = NOW + seconds(30)

    def __call__(self) -> Any:
        return self.now


def reader(server: Server, clock: Clock | None = None) -> PodEvents:
    return PodEvents(cast(ControllerContext, SimpleNamespace(client=server, clock=clock or Clock())))


async def test_volume_that_cannot_be_mounted_is_told_in_the_kubelets_words() -> None:
    events = (FAILED_MOUNT, event("FailedScheduling", "0/1 nodes", 1), SCHEDULED, event("Pulled", "there", 9, "Normal"))
    shown = await reader(Server(*events)).explained("n", CREATING)
    assert shown.container_problem == f"FailedMount: {WORDS}"


async def test_event_from_before_the_binding_of_the_pod_is_no_problem() -> None:
    server = Server(event("FailedScheduling", "0/1 nodes", 1), SCHEDULED)
    assert (await reader(server).explained("n", CREATING)).container_problem is None


async def test_pod_that_gates_hold_back_has_the_queues_last_words() -> None:
    server = Server(event("Pending", "couldn't assign flavors: insufficient quota for cpu", 7, "Normal"))
    shown = await reader(server).explained("n", replace(CREATING, has_node=False, gates=("kueue.x-k8s.io/admission",)))
    assert shown.queue_words == "Pending: couldn't assign flavors: insufficient quota for cpu"


@pytest.mark.parametrize(
    "facts",
    [
        {"created": NOW + seconds(25)},  # young
        {"started": NOW},
        {"has_node": False},
        {"ended": "Error"},
        {"end_due": NOW},
        {"image_problem": "ErrImagePull"},
        {"container_problem": "CreateContainerConfigError"},
    ],
)
async def test_events_of_a_pod_that_needs_no_explanation_are_not_listed(facts: Object) -> None:
    server, pod = Server(FAILED_MOUNT), replace(CREATING, **facts)
    assert await reader(server).explained("n", pod) == pod
    assert server.asked == 0


async def test_events_of_one_pod_are_listed_at_most_every_ten_seconds() -> None:
    server, clock = Server(FAILED_MOUNT), Clock()
    events = reader(server, clock)
    for _ in range(5):
        assert (await events.explained("n", CREATING)).container_problem is not None
    assert server.asked == 1
    clock.now += seconds(10)
    await events.explained("n", CREATING)
    assert server.asked == 2


async def test_operator_without_the_right_to_list_events_goes_on() -> None:
    server = Server(error=Forbidden(403, "Forbidden", "events is forbidden"))
    assert await reader(server).explained("n", CREATING) == CREATING
