"""Turns the JSON schema of a pydantic model into the structural schema that a CRD wants.

Structural means: no references, a type everywhere, no `null` type, nothing but the keywords that the API server knows.
An optional property is just not required; an optional element of a list or map is `nullable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparksql.api.fields import INT32_MAX

Schema = dict[str, Any]

_KEPT = (
    "description", "type", "format", "enum", "nullable", "default", "minLength", "maxLength", "pattern", "minimum",
    "maximum", "minItems", "maxItems", "maxProperties", "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
)  # fmt: skip
_KNOWN = {*_KEPT, "$ref", "$defs", "anyOf", "title", "properties", "required", "items", "additionalProperties",
          "x-kubernetes-validations"}  # fmt: skip
_RULES = "x-kubernetes-validations"


def unwrap(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[Schema, bool]:
    """The node with references and `X | None` replaced by what they stand for, and whether it admits null.

    What is said beside a reference or an alternative (a description, a default) wins over what is said inside; CEL
    rules of both hold. Raises `ValueError` for a real union, which a structural schema cannot say.
    """
    if "$ref" in node:
        inner, nullable = unwrap(definitions[node["$ref"].rpartition("/")[2]], definitions)
        return _overlay(inner, node, "$ref"), nullable
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option.get("type") != "null"]
        if len(options) != 1:
            raise ValueError(f"a union of several types has no structural schema: {node}")
        inner, nullable = unwrap(options[0], definitions)
        return _overlay(inner, node, "anyOf"), nullable or len(options) < len(node["anyOf"])
    return dict(node), False


def _overlay(inner: Schema, outer: Mapping[str, Any], without: str) -> Schema:
    merged = inner | {key: value for key, value in outer.items() if key != without}
    if rules := [*inner.get(_RULES, []), *outer.get(_RULES, [])]:
        merged[_RULES] = rules
    return merged


def structural(
    node: Mapping[str, Any], definitions: Mapping[str, Any], *, element: bool = False, has_defaults: bool = True
) -> Schema:
    """Structural schema of one node; `element` tells that it is the content of a list or map.

    Nothing below a list or map has a default: what the API server adds to an element is a difference for tools that
    compare lists as a whole, as client-side apply does. The models give these defaults to whoever reads the object.
    """
    flat, nullable = unwrap(node, definitions)
    if unknown := flat.keys() - _KNOWN:
        raise ValueError(f"no structural form of {', '.join(sorted(unknown))} in {flat}")
    if flat.get("type") == "integer":
        flat["format"] = "int32" if flat["maximum"] <= INT32_MAX else "int64"
    if nullable and element:
        flat["nullable"] = True
    result = {key: flat[key] for key in _KEPT if key in flat and key != "default"}
    match flat.get("type"):
        case "object":
            result |= _object_content(flat, definitions, has_defaults=has_defaults)
        case "array":
            result.setdefault("x-kubernetes-list-type", "atomic")
            result["items"] = structural(flat["items"], definitions, element=True, has_defaults=False)
    if has_defaults and (default := _set_values(flat.get("default"))) is not None:
        result["default"] = default
    if flat.get(_RULES):
        result[_RULES] = flat[_RULES]
    return result


def _object_content(flat: Schema, definitions: Mapping[str, Any], *, has_defaults: bool) -> Schema:
    content: Schema = {}
    if flat.get("required"):
        content["required"] = flat["required"]
    if properties := flat.get("properties"):
        content["properties"] = {
            name: structural(node, definitions, has_defaults=has_defaults) for name, node in properties.items()
        }
    elif isinstance(values := flat.get("additionalProperties"), dict):
        content["additionalProperties"] = structural(values, definitions, element=True, has_defaults=False)
    return content


def _set_values(default: Any) -> Any:
    """What a default says, or None. An object is spelled out, as its CEL rules see it without the fields' defaults."""
    if isinstance(default, dict):
        inner = {key: _set_values(value) for key, value in default.items()}
        return {key: value for key, value in inner.items() if value is not None} or None
    return None if default == [] else default
