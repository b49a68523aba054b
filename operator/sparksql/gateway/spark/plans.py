"""Walks parsed plans of the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import LogicalPlan


def nodes(plan: LogicalPlan) -> Iterator[Any]:
    """Yields all nodes of a plan, those of its WITH and of its subqueries included."""
    pending = [plan]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(elements(node.children()))
        pending.extend(elements(node.subqueries()))
        pending.extend(_with_queries(node))


def _with_queries(node: LogicalPlan) -> list[Any]:
    match simple_name(node):
        case "UnresolvedWith":
            return [relation._2() for relation in elements(node.cteRelations())]
        case "WithCTE":
            return elements(node.cteDefs())
        case _:
            return []
