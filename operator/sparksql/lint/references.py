"""References among resources: names that nothing has, keys that a ConfigMap lacks, circles, and names given twice. Pure.

A namespace that a file leaves open may be any: a reference is resolved by a resource whose namespace is the same, or open on
either side.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sparksql.api.fields import DNS_LABEL
from sparksql.domain.statement.dependencies import find_cycle
from sparksql.lint.findings import Finding, Rule
from sparksql.lint.reading.nodes import Node, Step, dotted
from sparksql.lint.resources import CONFIG_MAP, SECRET, Identity, Resource

_SESSION, _STATEMENT, _SAVEPOINT = "SqlSession", "SqlStatement", "SqlSavepoint"
_EACH = "[]"

# Fields that name a resource of ours, by the kind that has them.
_NAMES: Mapping[str, Sequence[tuple[tuple[str, ...], str]]] = {
    _STATEMENT: (
        (("spec", "sessionRef", "name"), _SESSION),
        (("spec", "dependsOn", _EACH, "name"), _STATEMENT),
        (("spec", "validateAgainst", "statementRef", "name"), _STATEMENT),
        (("spec", "streaming", "startFrom", "savepointRef", "name"), _SAVEPOINT),
    ),
    _SAVEPOINT: ((("spec", "statementRef", "name"), _STATEMENT),),
}
# Of these the named statement must be a stream.
_OF_STREAMS = (("spec", "validateAgainst", "statementRef", "name"), ("spec", "statementRef", "name"))
_SQL_SOURCE = ("sqlFrom", "configMapKeyRef")
# Fields that name a key.
_KEYS: Mapping[str, Sequence[tuple[tuple[str, ...], str]]] = {
    _STATEMENT: (
        (("spec", *_SQL_SOURCE), CONFIG_MAP),
        (("spec", "session", "init", _EACH, *_SQL_SOURCE), CONFIG_MAP),
        (("spec", "parameters", _EACH, "valueFrom", "configMapKeyRef"), CONFIG_MAP),
        (("spec", "parameters", _EACH, "valueFrom", "secretKeyRef"), SECRET),
    ),
    _SESSION: ((("spec", "init", _EACH, *_SQL_SOURCE), CONFIG_MAP),),
}
_DATA = {CONFIG_MAP: ("data",), SECRET: ("data", "stringData")}


@dataclass(frozen=True)
class Context:
    """What is known besides the files: resources of a cluster or a revision, and names that the user has given."""

    objects: Collection[Identity] = field(default_factory=frozenset)
    external: Collection[tuple[str, str]] = field(default_factory=frozenset)


class Index:
    """The resources of all files by kind and name."""

    def __init__(self, resources: Sequence[Resource], context: Context) -> None:
        self._by_name: dict[tuple[str, str], dict[str | None, Resource]] = {}
        for resource in resources:
            if resource.name is not None:
                spaces = self._by_name.setdefault((resource.nearest_kind, resource.name), {})
                spaces.setdefault(resource.namespace, resource)
        self._context = context
        self._namespaces: dict[tuple[str, str], set[str | None]] = {}
        for kind, namespace, name in context.objects:
            self._namespaces.setdefault((kind, name), set()).add(namespace)

    def find(self, kind: str, name: str, namespace: str | None) -> Resource | None:
        """Returns the resource of a name that a resource in a namespace may mean, None if no file has it."""
        spaces = self._by_name.get((kind, name), {})
        if namespace is None:
            return next(iter(spaces.values()), None)
        return spaces.get(namespace) or spaces.get(None)

    def named(self, kind: str, name: str) -> list[Resource]:
        """Returns the resources of a name, one of each namespace."""
        return list(self._by_name.get((kind, name), {}).values())

    def exists(self, kind: str, name: str, namespace: str | None) -> bool:
        """Returns whether there is such a resource, among the files or besides them."""
        if self.find(kind, name, namespace) is not None or (kind, name) in self._context.external:
            return True
        spaces = self._namespaces.get((kind, name), set())
        return bool(spaces) if namespace is None else namespace in spaces or None in spaces

    def names(self, kind: str) -> list[str]:
        """Returns the names of all resources of a kind."""
        return [name for each, name in self._by_name if each == kind]


def unresolved(resource: Resource, index: Index) -> Iterator[Finding]:
    """Yields the names in a resource that nothing has."""
    for pattern, kind in _NAMES.get(resource.kind, ()):
        for path, node in _matching(resource.node, pattern, ()):
            name = node.value
            if not isinstance(name, str) or re.fullmatch(DNS_LABEL, name) is None:
                continue  # no name at all, as the schema's check reports
            if not index.exists(kind, name, resource.namespace):
                message = f"{dotted(path)}: {name}: {_missing(resource, kind, name, index)}"
                yield resource.finding(Rule.UNRESOLVED_REFERENCE, node.start, message, path)
                continue
            target = index.find(kind, name, resource.namespace)
            if pattern in _OF_STREAMS and target is not None and "streaming" not in _spec(target):
                message = f"{dotted(path)}: {name}: this SqlStatement has no spec.streaming: name a streaming one"
                yield resource.finding(Rule.UNRESOLVED_REFERENCE, node.start, message, path)


def _missing(resource: Resource, kind: str, name: str, index: Index) -> str:
    elsewhere = index.named(kind, name)
    if elsewhere:
        return (
            f"the {kind} of this name is in namespace {elsewhere[0].namespace}, and a reference reaches only its own "
            f"({resource.namespace}): name one that is there"
        )
    similar = difflib.get_close_matches(name, index.names(kind), n=1)
    hint = f"did you mean {similar[0]}? Otherwise add" if similar else "add"
    return f"no {kind} of this name is among the files: {hint} its file, or name it with --external {kind}/{name}"


def missing_keys(resource: Resource, index: Index) -> Iterator[Finding]:
    """Yields the keys in a resource that a ConfigMap or Secret among the files lacks. Others may be anywhere."""
    for pattern, kind in _KEYS.get(resource.kind, ()):
        for path, node in _matching(resource.node, pattern, ()):
            name, key = (node.find((each,)) for each in ("name", "key"))
            if name is None or key is None or not isinstance(name.value, str) or not isinstance(key.value, str):
                continue
            target = index.find(kind, name.value, resource.namespace)
            keys = None if target is None else _keys(target)
            if keys is None or key.value in keys:
                continue
            similar = difflib.get_close_matches(key.value, keys, n=1)
            advice = f"did you mean {similar[0]}?" if similar else f"it has {', '.join(sorted(keys)) or 'none'}"
            message = f"{dotted((*path, 'key'))}: {key.value}: {kind} {name.value} has no such key: {advice}"
            yield resource.finding(Rule.MISSING_KEY, key.start, message, (*path, "key"))


def _keys(resource: Resource) -> set[str]:
    sections = (resource.node.value.get(section) for section in _DATA[resource.kind])
    return {key for section in sections if isinstance(section, dict) for key in section}


def config_map_sql(resource: Resource, index: Index) -> Iterator[tuple[tuple[Step, ...], Resource, Node]]:
    """Yields the texts that a resource takes from ConfigMaps among the files: its path, the ConfigMap and the text."""
    for pattern, _ in _KEYS.get(resource.kind, ()):
        if pattern[-2:] != _SQL_SOURCE:
            continue
        for path, node in _matching(resource.node, pattern, ()):
            name, key = (node.value.get(each) if isinstance(node.value, dict) else None for each in ("name", "key"))
            if not isinstance(name, str) or not isinstance(key, str):
                continue
            target = index.find(CONFIG_MAP, name, resource.namespace)
            text = None if target is None else target.node.find(("data", key))
            if target is not None and text is not None and isinstance(text.value, str):
                yield path, target, text


def cycles(resources: Sequence[Resource]) -> Iterator[tuple[Resource, Finding]]:
    """Yields the statements that depend on themselves, each at the entry of `dependsOn` that leads back to it."""
    statements = {_label(each.identity): each for each in resources if each.kind == _STATEMENT and each.identity}
    edges = {label: _edges(resource) for label, resource in statements.items()}
    entangled = _entangled(edges)
    for label in entangled:
        circle = find_cycle(label, lambda each: [other for other in edges.get(each, ()) if other in entangled])
        if circle is None:
            continue
        resource = statements[label]
        path, node = edges[label][circle[1]]
        names = " -> ".join(each.rpartition("/")[2] for each in circle)
        message = f"{dotted(path)}: {node.value}: the statements wait for each other: {names}; remove one of these dependencies"
        yield resource, resource.finding(Rule.DEPENDENCY_CYCLE, node.start, message, path)


def _entangled(edges: Mapping[str, Collection[str]]) -> list[str]:
    """The statements that are in a circle or wait for one: what is left once all that can end have ended."""
    waiting = {label: {other for other in others if other in edges} for label, others in edges.items()}
    followers: dict[str, list[str]] = {}
    for label, others in waiting.items():
        for other in others:
            followers.setdefault(other, []).append(label)
    free = [label for label, others in waiting.items() if not others]
    while free:
        done = free.pop()
        del waiting[done]
        for follower in followers.get(done, ()):
            waiting[follower].discard(done)
            if not waiting[follower]:
                free.append(follower)
    return list(waiting)


def _label(identity: Identity) -> str:
    return f"{identity[1] or ''}/{identity[2]}"


def _edges(resource: Resource) -> dict[str, tuple[tuple[Step, ...], Node]]:
    found = _matching(resource.node, ("spec", "dependsOn", _EACH, "name"), ())
    return {f"{resource.namespace or ''}/{node.value}": (path, node) for path, node in found}


def duplicates(resources: Sequence[Resource]) -> Iterator[tuple[Resource, Finding]]:
    """Yields the resources whose name another one before them has."""
    first: dict[tuple[str, Identity], Resource] = {}
    for resource in resources:
        if resource.identity is None:
            continue
        before = first.setdefault((_scope(resource), resource.identity), resource)
        if before is resource:
            continue
        line, _ = before.document.source.place(before.node.start)
        message = (
            f"metadata.name: {resource.name}: this {resource.kind} is defined in {before.document.source.path}:{line} as well: "
            "keep one of them, or give this one another name"
        )
        at = resource.place(("metadata", "name"))
        yield resource, resource.finding(Rule.DUPLICATE_OBJECT, at, message, ("metadata", "name"))


def _scope(resource: Resource) -> str:
    """Where a name is to be unique: files of several folders that leave the namespace open may be for several namespaces."""
    is_open = resource.is_namespaced and resource.namespace is None
    return resource.document.source.path.rpartition("/")[0] if is_open else ""


def _matching(node: Node, pattern: Sequence[str], path: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], Node]]:
    """The values of a path in which one step may stand for each entry of a list."""
    if not pattern:
        yield path, node
        return
    step, rest = pattern[0], pattern[1:]
    if step != _EACH:
        child = node.children.get(step)
        if child is not None:
            yield from _matching(child, rest, (*path, step))
        return
    for index, child in node.children.items():
        if isinstance(index, int):
            yield from _matching(child, rest, (*path, index))


def _spec(resource: Resource) -> Mapping[str, object]:
    spec = resource.node.value.get("spec")
    return spec if isinstance(spec, dict) else {}
