"""The life of sessions: what keeps them from starting and how that heals, restarts, stops, and drivers that are lost."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from fake_kubelet import Plan
from witness import condition
from world import IMAGE, World, message_of

from sparksql.api.names import DEFAULT_CLASS_ANNOTATION, child_base
from sparksql.kube.resources import (
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICES,
    SESSION_CLASSES,
    SESSIONS,
    STATEMENTS,
    VOLUME_CLAIMS,
    Resource,
)

QUOTAS = Resource("", "v1", "resourcequotas")
SHORT = {"schedulingSeconds": 1, "imagePullSeconds": 1, "driverStartSeconds": 1, "drainSeconds": 10}


async def test_children_carry_the_sessions_name_and_belong_to_it(world: World) -> None:
    await world.create_class()
    session = await world.create_session()
    async with world.operator():
        await world.session_ready()
    uid = session["metadata"]["uid"]
    base = child_base("s", uid)
    for resource in (SECRETS, SERVICES, NETWORK_POLICIES):
        child = await world.get(resource, base)
        assert [o["uid"] for o in child["metadata"]["ownerReferences"]] == [uid]
    pod = await world.get(PODS, f"{base}-1")
    assert pod["spec"]["restartPolicy"] == "Never"
    assert [o["uid"] for o in pod["metadata"]["ownerReferences"]] == [uid]


async def test_every_waiting_phase_has_a_deadline_with_its_own_reason(world: World) -> None:
    await world.create_class()
    plans = {
        "Unschedulable": Plan(unschedulable=True),
        "ImagePullFailed": Plan(image_problem=True),
        "DriverNotReady": Plan(never_ready=True),
        "DriverLost": Plan(exits_at_start=True),
        "InitFailed": Plan(init_failure="no viable alternative"),
    }
    init = [{"sql": "CREATE TABEL t"}]
    async with world.operator(deadlines=SHORT, maxDriverRestarts=0):
        for reason, plan in plans.items():
            world.kubelet.plans[reason.lower()] = plan
            await world.create_session(reason.lower(), init=init)
        for reason in plans:
            failed = await world.in_phase(SESSIONS, reason.lower(), "Failed", reason)
            assert condition(failed, "Stalled") == "True"
        message = message_of(await world.get(SESSIONS, "initfailed"))
        assert "spec.init: statement 1 failed: no viable alternative (statement: CREATE TABEL t)" in message
        await world.until("their pods are gone or ended", lambda: _no_live_pods(world))
    assert len(world.kubelet.started) == len(plans)


async def test_failed_session_starts_again_when_somebody_asks_for_it(world: World) -> None:
    await world.create_class()
    world.kubelet.plans["s"] = Plan(init_failure="no")
    await world.create_session(init=[{"sql": "CREATE TABEL t"}])
    async with world.operator():
        await world.in_phase(SESSIONS, "s", "Failed", "InitFailed")
        world.kubelet.plans["s"] = Plan()
        await world.patch(SESSIONS, "s", {"restartNonce": "1"})
        await world.session_ready()
    assert [name[-2:] for name in world.kubelet.started] == ["-1", "-2"]


async def test_waiting_reasons_heal_when_the_cause_goes(world: World) -> None:
    """The class's claim, the namespace's labels and the init source are each made after the session has asked for them."""
    await world.create_class(
        allow={"namespaces": {"matchLabels": {"team": "data"}}},
        storage={"volumeClaim": {"name": "spark-data", "mountPath": "/data"}},
    )
    source = {"sqlFrom": {"configMapKeyRef": {"name": "init", "key": "q.sql"}}}
    await world.create_session(init=[source])
    async with world.operator(resyncSeconds=1):
        stalled = await world.in_phase(SESSIONS, "s", "Pending", "NotAllowed")
        assert condition(stalled, "Stalled") == "True"
        await world.client.patch_merge(NAMESPACES, "", world.namespace, {"metadata": {"labels": {"team": "data"}}})
        await world.in_phase(SESSIONS, "s", "Pending", "InitSourceNotFound")
        await world.create_config_map("init", **{"q.sql": "CREATE DATABASE d"})
        await world.in_phase(SESSIONS, "s", "Pending", "StorageNotReady")
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await world.create(VOLUME_CLAIMS, "spark-data", claim)
        gateway = await world.session_ready()
    assert [i.sql for i in gateway.config.init] == ["CREATE DATABASE d"]


async def test_class_is_found_when_it_is_made_and_the_default_class_without_a_name(world: World) -> None:
    async with world.operator():
        await world.create_session()
        stalled = await world.in_phase(SESSIONS, "s", "Pending", "ClassNotFound")
        assert condition(stalled, "Stalled") == "True"
        assert world.class_name in message_of(stalled)
        await world.create(SESSIONS, "unnamed", {})
        await world.in_phase(SESSIONS, "unnamed", "Pending", "ClassNotFound")
        default = {"annotations": {DEFAULT_CLASS_ANNOTATION: "true"}}
        await world.create(SESSION_CLASSES, world.class_name, {"image": IMAGE}, metadata=default)
        await world.session_ready("s")
        await world.session_ready("unnamed")


@pytest.mark.parametrize(
    ("spec", "reason", "names"),
    [
        ({"conf": {"spark.jars": "http://x"}}, "NotAllowed", "spark.jars"),
        ({"conf": {"spark.Kubernetes.namespace": "other"}}, "NotAllowed", "spark.Kubernetes.namespace"),
        ({"image": "evil:1"}, "NotAllowed", "evil:1"),
        ({"serviceAccountName": "admin"}, "NotAllowed", "admin"),
        ({"driver": {"memory": "9Gi"}}, "LimitExceeded", "9Gi"),
        ({"executors": {"min": 0, "max": 21}}, "LimitExceeded", "spec.executors.max"),
        ({"endpoints": {"thrift": True}}, "NotImplemented", "thrift"),
    ],
)
async def test_what_the_class_does_not_allow_is_refused_and_heals_by_a_change(
    world: World, spec: dict[str, Any], reason: str, names: str
) -> None:
    await world.create_class(limits={"driver": {"memory": "8Gi"}, "executors": {"instances": 20}})
    await world.create_session(**spec)
    async with world.operator():
        refused = await world.in_phase(SESSIONS, "s", "Pending", reason)
        assert names in message_of(refused)
        assert condition(refused, "Stalled") == "True"
        await world.patch(SESSIONS, "s", dict.fromkeys(spec))
        await world.session_ready()
    assert len(world.kubelet.started) == 1


async def test_sessions_of_a_class_in_a_namespace_have_a_bound(world: World) -> None:
    await world.create_class(limits={"sessionsPerNamespace": 1})
    async with world.operator(resyncSeconds=1):
        await world.create_session("a")
        await world.session_ready("a")
        await world.create_session("b")
        await world.in_phase(SESSIONS, "b", "Pending", "LimitExceeded")
        await world.delete(SESSIONS, "a")
        await world.gone(SESSIONS, "a")
        await world.session_ready("b")


async def test_quota_is_waited_for_up_to_its_deadline(world: World) -> None:
    await world.create_class()
    await _set_quota(world, pods="0")
    async with world.operator(deadlines={**SHORT, "schedulingSeconds": 30}):
        await world.create_session()
        waiting = await world.in_phase(SESSIONS, "s", "Starting", "QuotaExceeded")
        assert "exceeded quota" in message_of(waiting)
        await _set_quota(world, pods="10")
        await world.session_ready()
    assert [name[-2:] for name in world.kubelet.started] == ["-1"]


async def test_quota_that_never_has_room_fails_the_session(world: World) -> None:
    await world.create_class()
    await _set_quota(world, pods="0")
    async with world.operator(deadlines=SHORT):
        await world.create_session()
        await world.in_phase(SESSIONS, "s", "Failed", "QuotaExceeded")


async def test_child_of_somebody_else_is_never_adopted(world: World) -> None:
    session = await world.create_session()
    name = child_base("s", session["metadata"]["uid"])
    foreign = await world.create_secret(name, token="theirs")
    await world.create_class()
    async with world.operator():
        await world.in_phase(SESSIONS, "s", "Pending", "ChildConflict")
    now = await world.get(SECRETS, name)
    assert now["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"]
    assert world.kubelet.started == []


# --- stop, restart, change


async def test_stop_waits_for_running_statements_and_start_makes_a_new_driver(world: World) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.create_statement("running", "INSERT HOLD")
        await world.in_phase(STATEMENTS, "running", "Running")
        await world.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        await world.in_phase(SESSIONS, "s", "Draining", "Stopped")
        await world.create_statement("waits")
        await world.in_phase(STATEMENTS, "waits", "Initialized", "SessionNotReady")
        world.ledger.release("running")
        await world.finished("running")
        await world.in_phase(SESSIONS, "s", "Stopped")
        assert await world.driver_pods() == []
        await world.patch(SESSIONS, "s", {"desiredState": "Running"})
        await world.finished("waits")
    assert [name[-2:] for name in world.kubelet.started] == ["-1", "-2"]


async def test_session_that_is_wanted_again_while_it_stops_starts_again(world: World) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.create_statement("running", "INSERT HOLD")
        await world.in_phase(STATEMENTS, "running", "Running")
        await world.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        await world.in_phase(SESSIONS, "s", "Draining")
        await world.patch(SESSIONS, "s", {"desiredState": "Running"})
        world.ledger.release("running")
        await world.wait(SESSIONS, "s", "second driver", lambda o: o["status"]["driver"]["incarnation"] == 2)
        await world.session_ready()


@pytest.mark.parametrize("change", [{"restartNonce": "1"}, {"conf": {"spark.sql.ansi.enabled": "true"}}])
async def test_change_that_needs_a_new_driver_drains_the_old_one_first(world: World, change: dict[str, Any]) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.create_statement("running", "INSERT HOLD")
        await world.in_phase(STATEMENTS, "running", "Running")
        await world.patch(SESSIONS, "s", change)
        await world.in_phase(SESSIONS, "s", "Draining")
        await world.create_statement("next", "INSERT 2")
        await world.in_phase(STATEMENTS, "next", "Initialized", "SessionNotReady")
        assert len(await world.driver_pods()) == 1
        world.ledger.release("running")
        await world.finished("running")
        await world.finished("next")
        config = world.kubelet.gateway_of("s").config
    assert config.incarnation == 2
    assert set(change.get("conf", {}).items()) <= set(config.spark_conf.items())


async def test_change_that_a_running_driver_can_take_keeps_it(world: World) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.session_ready()
        await world.patch(SESSIONS, "s", {"idle": {"timeoutSeconds": 1000, "action": "Close"}})
        seen = await world.wait(SESSIONS, "s", "seen", lambda o: o["status"]["observedGeneration"] == 2)
        assert seen["status"]["phase"] == "Ready"
    assert len(world.kubelet.started) == 1


async def test_hibernation_is_told_to_be_missing(world: World) -> None:
    await world.create_class()
    await world.create_session(idle={"timeoutSeconds": 1, "action": "Hibernate"})
    async with world.operator():
        ready = await world.in_phase(SESSIONS, "s", "Ready")
    reasons = {c["type"]: c["reason"] for c in ready["status"]["conditions"]}
    assert reasons["Hibernation"] == "HibernateNotImplemented"


# --- drivers that are lost


@pytest.mark.parametrize("how", ["crash_driver", "remove_pod"])
async def test_lost_driver_ends_effects_and_repeats_reads(world: World, how: str) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.create_statement("effect", "INSERT HOLD")
        await world.create_statement("read", "SELECT HOLD")
        for name in ("effect", "read"):
            await world.in_phase(STATEMENTS, name, "Running")
        await getattr(world.kubelet, how)("s")
        await world.ended("effect", "Error", "SessionLost")
        world.ledger.release("read")
        again = await world.finished("read")
        session = await world.session_ready()
    assert again["status"]["attempt"] == 2
    assert len(world.ledger.ran("effect")) == 1
    assert len({e.operation_id for e in world.ledger.ran("read")}) == len(world.ledger.ran("read")) == 2
    assert session.config.incarnation == 2


async def test_effect_runs_again_if_its_author_says_so(world: World) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        retry = {"limit": 1, "backoffSeconds": 0, "on": ["SessionLost"]}
        await world.create_statement("effect", "INSERT HOLD", retry=retry)
        await world.in_phase(STATEMENTS, "effect", "Running")
        await world.kubelet.crash_driver("s")
        world.ledger.release("effect")
        done = await world.finished("effect")
    assert done["status"]["attempt"] == 2


async def test_read_gives_up_after_three_attempts(world: World) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.create_statement("read", "SELECT HOLD")
        for attempt in (1, 2, 3):
            await world.reaches(STATEMENTS, "read", phase="Running", attempt=attempt)
            await world.kubelet.crash_driver("s")
        await world.ended("read", "Error", "SessionLost")


async def test_restarts_are_bounded_and_statements_wait_for_a_failed_session(world: World) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator(maxDriverRestarts=1):
        await world.create_statement("one", "SELECT HOLD")
        for attempt in (1, 2):
            await world.reaches(STATEMENTS, "one", phase="Running", attempt=attempt)
            await world.kubelet.crash_driver("s")
        await world.in_phase(SESSIONS, "s", "Failed", "DriverLost")
        await world.reaches(STATEMENTS, "one", phase="Initialized", attempt=3)
        await world.in_phase(STATEMENTS, "one", "Initialized", "SessionNotReady")


@pytest.mark.parametrize("how", ["crash", "restart", "slow restart"])
async def test_lost_session_state_is_told(world: World, how: str) -> None:
    world.kubelet.plans["s"] = Plan(lingers_seconds=1 if how == "slow restart" else 0)
    await world.create_class()
    await world.create_session()
    async with world.operator():
        gateway = await world.session_ready()
        gateway.set_session_state()
        await world.create_statement("one")  # its end comes after that news in the same stream
        await world.finished("one")
        if how == "crash":
            await world.kubelet.crash_driver("s")
        else:
            await world.patch(SESSIONS, "s", {"restartNonce": "1"})
        await world.wait(SESSIONS, "s", "state lost", lambda o: condition(o, "SessionStateLost") == "True")

        async def told() -> bool:
            return "SessionStateLost" in await world.event_reasons("s")

        await world.until("an event tells it", told)
        await world.session_ready()


async def test_drained_driver_does_not_close_the_statements_of_a_living_session(world: World) -> None:
    """Somebody deletes the pod: the gateway closes what runs, but the session goes on."""
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.create_statement("effect", "INSERT HOLD")
        await world.create_statement("read", "SELECT HOLD")
        for name in ("effect", "read"):
            await world.in_phase(STATEMENTS, name, "Running")
        await world.client.delete(PODS, world.namespace, world.kubelet.pod_of("s"))
        await world.ended("effect", "Error", "SessionLost")
        world.ledger.release("read")
        await world.finished("read")


async def test_token_and_certificate_stay_over_restarts(world: World) -> None:
    await world.create_class()
    session = await world.create_session()
    name = child_base("s", session["metadata"]["uid"])
    async with world.operator():
        await world.session_ready()
        first = (await world.get(SECRETS, name))["data"]
        await world.kubelet.crash_driver("s")
        await world.wait(SESSIONS, "s", "second driver", lambda o: o["status"]["driver"]["incarnation"] == 2)
        await world.session_ready()
        second = (await world.get(SECRETS, name))["data"]
    for file in ("token", "tls.crt", "tls.key"):
        assert first[file] == second[file]
    incarnations = [json.loads(base64.b64decode(data["config.json"]))["incarnation"] for data in (first, second)]
    assert incarnations == [1, 2]


async def _no_live_pods(world: World) -> bool:
    return all(p.get("status", {}).get("phase") in ("Failed", "Succeeded") for p in await world.driver_pods())


async def _set_quota(world: World, pods: str) -> None:
    """No quota controller runs: what it would count is written by hand."""
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": pods}}}
    await world.client.apply(QUOTAS, world.namespace, "few", body)
    status = {"hard": {"pods": pods}, "used": {"pods": "0"}}
    await world.client.patch_merge(QUOTAS, world.namespace, "few", {"status": status}, subresource="status")
    await world.until("the quota is in force", lambda: _admits(world, pods != "0"))


async def _admits(world: World, wanted: bool) -> bool:
    """Whether a pod is let in is asked with a dry run."""
    resource = Resource("", "v1", "pods?dryRun=All")
    body = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "probe-"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }  # fmt: skip
    try:
        await world.client.create(resource, world.namespace, body)
    except Exception:
        return not wanted
    return wanted
