"""Drivers of a warm pool belong to it because the operator has made them, whatever other pods claim to be."""

from __future__ import annotations

import copy
from typing import Any

from sparksql.api.names import LABEL_SESSION, LABEL_WARM_POOL, child_base, executor_secret_name, pool_member_name
from sparksql.kube.resources import PODS, SECRETS, SESSION_CLASSES, SESSIONS
from tests.integration.operator.environment import Environment
from tests.integration.operator.fake_kubelet import Plan

Object = dict[str, Any]


async def pool_status(env: Environment) -> Object:
    session_class = await env.client.get(SESSION_CLASSES, "", env.class_name)
    found: Object = session_class.get("status", {}).get("warmPool") or {}
    return found


async def a_ready_driver(env: Environment) -> Object:
    """The pod of the pool's one driver, once the class counts it as ready."""

    async def member() -> Object | None:
        status = await pool_status(env)
        return status["members"][0] if status.get("ready") == 1 else None

    record: Object = await env.until("a driver of the pool is ready", member)
    pod = await env.get(PODS, record["podName"])
    assert pod["metadata"]["uid"] == record["podUID"]
    return pod


def forged(pod: Object, name: str, **labels: str | None) -> Object:
    """A pod with all that is written of another one: labels, annotations, owner references and specification."""
    metadata = copy.deepcopy({key: pod["metadata"][key] for key in ("labels", "annotations", "ownerReferences")})
    metadata["labels"] |= labels
    spec = {key: value for key, value in copy.deepcopy(pod["spec"]).items() if key != "nodeName"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": name}, "spec": spec}


async def test_session_gets_the_driver_of_the_pool_that_the_operator_has_made(env: Environment) -> None:
    await env.create_class(warmPool={"size": 1, "namespaces": [env.namespace]})
    async with env.operator():
        pod = await a_ready_driver(env)
        await env.create_session(endpoints={"rest": True, "connect": True, "thrift": True})
        ready = await env.in_phase(SESSIONS, "s", "Ready")
        assert ready["status"]["driver"]["podUID"] == pod["metadata"]["uid"]
        assert len(env.kubelet.gateway_of("s").bound) == 1

        async def is_replaced() -> bool:
            members = (await pool_status(env)).get("members", [])
            return len(members) == 1 and members[0]["podUID"] != pod["metadata"]["uid"]

        await env.until("the pool has another driver", is_replaced)


async def test_pod_that_claims_to_be_of_a_pool_is_given_no_session_and_not_counted(env: Environment) -> None:
    """It has all that a driver of the pool has, is older than the pool's next one, and runs."""
    await env.create_class(warmPool={"size": 1, "namespaces": [env.namespace]})
    async with env.operator():
        pod = await a_ready_driver(env)
        env.kubelet.plans["forged"] = Plan(unschedulable=True)  # else it ends while it starts
        owned = await env.client.create(PODS, env.namespace, forged(pod, "forged-owned", **{LABEL_SESSION: "forged"}))
        labelled = forged(pod, "forged-labelled")
        del labelled["metadata"]["ownerReferences"]
        await env.client.create(PODS, env.namespace, labelled)
        # The one that names the class as its owner is removed, as Kubernetes itself removes pods by their owners.
        await env.until("the pod that names the class is removed", lambda: is_gone(env, owned))
        await env.until("the other one runs", lambda: "forged-labelled" in env.kubelet.drivers)
        await env.client.delete(PODS, env.namespace, pod["metadata"]["name"], grace_seconds=0)
        await env.create_session(endpoints={"rest": True, "connect": True, "thrift": True})
        ready = await env.in_phase(SESSIONS, "s", "Ready")
        assert ready["status"]["driver"]["podName"] != "forged-labelled"
        assert env.kubelet.drivers["forged-labelled"].bound == []
        left = await env.get(PODS, "forged-labelled")
        assert left["metadata"]["labels"][LABEL_WARM_POOL] == env.class_name
        assert "deletionTimestamp" not in left["metadata"]
        assert all(each["podName"] != "forged-labelled" for each in (await pool_status(env))["members"])


async def is_gone(env: Environment, pod: Object) -> bool:
    pods = (await env.client.list(PODS, env.namespace)).items
    return all(each["metadata"]["uid"] != pod["metadata"]["uid"] for each in pods)


async def test_driver_that_was_made_and_not_recorded_is_removed_by_the_next_operator(env: Environment) -> None:
    await env.create_class(warmPool={"size": 1, "namespaces": [env.namespace]})
    async with env.operator():
        pod = await a_ready_driver(env)
    nothing = {"status": {"warmPool": None}}
    await env.client.patch_merge(SESSION_CLASSES, "", env.class_name, nothing, subresource="status")
    async with env.operator():
        await env.until("the driver without a record is removed", lambda: is_gone(env, pod))
        assert (await a_ready_driver(env))["metadata"]["uid"] != pod["metadata"]["uid"]


async def test_driver_whose_pod_was_not_recorded_is_removed_with_all_that_was_made_for_it(env: Environment) -> None:
    """The operator ended after it had written the name: before the pod, and between the pod and its UID."""
    await env.create_class(warmPool={"size": 1, "namespaces": [env.namespace]})
    async with env.operator():
        pod = await a_ready_driver(env)
        record = (await pool_status(env))["members"][0]
    base = child_base(pool_member_name(env.class_name), "earlier")
    earlier = {"namespace": env.namespace, "uid": "earlier", "podName": f"{base}-1", "key": "k"}
    owned = {"ownerReferences": pod["metadata"]["ownerReferences"]}
    await env.create(SECRETS, base, metadata=owned, stringData={"token": "t"})
    await env.create(SECRETS, executor_secret_name(f"{base}-1"), stringData={"token": "a tenant's"})
    left = {"members": [{**record, "podUID": ""}, earlier]}
    await env.client.patch_merge(
        SESSION_CLASSES, "", env.class_name, {"status": {"warmPool": left}}, subresource="status"
    )
    async with env.operator():
        await env.until("the driver without a recorded pod is removed", lambda: is_gone(env, pod))
        replaced = await a_ready_driver(env)
        assert replaced["metadata"]["uid"] != pod["metadata"]["uid"]
        (member,) = (await pool_status(env))["members"]
        assert member["podUID"] == replaced["metadata"]["uid"]
        names = {each["metadata"]["name"] for each in (await env.client.list(SECRETS, env.namespace)).items}
        assert base not in names and executor_secret_name(f"{base}-1") in names, names
