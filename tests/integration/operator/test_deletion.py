"""Dedicated sessions, and that deleting any object in any state ends: with a clean end where one can be had, else in time."""

from __future__ import annotations

import time

import pytest

from sparksql.api.names import dedicated_session_name
from sparksql.kube.resources import EVENTS, SESSIONS, STATEMENTS
from sparksql.operator import Operator
from tests.integration.operator.environment import Environment, message_of, reason_of
from tests.integration.operator.fake_kubelet import Plan

STATEMENT_DEADLINE, SESSION_DEADLINE = 15.0, 30.0
MARGIN = 15.0  # for a busy machine


# --- dedicated sessions


async def test_dedicated_session_lives_as_long_as_its_statement_runs(world: Environment) -> None:
    await world.create_class()
    async with world.operator():
        made = await world.dedicated("own", "INSERT HOLD", {"conf": {"spark.sql.ansi.enabled": "true"}})
        name = dedicated_session_name("own", made["metadata"]["uid"])
        await world.in_phase(STATEMENTS, "own", "Running")
        session = await world.get(SESSIONS, name)
        assert [o["uid"] for o in session["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]
        assert world.kubelet.gateway_of(name).config.spark_conf["spark.sql.ansi.enabled"] == "true"
        world.ledger.release("own")
        done = await world.finished("own")
        await world.gone(SESSIONS, name)
        assert await world.driver_pods() == []
    assert done["status"]["result"]["preview"] == [["1"]]


async def test_statement_with_a_dedicated_session_runs_again_on_a_new_driver(world: Environment) -> None:
    await world.create_class()
    async with world.operator():
        await world.dedicated("own", "INSERT INTO t")
        await world.finished("own")
        await world.patch(STATEMENTS, "own", {"runNonce": "2"})
        await world.reaches(STATEMENTS, "own", run=2, phase="Finished")
        await world.until("no driver is left", lambda: _no_pods(world))
    assert len(world.ledger.ran("own")) == len(world.kubelet.started) == 2


@pytest.mark.parametrize("end", ["cancel", "delete"])
async def test_dedicated_session_goes_when_its_statement_is_canceled_or_deleted(world: Environment, end: str) -> None:
    await world.create_class()
    async with world.operator():
        made = await world.dedicated("own", "INSERT HOLD")
        name = dedicated_session_name("own", made["metadata"]["uid"])
        await world.in_phase(STATEMENTS, "own", "Running")
        if end == "cancel":
            await world.patch(STATEMENTS, "own", {"desiredState": "Canceled"})
            await world.ended("own", "Canceled", "CanceledByUser")
        else:
            await world.delete(STATEMENTS, "own")
            await world.gone(STATEMENTS, "own")
        await world.gone(SESSIONS, name)


@pytest.mark.parametrize(
    ("template", "reason", "names"),
    [
        ({"image": "evil:1"}, "NotAllowed", "evil:1"),
        ({"driver": {"cpu": "9"}}, "LimitExceeded", "spec.driver.cpu"),
        ({"className": "nobody"}, "InvalidSpec", "nobody"),
        ({"init": [{"sql": "CREATE TABEL t"}]}, "InvalidSpec", "spec.init: statement 1"),
    ],
)
async def test_dedicated_session_that_cannot_start_ends_its_statement_with_the_reason(
    world: Environment, template: dict[str, object], reason: str, names: str
) -> None:
    await world.create_class(limits={"driver": {"cpu": "8"}})
    made = await world.dedicated("own", "INSERT INTO t", template)
    name = dedicated_session_name("own", made["metadata"]["uid"])
    world.kubelet.plans[name] = Plan(init_failure="no viable alternative")
    async with world.operator():
        done = await world.ended("own", "Error", reason)
        await world.gone(SESSIONS, name)
    assert names in message_of(done)
    assert world.ledger.executions == []


async def test_dedicated_session_of_the_same_name_that_is_somebody_elses_is_left_alone(world: Environment) -> None:
    await world.create_class()
    made = await world.dedicated("own", timeouts={"queueSeconds": 2})
    name = dedicated_session_name("own", made["metadata"]["uid"])
    await world.create_session(name)
    async with world.operator():
        await world.wait(STATEMENTS, "own", "ends", lambda o: o["status"].get("completionTime"))
        await world.session_ready(name)


# --- deletion in every state


async def test_statement_in_every_state_is_let_go_at_once(world: Environment) -> None:
    await world.create_class()
    await world.create_session(maxConcurrentStatements=2)
    async with world.operator() as operator:
        await world.create_statement("done")
        await world.finished("done")
        await world.create_statement("failed", "SELECT FAIL")
        await world.ended("failed", "Error", "SqlError")
        await world.create_statement("running", "INSERT HOLD")
        await world.in_phase(STATEMENTS, "running", "Running")
        await world.create_statement("pending", "INSERT QUEUE")
        await world.in_phase(STATEMENTS, "pending", "Pending")
        await world.create_statement("queued")
        await world.create_statement("homeless", session="nobody")
        await world.create_statement("depends", dependsOn=[{"name": "nothing"}])
        for name in ("queued", "homeless", "depends"):
            await world.in_phase(STATEMENTS, name, "Initialized")
        # The queued one first: a place that is free again would rightly be its own.
        names = ("queued", "homeless", "depends", "done", "failed", "running", "pending")
        for name in names:
            await world.delete(STATEMENTS, name)
            await world.gone(STATEMENTS, name)
        gateway = world.kubelet.gateway_of("s")
        assert {name: gateway.view_of(name).state for name in ("running", "pending")} == {
            "running": "Canceled",
            "pending": "Canceled",
        }
        _assert_no_deadline_passed(operator)
    assert "queued" not in world.ledger.order()


async def test_session_in_every_state_is_let_go(world: Environment) -> None:
    await world.create_class()
    world.kubelet.plans |= {
        "unschedulable": Plan(unschedulable=True),
        "unpulled": Plan(image_problem=True),
        "slow": Plan(never_ready=True),
        "failed": Plan(init_failure="no"),
    }
    states = {
        "unschedulable": "Starting", "unpulled": "Starting", "slow": "Starting", "failed": "Failed", "ready": "Ready",
        "stopped": "Stopped", "draining": "Draining", "homeless": "Pending", "closed": "Closed",
    }  # fmt: skip
    async with world.operator() as operator:
        for name in states:
            spec: dict[str, object] = {"init": [{"sql": "CREATE TABEL t"}]} if name == "failed" else {}
            if name == "closed":
                spec["maxLifetimeSeconds"] = 1
            await world.create_session(name, **{**spec, **({"className": "nobody"} if name == "homeless" else {})})
        await world.create_statement("busy", "INSERT HOLD", session="draining")
        await world.in_phase(STATEMENTS, "busy", "Running")
        for name in ("stopped", "draining"):
            await world.patch(SESSIONS, name, {"desiredState": "Stopped"})
        for name, phase in states.items():
            await world.in_phase(SESSIONS, name, phase)
        for name in states:
            await world.delete(SESSIONS, name)
        for name in states:
            await world.gone(SESSIONS, name)
        await world.ended("busy", "Closed", "SessionClosed")
        await world.until("no driver is left", lambda: _no_pods(world))
        _assert_no_deadline_passed(operator)


async def test_object_that_cannot_be_cleaned_up_is_let_go_at_its_deadline_with_a_warning(world: Environment) -> None:
    """A statement that does not stop and a pod whose node is dead: 15 s and 30 s, no more."""
    await world.create_class()
    await world.create_session("stubborn")
    await world.create_session("dead")
    world.kubelet.plans["dead"] = Plan(node_dead=True)
    async with world.operator() as operator:
        await world.create_statement("one", "INSERT HOLD STUBBORN", session="stubborn")
        await world.in_phase(STATEMENTS, "one", "Running")
        await world.session_ready("dead")
        began = time.monotonic()
        await world.delete(STATEMENTS, "one")
        await world.delete(SESSIONS, "dead")
        await world.gone(STATEMENTS, "one", STATEMENT_DEADLINE + MARGIN)
        statement_took = time.monotonic() - began
        await world.gone(SESSIONS, "dead", SESSION_DEADLINE + MARGIN)
        session_took = time.monotonic() - began
        for name in ("one", "dead"):
            await world.until(f"a warning about {name}", lambda n=name: _warned(world, n))
        metrics = operator.metrics.render().decode()
    assert statement_took > STATEMENT_DEADLINE - 2  # deletion times have whole seconds
    assert session_took > SESSION_DEADLINE - 2
    for kind in ("SqlStatement", "SqlSession"):
        assert f'sparksql_finalizer_deadlines_total{{kind="{kind}"}} 1.0' in metrics


async def test_driver_that_ignores_sigterm_has_its_grace_and_no_more(world: Environment) -> None:
    await world.create_class()
    await world.create_session()
    world.kubelet.plans["s"] = Plan(ignores_sigterm=True)
    async with world.operator():
        await world.session_ready()
        await world.delete(SESSIONS, "s")
        pod = await world.until("the pod is asked to end", lambda: _ending_pod(world))
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 20
        await world.kubelet.remove_pod("s")  # as after the grace period
        await world.gone(SESSIONS, "s")


# --- namespaces


async def test_namespace_is_let_go_whatever_runs_in_it(world: Environment) -> None:
    await world.create_class()
    world.kubelet.plans["s"] = Plan(node_dead=True)
    await world.create_session()
    async with world.operator() as operator:
        await world.create_statement("one", "INSERT HOLD STUBBORN")
        await world.in_phase(STATEMENTS, "one", "Running")
        await world.create_statement("waits", session="nobody")
        await world.in_phase(STATEMENTS, "waits", "Initialized")
        await world.delete_namespace()
        await world.empty_namespace()
        for resource, name in ((STATEMENTS, "one"), (STATEMENTS, "waits"), (SESSIONS, "s")):
            await world.gone(resource, name)
        _assert_no_deadline_passed(operator)


async def test_no_driver_is_created_in_a_terminating_namespace(world: Environment) -> None:
    world.kubelet.plans["s"] = Plan()
    await world.create_session()
    await world.dedicated("own")
    async with world.operator():
        await world.in_phase(SESSIONS, "s", "Pending", "ClassNotFound")
        await world.delete_namespace()
        await world.create_class()
        await world.wait(SESSIONS, "s", "is told", lambda o: reason_of(o) == "NamespaceTerminating")
        await world.empty_namespace()
        await world.gone(SESSIONS, "s")
        await world.gone(STATEMENTS, "own")
    assert world.kubelet.started == []


def _assert_no_deadline_passed(operator: Operator) -> None:
    """All that was let go was cleaned up, or needed no clean-up: nothing was only waited for in vain."""
    assert "sparksql_finalizer_deadlines_total{" not in operator.metrics.render().decode()


async def _no_pods(world: Environment) -> bool:
    return await world.driver_pods() == []


async def _ending_pod(world: Environment) -> object:
    pods = await world.driver_pods()
    return next((p for p in pods if p["metadata"].get("deletionTimestamp")), None)


async def _warned(world: Environment, name: str) -> bool:
    events = (await world.client.list(EVENTS, world.namespace)).items
    return any(
        e["reason"] == "FinalizerDeadline" and e["type"] == "Warning" and e["involvedObject"]["name"] == name
        for e in events
    )
