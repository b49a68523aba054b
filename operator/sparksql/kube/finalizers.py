"""The finalizer of our own: put on before anything exists that must be cleaned up, taken off when it is."""

from __future__ import annotations

from sparksql.api.names import FINALIZER
from sparksql.kube.client import KubeClient, Object
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import BY_KIND
from sparksql.kube.status import Cache


async def add_finalizer(client: KubeClient, cache: Cache, kind: str, obj: Object) -> Object:
    """The object with our finalizer on. Raises Conflict when it has changed since `obj`, NotFound when it is gone."""
    finalizers = obj["metadata"].get("finalizers") or []
    if FINALIZER in finalizers:
        return obj
    written = await _write(client, kind, obj, [*finalizers, FINALIZER])
    cache.apply(kind, written)
    return written


async def remove_finalizer(client: KubeClient, cache: Cache, kind: str, obj: Object) -> Object | None:
    """The object without our finalizer, or None when that let it go (or it was gone). Raises Conflict as above."""
    meta = obj["metadata"]
    finalizers = meta.get("finalizers") or []
    if FINALIZER not in finalizers:
        return obj
    left = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
    written: Object | None
    try:
        written = await _write(client, kind, obj, left)
    except NotFound:
        written = None
    if written is None or (written["metadata"].get("deletionTimestamp") and not left):
        cache.delete(kind, meta.get("namespace", ""), meta["name"], uid=meta["uid"])
        return None
    cache.apply(kind, written)
    return written


async def _write(client: KubeClient, kind: str, obj: Object, finalizers: list[str]) -> Object:
    meta = obj["metadata"]
    body = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": finalizers}}
    return await client.patch_merge(BY_KIND[kind], meta.get("namespace", ""), meta["name"], body)
