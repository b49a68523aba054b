"""The operator's client over an instance's store instead of a connection to an API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from sparksql.kube.client import KubeClient, Listing, Object, Propagation
from sparksql.kube.errors import ApiError
from sparksql.kube.resources import Resource
from sparksql.local.objects.store import ObjectStore

T = TypeVar("T")


class LocalClient(KubeClient):
    """Answers every request of `KubeClient` from the store, with the same errors.

    A request gives the loop to others once, as one over the network would.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def close(self) -> None:
        """Closes nothing: the store belongs to the instance."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Returns the object. Raises NotFound."""
        await _turn()
        return self._store.get(resource, namespace, name)

    async def create(self, resource: Resource, namespace: str, body: Object) -> Object:
        """Creates the object and returns it as stored. Raises AlreadyExists, or another ApiError."""
        await _turn()
        return self._store.create(resource, namespace, body)

    async def check_create(self, resource: Resource, namespace: str, body: Object) -> None:
        """Checks the creation of an object and creates nothing. Raises ApiError."""
        await _turn()
        self._store.create(resource, namespace, body, dry_run=True)

    async def replace(
        self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = ""
    ) -> Object:
        """Replaces the object and returns it as stored. Raises Conflict, or another ApiError."""
        await _turn()
        return self._store.replace(resource, namespace, name, body, subresource)

    async def patch_merge(
        self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = ""
    ) -> Object:
        """Writes a JSON merge patch. Raises Conflict, or another ApiError."""
        await _turn()
        return self._store.patch_merge(resource, namespace, name, body, subresource)

    async def apply(self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = "") -> Object:
        """Applies the body. Raises ApiError, also for a subresource, which nothing applies."""
        await _turn()
        if subresource:
            raise ApiError(405, "MethodNotAllowed", f"local mode applies no subresource, and {subresource!r} is one")
        return self._store.apply(resource, namespace, name, body)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        """Requests deletion; dependents follow in the background. Raises NotFound, Conflict, or another ApiError."""
        await _turn()
        if propagation not in (None, "Background"):
            raise ApiError(
                400, "BadRequest", f"propagationPolicy {propagation}: local mode deletes in the background only"
            )
        self._store.delete(resource, namespace, name, uid=uid, grace_seconds=grace_seconds)

    async def list_some(self, resource: Resource, namespace: str, field_selector: str, most: int) -> Sequence[Object]:
        """Returns objects of a namespace that a field selector names, `most` of them at most."""
        await _turn()
        return self._store.list(resource, namespace, field_selector=field_selector).items[:most]

    async def list_as(
        self, read: Callable[[Object], T], resource: Resource, namespace: str, label_selector: str, page_size: int
    ) -> Listing[T]:
        """Lists as `list` does and returns what `read` made of each object."""
        await _turn()
        listing = self._store.list(resource, namespace, label_selector)
        return Listing([read(item) for item in listing.items], listing.resource_version)


async def _turn() -> None:
    await asyncio.sleep(0)
