"""Nodes that are told by a digest of all that they are made of, so that equal ones are one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

OPAQUE = "Opaque"  # what nothing tells from others
_CHARS_OF_DIGEST = 24

# A kind and its fields: texts, numbers, lists and maps of them, and references to nodes.
Node = list[Any]


def is_ref(value: Any) -> bool:
    """Returns whether a value is a reference to a node."""
    return isinstance(value, dict) and "ref" in value


def refs(value: Any) -> Iterator[str]:
    """Returns the digests of the nodes that a field's value has."""
    if is_ref(value):
        yield value["ref"]
    elif isinstance(value, dict):
        for each in value.values():
            yield from refs(each)
    elif isinstance(value, list):
        for each in value:
            yield from refs(each)


def reached(nodes: Mapping[str, Node], roots: Iterable[str]) -> dict[str, Node]:
    """Returns the nodes that roots are made of."""
    found: dict[str, Node] = {}
    pending = list(roots)
    while pending:
        digest = pending.pop()
        if digest not in found and digest in nodes:
            found[digest] = nodes[digest]
            pending.extend(refs(list(nodes[digest][1].values())))
    return found


class Nodes:
    """Nodes of one description. A reference is `{"ref": digest}`."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def add(self, kind: str, /, **fields: Any) -> Any:
        """Adds a node and returns its reference; equal nodes are one."""
        node = [kind, fields]
        digest = hashlib.sha256(json.dumps(node, sort_keys=True).encode()).hexdigest()[:_CHARS_OF_DIGEST]
        self._nodes[digest] = node
        return {"ref": digest}

    def kind(self, value: Any) -> str:
        """Returns a node's kind, empty for what is no node."""
        return str(self._nodes[value["ref"]][0]) if is_ref(value) else ""

    def fields(self, ref: Any) -> dict[str, Any]:
        """Returns the fields of the node that a reference names."""
        fields: dict[str, Any] = self._nodes[ref["ref"]][1]
        return fields

    def mentions(self, ref: Any) -> frozenset[str]:
        """Returns the kinds of nodes that an expression has, not those of the rows that its columns come from.

        A column of a table that is no stream has the kind Table.
        """
        kinds: set[str] = set()
        pending = list(refs(ref))
        while pending:
            kind, fields = self._nodes[pending.pop()]
            kinds.add("Table" if kind == "Column" and not fields["streams"] else kind)
            if kind not in ("Column", "ResultOf", "Query"):
                pending.extend(refs(list(fields.values())))
        return frozenset(kinds)

    def below(self, roots: Iterable[str]) -> dict[str, Node]:
        """Returns the nodes that roots are made of."""
        return reached(self._nodes, roots)
