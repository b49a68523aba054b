"""The service account of a class's drivers in a namespace: made when absent and never changed, bound to the one driver role."""

from __future__ import annotations

import contextlib

from sparksql.api.reasons import Reason
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.domain.violation import Violation
from sparksql.kube.builders.access import role_binding, service_account
from sparksql.kube.client import KubeClient
from sparksql.kube.errors import AlreadyExists, NotFound
from sparksql.kube.resources import ROLE_BINDINGS, SERVICE_ACCOUNTS


async def ensure_account(client: KubeClient, built: EffectiveSession) -> Violation | None:
    """Makes the class's account and its one role binding where they are missing; returns what prevents it. Raises ApiError."""
    if not built.create_service_account:
        return None
    namespace = built.namespace
    try:
        await client.get(SERVICE_ACCOUNTS, namespace, built.service_account)
    except NotFound:
        with contextlib.suppress(AlreadyExists):
            await client.create(SERVICE_ACCOUNTS, namespace, service_account(namespace, built.service_account))
    binding = role_binding(namespace, built.service_account)
    try:
        await client.get(ROLE_BINDINGS, namespace, binding["metadata"]["name"])
    except NotFound:
        with contextlib.suppress(AlreadyExists):
            await client.create(ROLE_BINDINGS, namespace, binding)
    return await binding_conflict(client, built)


async def binding_conflict(client: KubeClient, built: EffectiveSession) -> Violation | None:
    """Tells whether the account's role binding binds something else: drivers would be without executors. Raises ApiError."""
    if not built.create_service_account:
        return None
    binding = role_binding(built.namespace, built.service_account)
    name, role = binding["metadata"]["name"], binding["roleRef"]["name"]
    try:
        existing = await client.get(ROLE_BINDINGS, built.namespace, name)
    except NotFound:
        return None
    subjects = [(s.get("kind"), s.get("name"), s.get("namespace")) for s in existing.get("subjects") or ()]
    if ("ServiceAccount", built.service_account, built.namespace) in subjects and existing["roleRef"]["name"] == role:
        return None
    message = f"RoleBinding {name} exists and does not bind ServiceAccount {built.service_account} to ClusterRole {role}; delete it"
    return Violation(Reason.CHILD_CONFLICT, message)
