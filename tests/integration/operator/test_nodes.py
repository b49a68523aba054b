"""Driver pods that do not come to a node, or do not leave one: queues, and nodes that stop answering."""

from __future__ import annotations

import time

import pytest

from sparksql.api.names import child_base
from sparksql.kube.resources import PODS, SERVICES, SESSIONS, STATEMENTS
from tests.integration.operator.environment import Environment, Object, message_of, reason_of
from tests.integration.operator.fake_kubelet import Plan

GATE = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
SHORT = {"schedulingSeconds": 1, "imagePullSeconds": 1, "driverStartSeconds": 60}


async def queued(world: Environment) -> Object:
    """The session in its queue, when the deadlines of a start are over."""
    waiting = await world.in_phase(SESSIONS, "s", "Starting", "WaitingInQueue")
    since = time.monotonic()
    await world.until("deadlines would be over", lambda: time.monotonic() - since > 3)
    changed = await world.patch(SESSIONS, "s", {"idle": {"timeoutSeconds": 9000, "action": "Close"}})
    after = await world.reaches(SESSIONS, "s", observedGeneration=changed["metadata"]["generation"])
    assert (after["status"]["phase"], reason_of(after)) == ("Starting", "WaitingInQueue"), after["status"]
    assert after["status"]["driver"]["podUID"] == waiting["status"]["driver"]["podUID"]
    assert (after["status"]["driver"]["incarnation"], after["status"].get("restarts", 0)) == (1, 0)
    return after


async def test_a_gate_is_waited_for_and_costs_nothing(world: Environment) -> None:
    await world.create_class(podTemplate={"driver": {"spec": GATE}})
    await world.create_session()
    async with world.operator(deadlines=SHORT, maxDriverRestarts=0):
        await world.create_statement("one")
        held = await queued(world)
        assert "kueue.x-k8s.io/admission" in message_of(held)
        waiting = await world.in_phase(STATEMENTS, "one", "Initialized", "WaitingInQueue")
        assert "session s: " in message_of(waiting)
        free = {"spec": {"schedulingGates": None}}
        await world.client.patch_merge(PODS, world.namespace, held["status"]["driver"]["podName"], free)
        await world.session_ready()
        await world.finished("one")
    assert [name[-2:] for name in world.kubelet.started] == ["-1"]


async def test_no_room_in_a_queue_is_no_failure(world: Environment) -> None:
    await world.create_class(scheduling={"schedulerName": "yunikorn", "queueLabel": {"queue": "root.team-a"}})
    world.kubelet.plans["s"] = Plan(unschedulable=True)
    await world.create_session()
    async with world.operator(deadlines=SHORT, maxDriverRestarts=0):
        assert "Insufficient cpu" in message_of(await queued(world))


async def test_a_node_that_stops_answering_is_waited_for_up_to_a_deadline(world: Environment) -> None:
    """The next driver starts beside the old pod, which is left to Kubernetes; nothing runs twice that may not."""
    await world.create_class()
    session = await world.create_session()
    world.kubelet.plans["s"] = Plan(node_dead=True)
    async with world.operator(deadlines={"terminationSeconds": 1}):
        await world.create_statement("writes", "INSERT HOLD")
        await world.create_statement("reads", "SELECT HOLD")
        for name in ("writes", "reads"):
            await world.in_phase(STATEMENTS, name, "Running")
        before = (await world.get(SESSIONS, "s"))["status"]["driver"]
        old = world.kubelet.pod_of("s")
        await world.client.delete(PODS, world.namespace, old, grace_seconds=1)
        after = await world.wait(
            SESSIONS, "s", "has its next driver", lambda o: o["status"]["phase"] == "Ready" and driver(o) == 2
        )
        await world.ended("writes", "Error", "SessionLost")
        await world.reaches(STATEMENTS, "reads", phase="Running", attempt=2)
        world.ledger.release("reads")
        await world.finished("reads")
        left = await world.get(PODS, old)
    assert after["status"]["driver"]["unconfirmed"] == [before["bootId"]]
    assert after["status"]["driver"]["podName"] != old
    assert "deletionTimestamp" in left["metadata"]
    assert len(world.ledger.ran("writes")) == 1
    service = await world.get(SERVICES, child_base("s", session["metadata"]["uid"]))
    assert service["spec"]["selector"]["sparksql.dev/incarnation"] == "2"


@pytest.mark.parametrize("wish", [{"desiredState": "Stopped"}])
async def test_a_session_on_an_unresponsive_node_can_be_stopped(world: Environment, wish: Object) -> None:
    await world.create_class()
    await world.create_session()
    world.kubelet.plans["s"] = Plan(node_dead=True)
    async with world.operator(deadlines={"terminationSeconds": 1}):
        await world.session_ready()
        await world.client.delete(PODS, world.namespace, world.kubelet.pod_of("s"), grace_seconds=1)
        await world.patch(SESSIONS, "s", wish)
        await world.in_phase(SESSIONS, "s", "Stopped", "Stopped")


def driver(session: Object) -> int:
    return int(session["status"]["driver"]["incarnation"])
