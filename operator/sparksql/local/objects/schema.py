"""Defaults and checks of a structural schema, as an API server does them for a custom resource. Pure.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/: unknown fields are pruned,
nulls that no schema allows are dropped, defaults follow, then the schema and its rules are checked.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sparksql.local.objects.rules import RULES

Schema = Mapping[str, Any]
_PRESERVED = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_RULES = "x-kubernetes-validations"
_LIST_TYPE, _LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def unknown_fields(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """Yields the paths of the fields that the schema does not have."""
    if isinstance(value, dict):
        inner, each = schema.get("properties"), schema.get("additionalProperties")
        for key, item in value.items():
            place = f"{path}.{key}" if path else key
            if inner is not None and key in inner:
                yield from unknown_fields(item, inner[key], place)
            elif isinstance(each, Mapping):
                yield from unknown_fields(item, each, place)
            elif not schema.get(_PRESERVED):
                yield place
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from unknown_fields(item, schema.get("items", {}), f"{path}[{number}]")


def completed(value: Any, schema: Schema) -> Any:
    """Returns the value without unknown fields and stray nulls, with the schema's defaults."""
    if schema.get(_PRESERVED):
        return value
    if isinstance(value, dict):
        return _completed_object(value, schema)
    if isinstance(value, list):
        return [completed(item, schema.get("items", {})) for item in value]
    return value


def _completed_object(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    each = schema.get("additionalProperties")
    if isinstance(each, Mapping):
        return {key: completed(item, each) for key, item in value.items()}
    properties = schema.get("properties")
    if properties is None:  # metadata, which has a schema of its own
        return value
    result: dict[str, Any] = {}
    for key, inner in properties.items():
        if key in value and (value[key] is not None or inner.get("nullable")):
            result[key] = completed(value[key], inner)
        elif "default" in inner:
            result[key] = completed(copy.deepcopy(inner["default"]), inner)
    return result


def violations(value: Any, old: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """Yields what is wrong, each with its path.

    What has not changed is not checked again (CRD validation ratcheting). `old` is None where there is nothing to compare with.
    """
    if old is not None and value == old:
        return
    where = path or "<nil>"
    if value is None and schema.get("nullable"):
        return
    if (problem := _type_problem(value, schema)) is not None:
        yield f"{where}: Invalid value: {problem}"
        return
    yield from (f"{where}: {problem}" for problem in _bounds(value, schema))
    if isinstance(value, dict):
        yield from _of_object(value, old if isinstance(old, dict) else None, schema, path)
    elif isinstance(value, list):
        yield from _of_list(value, old if isinstance(old, list) else None, schema, path)
    for rule in schema.get(_RULES, ()):
        if old is None and "oldSelf" in rule["rule"] and not rule.get("optionalOldSelf"):
            continue
        if not RULES[rule["rule"]](value, old):
            yield f"{path}{rule.get('fieldPath', '')}: Invalid value: {rule['message']}"


def _of_object(value: dict[str, Any], old: dict[str, Any] | None, schema: Schema, path: str) -> Iterator[str]:
    each, properties = schema.get("additionalProperties"), schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_joined(path, name)}: Required value"
    for key, item in value.items():
        inner = each if isinstance(each, Mapping) else properties.get(key)
        if inner is not None:
            yield from violations(item, (old or {}).get(key), inner, _joined(path, key))


def _of_list(value: list[Any], old: list[Any] | None, schema: Schema, path: str) -> Iterator[str]:
    kind, names = schema.get(_LIST_TYPE, "atomic"), schema.get(_LIST_KEYS, ())
    before: dict[str, Any] = {}
    if kind == "map":
        before = {_identity(item, names): item for item in old or ()}
    seen: set[str] = set()
    for number, item in enumerate(value):
        place, identity = f"{path}[{number}]", _identity(item, names)
        if kind != "atomic" and identity in seen:
            yield f"{place}: Duplicate value: {identity}"
        seen.add(identity)
        yield from violations(item, before.get(identity), schema.get("items", {}), place)


def _identity(item: Any, names: Any) -> str:
    own = {name: item.get(name) for name in names} if names and isinstance(item, dict) else item
    return json.dumps(own, sort_keys=True)


def _type_problem(value: Any, schema: Schema) -> str | None:
    if schema.get(_INT_OR_STRING):
        is_right = isinstance(value, (int, float, str)) and not isinstance(value, bool)
        return None if is_right else "must be a whole number or a string"
    wanted = schema.get("type")
    if wanted is None:
        return None
    is_right = isinstance(value, _TYPES[wanted]) and (wanted == "boolean" or not isinstance(value, bool))
    return None if is_right else f"{json.dumps(value)[:100]}: must be of type {wanted}"


def _bounds(value: Any, schema: Schema) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        yield f"Unsupported value: {json.dumps(value)}: supported values: {', '.join(map(json.dumps, schema['enum']))}"
    if isinstance(value, str) and "type" in schema:
        if len(value) > schema.get("maxLength", len(value)):
            yield f"Too long: may not be more than {schema['maxLength']} characters"
        if len(value) < schema.get("minLength", 0):
            yield f"Invalid value: {json.dumps(value)}: should be at least {schema['minLength']} chars long"
        if "pattern" in schema and re.search(schema["pattern"], value) is None:
            yield f"Invalid value: {json.dumps(value[:100])}: should match '{schema['pattern']}'"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value > schema.get("maximum", value):
            yield f"Invalid value: {value}: should be less than or equal to {schema['maximum']}"
        if value < schema.get("minimum", value):
            yield f"Invalid value: {value}: should be greater than or equal to {schema['minimum']}"
    if isinstance(value, list) and len(value) > schema.get("maxItems", len(value)):
        yield f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
    if isinstance(value, dict) and len(value) > schema.get("maxProperties", len(value)):
        yield f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
