"""Which resources the documents of a file hold: ours, and the ConfigMaps and Secrets that ours name. Pure.

A document without `kind`, of another API, or with a directive of a strategic merge patch is none of them. The items of a
`List` are resources of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sparksql.api.crd import KINDS
from sparksql.api.names import API_VERSION, GROUP
from sparksql.lint.findings import Finding, Rule
from sparksql.lint.reading.documents import Document
from sparksql.lint.reading.nodes import Node, Step, dotted
from sparksql.lint.schema.words import nearest, remedy

IGNORE_ANNOTATION = f"{GROUP}/lint-ignore"
CONFIG_MAP, SECRET = "ConfigMap", "Secret"
OUR_KINDS = {kind.KIND: kind for kind in KINDS}
_CORE_KINDS = (CONFIG_MAP, SECRET)
_PATCH_DIRECTIVES = ("$patch", "$retainKeys", "$setElementOrder", "$deleteFromPrimitiveList")

Identity = tuple[str, str | None, str]
"""Kind, namespace as it is written, and name."""


@dataclass(frozen=True)
class Resource:
    """A resource in a file. `prefix` is its path within the document, empty outside of a List."""

    document: Document = field(repr=False)
    node: Node = field(repr=False)
    prefix: tuple[Step, ...] = ()

    @property
    def kind(self) -> str:
        """Returns its kind, empty for what is no text."""
        return _text(self.node.value.get("kind")) or ""

    @property
    def nearest_kind(self) -> str:
        """Returns its kind, or the one that a misspelt kind most likely stands for."""
        return self.kind if self.kind in (*OUR_KINDS, *_CORE_KINDS) else nearest(self.kind, OUR_KINDS) or self.kind

    @property
    def name(self) -> str | None:
        """Returns its name, None without one."""
        return _text(self._metadata.get("name"))

    @property
    def namespace(self) -> str | None:
        """Returns its namespace, None where the file leaves it open, or the kind has none."""
        if not self.is_namespaced:
            return None
        return _text(self._metadata.get("namespace")) or None

    @property
    def is_namespaced(self) -> bool:
        """Returns whether resources of its kind are in a namespace."""
        return self.kind not in OUR_KINDS or OUR_KINDS[self.kind].NAMESPACED

    @property
    def identity(self) -> Identity | None:
        """Returns what distinguishes the resource from others, None without a name."""
        return None if self.name is None else (self.kind, self.namespace, self.name)

    @property
    def is_ours(self) -> bool:
        """Returns whether it is of a kind of ours."""
        return self.kind in OUR_KINDS and self.node.value.get("apiVersion") == API_VERSION

    @property
    def ignored(self) -> tuple[str, ...]:
        """Returns the rules that its annotation names."""
        annotations = self._metadata.get("annotations")
        text = annotations.get(IGNORE_ANNOTATION) if isinstance(annotations, dict) else None
        return tuple(part.strip() for part in text.split(",") if part.strip()) if isinstance(text, str) else ()

    @property
    def _metadata(self) -> dict[str, Any]:
        metadata = self.node.value.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    def place(self, path: tuple[Step, ...]) -> int:
        """Returns where the value of a path stands, or what is nearest to it."""
        while path:
            found = self.node.find(path)
            if found is not None:
                return found.start
            path = path[:-1]
        return self.node.start

    def finding(self, rule: Rule, at: int, message: str, path: tuple[Step, ...] = ()) -> Finding:
        """Returns a finding at a position of the file, about a path within the resource."""
        line, column = self.document.source.place(at)
        subject = f"{self.kind}/{self.namespace or ''}/{self.name or ''}:{dotted(path)}"
        return Finding(self.document.source.path, line, column, rule, message, subject)


def resources(document: Document) -> Iterator[Resource]:
    """Yields the resources of a document of which the checks know something, right ones or not."""
    if document.root is not None:
        yield from _within(document, document.root, ())


def _within(document: Document, node: Node, prefix: tuple[Step, ...]) -> Iterator[Resource]:
    value = node.value
    if not isinstance(value, dict) or any(directive in value for directive in _PATCH_DIRECTIVES):
        return
    kind = value.get("kind")
    if not isinstance(kind, str) or not kind:
        return
    items = node.children.get("items")
    if kind.endswith("List") and items is not None and isinstance(items.value, list):
        for index, item in items.children.items():
            yield from _within(document, item, (*prefix, "items", index))
        return
    resource = Resource(document, node, prefix)
    if _is_known(resource):
        yield resource


def _is_known(resource: Resource) -> bool:
    version = resource.node.value.get("apiVersion")
    group = _group(version)
    if resource.kind in _CORE_KINDS:
        return isinstance(version, str) and version == "v1"
    return group == GROUP or (resource.kind in OUR_KINDS and _is_meant_as_ours(version))


def _group(version: object) -> str:
    return version.partition("/")[0] if isinstance(version, str) and "/" in version else ""


def _is_meant_as_ours(version: object) -> bool:
    """Whether a version is absent, or a misspelling of ours: a kind of this name may also be of another API."""
    return not isinstance(version, str) or not version or nearest(version.partition("/")[0], [GROUP]) is not None


def check_kind(resource: Resource) -> Iterator[Finding]:
    """Yields what is wrong with the kind and the version of a resource."""
    version, kind = resource.node.value.get("apiVersion"), resource.kind
    if version is None:
        message = f"apiVersion: it is required: write {API_VERSION}"
        yield resource.finding(Rule.API_VERSION, resource.node.start, message, ("apiVersion",))
    elif version != API_VERSION:
        message = f"apiVersion: {version}: this program supports {API_VERSION}; write that"
        yield resource.finding(Rule.API_VERSION, resource.place(("apiVersion",)), message, ("apiVersion",))
    if kind not in OUR_KINDS:
        message = f"kind: {kind}: there is no such kind in {GROUP}: {remedy(kind, OUR_KINDS)}"
        yield resource.finding(Rule.KIND, resource.place(("kind",)), message, ("kind",))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
