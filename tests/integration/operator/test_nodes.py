"""Driver pods that do not come to a node, or do not leave one: queues, and nodes that stop answering."""

from __future__ import annotations

import pytest

from sparksql.api.names import child_base
from sparksql.kube.resources import PODS, SERVICES, SESSIONS, STATEMENTS
from tests.integration.operator.environment import Environment, Object, message_of, reason_of
from tests.integration.operator.fake_kubelet import Plan

GATE = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
SHORT = {"schedulingSeconds": 1, "imagePullSeconds": 1, "driverStartSeconds": 60}


async def queued(env: Environment) -> Object:
    """The session in its queue, when the deadlines of a start are over."""
    waiting = await env.in_phase(SESSIONS, "s", "Starting", "WaitingInQueue")
    # Another session's place is known to be lost at the same deadlines: then they are over for this one, too.
    other = f"other-{env.namespace}"
    await env.create_class(other)
    env.kubelet.plans["homeless"] = Plan(unschedulable=True)
    await env.create_session("homeless", className=other)
    await env.until_stalled("homeless", "Unschedulable")
    changed = await env.patch(SESSIONS, "s", {"idle": {"timeoutSeconds": 9000, "action": "Close"}})
    after = await env.reaches(SESSIONS, "s", observedGeneration=changed["metadata"]["generation"])
    assert (after["status"]["phase"], reason_of(after)) == ("Starting", "WaitingInQueue"), after["status"]
    assert after["status"]["driver"]["podUID"] == waiting["status"]["driver"]["podUID"]
    assert (after["status"]["driver"]["incarnation"], after["status"].get("restarts", 0)) == (1, 0)
    return after


async def test_a_gate_is_waited_for_and_costs_nothing(env: Environment) -> None:
    await env.create_class(podTemplate={"driver": {"spec": GATE}})
    await env.create_session()
    async with env.operator(deadlines=SHORT, maxDriverRestarts=0):
        await env.create_statement("one")
        held = await queued(env)
        assert "kueue.x-k8s.io/admission" in message_of(held)
        waiting = await env.in_phase(STATEMENTS, "one", "Initialized", "WaitingInQueue")
        assert "session s: " in message_of(waiting)
        free = {"spec": {"schedulingGates": None}}
        await env.client.patch_merge(PODS, env.namespace, held["status"]["driver"]["podName"], free)
        await env.session_ready()
        await env.finished("one")
    assert [name[-2:] for name in env.kubelet.started if name.startswith("s-")] == ["-1"]


async def test_no_room_in_a_queue_is_no_failure(env: Environment) -> None:
    await env.create_class(scheduling={"schedulerName": "yunikorn", "queueLabel": {"queue": "root.team-a"}})
    env.kubelet.plans["s"] = Plan(unschedulable=True)
    await env.create_session()
    async with env.operator(deadlines=SHORT, maxDriverRestarts=0):
        assert "Insufficient cpu" in message_of(await queued(env))


async def test_a_node_that_stops_answering_is_waited_for_up_to_a_deadline(env: Environment) -> None:
    """The next driver starts beside the old pod, which is left to Kubernetes; nothing runs twice that may not."""
    await env.create_class()
    session = await env.create_session()
    env.kubelet.plans["s"] = Plan(node_dead=True)
    async with env.operator(deadlines={"terminationSeconds": 1}):
        await env.create_statement("writes", "INSERT HOLD")
        await env.create_statement("reads", "SELECT HOLD")
        for name in ("writes", "reads"):
            await env.in_phase(STATEMENTS, name, "Running")
        before = (await env.get(SESSIONS, "s"))["status"]["driver"]
        old = env.kubelet.pod_of("s")
        await env.client.delete(PODS, env.namespace, old, grace_seconds=1)
        after = await env.wait(
            SESSIONS, "s", "has its next driver", lambda o: o["status"]["phase"] == "Ready" and driver(o) == 2
        )
        await env.ended("writes", "Error", "SessionLost")
        await env.reaches(STATEMENTS, "reads", phase="Running", attempt=2)
        env.ledger.release("reads")
        await env.finished("reads")
        left = await env.get(PODS, old)
    assert after["status"]["driver"]["unconfirmed"] == [before["bootId"]]
    assert after["status"]["driver"]["podName"] != old
    assert "deletionTimestamp" in left["metadata"]
    assert len(env.ledger.ran("writes")) == 1
    service = await env.get(SERVICES, child_base("s", session["metadata"]["uid"]))
    assert service["spec"]["selector"]["sparksql.dev/incarnation"] == "2"


@pytest.mark.parametrize("wish", [{"desiredState": "Stopped"}])
async def test_a_session_on_an_unresponsive_node_can_be_stopped(env: Environment, wish: Object) -> None:
    await env.create_class()
    await env.create_session()
    env.kubelet.plans["s"] = Plan(node_dead=True)
    async with env.operator(deadlines={"terminationSeconds": 1}):
        await env.session_ready()
        await env.client.delete(PODS, env.namespace, env.kubelet.pod_of("s"), grace_seconds=1)
        await env.patch(SESSIONS, "s", wish)
        await env.in_phase(SESSIONS, "s", "Stopped", "Stopped")


def driver(session: Object) -> int:
    return int(session["status"]["driver"]["incarnation"])
