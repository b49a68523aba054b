"""How sessions start: their children, what keeps them from starting, and how that heals."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

import pytest

from sparksql.api.names import DEFAULT_CLASS_ANNOTATION, child_base
from sparksql.controllers.session import pod_events
from sparksql.domain.session import steps
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
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import IMAGE, Environment, message_of
from tests.integration.operator.fake_kubelet import Plan
from tests.support.mistakes import assert_answered

QUOTAS = Resource("", "v1", "resourcequotas")


async def test_children_carry_the_sessions_name_and_belong_to_it(env: Environment) -> None:
    await env.create_class()
    session = await env.create_session()
    async with env.operator():
        await env.session_ready()
    uid = session["metadata"]["uid"]
    base = child_base("s", uid)
    for resource in (SECRETS, SERVICES, NETWORK_POLICIES):
        child = await env.get(resource, base)
        assert [o["uid"] for o in child["metadata"]["ownerReferences"]] == [uid]
    pod = await env.get(PODS, f"{base}-1")
    assert pod["spec"]["restartPolicy"] == "Never"
    assert [o["uid"] for o in pod["metadata"]["ownerReferences"]] == [uid]


async def test_each_driver_pod_has_a_secret_of_its_own_to_share_with_executors(env: Environment) -> None:
    await env.create_class()
    session = await env.create_session()
    base = child_base("s", session["metadata"]["uid"])
    async with env.operator():
        await env.session_ready()
        await env.patch(SESSIONS, "s", {"restartNonce": "1"})
        await env.until("the second driver runs", lambda: f"{base}-2" in env.kubelet.drivers)
        await env.session_ready()
        second = await env.get(SECRETS, f"{base}-2-executor")
        pod = await env.get(PODS, f"{base}-2")
    owners = [(owner["kind"], owner["name"], owner["uid"]) for owner in second["metadata"]["ownerReferences"]]
    assert owners == [("Pod", f"{base}-2", pod["metadata"]["uid"])], "it goes when the pod goes"
    first = await env.get(SECRETS, f"{base}-1-executor")  # nothing collects garbage here
    assert first["data"] != second["data"]
    template = json.loads(base64.b64decode((await env.get(SECRETS, base))["data"]["executor.json"]))
    mounted = [volume["secret"]["secretName"] for volume in template["spec"]["volumes"] if "secret" in volume]
    assert mounted == [f"{base}-2-executor"]


@pytest.mark.parametrize(
    ("reason", "plan", "deadlines"),
    [
        ("MaxRestartsExceeded", Plan(never_ready=True), {"driverStartSeconds": 1}),
        ("MaxRestartsExceeded", Plan(exits_at_start=True), {}),
        ("InitFailed", Plan(init_failure="no viable alternative"), {}),
    ],
)
async def test_session_that_cannot_start_fails_with_the_reason(
    env: Environment, reason: str, plan: Plan, deadlines: dict[str, int]
) -> None:
    """One short deadline in each case: of two that pass together, the slower machine would choose the reason."""
    await env.create_class()
    env.kubelet.plans["s"] = plan
    await env.create_session(init=[{"sql": "CREATE TABEL t"}])
    async with env.operator(deadlines=deadlines, maxDriverRestarts=0):
        failed = await env.in_phase(SESSIONS, "s", "Failed", reason)
        await env.until("its pod is gone or ended", lambda: _no_live_pods(env))
    assert condition(failed, "Stalled") == "True"
    if reason == "MaxRestartsExceeded":
        last_loss = "DriverNotReady" if plan.never_ready else "DriverLost"
        assert f"gave up after 0 restarts; the last loss was {last_loss}: " in message_of(failed)
    if reason == "InitFailed":
        shown = "spec.init: statement 1 failed: no viable alternative (statement: CREATE TABEL t)"
        assert shown in message_of(failed)
    assert len(env.kubelet.started) == 1


@pytest.mark.parametrize(
    ("reason", "plan", "deadlines"),
    [
        ("Unschedulable", Plan(unschedulable=True), {"schedulingSeconds": 1}),
        ("ImagePullFailed", Plan(image_problem=True), {"imagePullSeconds": 1}),
    ],
)
async def test_session_that_the_cluster_cannot_start_starts_once_the_cause_is_gone(
    env: Environment, monkeypatch: pytest.MonkeyPatch, reason: str, plan: Plan, deadlines: dict[str, int]
) -> None:
    monkeypatch.setattr(steps, "START_BACKOFF_SECONDS", 1.0)
    await env.create_class()
    env.kubelet.plans["s"] = plan
    await env.create_session()
    async with env.operator(deadlines=deadlines):
        await env.create_statement("one")
        stalled = await env.until_stalled("s", reason)
        assert stalled["status"]["failedStarts"] >= 1
        assert "the next one is at " in message_of(stalled)
        env.kubelet.plans["s"] = Plan()
        await env.session_ready()
        await env.in_phase(STATEMENTS, "one", "Finished")
        assert (await env.get(SESSIONS, "s"))["status"]["failedStarts"] == 0


async def test_volume_that_cannot_be_mounted_is_shown_in_the_kubelets_words(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_events, "QUIET", timedelta(0))
    monkeypatch.setattr(pod_events, "_LOOK_AGAIN", timedelta(0))
    await env.create_class()
    env.kubelet.plans["s"] = Plan(volume_problem=True)
    await env.create_session()
    async with env.operator():
        shown = await env.in_phase(SESSIONS, "s", "Starting", "ContainerNotStarted")
    assert 'FailedMount: MountVolume.SetUp failed for volume "keys" : secret "keys" not found' in message_of(shown)


async def test_failed_session_starts_again_with_a_new_restart_nonce(env: Environment) -> None:
    await env.create_class()
    env.kubelet.plans["s"] = Plan(init_failure="no")
    await env.create_session(init=[{"sql": "CREATE TABEL t"}])
    async with env.operator():
        await env.in_phase(SESSIONS, "s", "Failed", "InitFailed")
        env.kubelet.plans["s"] = Plan()
        await env.patch(SESSIONS, "s", {"restartNonce": "1"})
        await env.session_ready()
    assert [name[-2:] for name in env.kubelet.started] == ["-1", "-2"]


async def test_waiting_reasons_heal_when_the_cause_goes(env: Environment) -> None:
    """The class's claim, the namespace's labels and the init source are each made after the session has asked for them."""
    await env.create_class(
        allow={"namespaces": {"matchLabels": {"team": "data"}}},
        storage={"volumeClaim": {"name": "spark-data", "mountPath": "/data"}},
    )
    source = {"sqlFrom": {"configMapKeyRef": {"name": "init", "key": "q.sql"}}}
    await env.create_session(init=[source])
    async with env.operator(resyncSeconds=1):
        stalled = await env.in_phase(SESSIONS, "s", "Pending", "NotAllowed")
        assert condition(stalled, "Stalled") == "True"
        await env.client.patch_merge(NAMESPACES, "", env.namespace, {"metadata": {"labels": {"team": "data"}}})
        stalled = await env.in_phase(SESSIONS, "s", "Pending", "InitSourceNotFound")
        assert_answered("missing ConfigMap of init", message_of(stalled))
        await env.create_config_map("init", **{"q.sql": "CREATE DATABASE d"})
        await env.in_phase(SESSIONS, "s", "Pending", "StorageNotReady")
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await env.create(VOLUME_CLAIMS, "spark-data", claim)
        gateway = await env.session_ready()
    assert [i.sql for i in gateway.config.init] == ["CREATE DATABASE d"]


async def test_session_waits_for_its_class_or_if_unnamed_for_the_default_class(env: Environment) -> None:
    async with env.operator():
        await env.create_session()
        stalled = await env.in_phase(SESSIONS, "s", "Pending", "ClassNotFound")
        assert condition(stalled, "Stalled") == "True"
        assert env.class_name in message_of(stalled)
        assert_answered("missing class", message_of(stalled))
        await env.create(SESSIONS, "unnamed", {})
        await env.in_phase(SESSIONS, "unnamed", "Pending", "ClassNotFound")
        default = {"annotations": {DEFAULT_CLASS_ANNOTATION: "true"}}
        await env.create(SESSION_CLASSES, env.class_name, {"image": IMAGE}, metadata=default)
        await env.session_ready("s")
        await env.session_ready("unnamed")


@pytest.mark.parametrize(
    ("spec", "reason", "names"),
    [
        ({"conf": {"spark.jars": "http://x"}}, "NotAllowed", "spark.jars"),
        ({"conf": {"spark.Kubernetes.namespace": "other"}}, "NotAllowed", "spark.Kubernetes.namespace"),
        ({"image": "evil:1"}, "NotAllowed", "evil:1"),
        ({"serviceAccountName": "admin"}, "NotAllowed", "admin"),
        ({"driver": {"memory": "9Gi"}}, "LimitExceeded", "9Gi"),
        ({"executors": {"min": 0, "max": 21}}, "LimitExceeded", "spec.executors.max"),
        ({"conf": {"spark.sql.gateway.session.max-num": "many"}}, "InvalidSpec", "spark.sql.gateway.session.max-num"),
    ],
)
async def test_session_that_its_class_does_not_allow_is_refused_until_changed(
    env: Environment, spec: dict[str, Any], reason: str, names: str
) -> None:
    await env.create_class(limits={"driver": {"memory": "8Gi"}, "executors": {"instances": 20}})
    await env.create_session(**spec)
    async with env.operator():
        refused = await env.in_phase(SESSIONS, "s", "Pending", reason)
        assert names in message_of(refused)
        assert condition(refused, "Stalled") == "True"
        await env.patch(SESSIONS, "s", dict.fromkeys(spec))
        await env.session_ready()
    assert len(env.kubelet.started) == 1


async def test_sessions_of_a_class_in_a_namespace_have_a_bound(env: Environment) -> None:
    await env.create_class(limits={"sessionsPerNamespace": 1})
    async with env.operator(resyncSeconds=1):
        await env.create_session("a")
        await env.session_ready("a")
        await env.create_session("b")
        await env.in_phase(SESSIONS, "b", "Pending", "LimitExceeded")
        await env.delete(SESSIONS, "a")
        await env.gone(SESSIONS, "a")
        await env.session_ready("b")


async def test_session_beyond_the_pod_quota_waits_and_starts_when_there_is_room(env: Environment) -> None:
    await env.create_class()
    await _set_quota(env, pods="0")
    async with env.operator(deadlines={"schedulingSeconds": 30}):
        await env.create_session()
        waiting = await env.in_phase(SESSIONS, "s", "Starting", "QuotaExceeded")
        assert "exceeded quota" in message_of(waiting)
        await _set_quota(env, pods="10")
        await env.session_ready()
    assert [name[-2:] for name in env.kubelet.started] == ["-1"]


async def test_quota_without_room_for_longer_than_the_deadline_stalls_the_session_until_there_is_room(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "START_BACKOFF_SECONDS", 1.0)
    await env.create_class()
    await _set_quota(env, pods="0")
    async with env.operator(deadlines={"schedulingSeconds": 1}):
        await env.create_session()
        await env.until_stalled("s", "QuotaExceeded")
        await _set_quota(env, pods="10")
        await env.session_ready()
    assert [name[-2:] for name in env.kubelet.started] == ["-1"]


async def test_child_of_somebody_else_is_never_adopted(env: Environment) -> None:
    session = await env.create_session()
    name = child_base("s", session["metadata"]["uid"])
    foreign = await env.create_secret(name, token="theirs")
    await env.create_class()
    async with env.operator():
        await env.in_phase(SESSIONS, "s", "Pending", "ChildConflict")
    now = await env.get(SECRETS, name)
    assert now["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"]
    assert env.kubelet.started == []


async def _no_live_pods(env: Environment) -> bool:
    return all(p.get("status", {}).get("phase") in ("Failed", "Succeeded") for p in await env.driver_pods())


async def _set_quota(env: Environment, pods: str) -> None:
    """No quota controller runs: what it would count is written by hand."""
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": pods}}}
    await env.client.apply(QUOTAS, env.namespace, "few", body)
    status = {"hard": {"pods": pods}, "used": {"pods": "0"}}
    await env.client.patch_merge(QUOTAS, env.namespace, "few", {"status": status}, subresource="status")
    await env.until("the quota is in force", lambda: _admits(env, pods != "0"))


async def _admits(env: Environment, wanted: bool) -> bool:
    """Whether a pod is let in is asked with a dry run."""
    resource = Resource("", "v1", "pods?dryRun=All")
    body = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "probe-"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }  # fmt: skip
    try:
        await env.client.create(resource, env.namespace, body)
    except Exception:
        return not wanted
    return wanted
