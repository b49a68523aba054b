"""Explains a manifest that the API server has refused: the line of what this version does not know, and what is meant. Pure.

The API server alone decides: it may be of a later version, which knows more. So nothing is refused here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from sparksql.api.crd import KINDS, object_schema
from sparksql.api.names import API_VERSION

_TYPES = {"integer": "a whole number", "boolean": "true or false", "array": "a list", "object": "fields of its own"}
_SCALARS = {
    "tag:yaml.org,2002:int": "integer",
    "tag:yaml.org,2002:float": "number",
    "tag:yaml.org,2002:bool": "boolean",
    "tag:yaml.org,2002:str": "string",
}


def explained(text: str) -> list[str]:
    """Returns a line for each mistake of the YAML or JSON documents, `line N: PATH: what is wrong and what is meant`."""
    try:
        nodes = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if isinstance(node, yaml.MappingNode)]
    except yaml.YAMLError:
        return []  # kubectl has said where
    return [mistake for node in nodes for mistake in _of_document(node)]


def _of_document(document: yaml.MappingNode) -> Iterator[str]:
    schemas = {kind.KIND: kind for kind in KINDS}
    found = {key.value: value for key, value in document.value}
    kind, version = found.get("kind"), found.get("apiVersion")
    if version is not None and version.value != API_VERSION:
        yield _told(version, "apiVersion", f"{version.value}: this plugin supports {API_VERSION}")
    if kind is None:
        return
    if kind.value not in schemas:
        yield _told(kind, "kind", f"{kind.value}: {_meant(str(kind.value), schemas)}")
        return
    yield from _of(document, object_schema(schemas[kind.value]), "")


def _of(node: yaml.Node, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    match node:
        case yaml.MappingNode() if "properties" in schema:
            for key, value in node.value:
                inner = schema["properties"].get(key.value)
                where = f"{path}.{key.value}" if path else key.value
                if inner is None:
                    yield _told(key, where, f"there is no such field: {_meant(key.value, schema['properties'])}")
                else:
                    yield from _of(value, inner, where)
        case yaml.MappingNode() if isinstance(schema.get("additionalProperties"), Mapping):
            for key, value in node.value:
                yield from _of(value, schema["additionalProperties"], f"{path}.{key.value}")
        case yaml.SequenceNode() if "items" in schema:
            for index, value in enumerate(node.value):
                yield from _of(value, schema["items"], f"{path}[{index}]")
        case yaml.ScalarNode():
            yield from _of_scalar(node, schema, path)
        case _:
            pass


def _of_scalar(node: yaml.ScalarNode, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    wanted, given = schema.get("type"), _SCALARS.get(node.tag)
    if "enum" in schema and node.value not in schema["enum"]:
        yield _told(node, path, f"{node.value}: {_meant(node.value, schema['enum'])}")
    elif wanted == "string" and given in ("integer", "number", "boolean"):
        yield _told(node, path, f'it must be a string: write "{node.value}", with the quotes')
    elif given is not None and wanted in _TYPES and wanted != given:
        yield _told(node, path, f"{node.value[:100]}: it must be {_TYPES[wanted]}")


def _meant(word: str, known: Any) -> str:
    names = {str(name).lower(): str(name) for name in known}
    similar = difflib.get_close_matches(word.lower(), names, n=1)
    return f"did you mean {names[similar[0]]}?" if similar else f"known are {', '.join(sorted(names.values()))}"


def _told(node: yaml.Node, path: str, what: str) -> str:
    return f"line {node.start_mark.line + 1}: {path}: {what}"
