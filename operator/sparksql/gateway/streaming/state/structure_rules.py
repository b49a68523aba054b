"""What an expression may be worded as and still mean the same: the whole list. Each rule has its reason, and a test.

Everything else that two expressions do not share is a difference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sparksql.gateway.streaming.state.structure_nodes import Nodes, is_ref

_TURNED = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual"}
_EQUALITIES = frozenset({"EqualTo", "EqualNullSafe"})
# Aggregates of one value that pass over NULL, and leave their state as it is for a row that they pass over.
_PASSING_NULL = frozenset({"Sum", "Average", "Min", "Max", "Count"})
_DRAWN = frozenset({"seed", "randomSeed", "seedExpression", "hideSeed"})

Fields = dict[str, Any]
Rule = Callable[[Nodes, str, Fields], tuple[str, Fields]]


def told(kind: str, fields: Fields) -> Fields:
    """Returns the fields of an expression that say what it is."""
    if kind == "PythonUDF":
        return _python_function(fields)
    if kind == "ScalaUDF":
        return _java_function(fields)
    if kind.rpartition(".")[2].startswith("Hive") and "funcWrapper" in fields:
        return _hive_function(fields)
    untold = _UNTOLD.get(kind, frozenset())
    if fields.get("hideSeed") is True or kind in ("Uuid", "Shuffle"):
        untold = untold | _drawn(kind)
    return {name: value for name, value in fields.items() if name not in untold}


def apply(nodes: Nodes, kind: str, fields: Fields, *, commutes: bool, zoned: bool) -> tuple[str, Fields]:
    """Returns the one wording of all those that mean the same.

    `commutes`: the expression says so of itself. `zoned`: a cast looks at the time zone.
    """
    if commutes or kind in _EQUALITIES:
        fields = operands_in_one_order(fields)
    if kind == "Cast" and not zoned:
        fields = cast_without_a_zone(fields)
    rule = _RULES.get(kind)
    return (kind, fields) if rule is None else rule(nodes, kind, fields)


def of_leaf(kind: str, fields: Fields) -> Fields:
    """Returns the fields of a plan's leaf that is no table. In how many parts a range is made is no part of its rows."""
    return {name: value for name, value in fields.items() if (kind, name) != ("Range", "numSlices")}


# Fields that say nothing of the value.
_UNTOLD: Mapping[str, frozenset[str]] = {
    # The name of a field is for people: its place tells it.
    "GetStructField": frozenset({"name"}),
    # Hints to the planner: how and not what.
    "ScalarSubquery": frozenset({"hint", "outerAttrs"}),
    "Exists": frozenset({"hint", "outerAttrs"}),
    "ListQuery": frozenset({"hint", "outerAttrs"}),
}


def _drawn(kind: str) -> frozenset[str]:
    """A seed that the text does not have: Spark draws one with each analysis."""
    return _DRAWN | {"child"} if kind in ("Rand", "Randn") else _DRAWN


def _python_function(fields: Fields) -> Fields:
    """A Python function is told by its name and its type: its body comes with the session, see docs/upgrades.md."""
    return {name: fields[name] for name in ("name", "children", "evalType", "udfDeterministic")}


def _java_function(fields: Fields) -> Fields:
    """A Java function is told by its class, whose name stands for its body; types of arguments come with the children."""
    return {name: fields[name] for name in ("function", "children", "udfName", "udfDeterministic")}


def _hive_function(fields: Fields) -> Fields:
    """A Hive function is told by its class."""
    wrapper = fields["funcWrapper"]["fields"]
    return {**fields, "funcWrapper": wrapper["functionClassName"]}


def operands_in_one_order(fields: Fields) -> Fields:
    """Orders the operands of `a + b` and `b + a` alike.

    What Spark itself says is commutative gives the same value bit by bit; a + (b + c) is left as it is.
    """
    if isinstance(fields.get("children"), list):
        return {**fields, "children": sorted(fields["children"], key=_text)}
    names = [name for name, value in fields.items() if is_ref(value) and name in ("left", "right")]
    values = sorted((fields[name] for name in names), key=_text)
    return {**fields, **dict(zip(names, values, strict=True))}


def cast_without_a_zone(fields: Fields) -> Fields:
    """Drops the zone of a cast between types that have none.

    Spark notes the session's time zone at every cast, also at those.
    """
    return {name: value for name, value in fields.items() if name != "timeZoneId"}


def _turned(_: Nodes, kind: str, fields: Fields) -> tuple[str, Fields]:
    """`a > b` is `b < a`; so BETWEEN is the two comparisons, which Spark makes of it."""
    return _TURNED[kind], {**fields, "left": fields["right"], "right": fields["left"]}


def _one_branch(nodes: Nodes, _: str, fields: Fields) -> tuple[str, Fields]:
    """CASE with one WHEN is IF; without ELSE, or with ELSE NULL, the other value is NULL."""
    if len(fields["branches"]) != 1:
        return "CaseWhen", fields
    branch = nodes.fields(fields["branches"][0])
    told = {"predicate": branch["_1"], "trueValue": branch["_2"], "falseValue": fields["elseValue"]}
    return _condition(nodes, "If", told)


def _condition(nodes: Nodes, kind: str, fields: Fields) -> tuple[str, Fields]:
    """See `_one_branch`."""
    other = fields["falseValue"]
    while nodes.kind(other) == "Cast":  # NULL is NULL in any type
        other = nodes.fields(other)["child"]
    if nodes.kind(other) == "Literal" and nodes.fields(other)["value"] is None:
        return kind, {**fields, "falseValue": None}
    return kind, fields


def _members(_: Nodes, kind: str, fields: Fields) -> tuple[str, Fields]:
    """The order of what IN looks for, and what it has twice, make no difference."""
    once = {_text(each): each for each in fields["list"]}
    return kind, {**fields, "list": [once[key] for key in sorted(once)]}


def _added_time(nodes: Nodes, kind: str, fields: Fields) -> tuple[str, Fields]:
    """Returns an added time by its number of microseconds, whatever units it is written in.

    INTERVAL '60' SECOND and INTERVAL '1' MINUTE are the same number when they are added to a time; the units that they
    are printed in are part of their type.
    """
    interval = fields["interval"]
    if nodes.kind(interval) == "Literal" and "interval" in nodes.fields(interval)["type"]:
        is_of_days = "day" in (of := nodes.fields(interval)["type"]) or any(
            unit in of for unit in ("hour", "minute", "second")
        )
        if is_of_days and isinstance(nodes.fields(interval)["value"], int):
            return kind, {**fields, "interval": {"microseconds": nodes.fields(interval)["value"]}}
    return kind, fields


def _filtered(nodes: Nodes, kind: str, fields: Fields) -> tuple[str, Fields]:
    """Returns `sum(CASE WHEN c THEN x END)` as `sum(x) FILTER (WHERE c)`, see `_PASSING_NULL`.

    Leaves one with DISTINCT as it is, since Spark keeps its values apart.
    """
    function = fields["aggregateFunction"]
    if nodes.kind(function) not in _PASSING_NULL or fields["isDistinct"] or fields["filter"] is not None:
        return kind, fields
    of = nodes.fields(function)
    place = "child" if "child" in of else "children"
    values = of[place] if isinstance(of[place], list) else [of[place]]
    if (
        len(values) != 1
        or nodes.kind(values[0]) != "If"
        or (chosen := nodes.fields(values[0]))["falseValue"] is not None
    ):
        return kind, fields
    value = [chosen["trueValue"]] if isinstance(of[place], list) else chosen["trueValue"]
    bare = nodes.add(nodes.kind(function), **{**of, place: value})
    return kind, {**fields, "aggregateFunction": bare, "filter": chosen["predicate"]}


_RULES: Mapping[str, Rule] = {
    "AggregateExpression": _filtered,
    "GreaterThan": _turned,
    "GreaterThanOrEqual": _turned,
    "CaseWhen": _one_branch,
    "If": _condition,
    "In": _members,
    "TimestampAddInterval": _added_time,
    "TimeAdd": _added_time,
}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
