"""The children of a driver that is started ahead of need: what every driver has, owned by the class until a session has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sparksql.api import names
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.kube.builders.driver import driver_pod
from sparksql.kube.builders.executor import executor_template
from sparksql.kube.builders.network import network_policy
from sparksql.kube.builders.session import executor_secret, secret
from sparksql.wire.driver import config_hash

INCARNATION = 1  # of every driver of a pool: none follows it


@dataclass(frozen=True)
class Credentials:
    """What a driver proves itself with, and what it takes its callers by."""

    token: str = field(repr=False)
    certificate: str
    key: str = field(repr=False)
    executor_secret: bytes = field(repr=False)


@dataclass(frozen=True)
class WarmChildren:
    """Objects in the order in which they are made; the pod is the last."""

    secret: dict[str, Any] = field(repr=False)
    executor_secret: dict[str, Any] = field(repr=False)
    network_policy: dict[str, Any]
    pod: dict[str, Any]


def warm_children(
    member: EffectiveSession,
    class_uid: str,
    key: str,
    config_json: str,
    executor_template_json: str,
    credentials: Credentials,
    operator_namespace: str | None,
) -> WarmChildren:
    """Returns the children of a pool's member, whose name and UID are its own. `key` is what it was started with, as a hash."""
    own = secret(
        member, token=credentials.token, cert_pem=credentials.certificate, key_pem=credentials.key,
        config_json=config_json, executor_template_json=executor_template_json,
    )  # fmt: skip
    executors = executor_secret(member, INCARNATION, credentials.executor_secret)
    pod = driver_pod(member, INCARNATION, config_hash(config_json))
    policy = network_policy(member, operator_namespace)
    policy["spec"]["ingress"] = policy["spec"]["ingress"][
        : 2 if operator_namespace is not None else 1
    ]  # no clients yet
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": "SqlSessionClass",
        "name": member.class_name,
        "uid": class_uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    for each in (own, executors, policy, pod):
        each["metadata"]["ownerReferences"] = [owner]
    pod["metadata"]["labels"] |= {names.LABEL_WARM_POOL: member.class_name}
    pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), names.ANNOTATION_POOL_KEY: key}
    return WarmChildren(own, executors, policy, pod)


def owned_by_pod(pod: dict[str, Any]) -> dict[str, Any]:
    """Returns the change by which a child becomes the pod's, and goes with it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    return {"metadata": {"ownerReferences": [owner]}}


def claim(session: EffectiveSession, resource_version: str) -> dict[str, Any]:
    """Returns the change by which a member's pod becomes a session's. Only if it is as it was seen: one session has it."""
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": "SqlSession",
        "name": session.name,
        "uid": session.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = {names.LABEL_SESSION: session.name, names.LABEL_WARM_POOL: None}
    return {"metadata": {"resourceVersion": resource_version, "labels": labels, "ownerReferences": [owner]}}


def executor_template_of(member: EffectiveSession) -> dict[str, Any]:
    """Returns the template of a member's executors."""
    return executor_template(member, INCARNATION)
