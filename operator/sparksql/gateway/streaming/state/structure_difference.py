"""Where two structures part, for people: the first node and field that differ, with both values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.streaming.state.structure_nodes import OPAQUE, Node, is_ref, reached

_CHARS = 160
_DEPTH = 4
_OPERATORS = {
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "And": "AND",
    "Or": "OR",
    "Add": "+",
    "Multiply": "*",
}


@dataclass(frozen=True)
class Parting:
    """`path` are the fields that lead to the place, from the operator on; `where` names the node and its field."""

    path: tuple[str | int, ...]
    where: str
    before: str
    after: str


def parting(old: Mapping[str, Node], was: str, new: Mapping[str, Node], now: str) -> Parting:
    """Returns the first place where two roots differ that are not equal."""
    return _parting(old, {"ref": was}, new, {"ref": now}, ()) or Parting((), "", was, now)


def opaque(nodes: Mapping[str, Node], root: str) -> str | None:
    """Returns what a root is made of that cannot be told from others; None when there is nothing."""
    found = (fields["of"] for kind, fields in reached(nodes, [root]).values() if kind == OPAQUE)
    return next((str(each) for each in found), None)


def _parting(
    old: Mapping[str, Node], was: Any, new: Mapping[str, Node], now: Any, path: tuple[str | int, ...]
) -> Parting | None:
    if was == now:
        return None
    if is_ref(was) and is_ref(now):
        before, after = old.get(was["ref"]), new.get(now["ref"])
        if before is not None and after is not None and before[0] == after[0] and before[0] not in _OPERATORS:
            fields = (*before[1], *(name for name in after[1] if name not in before[1]))
            for name in fields:
                found = _parting(old, before[1].get(name), new, after[1].get(name), (*path, name))
                if found is not None:
                    return found if found.where else _at(found, f"{_short(before[0])} {name}")
        return Parting(path, "", text(old, was), text(new, now))
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for index, (before, after) in enumerate(zip(was, now, strict=True)):
            found = _parting(old, before, new, after, (*path, index))
            if found is not None:
                return found
    return Parting(path, "", text(old, was), text(new, now))


def _at(found: Parting, where: str) -> Parting:
    return Parting(found.path, where, found.before, found.after)


def text(nodes: Mapping[str, Node], value: Any, depth: int = _DEPTH) -> str:
    """Returns a value with what it is made of, not all the way down."""
    told = _text(nodes, value, depth)
    return told if len(told) <= _CHARS else f"{told[:_CHARS]}..."


def _text(nodes: Mapping[str, Node], value: Any, depth: int) -> str:
    if is_ref(value):
        return _node(nodes, value["ref"], depth)
    if isinstance(value, list):
        return f"({', '.join(_text(nodes, each, depth) for each in value)})"
    if isinstance(value, dict) and "text" in value:  # of a class that is told by its text
        return str(value["text"])
    if isinstance(value, dict):
        return ", ".join(_text(nodes, each, depth) for each in value.values())
    return "none" if value is None else str(value)


def _node(nodes: Mapping[str, Node], digest: str, depth: int) -> str:
    if digest not in nodes:
        return "another"
    kind, fields = nodes[digest]
    match kind:
        case "Column":
            of = nodes.get(fields["of"]["ref"], ["", {}])[1]
            return f"{of.get('name', '')}.{fields['name']}" if not fields["streams"] else str(fields["name"])
        case "Literal":
            return "NULL" if fields["value"] is None else _text(nodes, fields["value"], 1)
        case "ResultOf":
            return _node(nodes, fields["function"]["ref"], depth)
        case "AggregateExpression":
            return _node(nodes, fields["aggregateFunction"]["ref"], depth)
    if depth == 0:
        return _short(kind)
    told = {name: each for name, each in fields.items() if name not in ("type", "input", "evalContext", "failOnError")}
    if kind in _OPERATORS and "left" in told and "right" in told:
        sides = (_text(nodes, told[side], depth - 1) for side in ("left", "right"))
        return f"({f' {_OPERATORS[kind]} '.join(sides)})"
    parts = [_text(nodes, each, depth - 1) for each in told.values()]
    return f"{_short(kind)}({', '.join(parts)})" if parts else _short(kind)


def _short(kind: str) -> str:
    return kind.rpartition(".")[2]
