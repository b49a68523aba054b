"""Names of children that somebody else has taken: what it is, that it stays as it was, and how it heals."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from sparksql.api.names import child_base, driver_pod_name
from sparksql.kube.resources import (
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    SESSIONS,
    Resource,
)
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import Environment, Object, message_of, reason_of

CONTENT: dict[Resource, Object] = {
    SECRETS: {"kind": "Secret", "stringData": {"token": "theirs"}},
    SERVICES: {"kind": "Service", "spec": {"ports": [{"port": 1}]}},
    NETWORK_POLICIES: {"kind": "NetworkPolicy", "spec": {"podSelector": {}}},
}


_SECONDS = itertools.count(9000)


async def looks_again(env: Environment) -> Object:
    """The session after the operator has looked at it once more."""
    changed = await env.patch(SESSIONS, "s", {"idle": {"timeoutSeconds": next(_SECONDS), "action": "Close"}})
    generation = changed["metadata"]["generation"]
    return await env.reaches(SESSIONS, "s", observedGeneration=generation)


async def taken(env: Environment, resource: Resource, name: str, content: Object) -> Object:
    body = {"apiVersion": resource.api_version, "metadata": {"name": name}, **content}
    return await env.client.create(resource, env.namespace, body)


def incarnation(session: Object) -> int:
    return int(session["status"]["driver"]["incarnation"])


@pytest.mark.parametrize("resource", CONTENT, ids=lambda resource: resource.plural)
async def test_a_session_whose_child_name_is_taken_is_in_conflict_until_it_is_free(
    env: Environment, resource: Resource
) -> None:
    session = await env.create_session()
    name = child_base("s", session["metadata"]["uid"])
    foreign = await taken(env, resource, name, CONTENT[resource])
    await env.create_class()
    async with env.operator():
        stalled = await env.in_phase(SESSIONS, "s", "Pending", "ChildConflict")
        assert f"{CONTENT[resource]['kind']} {name} exists and is not this session's" in message_of(stalled)
        assert condition(stalled, "Stalled") == "True"
        again = await looks_again(env)
        assert (reason_of(again), incarnation(again)) == ("ChildConflict", incarnation(stalled))
        now = await env.get(resource, name)
        assert now["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"]
        await env.delete(resource, name)
        await looks_again(env)
        await env.session_ready()


def owner(session: Object, **fields: Any) -> Object:
    known = {
        "apiVersion": "sparksql.dev/v1alpha1",
        "kind": "SqlSession",
        "name": "s",
        "uid": session["metadata"]["uid"],
    }
    return {**known, "controller": True, **fields}


FOREIGN: dict[str, list[Object]] = {
    "nobody's": [],
    "not under its control": [{"controller": False}],
    "another's as well": [{}, {"kind": "ConfigMap", "apiVersion": "v1", "uid": "other", "controller": False}],
    "another session's": [{"uid": "other"}],
    "a kind of another group's": [{"apiVersion": "example.com/v1alpha1"}],
}


@pytest.mark.parametrize("whose", FOREIGN)
async def test_a_pod_under_the_drivers_name_that_is_not_the_sessions_is_a_conflict(
    env: Environment, whose: str
) -> None:
    """It is not waited for as if it were the driver before, and not deleted."""
    session = await env.create_session()
    name = driver_pod_name("s", session["metadata"]["uid"], 1)
    owners = [owner(session, **fields) for fields in FOREIGN[whose]]
    body = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }  # fmt: skip
    foreign = await env.client.create(PODS, env.namespace, body)
    await env.create_class()
    async with env.operator():
        stalled = await env.in_phase(SESSIONS, "s", "Pending", "ChildConflict")
        assert f"Pod {name} exists and is not this session's; delete or rename it" in message_of(stalled)
        again = await looks_again(env)
        assert (reason_of(again), incarnation(again)) == ("ChildConflict", 1)
        now = await env.get(PODS, name)
        assert now["metadata"]["uid"] == foreign["metadata"]["uid"]
        assert "deletionTimestamp" not in now["metadata"]
        await env.client.delete(PODS, env.namespace, name, grace_seconds=0)
        await looks_again(env)
        await env.session_ready()


async def test_a_session_whose_pods_name_is_taken_is_deleted_at_once(env: Environment) -> None:
    session = await env.create_session()
    name = driver_pod_name("s", session["metadata"]["uid"], 1)
    await taken(env, PODS, name, {"kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}})
    await env.create_class()
    async with env.operator() as operator:
        await env.in_phase(SESSIONS, "s", "Pending", "ChildConflict")
        await env.delete(SESSIONS, "s")
        await env.gone(SESSIONS, "s")
        assert "sparksql_finalizer_deadlines_total{" not in operator.metrics.render().decode()
    assert await env.get(PODS, name)


async def test_a_role_binding_that_binds_something_else_is_a_conflict(env: Environment) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    name = "spark-sql-driver-spark"
    await taken(env, ROLE_BINDINGS, name, {"kind": "RoleBinding", "roleRef": role, "subjects": []})
    await env.create_class()
    await env.create_session()
    async with env.operator():
        stalled = await env.in_phase(SESSIONS, "s", "Pending", "ChildConflict")
        assert f"RoleBinding {name} exists and does not bind ServiceAccount spark" in message_of(stalled)
        await env.delete(ROLE_BINDINGS, name)
        await looks_again(env)
        await env.session_ready()


async def test_driver_network_policy_admits_the_operator_by_its_namespace(env: Environment) -> None:
    env.credentials = replace(env.credentials, pod_namespace="spark-sql-system")
    await env.create_class()
    session = await env.create_session()
    async with env.operator():
        await env.session_ready()
    policy = await env.get(NETWORK_POLICIES, child_base("s", session["metadata"]["uid"]))
    peers = [peer for rule in policy["spec"]["ingress"] for peer in rule["from"] if "namespaceSelector" in peer]
    selected = [peer["namespaceSelector"]["matchLabels"] for peer in peers]
    assert selected == [{"kubernetes.io/metadata.name": "spark-sql-system"}]


async def test_driver_network_policy_admits_no_namespace_for_an_operator_outside_a_pod(env: Environment) -> None:
    await env.create_class()
    session = await env.create_session()
    async with env.operator():
        await env.session_ready()
    policy = await env.get(NETWORK_POLICIES, child_base("s", session["metadata"]["uid"]))
    assert all("namespaceSelector" not in peer for rule in policy["spec"]["ingress"] for peer in rule["from"])


@pytest.mark.parametrize("enabled", [True, False])
async def test_session_tells_its_default_class_and_the_host_of_the_front(env: Environment, enabled: bool) -> None:
    env.credentials = replace(env.credentials, pod_namespace=env.namespace)
    await env.create_class()
    await env.create_session()
    async with env.operator(front={"enabled": enabled}):
        ready = await env.session_ready()
    status = (await env.get(SESSIONS, "s"))["status"]
    host = f"spark-sql-front.{env.namespace}.svc" if enabled else None
    assert (status["className"], status.get("front")) == (env.class_name, host), ready
