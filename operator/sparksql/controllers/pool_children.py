"""The objects of a driver of a warm pool: made, handed over to its pod, and deleted if its start did not come to an end."""

from __future__ import annotations

from sparksql.api.names import child_base, executor_secret_name, pool_member_name
from sparksql.api.session_class import SqlSessionClass, WarmPoolMember
from sparksql.controllers.accounts import ensure_account
from sparksql.controllers.context import ControllerContext
from sparksql.domain.ownership import CLASS_OWNER, owned_by
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.domain.violation import Violation
from sparksql.kube.builders.warm import WarmChildren, owned_by_pod
from sparksql.kube.client import Object
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import NETWORK_POLICIES, PODS, SECRETS


class PoolChildren:
    """Makes and deletes the objects of drivers whose record is in the class's status."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def make(self, member: EffectiveSession, children: WarmChildren) -> Object | Violation:
        """Makes the children and returns the pod, or what prevents it. Raises ApiError."""
        client, namespace = self._context.client, member.namespace
        if (conflict := await ensure_account(client, member)) is not None:
            return conflict
        await client.create(SECRETS, namespace, children.secret)
        await client.create(SECRETS, namespace, children.executor_secret)
        if member.network_policy:
            await client.create(NETWORK_POLICIES, namespace, children.network_policy)
        return await client.create(PODS, namespace, children.pod)

    async def hand_over(self, member: EffectiveSession, children: WarmChildren, pod: Object) -> None:
        """Makes the pod the owner of the rest, which goes with it from now on. Raises ApiError."""
        client, namespace, change = self._context.client, member.namespace, owned_by_pod(pod)
        for each in (children.secret, children.executor_secret):
            await client.patch_merge(SECRETS, namespace, each["metadata"]["name"], change)
        if member.network_policy:
            await client.patch_merge(NETWORK_POLICIES, namespace, children.secret["metadata"]["name"], change)

    async def clear(self, session_class: SqlSessionClass, intent: WarmPoolMember) -> None:
        """Deletes what exists of a driver under the names of its record and is the class's. Raises ApiError.

        The rest goes with the pod: whatever was handed over has it as its owner.
        """
        base = child_base(pool_member_name(session_class.metadata.name), intent.uid)
        children = (
            (PODS, intent.pod_name),  # after an error its creation may have taken place
            (SECRETS, base),
            (SECRETS, executor_secret_name(intent.pod_name)),
            (NETWORK_POLICIES, base),
        )
        for resource, name in children:
            try:
                live = await self._context.client.get(resource, intent.namespace, name)
                if owned_by(live, CLASS_OWNER, session_class.metadata.uid):
                    await self._context.client.delete(resource, intent.namespace, name, uid=live["metadata"]["uid"])
            except NotFound:
                continue
