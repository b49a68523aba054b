"""Calls of window table functions in parsed plans. What becomes of them: `windowing`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import LogicalPlan
from sparksql.gateway.sql.window_syntax import FUNCTIONS


def called(node: LogicalPlan) -> str | None:
    """Returns the name of the window table function that a node of a parsed plan calls, None for any other node."""
    if simple_name(node) != "UnresolvedTableValuedFunction":
        return None
    parts = elements(node.name())
    name = str(parts[0]).upper()
    return name if len(parts) == 1 and name in FUNCTIONS else None


def told_plan(plan: LogicalPlan) -> Any:
    """Returns the plan that a parsed statement tells of, which is not among its nodes; any other statement itself."""
    match simple_name(plan):
        case "ExplainCommand":
            return plan.logicalPlan()
        case "DescribeQueryCommand" | "CacheTableAsSelect":
            return plan.plan()
        case "CreateView" | "CreateIcebergView" | "AlterViewAs":
            return plan.query()
        case _:
            return plan


def window_calls(plan: LogicalPlan) -> Iterator[tuple[Any, str]]:
    """Yields the calls in a parsed statement and the names of their functions."""
    for node in nodes(told_plan(plan)):
        if (name := called(node)) is not None:
            yield node, name
