"""Label and field selectors, as far as the operator and the CLI use them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Matches = Callable[[Mapping[str, Any]], bool]

_TERM = re.compile(r"\s*([^\s=!(),]+)\s*(?:(==?)\s*([^\s,()]*)|in\s*\(([^)]*)\))\s*(?:,|$)")


def by_labels(selector: str) -> Matches:
    """Returns the test of `key=value` and `key in (a,b)` terms, all of which must hold. Raises ValueError for other terms."""
    wanted: dict[str, frozenset[str]] = {}
    position = 0
    while position < len(selector):
        term = _TERM.match(selector, position)
        if term is None:
            raise ValueError(f"label selector {selector!r}: only key=value and key in (a,b) are supported")
        values = [term[3]] if term[2] else [value.strip() for value in term[4].split(",")]
        wanted[term[1]] = frozenset(values)
        position = term.end()

    def matches(obj: Mapping[str, Any]) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(labels.get(key) in values for key, values in wanted.items())

    return matches


def by_fields(selector: str) -> Matches:
    """Returns the test of `path.to.field=value` terms, all of which must hold. Raises ValueError for other terms."""
    wanted: dict[tuple[str, ...], str] = {}
    for term in filter(None, selector.split(",")):
        path, equals, value = term.partition("=")
        if not equals:
            raise ValueError(f"field selector {selector!r}: only path=value is supported")
        wanted[tuple(path.split("."))] = value

    def matches(obj: Mapping[str, Any]) -> bool:
        return all(_at(obj, path) == value for path, value in wanted.items())

    return matches


def _at(obj: Any, path: tuple[str, ...]) -> str:
    for name in path:
        obj = obj.get(name, "") if isinstance(obj, Mapping) else ""
    return str(obj)
