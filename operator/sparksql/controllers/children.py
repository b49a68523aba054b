"""Making what our objects need: of one name at most one, and nothing in a namespace that goes away."""

from __future__ import annotations

from sparksql.controllers.context import ControllerContext
from sparksql.kube.client import KubeClient, Object
from sparksql.kube.errors import AlreadyExists, Forbidden
from sparksql.kube.resources import BY_KIND, Resource


async def create_missing(client: KubeClient, resource: Resource, body: Object) -> Object | None:
    """Creates the object and returns it, or None: one of its name is there, or its namespace is being deleted.

    Raises ApiError.
    """
    try:
        return await client.create(resource, body["metadata"]["namespace"], body)
    except AlreadyExists:
        return None
    except Forbidden as error:
        if not error.namespace_terminating:
            raise
        return None


async def create_watched(context: ControllerContext, body: Object) -> None:
    """Creates an object of a watched kind, as `create_missing`; the store has it then, or the one that was there.

    Raises ApiError.
    """
    kind, metadata = body["kind"], body["metadata"]
    created = await create_missing(context.client, BY_KIND[kind], body)
    if created is not None:
        context.store.apply(kind, created)
    else:
        await context.status.refresh(kind, metadata["namespace"], metadata["name"])
