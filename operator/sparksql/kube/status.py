"""Writes of our own to an object's status: compared first, guarded by the version they were decided on, seen at once.

Invariants
- Nothing is sent when nothing changes.
- A status decided on an outdated object is refused with Conflict, never merged over a newer one.
- The API server's answer is in the store before a write returns, so that the next decision does not see the past.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sparksql.kube.client import KubeClient, Object
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import BY_KIND


class Cache(Protocol):
    """Offers what the writers need of the store: see `sparksql.engine.store`."""

    def apply(self, kind: str, obj: Object) -> bool:
        """Takes in the object unless a newer state of it is known, and tells whether it did."""

    def delete(self, kind: str, namespace: str, name: str, uid: str | None = None) -> bool:
        """Drops the object and tells whether it was there. With `uid`, an object of that name but another UID stays."""

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Returns the object as last seen, None if there is none."""


class StatusWriter:
    """Writes statuses of the kinds in `BY_KIND` through one client into one store."""

    def __init__(self, client: KubeClient, cache: Cache) -> None:
        self._client = client
        self._cache = cache

    async def write(self, kind: str, current: Object, status: Mapping[str, Any]) -> Object:
        """Makes `status` the whole status of the object and returns the object as it is afterwards.

        A field that is None or missing is removed; lists are replaced whole. Raises Conflict when the object has
        changed since `current`, NotFound when it is gone.
        """
        patch = merge_patch(current.get("status") or {}, _without_none(status))
        if not patch:
            return current
        meta = current["metadata"]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": patch}
        written = await self._client.patch_merge(
            BY_KIND[kind], meta.get("namespace", ""), meta["name"], body, subresource="status"
        )
        self._cache.apply(kind, written)
        return written

    async def refresh(self, kind: str, namespace: str, name: str) -> Object | None:
        """Returns the object as the API server has it now, also put into the store; None when it does not exist.

        Raises ApiError.
        """
        cached = self._cache.get(kind, namespace, name)
        try:
            live = await self._client.get(BY_KIND[kind], namespace, name)
        except NotFound:
            if cached is not None:
                # By UID: a successor of the same name may have arrived while we asked.
                self._cache.delete(kind, namespace, name, uid=cached["metadata"]["uid"])
            return None
        self._cache.apply(kind, live)
        return live


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) from `old` to `new`, empty when they are equal; `new` has no None in its maps."""
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if changes := merge_patch(before, value):
                patch[key] = changes
        elif key not in old or not _same(before, value):
            patch[key] = value
    return patch


def _same(old: Any, new: Any) -> bool:
    """Equality as JSON sees it: tuples are lists, and True is not 1."""
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        return len(old) == len(new) and all(map(_same, old, new))
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return old.keys() == new.keys() and all(_same(old[key], new[key]) for key in old)
    return bool(old == new)


def _without_none(value: Any) -> Any:
    """Drops fields that are None. Lists keep their length: a null in a list is a value, as in preview cells."""
    match value:
        case Mapping():
            return {key: _without_none(item) for key, item in value.items() if item is not None}
        case list() | tuple():
            return [_without_none(item) for item in value]
        case _:
            return value
