"""Which columns of a query tell the rows of its result apart: those that its last aggregation groups by, if all are shown."""

from __future__ import annotations

from sparksql.gateway.spark.plans import children
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import LogicalPlan

# Nodes that hand rows on as they are, or leave some out.
HANDS_ON = frozenset({"Filter", "GlobalLimit", "LocalLimit", "Sort", "SubqueryAlias", "View"})


def result_keys(plan: LogicalPlan) -> tuple[int, ...] | None:
    """Returns the positions of these columns in an analysed plan: none for a result of one row, None where not all are shown."""
    found = _keys(plan)
    if found is None:
        return None
    positions = {int(column.exprId().id()): position for position, column in enumerate(elements(plan.output()))}
    if any(key not in positions for key in found):
        return None
    return tuple(positions[key] for key in found)


def _keys(plan: LogicalPlan) -> tuple[int, ...] | None:
    """The ids of a plan's key columns, each by the last name that the plan gives it."""
    match simple_name(plan):
        case "Aggregate":
            return _grouping(plan)
        case "Project":
            below = _keys(plan.child())
            return None if below is None else tuple(_renamed(plan, key) for key in below)
        case name if name in HANDS_ON:
            return _keys(children(plan)[0])
        case _:
            return None


def _grouping(aggregate: LogicalPlan) -> tuple[int, ...] | None:
    results = elements(aggregate.aggregateExpressions())
    keys: list[int] = []
    for grouping in elements(aggregate.groupingExpressions()):
        shown = next((each for each in results if _computes(each, grouping)), None)
        if shown is None:
            return None
        keys.append(int(shown.exprId().id()))
    return tuple(keys)


def _computes(named: LogicalPlan, grouping: LogicalPlan) -> bool:
    expression = named.child() if simple_name(named) == "Alias" else named
    return bool(expression.semanticEquals(grouping))


def _renamed(project: LogicalPlan, key: int) -> int:
    """The id that a column has above a Project: its own, or that of the name which the Project gives it."""
    named = elements(project.projectList())
    if any(int(each.exprId().id()) == key for each in named):
        return key
    for each in named:
        inner = each.child() if simple_name(each) == "Alias" else None
        if inner is not None and simple_name(inner) == "AttributeReference" and int(inner.exprId().id()) == key:
            return int(each.exprId().id())
    return key
