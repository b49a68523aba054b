"""Evaluates the CEL rules of a structural schema, with a former state of the object where there is one.

A rule sees an object with the defaults of its schema, as in the API server. A rule that names `oldSelf` compares two states: it
is evaluated where the value has a counterpart, that is the same field, key of a map, or entry of a list with keys (Kubernetes
documentation, "Transition rules").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparksql.lint.findings import Rule
from sparksql.lint.reading.nodes import Node, Step, dotted
from sparksql.lint.schema.expressions import ABSENT, Expression, expression, is_optional
from sparksql.lint.schema.structure import Mistake, Path, Schema
from sparksql.lint.schema.words import abbreviated

_NAME: Path = ("metadata", "name")


def check(node: Node, old: Any, schema: Schema, path: Path, mistakes: list[Mistake], at: int) -> Iterator[Mistake]:
    """Yields the rules that a value and everything in it break.

    `old` is the former state with its defaults, ABSENT without one. `mistakes` are what the structure's check has found: a rule
    that names such a field is left out. `at` is where the key of the value stands.
    """
    value = defaulted(node.value, schema)
    for child_path, child, child_old, child_schema, child_at in _children(node, value, old, schema, path):
        yield from check(child, child_old, child_schema, child_path, mistakes, child_at)
    rules = schema.get("x-kubernetes-validations", ())
    is_unnamed = (
        not path and node.find(_NAME) is None
    )  # the API server evaluates the rule of a whole object once it has a name
    if not rules or value is None or is_unnamed:
        return
    intended = {mistake.intended_field for mistake in mistakes if mistake.intended_field and mistake.path[:-1] == path}
    for rule in rules:
        compiled = expression(rule["rule"])
        if any(field[0] in intended for field in compiled.fields) or _is_broken(path, compiled, mistakes):
            continue
        if not compiled.holds(value, old, is_optional=is_optional(rule)):
            yield _mistake(compiled, rule, node, value, old, path, at)


def defaulted(value: Any, schema: Schema) -> Any:
    """Returns a value with the defaults of its schema."""
    match value:
        case None:
            return schema.get("default")
        case dict() if "properties" in schema:
            result = {key: defaulted(inner, schema["properties"].get(key, {})) for key, inner in value.items()}
            for name, inner in schema["properties"].items():
                if name not in result and "default" in inner:
                    result[name] = defaulted(inner["default"], inner)
            return {key: inner for key, inner in result.items() if inner is not None or _is_nullable(schema, key)}
        case dict() if isinstance(values := schema.get("additionalProperties"), Mapping):
            return {key: defaulted(inner, values) for key, inner in value.items()}
        case list() if "items" in schema:
            return [defaulted(inner, schema["items"]) for inner in value]
        case _:
            return value


def _is_nullable(schema: Schema, key: str) -> bool:
    return bool(schema["properties"].get(key, {}).get("nullable"))


def _children(
    node: Node, value: Any, old: Any, schema: Schema, path: Path
) -> Iterator[tuple[Path, Node, Any, Schema, int]]:
    """The values within one, each with its former state, its schema, and where its key stands."""
    if isinstance(value, dict):
        for key, child in node.children.items():
            inner = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            if isinstance(inner, Mapping) and child.value is not None:
                former = old.get(key, ABSENT) if isinstance(old, dict) else ABSENT
                yield (*path, key), child, former, inner, node.keys.get(str(key), child.start)
    elif isinstance(value, list) and "items" in schema:
        for index, child in node.children.items():
            yield (*path, index), child, _counterpart(child.value, old, schema), schema["items"], child.start


def _counterpart(entry: Any, old: Any, schema: Schema) -> Any:
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list) or not isinstance(entry, dict):
        return ABSENT
    keys = schema["x-kubernetes-list-map-keys"]
    return next((each for each in old if all(each.get(key) == entry.get(key) for key in keys)), ABSENT)


def _is_broken(path: Path, compiled: Expression, mistakes: list[Mistake]) -> bool:
    """Whether a field that a rule names has not the structure that the rule counts on."""
    about = [(*path, *field[:1]) for field in compiled.fields] or [path]
    return any(
        mistake.path == path or any(mistake.path[: len(each)] == each for each in about)
        for mistake in mistakes
        if mistake.rule is not Rule.UNKNOWN_FIELD
    )


def _mistake(
    compiled: Expression, rule: Mapping[str, Any], node: Node, value: Any, old: Any, path: Path, at: int
) -> Mistake:
    if not isinstance(value, dict):
        return Mistake(Rule.VALUE, node.start, path, f"{dotted(path)}: {abbreviated(value)}: {rule['message']}")
    name = None if path else node.find(_NAME)
    if name is not None:  # the one rule of whole objects: only their name can be read there
        return Mistake(Rule.NAME, name.start, _NAME, f"{dotted(_NAME)}: {abbreviated(name.value)}: {rule['message']}")
    steps = _place(compiled, rule, node, value, old)
    where: Path = (*path, *steps)
    found = node.key_at(steps) if steps else at
    is_transition = compiled.is_transition and not is_optional(rule)
    broken = Rule.IMMUTABLE if is_transition else Rule.CROSS_FIELD
    return Mistake(broken, at if found is None else found, where, f"{dotted(where)}: {rule['message']}")


def _place(compiled: Expression, rule: Mapping[str, Any], node: Node, value: Any, old: Any) -> Path:
    """The field that a broken rule is about: the one that the rule names, that has changed, or the first that is there."""
    named: tuple[Step, ...] = tuple(step for step in rule.get("fieldPath", "").split(".") if step)
    if named and node.find(named) is not None:
        return named
    there = [field for field in compiled.fields if node.find(field) is not None]
    if isinstance(old, dict):
        changed = (field for field in there if value.get(field[0]) != old.get(field[0]))
        if (first := next(changed, None)) is not None:
            return first
    return there[0] if there else ()
