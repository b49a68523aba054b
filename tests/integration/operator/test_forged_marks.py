"""All labels and annotations of ours on objects that a tenant makes: nothing is adopted, sent to, counted or deleted by them."""

from __future__ import annotations

import json
from typing import Any

from sparksql.api import names
from sparksql.kube.resources import (
    CONFIG_MAPS,
    JOBS,
    NETWORK_POLICIES,
    PODS,
    SAVEPOINTS,
    SECRETS,
    SERVICES,
    SESSIONS,
    STATEMENTS,
    Resource,
)
from tests.integration.operator.environment import Environment
from tests.integration.operator.fake_kubelet import Plan

Object = dict[str, Any]
CHILDREN = (PODS, SERVICES, SECRETS, NETWORK_POLICIES)
POD = {"containers": [{"name": "spark", "image": "i"}], "restartPolicy": "Never"}
FORGED: dict[Resource, Object] = {
    PODS: {"spec": POD},
    SERVICES: {"spec": {"ports": [{"port": 1}], "clusterIP": "None"}},
    SECRETS: {"stringData": {"token": "forged"}},
    CONFIG_MAPS: {"data": {"key": "forged"}},
    NETWORK_POLICIES: {"spec": {"podSelector": {"matchLabels": {"app": "forged"}}, "policyTypes": ["Egress"]}},
    JOBS: {"spec": {"suspend": True, "template": {"spec": POD}}},
    SESSIONS: {"spec": {"className": "", "desiredState": "Stopped"}},
    STATEMENTS: {"spec": {"sessionRef": {"name": "none"}, "sql": "SELECT 1"}},
    SAVEPOINTS: {"spec": {"statementRef": {"name": "none"}}},
}


async def marks(env: Environment, session: Object) -> tuple[dict[str, str], dict[str, str]]:
    """Every label and annotation that is on a child of the session, and every other one of the contract with what fits it."""
    labels = {names.LABEL_WARM_POOL: env.class_name, names.LABEL_FRONT_USER: "f" * 32}
    annotations = {
        names.ANNOTATION_POOL_KEY: "k", names.ANNOTATION_CONFIG_HASH: "h", names.ANNOTATION_FRONT_USER: "system:admin",
        names.ANNOTATION_TRIGGER: "Periodic", names.DEFAULT_CLASS_ANNOTATION: "true",
        names.ANNOTATION_WAKE: session["metadata"]["creationTimestamp"],
    }  # fmt: skip
    for kind in CHILDREN:
        for child in (await env.client.list(kind, env.namespace)).items:
            labels |= child["metadata"].get("labels") or {}
            annotations |= child["metadata"].get("annotations") or {}
    assert labels[names.LABEL_SESSION_UID] == session["metadata"]["uid"], labels
    return labels, annotations


async def left(env: Environment) -> dict[Resource, Object]:
    """What of the forged objects tenants have written: the rest may change."""
    found = {}
    for kind in FORGED:
        obj = await env.get(kind, "forged")
        assert "deletionTimestamp" not in obj["metadata"], kind
        metadata = {key: obj["metadata"].get(key) for key in ("uid", "labels", "annotations", "ownerReferences")}
        found[kind] = {"metadata": metadata, "spec": json.dumps(obj.get("spec") or obj.get("data"), sort_keys=True)}
    return found


async def test_objects_with_all_marks_of_a_session_are_left_alone_and_given_nothing(env: Environment) -> None:
    await env.create_class()
    async with env.operator():
        session = await env.create_session()
        await env.session_ready()
        driver = await driver_name(env)
        labels, annotations = await marks(env, session)
        env.kubelet.plans["forged"] = Plan(unschedulable=True)
        (pod,) = await env.driver_pods()
        like_driver = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        own = {
            PODS: {"spec": like_driver},
            SESSIONS: {"spec": {**FORGED[SESSIONS]["spec"], "className": env.class_name}},
        }
        for kind, body in (FORGED | own).items():
            metadata = {"labels": labels, "annotations": annotations, "ownerReferences": [of_another_group(session)]}
            await env.create(kind, "forged", metadata=metadata, **body)
        before = await left(env)
        await env.create_statement("one")
        await env.finished("one")
        assert await driver_name(env) == driver, "the driver was replaced because of a forged object"
        await env.patch(SESSIONS, "s", {"restartNonce": "again"})
        await env.until("another driver", lambda: is_another(env, driver))
        await env.create_statement("two")
        await env.finished("two")
        status = (await env.get(SESSIONS, "s"))["status"]
        assert status["driver"]["podName"] != "forged" and status["driver"]["incarnation"] == 2, status
        await env.delete(SESSIONS, "s")
        await env.gone(SESSIONS, "s")
        assert await left(env) == before
        forged = env.kubelet.drivers.get("forged")
        assert forged is None or forged.bound == []


def of_another_group(session: Object) -> Object:
    """An owner that is the session in all but its API group. The admission policy reserves those of our group."""
    known = {"kind": "SqlSession", "name": "s", "uid": session["metadata"]["uid"], "controller": True}
    return {"apiVersion": "example.com/v1alpha1", **known}


async def driver_name(env: Environment) -> str:
    return str((await env.get(SESSIONS, "s"))["status"]["driver"]["podName"])


async def is_another(env: Environment, driver: str) -> bool:
    phase = (await env.get(SESSIONS, "s")).get("status", {}).get("phase")
    return phase == "Ready" and await driver_name(env) != driver
