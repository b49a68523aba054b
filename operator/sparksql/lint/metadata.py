"""Names, labels and annotations, by Kubernetes' documentation "Object Names and IDs", "Labels" and "Annotations". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sparksql.api.fields import DNS_LABEL
from sparksql.lint.findings import Finding, Rule
from sparksql.lint.reading.nodes import Node
from sparksql.lint.resources import IGNORE_ANNOTATION, Resource
from sparksql.lint.schema.words import abbreviated, remedy

_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_SET_BY_SERVER = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
                  "resourceVersion", "selfLink", "uid")  # fmt: skip
# The fields of ObjectMeta in apimachinery's pkg/apis/meta/v1.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "generateName": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": _STRINGS,
        "annotations": _STRINGS,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "ownerReferences": {"type": "array"},
        **{name: {"nullable": True} for name in _SET_BY_SERVER},
    },
}
MAX_NAMESPACE_LENGTH = 63
MAX_ANNOTATION_BYTES = 256 * 1024
_NAME_REMEDY = "write lower-case letters, digits and '-', with a letter or a digit at both ends"
_QUALIFIED = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def check(resource: Resource) -> Iterator[Finding]:
    """Yields what is wrong with the metadata of a resource, besides their types and the length of the name."""
    metadata = resource.node.children.get("metadata")
    if metadata is None or not isinstance(metadata.value, dict):
        if metadata is None:
            message = "metadata.name: it is required: set it"
            yield resource.finding(Rule.REQUIRED_FIELD, resource.node.start, message, ("metadata", "name"))
        return
    yield from _names(resource, metadata)
    yield from _labels(resource, metadata)
    yield from _annotations(resource, metadata)


def _names(resource: Resource, metadata: Node) -> Iterator[Finding]:
    if not metadata.value.get("name") and not metadata.value.get("generateName"):
        at = resource.node.keys.get("metadata", metadata.start)
        message = "metadata.name: it is required: set it"
        yield resource.finding(Rule.REQUIRED_FIELD, at, message, ("metadata", "name"))
    for field, most in (("name", None), ("namespace", MAX_NAMESPACE_LENGTH)):
        node = metadata.children.get(field)
        if node is None or not isinstance(node.value, str) or not node.value:
            continue
        value = node.value.replace(".", "") if field == "name" else node.value  # dots: the rule of the kind itself
        if re.fullmatch(DNS_LABEL, value) is None:
            message = f"metadata.{field}: {abbreviated(node.value)}: {_NAME_REMEDY}"
            yield resource.finding(Rule.NAME, node.start, message, ("metadata", field))
        elif most is not None and len(value) > most:
            message = (
                f"metadata.{field}: {abbreviated(value)}: it has {len(value)} characters, at most {most} are allowed"
            )
            yield resource.finding(Rule.NAME, node.start, message, ("metadata", field))


def _labels(resource: Resource, metadata: Node) -> Iterator[Finding]:
    labels = metadata.children.get("labels")
    for key, node in _strings(labels):
        assert labels is not None
        path = ("metadata", "labels", key)
        if _QUALIFIED.fullmatch(key) is None:
            message = (
                f"metadata.labels: {abbreviated(key)}: write a name of at most 63 letters, digits, '-', '_' and '.'"
            )
            yield resource.finding(Rule.NAME, labels.keys.get(key, node.start), message, path)
        if _LABEL_VALUE.fullmatch(node.value) is None:
            message = (
                f"metadata.labels.{key}: {abbreviated(node.value)}: write at most 63 letters, digits, '-', '_' and '.', with a letter or "
                "a digit at both ends; other texts go into an annotation"
            )
            yield resource.finding(Rule.NAME, node.start, message, path)


def _annotations(resource: Resource, metadata: Node) -> Iterator[Finding]:
    annotations = metadata.children.get("annotations")
    size = 0
    for key, node in _strings(annotations):
        assert annotations is not None
        size += len(key.encode()) + len(node.value.encode(errors="replace"))
        path = ("metadata", "annotations", key)
        if _QUALIFIED.fullmatch(key) is None:
            message = f"metadata.annotations: {abbreviated(key)}: write a name of at most 63 letters, digits, '-', '_' and '.'"
            yield resource.finding(Rule.NAME, annotations.keys.get(key, node.start), message, path)
        if key == IGNORE_ANNOTATION:
            for name in resource.ignored:
                if name not in set(Rule):
                    message = f"metadata.annotations.{key}: there is no rule {abbreviated(name)}: {remedy(name, Rule)}"
                    yield resource.finding(Rule.LINT_IGNORE, node.start, message, path)
    if annotations is not None and size > MAX_ANNOTATION_BYTES:
        message = f"metadata.annotations: they have {size:,} bytes, at most {MAX_ANNOTATION_BYTES:,} are allowed: shorten them"
        yield resource.finding(
            Rule.LIMIT, metadata.keys.get("annotations", annotations.start), message, ("metadata", "annotations")
        )


def _strings(node: Node | None) -> Iterator[tuple[str, Node]]:
    if node is not None and isinstance(node.value, dict):
        for key, child in node.children.items():
            if isinstance(child.value, str):
                yield str(key), child
