"""Renders the API reference, one Markdown section per type, from the JSON schema of the models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sparksql.api.base import ApiObject
from sparksql.api.names import API_VERSION
from sparksql.api.schema import unwrap

Schema = Mapping[str, Any]

_HEADER = f"""# API reference

`{API_VERSION}`. Generated from the models; do not edit.

A field is optional unless it is marked required. A default is what the API server writes when the field is absent; into
entries of lists it writes none, and the operator takes the default. A session setting without a default comes from the layer below: operator, class `defaults`, session, statement.
"""


def render_reference(kinds: Iterable[type[ApiObject]]) -> str:
    """The whole document. A type that several kinds use is described once, where it is first used."""
    sections = [_HEADER]
    described: set[str] = set()
    for kind in kinds:
        raw = kind.model_json_schema(by_alias=True)
        scope = "Namespaced" if kind.NAMESPACED else "Cluster-scoped"
        sections.append(f"## {kind.KIND}\n\n{raw['description']}\n\n{scope}, short name `{kind.SHORT_NAME}`.\n")
        for part in ("spec", "status"):
            names = _object_types(raw["properties"][part], raw["$defs"], described)
            sections.extend(_section(name, raw["$defs"], has_defaults=part == "spec") for name in names)
    return "\n".join(sections)


def _object_types(node: Any, definitions: Schema, seen: set[str]) -> Iterator[str]:
    """Names of the object types that a node refers to, parents first in the order of fields, each once."""
    for name in _references(node):
        if name not in seen and "properties" in definitions[name]:
            seen.add(name)
            yield name
            yield from _object_types(definitions[name], definitions, seen)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if "$ref" in node:
            yield node["$ref"].rpartition("/")[2]
        node = list(node.values())
    if isinstance(node, list):
        for value in node:
            yield from _references(value)


def _section(name: str, definitions: Schema, *, has_defaults: bool) -> str:
    """One type. The API server adds no defaults to a status."""
    node = definitions[name]
    lines = [f"### {name}", ""]
    if description := node.get("description"):
        lines += [" ".join(description.split()), ""]
    lines += ["| field | type | default | description |", "|---|---|---|---|"]
    required = node.get("required", [])
    for field, value in node["properties"].items():
        flat, _ = unwrap(value, definitions)
        default = "required" if field in required else _default(flat) if has_defaults else ""
        lines.append(f"| `{field}` | {_type(value, definitions)} | {default} | {_cell(flat.get('description', ''))} |")
    rules = node.get("x-kubernetes-validations", [])
    if rules:
        lines += ["", "Rules:", "", *(f"- {rule['message']}" for rule in rules)]
    return "\n".join(lines) + "\n"


def _default(flat: Schema) -> str:
    default = flat.get("default")
    if default is None or isinstance(default, dict) or default == []:
        return ""
    return f"`{json.dumps(default)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _type(node: Schema, definitions: Schema) -> str:
    for option in node.get("anyOf", ()):
        if "$ref" in option:
            node = option
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if "properties" in definitions[name]:
            return f"[{name}](#{name.lower()})"
    flat, _ = unwrap(node, definitions)
    if "enum" in flat:
        return " \\| ".join(f"`{value}`" for value in flat["enum"])
    if flat.get("x-kubernetes-int-or-string"):
        return "quantity"
    match flat.get("type"):
        case "array":
            return f"list of {_type(flat['items'], definitions)}"
        case "object" if isinstance(flat.get("additionalProperties"), dict):
            return f"map of {_type(flat['additionalProperties'], definitions)}"
        case "string" if flat.get("format") == "date-time":
            return "time"
        case kind:
            return str(kind) + _bounds(flat)


def _bounds(flat: Schema) -> str:
    """`(0 to 100)`, or nothing where the bounds are only technical."""
    low, high = flat.get("minimum"), flat.get("maximum")
    if low is None or high is None or high >= 2**31 - 1:
        return ""
    return f" ({low} to {high})"
