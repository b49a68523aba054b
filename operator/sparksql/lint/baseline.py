"""The former state of resources, from a git revision or a cluster: what immutable fields are compared with. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sparksql.lint.resources import OUR_KINDS, Identity, Resource


class Baseline:
    """Objects by kind, namespace and name. `path` is the file that has an object, where there are several of one name."""

    def __init__(self, objects: Iterable[tuple[str | None, Identity, Mapping[str, Any]]] = ()) -> None:
        self._objects: dict[Identity, Mapping[str, Any]] = {}
        self._in_files: dict[tuple[str, Identity], Mapping[str, Any]] = {}
        for path, identity, value in objects:
            self._objects.setdefault(identity, value)
            if path is not None:
                self._in_files.setdefault((path, identity), value)

    @property
    def identities(self) -> frozenset[Identity]:
        """Returns the resources that it knows."""
        return frozenset(self._objects)

    def former(self, resource: Resource) -> Mapping[str, Any] | None:
        """Returns the former state of a resource: that of the same file if there is one. None for a new resource."""
        identity = resource.identity
        if identity is None:
            return None
        return self._in_files.get((resource.document.source.path, identity)) or self._objects.get(identity)


def of_files(resources: Iterable[Resource]) -> Baseline:
    """Returns the resources of ours that the files of a revision have."""
    return Baseline(
        (resource.document.source.path, resource.identity, resource.node.value)
        for resource in resources
        if resource.kind in OUR_KINDS and resource.identity is not None
    )


def of_cluster(objects: Iterable[tuple[str | None, Mapping[str, Any]]]) -> Baseline:
    """Returns live objects, each with the namespace of its request.

    None is that of the user's context: its objects stand for resources as well whose file leaves the namespace open.
    """
    found: list[tuple[str | None, Identity, Mapping[str, Any]]] = []
    for requested, value in objects:
        metadata, kind = value["metadata"], value["kind"]
        namespaces = dict.fromkeys((requested, metadata.get("namespace")))
        found += [(None, (kind, namespace, metadata["name"]), value) for namespace in namespaces]
    return Baseline(found)
