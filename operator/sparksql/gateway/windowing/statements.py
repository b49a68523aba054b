"""The queries in parsed statements: what a window function may be called in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparksql.gateway.spark.plans import children
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.sql.kinds import QUERY_CLASSES

_WRITES = frozenset({"InsertIntoStatement", "InsertIntoDir", "OverwriteByExpression"})


def with_queries(jvm: Jvm, plan: LogicalPlan, change: Callable[[Any], Any]) -> Any:
    """Returns a parsed statement with each of its queries changed; a query is one itself.

    The WITHs above an INSERT go into its query.
    """
    match simple_name(plan):
        case "ExplainCommand":
            return plan.copy(with_queries(jvm, plan.logicalPlan(), change), plan.mode())
        case "DescribeQueryCommand":
            return plan.copy(plan.queryText(), change(plan.plan()))
        case "UnresolvedWith" if simple_name(plan.child()) in _WRITES:
            write = plan.child()
            (query,) = elements(write.children())
            around = plan.copy(query, plan.cteRelations(), plan.allowRecursion())
            return _with_children(jvm, write, [change(around)])
        case "Union" if any(simple_name(child) in _WRITES for child in children(plan)):
            return _with_children(jvm, plan, [with_queries(jvm, child, change) for child in children(plan)])
        case name if name in QUERY_CLASSES:
            return change(plan)
        case _:
            return _with_children(jvm, plan, [with_queries(jvm, child, change) for child in children(plan)])


def _with_children(jvm: Jvm, plan: LogicalPlan, after: list[Any]) -> Any:
    if all(new is old for new, old in zip(after, children(plan), strict=True)):
        return plan
    return plan.withNewChildren(jvm.PythonUtils.toSeq(after))
