"""What the API server does to an object before it stores it: names, defaults, schemas and rules. Pure."""

from __future__ import annotations

import base64
import functools
import re
from typing import Any

from sparksql.api.crd import KINDS, object_schema
from sparksql.api.names import GROUP, VERSION
from sparksql.kube.errors import ApiError, Invalid
from sparksql.local.objects.schema import Schema, completed, unknown_fields, violations

Object = dict[str, Any]

# DNS subdomain of RFC 1123, as k8s.io/apimachinery checks names; other kinds have labels, which are stricter.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MOST_NAME_CHARS = 253
_KINDS = {kind.KIND: kind for kind in KINDS}


def check_name(kind: str, name: object) -> None:
    """Raises Invalid for a name that no object can have."""
    if not isinstance(name, str) or not name:
        raise Invalid(422, "Invalid", f"{kind}: metadata.name: Required value: name or generateName is required")
    if len(name) > _MOST_NAME_CHARS or _NAME.fullmatch(name) is None:
        what = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
        raise Invalid(422, "Invalid", f'{kind} "{name}" is invalid: metadata.name: Invalid value: "{name}": {what}')


def admitted(kind: str, obj: Object, current: Object | None, *, strict: bool = False) -> Object:
    """Returns the object with its defaults. Raises Invalid; with `strict` ApiError for a field that its kind does not have."""
    if kind in _KINDS:
        return _ours(kind, obj, current, strict=strict)
    match kind:
        case "Pod":
            return obj if current is not None else {**obj, "status": {"phase": "Pending"}}
        case "Secret":
            return _secret(obj)
        case _:
            return obj


def _ours(kind: str, obj: Object, current: Object | None, *, strict: bool) -> Object:
    schema, metadata = _schema(kind), obj["metadata"]
    if strict and (unknown := list(unknown_fields({**obj, "metadata": {}}, schema))):
        names = ", ".join(f'unknown field "{field}"' for field in unknown)
        raise ApiError(400, "BadRequest", f"{kind} in version {VERSION!r}: strict decoding error: {names}")
    result: Object = completed(obj, schema)
    before = None if current is None else {**current, "metadata": metadata}  # its own checks are the store's
    if wrong := list(violations(result, before, schema)):
        text = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
        causes = [{"field": each.partition(": ")[0], "reason": "FieldValueInvalid", "message": each} for each in wrong]
        message = f'{kind}.{GROUP} "{metadata["name"]}" is invalid: {text}'
        raise Invalid(422, "Invalid", message, {"causes": causes})
    return result


@functools.cache
def _schema(kind: str) -> Schema:
    return object_schema(_KINDS[kind])


def _secret(obj: Object) -> Object:
    """The Secret with its `stringData` in `data`, as it is only ever read."""
    texts = obj.pop("stringData", None) or {}
    if texts:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}
    obj.setdefault("type", "Opaque")
    return obj
