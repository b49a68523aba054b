"""Compares a value with a structural schema: types, required and unknown fields, bounds. Pure.

The words of messages are those of the plugin's explanations of a refused manifest. CEL rules are in `rules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sparksql.lint.findings import Rule
from sparksql.lint.reading.nodes import Node, Step, dotted
from sparksql.lint.reading.scalars import resolved
from sparksql.lint.schema.words import abbreviated, nearest, remedy

Schema = Mapping[str, Any]
Path = tuple[Step, ...]

_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping with fields of its own",
    "string": "a string",
}
_SQL_REMEDY = "put the text into a ConfigMap, up to 1 MiB, and name that in sqlFrom.configMapKeyRef"


@dataclass(frozen=True)
class Mistake:
    """A rule that a value breaks. `at` is where in the file, `path` which value.

    `intended_field` is the field that a wrong one most likely stands for.
    """

    rule: Rule
    at: int
    path: Path
    message: str
    intended_field: str | None = None


def check(node: Node, schema: Schema, path: Path, text: str, at: int | None = None) -> Iterator[Mistake]:
    """Yields what is wrong with a value and everything in it.

    `text` is that of the file, `at` where the key of the value stands.
    """
    place = node.start if at is None else at
    value = node.value
    if value is None:
        if not schema.get("nullable") and "default" not in schema:
            kind = _TYPES.get(schema.get("type", "string"), "a value")
            yield Mistake(
                Rule.TYPE, place, path, f"{dotted(path)}: it has no value: it must be {kind}; remove the key, or set it"
            )
        return
    wrong = _wrong_type(node, schema, text)
    if wrong is not None:
        yield Mistake(Rule.TYPE, node.start, path, f"{dotted(path)}: {wrong}")
        return
    yield from _bounds(node, schema, path)
    match value:
        case dict():
            yield from _fields(node, schema, path, text, place)
        case list():
            yield from _entries(node, schema, path, text)
        case _:
            pass


def _wrong_type(node: Node, schema: Schema, text: str) -> str | None:
    value = node.value
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, float):
            return f'{value} is a number with a decimal point: write it in quotes, "{value}"'
        fits = isinstance(value, str | int) and not isinstance(value, bool)
        return None if fits else f"{abbreviated(value)}: it must be a string or a whole number"
    wanted = schema.get("type")
    if wanted is None or _fits(value, wanted):
        return None
    if wanted == "string" and not isinstance(value, dict | list):
        written = text[node.start : node.end]
        return f'{written} is {_read_as(value)}: it must be a string: write "{written}", with the quotes'
    if isinstance(value, str) and _fits(resolved(value), wanted):
        return f'"{abbreviated(value)}" is a string: it must be {_TYPES[wanted]}: write {value}, without quotes'
    return f"{abbreviated(value)}: it must be {_TYPES[wanted]}"


def _fits(value: Any, wanted: str) -> bool:
    match wanted:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _read_as(value: Any) -> str:
    return "a boolean in YAML" if isinstance(value, bool) else "a number"


def _bounds(node: Node, schema: Schema, path: Path) -> Iterator[Mistake]:
    value = node.value
    enum = schema.get("enum")
    if enum is not None and value not in enum:
        yield Mistake(Rule.VALUE, node.start, path, f"{dotted(path)}: {abbreviated(value)}: {remedy(str(value), enum)}")
        return
    message = _beyond(value, schema, path)
    if message is not None:
        yield Mistake(Rule.LIMIT, node.start, path, f"{dotted(path)}: {message}")
    elif isinstance(value, str) and "pattern" in schema and not _pattern(schema["pattern"]).search(value):
        yield Mistake(
            Rule.VALUE, node.start, path, f"{dotted(path)}: {abbreviated(value)}: it must match {schema['pattern']}"
        )


def _beyond(value: Any, schema: Schema, path: Path) -> str | None:
    """What a value goes beyond, with what to do; None if it is within its bounds."""
    match value:
        case bool():
            return None
        case int() | float():
            if "minimum" in schema and value < schema["minimum"]:
                return f"{value}: it must be at least {schema['minimum']}"
            if "maximum" in schema and value > schema["maximum"]:
                return f"{value}: it must be at most {schema['maximum']}"
        case str():
            if len(value) < schema.get("minLength", 0):
                return (
                    "it is empty: write a text, or remove it"
                    if not value
                    else f"{abbreviated(value)}: it must have at least {schema['minLength']} characters"
                )
            if len(value) > schema.get("maxLength", len(value)):
                advice = _SQL_REMEDY if path[-1:] == ("sql",) else "shorten it"
                return f"it has {len(value):,} characters, at most {schema['maxLength']:,} are allowed: {advice}"
        case list():
            if len(value) < schema.get("minItems", 0):
                return f"it has {len(value)} entries, at least {schema['minItems']} are needed"
            if len(value) > schema.get("maxItems", len(value)):
                return f"it has {len(value)} entries, at most {schema['maxItems']} are allowed: remove some"
        case dict():
            if len(value) > schema.get("maxProperties", len(value)):
                return f"it has {len(value)} entries, at most {schema['maxProperties']} are allowed: remove some"
    return None


def _fields(node: Node, schema: Schema, path: Path, text: str, place: int) -> Iterator[Mistake]:
    properties = schema.get("properties")
    values = schema.get("additionalProperties")
    intended: set[str] = set()
    for key, child in node.children.items():
        name = str(key)
        at = node.keys.get(name, child.start)
        if properties is not None and name in properties:
            yield from check(child, properties[name], (*path, name), text, at)
        elif isinstance(values, Mapping):
            yield from check(child, values, (*path, name), text, at)
        elif properties is not None and not schema.get("x-kubernetes-preserve-unknown-fields"):
            others = [each for each in properties if each not in node.value]
            likely = nearest(name, others)
            intended |= {likely} if likely else set()
            advice = remedy(name, properties) if likely is None else f"did you mean {likely}?"
            yield Mistake(
                Rule.UNKNOWN_FIELD,
                at,
                (*path, name),
                f"{dotted((*path, name))}: there is no such field: {advice}",
                likely,
            )
    for name in schema.get("required", ()):
        if name not in node.value and name not in intended:
            where = (*path, name)
            yield Mistake(Rule.REQUIRED_FIELD, place, where, f"{dotted(where)}: it is required: set it")


def _entries(node: Node, schema: Schema, path: Path, text: str) -> Iterator[Mistake]:
    items = schema.get("items")
    if items is not None:
        for index, child in node.children.items():
            yield from check(child, items, (*path, index), text)
    seen: set[str] = set()
    for index, entry in enumerate(node.value):
        identity = _identity(entry, schema)
        if identity is None:
            continue
        if identity in seen:
            child = node.children[index]
            keys = schema.get("x-kubernetes-list-map-keys")
            what = f"an entry with this {' and '.join(keys)}" if keys else "the same entry"
            yield Mistake(
                Rule.VALUE,
                child.start,
                (*path, index),
                f"{dotted((*path, index))}: {abbreviated(entry)}: the list has {what} already: remove one",
            )
        seen.add(identity)


def _identity(entry: Any, schema: Schema) -> str | None:
    """What distinguishes an entry of a list from others; None where entries may be the same."""
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return repr(entry)
        case "map" if isinstance(entry, dict):
            return repr([entry.get(key) for key in schema["x-kubernetes-list-map-keys"]])
        case _:
            return None


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)
