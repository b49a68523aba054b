"""What the API server does to an object before it stores it: names, defaults, schemas and rules. Pure."""

from __future__ import annotations

import base64
import re
from typing import Any

from sparksql.kube.errors import Invalid

Object = dict[str, Any]

# DNS subdomain of RFC 1123, as k8s.io/apimachinery checks names; other kinds have labels, which are stricter.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MOST_NAME_CHARS = 253


def check_name(kind: str, name: object) -> None:
    """Raises Invalid for a name that no object can have."""
    if not isinstance(name, str) or not name:
        raise Invalid(422, "Invalid", f"{kind}: metadata.name: Required value: name or generateName is required")
    if len(name) > _MOST_NAME_CHARS or _NAME.fullmatch(name) is None:
        what = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
        raise Invalid(422, "Invalid", f'{kind} "{name}" is invalid: metadata.name: Invalid value: "{name}": {what}')


def admitted(kind: str, obj: Object, current: Object | None) -> Object:
    """Returns the object with its defaults. Raises Invalid."""
    match kind:
        case "Pod":
            return obj if current is not None else {**obj, "status": {"phase": "Pending"}}
        case "Secret":
            return _secret(obj)
        case _:
            return obj


def _secret(obj: Object) -> Object:
    """The Secret with its `stringData` in `data`, as it is only ever read."""
    texts = obj.pop("stringData", None) or {}
    if texts:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}
    obj.setdefault("type", "Opaque")
    return obj
