"""How one state of an object follows from another: JSON merge patch and server-side apply. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]


def merge_patched(target: Any, patch: Any) -> Any:
    """Returns `target` with a JSON merge patch (RFC 7386): null removes a field, lists are replaced whole."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patched(merged.get(key), value)
    return merged


def applied(live: Mapping[str, Any], before: Mapping[str, Any], body: Mapping[str, Any]) -> Object:
    """Returns `live` after a server-side apply of `body` by the manager that applied `before`.

    Fields that the manager applied before and leaves out now are removed; fields of others stay. Lists are atomic.
    """
    result = dict(live)
    for key in before.keys() - body.keys():
        kept = _without(result.get(key), before[key])
        if kept is None:
            result.pop(key, None)
        else:
            result[key] = kept
    for key, value in body.items():
        known, own = result.get(key), before.get(key)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            result[key] = applied(known, own if isinstance(own, Mapping) else {}, value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _without(live: Any, before: Any) -> Object | None:
    """What others own in a map that the manager left out; None if nothing is left, or for what is no map."""
    if not isinstance(live, Mapping) or not isinstance(before, Mapping):
        return None
    return applied(live, before, {}) or None
