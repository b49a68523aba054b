"""What sessions and their statements show of executors that are missing, as a real API server has them."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.names import EXECUTOR_APP_NAME, LABEL_NAME
from sparksql.controllers import enqueue
from sparksql.controllers.session import executors as checks
from sparksql.domain.session import decide, executors
from sparksql.kube.resources import PODS, SESSIONS, STATEMENTS, Resource
from tests.integration.operator.environment import Environment, message_of

Object = dict[str, Any]
NO_ROOM = "0/1 nodes are available: 1 Insufficient memory."
QUOTAS = Resource("", "v1", "resourcequotas")


async def make_executor(env: Environment, name: str = "e-1") -> None:
    """As Spark makes one: its only owner is the driver's pod."""
    driver = await env.get(PODS, env.kubelet.pod_of("s"))
    named = {"name": driver["metadata"]["name"], "uid": driver["metadata"]["uid"]}
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": True, **named}  # as Spark writes it
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {LABEL_NAME: EXECUTOR_APP_NAME}, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "spark", "image": "i"}]},
    }
    await env.client.create(PODS, env.namespace, body)


async def report(env: Environment, name: str, status: Object) -> None:
    await env.client.patch_merge(PODS, env.namespace, name, {"status": status}, subresource="status")


def summary_is(wanted: str, words: str = "") -> Any:
    def reached(obj: Object) -> bool:
        shown = obj.get("status", {}).get("executors", {})
        return shown.get("summary") == wanted and words in shown.get("message", "")

    return reached


def executors_ready(obj: Object) -> tuple[str, str]:
    found = next(c for c in obj["status"]["conditions"] if c["type"] == "ExecutorsReady")
    return found["status"], found["reason"]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueue, "PROGRESS_SECONDS", 0.2)
    monkeypatch.setattr(executors, "MISSING_SECONDS", 1.0)
    monkeypatch.setattr(decide, "MISSING_SECONDS", 1.0)
    monkeypatch.setattr(checks, "_CHECK_AGAIN", checks._CHECK_AGAIN * 0)


@pytest.mark.usefixtures("soon")
async def test_executor_without_a_node_is_shown_by_its_session_and_by_the_statement_that_waits(
    env: Environment,
) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.session_ready()
        await env.create_statement("one", "SELECT HOLD")
        await env.in_phase(STATEMENTS, "one", "Running")
        await make_executor(env)
        no_node = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_ROOM}
        await report(env, "e-1", {"conditions": [no_node]})
        shown = await env.wait(SESSIONS, "s", "shows the cause", summary_is("0/1", NO_ROOM))
        assert shown["status"]["phase"] == "Ready"
        assert executors_ready(shown) == ("False", "Unschedulable")
        await env.wait(STATEMENTS, "one", "shows the cause", lambda obj: NO_ROOM in message_of(obj))
        running = {"name": "spark", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
        running["state"] = {"running": {"startedAt": "2026-01-31T08:00:00Z"}}
        await report(env, "e-1", {"phase": "Running", "containerStatuses": [running]})
        shown = await env.wait(SESSIONS, "s", "has its executor", summary_is("1/1"))
        assert executors_ready(shown) == ("True", "ExecutorsReady")
        await env.wait(STATEMENTS, "one", "waits no more", lambda obj: message_of(obj) == "")


@pytest.mark.usefixtures("soon")
async def test_executor_that_a_quota_refuses_is_shown_with_the_quotas_words(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.session_ready()
        body = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few"},
            "spec": {"hard": {"pods": "0"}},
        }
        await env.client.apply(QUOTAS, env.namespace, "few", body)
        status = {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
        await env.client.patch_merge(QUOTAS, env.namespace, "few", status, subresource="status")
        shown = await env.wait(SESSIONS, "s", "shows the quota", summary_is("0/1", "exceeded quota: few"))
        assert executors_ready(shown) == ("False", "QuotaExceeded")
    pods = (await env.client.list(PODS, env.namespace)).items
    assert [pod["metadata"]["name"] for pod in pods] == [env.kubelet.pod_of("s")], "a check creates nothing"
