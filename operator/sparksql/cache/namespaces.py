"""Namespaces, as the store knows them."""

from __future__ import annotations

from collections.abc import Mapping

from sparksql.cache.indexes import NAMESPACE
from sparksql.cache.views import ObjectView
from sparksql.engine.store import Store


def is_terminating(store: Store, namespace: str) -> bool:
    """Tells whether the namespace is being deleted. One that is not known is not."""
    obj = store.get(NAMESPACE, "", namespace)
    return obj is not None and ObjectView(obj).is_deleting


def labels_of(store: Store, namespace: str) -> Mapping[str, str]:
    """Returns the namespace's labels, none if it is not known."""
    obj = store.get(NAMESPACE, "", namespace)
    return ObjectView(obj).labels if obj is not None else {}
