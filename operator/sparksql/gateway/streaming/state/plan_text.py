"""The form of `PlanText`: how its nodes are found and named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

PlanNode: TypeAlias = dict[str, Any]  # a node of the JSON that PlanText makes of a plan

DEDUPLICATIONS = frozenset({"Deduplicate", "DeduplicateWithinWatermark"})
STATE_IN_PYTHON = "TransformWithStateInPySpark"
_CATALYST = "org.apache.spark.sql.catalyst."
_MERGED_SESSION = "sparksql.mergedSession"  # MergedSessions.DONE


class UnknownPlanError(Exception):
    """The plan cannot be described; the text says why."""


def has_group_filter(plan: PlanNode) -> bool:
    """Returns whether a plan has a filter or a join above an aggregation of streams."""
    found, grouped = _has_group_filter(plan)
    return found and grouped


def _has_group_filter(plan: PlanNode) -> tuple[bool, bool]:
    below = [_has_group_filter(child) for child in children(plan)]
    grouped = any(each[1] for each in below)
    kind = simple(plan["plan"])
    found = any(each[0] for each in below) or (grouped and kind in ("Filter", "Join"))
    return found, grouped or (kind in ("Aggregate", "Distinct", *DEDUPLICATIONS) and plan["streams"])


def children(plan: PlanNode) -> Iterator[PlanNode]:
    """Yields the plans right below one."""
    for value in plan.get("fields", {}).values():
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, dict) and "plan" in each:
                yield each


def leaves(plan: PlanNode) -> Iterator[PlanNode]:
    """Yields the leaves of a plan, from left to right."""
    if "leaf" in plan:
        yield plan
    for child in children(plan):
        yield from leaves(child)


def has_column(plan: PlanNode, name: str) -> bool:
    """Returns whether rows of any node of a plan have a column of this name."""
    return any(column["name"] == name for column in plan["output"]) or any(
        has_column(child, name) for child in children(plan)
    )


def class_name(name: str) -> str:
    """Returns a class's name; without its package for Spark's own expressions and plans, whose names are unique."""
    return simple(name) if name.startswith(_CATALYST) else name


def simple(name: str) -> str:
    """Returns a class's name without its package."""
    return name.rpartition(".")[2].removesuffix("$")


def marks(key: Any) -> list[str]:
    """Returns what Spark notes at a column of a window, a session, an event time."""
    return sorted(each for each in key.get("marks", ()) if each.startswith("spark."))


def result_id(function: Any) -> int:
    """Returns Spark's id of an aggregate function's result, which no rule of the optimiser changes."""
    return int(function["fields"]["resultId"]["id"])


def is_of_merged_sessions(generator: Any) -> bool:
    """Returns whether a generator only keeps conditions above sessions: it is put in by MergedSessions in Java."""
    if isinstance(generator, list):
        return any(map(is_of_merged_sessions, generator))
    if not isinstance(generator, dict):
        return False
    return _MERGED_SESSION in generator.get("marks", ()) or any(map(is_of_merged_sessions, generator.values()))


def aggregate_functions(value: Any) -> Iterator[Any]:
    """Yields the aggregate functions in an expression."""
    if isinstance(value, list):
        for each in value:
            yield from aggregate_functions(each)
    elif isinstance(value, dict) and "plan" not in value:
        if simple(value.get("expression", "")) == "AggregateExpression":
            yield value
        else:
            for each in (value.get("child"), *value.get("fields", {}).values()):
                yield from aggregate_functions(each)
