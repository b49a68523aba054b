"""Dedicated sessions, and that deleting any object in any state ends: with a clean end where one can be had, else in time."""

from __future__ import annotations

import pytest

from sparksql.api.names import dedicated_session_name
from sparksql.kube.resources import EVENTS, SESSIONS, STATEMENTS
from sparksql.operator import Operator
from tests.integration.operator.environment import Environment, message_of, reason_of
from tests.integration.operator.fake_kubelet import Plan

# --- dedicated sessions


async def test_dedicated_session_lives_as_long_as_its_statement_runs(env: Environment) -> None:
    await env.create_class()
    async with env.operator():
        made = await env.dedicated("own", "INSERT HOLD", {"conf": {"spark.sql.ansi.enabled": "true"}})
        name = dedicated_session_name("own", made["metadata"]["uid"])
        await env.in_phase(STATEMENTS, "own", "Running")
        session = await env.get(SESSIONS, name)
        assert [o["uid"] for o in session["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]
        assert env.kubelet.gateway_of(name).config.spark_conf["spark.sql.ansi.enabled"] == "true"
        env.ledger.release("own")
        done = await env.finished("own")
        await env.gone(SESSIONS, name)
        assert await env.driver_pods() == []
    assert done["status"]["result"]["preview"] == [["1"]]


async def test_statement_with_a_dedicated_session_runs_again_on_a_new_driver(env: Environment) -> None:
    await env.create_class()
    async with env.operator():
        await env.dedicated("own", "INSERT INTO t")
        await env.finished("own")
        await env.patch(STATEMENTS, "own", {"runNonce": "2"})
        await env.reaches(STATEMENTS, "own", run=2, phase="Finished")
        await env.until("no driver is left", lambda: _no_pods(env))
    assert len(env.ledger.ran("own")) == len(env.kubelet.started) == 2


@pytest.mark.parametrize("end", ["cancel", "delete"])
async def test_dedicated_session_goes_when_its_statement_is_canceled_or_deleted(env: Environment, end: str) -> None:
    await env.create_class()
    async with env.operator():
        made = await env.dedicated("own", "INSERT HOLD")
        name = dedicated_session_name("own", made["metadata"]["uid"])
        await env.in_phase(STATEMENTS, "own", "Running")
        if end == "cancel":
            await env.patch(STATEMENTS, "own", {"desiredState": "Canceled"})
            await env.ended("own", "Canceled", "CanceledByUser")
        else:
            await env.delete(STATEMENTS, "own")
            await env.gone(STATEMENTS, "own")
        await env.gone(SESSIONS, name)


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
    env: Environment, template: dict[str, object], reason: str, names: str
) -> None:
    await env.create_class(limits={"driver": {"cpu": "8"}})
    made = await env.dedicated("own", "INSERT INTO t", template)
    name = dedicated_session_name("own", made["metadata"]["uid"])
    env.kubelet.plans[name] = Plan(init_failure="no viable alternative")
    async with env.operator():
        done = await env.ended("own", "Error", reason)
        await env.gone(SESSIONS, name)
    assert names in message_of(done)
    assert env.ledger.executions == []


async def test_dedicated_session_of_the_same_name_that_is_somebody_elses_is_left_alone(env: Environment) -> None:
    await env.create_class()
    made = await env.dedicated("own", timeouts={"queueSeconds": 2})
    name = dedicated_session_name("own", made["metadata"]["uid"])
    await env.create_session(name)
    async with env.operator():
        await env.wait(STATEMENTS, "own", "ends", lambda o: o["status"].get("completionTime"))
        await env.session_ready(name)


# --- deletion in every state


async def test_statement_in_every_state_is_let_go_at_once(env: Environment) -> None:
    await env.create_class()
    await env.create_session(maxConcurrentStatements=2)
    async with env.operator() as operator:
        await env.create_statement("done")
        await env.finished("done")
        await env.create_statement("failed", "SELECT FAIL")
        await env.ended("failed", "Error", "SqlError")
        await env.create_statement("running", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "running", "Running")
        await env.create_statement("pending", "INSERT QUEUE")
        await env.in_phase(STATEMENTS, "pending", "Pending")
        await env.create_statement("queued")
        await env.create_statement("homeless", session="nobody")
        await env.create_statement("depends", dependsOn=[{"name": "nothing"}])
        for name in ("queued", "homeless", "depends"):
            await env.in_phase(STATEMENTS, name, "Initialized")
        # The queued one first: a place that is free again would rightly be its own.
        names = ("queued", "homeless", "depends", "done", "failed", "running", "pending")
        for name in names:
            await env.delete(STATEMENTS, name)
            await env.gone(STATEMENTS, name)
        gateway = env.kubelet.gateway_of("s")
        assert {name: gateway.view_of(name).state for name in ("running", "pending")} == {
            "running": "Canceled",
            "pending": "Canceled",
        }
        _assert_no_deadline_passed(operator)
    assert "queued" not in env.ledger.order()


async def test_session_in_every_state_is_let_go(env: Environment) -> None:
    await env.create_class()
    env.kubelet.plans |= {
        "unschedulable": Plan(unschedulable=True),
        "unpulled": Plan(image_problem=True),
        "slow": Plan(never_ready=True),
        "failed": Plan(init_failure="no"),
    }
    states = {
        "unschedulable": "Starting", "unpulled": "Starting", "slow": "Starting", "failed": "Failed", "ready": "Ready",
        "stopped": "Stopped", "draining": "Draining", "homeless": "Pending", "closed": "Closed",
    }  # fmt: skip
    async with env.operator() as operator:
        for name in states:
            spec: dict[str, object] = {"init": [{"sql": "CREATE TABEL t"}]} if name == "failed" else {}
            if name == "closed":
                spec["maxLifetimeSeconds"] = 1
            await env.create_session(name, **{**spec, **({"className": "nobody"} if name == "homeless" else {})})
        await env.create_statement("busy", "INSERT HOLD", session="draining")
        await env.in_phase(STATEMENTS, "busy", "Running")
        for name in ("stopped", "draining"):
            await env.patch(SESSIONS, name, {"desiredState": "Stopped"})
        for name, phase in states.items():
            await env.in_phase(SESSIONS, name, phase)
        for name in states:
            await env.delete(SESSIONS, name)
        for name in states:
            await env.gone(SESSIONS, name)
        await env.ended("busy", "Closed", "SessionClosed")
        await env.until("no driver is left", lambda: _no_pods(env))
        _assert_no_deadline_passed(operator)


async def test_object_that_cannot_be_cleaned_up_is_let_go_at_its_deadline_with_a_warning(env: Environment) -> None:
    """A statement that does not stop and a pod whose node is dead; how long the deadlines are is decided in `domain`."""
    await env.create_class()
    await env.create_session("stubborn")
    await env.create_session("dead")
    env.kubelet.plans["dead"] = Plan(node_dead=True)
    async with env.operator() as operator:
        await env.create_statement("one", "INSERT HOLD STUBBORN", session="stubborn")
        await env.in_phase(STATEMENTS, "one", "Running")
        await env.session_ready("dead")
        await env.delete(STATEMENTS, "one")
        await env.delete(SESSIONS, "dead")
        await env.gone(STATEMENTS, "one")
        await env.gone(SESSIONS, "dead")
        for name in ("one", "dead"):
            await env.until(f"a warning about {name}", lambda n=name: _warned(env, n))
        metrics = operator.metrics.render().decode()
    for kind in ("SqlStatement", "SqlSession"):
        assert f'sparksql_finalizer_deadlines_total{{kind="{kind}"}} 1.0' in metrics


async def test_driver_that_ignores_sigterm_has_its_grace_and_no_more(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    env.kubelet.plans["s"] = Plan(ignores_sigterm=True)
    async with env.operator():
        await env.session_ready()
        await env.delete(SESSIONS, "s")
        pod = await env.until("the pod is asked to end", lambda: _ending_pod(env))
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 20
        await env.kubelet.remove_pod("s")  # as after the grace period
        await env.gone(SESSIONS, "s")


# --- namespaces


async def test_namespace_is_let_go_whatever_runs_in_it(env: Environment) -> None:
    await env.create_class()
    env.kubelet.plans["s"] = Plan(node_dead=True)
    await env.create_session()
    async with env.operator() as operator:
        await env.create_statement("one", "INSERT HOLD STUBBORN")
        await env.in_phase(STATEMENTS, "one", "Running")
        await env.create_statement("waits", session="nobody")
        await env.in_phase(STATEMENTS, "waits", "Initialized")
        await env.delete_namespace()
        await env.empty_namespace()
        for resource, name in ((STATEMENTS, "one"), (STATEMENTS, "waits"), (SESSIONS, "s")):
            await env.gone(resource, name)
        _assert_no_deadline_passed(operator)


async def test_no_driver_is_created_in_a_terminating_namespace(env: Environment) -> None:
    env.kubelet.plans["s"] = Plan()
    await env.create_session()
    await env.dedicated("own")
    async with env.operator():
        await env.in_phase(SESSIONS, "s", "Pending", "ClassNotFound")
        await env.delete_namespace()
        await env.create_class()
        await env.wait(SESSIONS, "s", "is told", lambda o: reason_of(o) == "NamespaceTerminating")
        await env.empty_namespace()
        await env.gone(SESSIONS, "s")
        await env.gone(STATEMENTS, "own")
    assert env.kubelet.started == []


def _assert_no_deadline_passed(operator: Operator) -> None:
    """All that was let go was cleaned up, or needed no clean-up: nothing was only waited for in vain."""
    assert "sparksql_finalizer_deadlines_total{" not in operator.metrics.render().decode()


async def _no_pods(env: Environment) -> bool:
    return await env.driver_pods() == []


async def _ending_pod(env: Environment) -> object:
    pods = await env.driver_pods()
    return next((p for p in pods if p["metadata"].get("deletionTimestamp")), None)


async def _warned(env: Environment, name: str) -> bool:
    events = (await env.client.list(EVENTS, env.namespace)).items
    return any(
        e["reason"] == "FinalizerDeadline" and e["type"] == "Warning" and e["involvedObject"]["name"] == name
        for e in events
    )
