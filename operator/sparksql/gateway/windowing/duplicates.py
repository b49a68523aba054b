"""COUNT(DISTINCT x) in streams in update and complete mode: counted once duplicates are removed.

Spark runs no aggregation after another in these modes, but one after a removal of duplicates: each value of a key comes once
then, and is counted. That is exact for one column and nothing beside it. The sum of such counts that are divided by a function
of the value, as queries are written to spread a hot key, is the count itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.windowing.expressions import (
    aggregate,
    aggregations,
    column_id,
    columns_in,
    is_column,
    project,
    replaced,
    transformed,
)
from sparksql.gateway.windowing.marks import alias


def with_duplicates_removed(jvm: Jvm, plan: LogicalPlan) -> Any:
    """Returns an analysed plan for update or complete mode that counts distinct values of streams once each has come once."""
    plan = transformed(jvm, plan, lambda node: _undivided(jvm, node))
    return transformed(jvm, plan, lambda node: _deduplicated(jvm, node))


def _counted(node: LogicalPlan) -> Any | None:
    """The one column whose distinct values an aggregation of a stream counts, with no other aggregate; None for any other."""
    if simple_name(node) != "Aggregate" or not node.isStreaming():
        return None
    calls = [call for result in elements(node.aggregateExpressions()) for call in aggregations(result)]
    if not calls or not all(call.isDistinct() and option(call.filter()) is None for call in calls):
        return None
    values = [elements(call.aggregateFunction().children()) for call in calls]
    if any(simple_name(call.aggregateFunction()) != "Count" for call in calls):
        return None
    if any(len(each) != 1 or not is_column(each[0]) for each in values):
        return None
    return values[0][0] if len({column_id(each[0]) for each in values}) == 1 else None


def _deduplicated(jvm: Jvm, node: Any) -> Any | None:
    value = _counted(node)
    if value is None:
        return None
    keys = elements(node.groupingExpressions())
    named = {index: alias(jvm, key, f"__key_{index}") for index, key in enumerate(keys) if not is_column(key)}
    columns = [named[index].toAttribute() if index in named else key for index, key in enumerate(keys)]
    rows = project(jvm, [*(named.get(index, key) for index, key in enumerate(keys)), value], node.child())
    logical = jvm.org.apache.spark.sql.catalyst.plans.logical
    once = logical.Deduplicate(jvm.PythonUtils.toSeq([*columns, value]), rows)

    def plain(expression: Any) -> Any | None:
        if simple_name(expression) == "AggregateExpression":
            nothing = jvm.scala.Option.apply(None)
            return expression.copy(
                expression.aggregateFunction(), expression.mode(), False, nothing, expression.resultId()
            )
        if is_column(expression):
            return None
        return next((columns[index] for index in named if expression.semanticEquals(keys[index])), None)

    results = [replaced(jvm, result, plain) for result in elements(node.aggregateExpressions())]
    return aggregate(jvm, node, columns, results, once)


def _undivided(jvm: Jvm, node: Any) -> Any | None:
    """`SUM(c)` by keys over `COUNT(DISTINCT x) AS c` by the same keys and functions of x, as the one count that it is."""
    if simple_name(node) != "Aggregate" or not node.isStreaming():
        return None
    names: dict[int, int] = {}
    inner = node.child()
    while simple_name(inner) in ("Project", "SubqueryAlias"):
        for named in elements(inner.projectList()) if simple_name(inner) == "Project" else ():
            if simple_name(named) == "Alias":
                if (column := column_id(named.child())) is None:
                    return None
                names[int(named.exprId().id())] = column
        inner = inner.child()
    value = _counted(inner)
    calls = [call for result in elements(node.aggregateExpressions()) for call in aggregations(result)]
    if value is None or len(calls) != 1:
        return None
    results = {int(result.exprId().id()): result for result in elements(inner.aggregateExpressions())}

    def below(expression: Any) -> Any | None:
        """What a column of the outer aggregation is in the inner one."""
        column = column_id(expression)
        while column in names:
            column = names[column]
        return None if column is None else results.get(column)

    if not _is_sum_of_count(calls[0], below):
        return None
    outer = [_meant(found) for key in elements(node.groupingExpressions()) if (found := below(key)) is not None]
    if len(outer) != int(node.groupingExpressions().size()):
        return None
    divided = [
        key for key in elements(inner.groupingExpressions()) if not any(key.semanticEquals(each) for each in outer)
    ]
    if any(columns_in(key) != columns_in(value) or not key.deterministic() for key in divided):
        return None
    count = next(call for result in elements(inner.aggregateExpressions()) for call in aggregations(result))

    def whole(expression: Any) -> Any | None:
        if simple_name(expression) == "AggregateExpression":
            return count
        found = below(expression)
        return None if found is None else _meant(found)

    made = [
        _under_its_name(jvm, result, replaced(jvm, result, whole)) for result in elements(node.aggregateExpressions())
    ]
    return aggregate(jvm, node, outer, made, inner.child())


def _is_sum_of_count(call: Any, below: Callable[[Any], Any | None]) -> bool:
    function = call.aggregateFunction()
    if simple_name(function) != "Sum" or call.isDistinct() or option(call.filter()) is not None:
        return False
    summed = below(function.child())
    return (
        summed is not None and simple_name(summed) == "Alias" and simple_name(summed.child()) == "AggregateExpression"
    )


def _meant(result: Any) -> Any:
    """What a result of an aggregation is, without its name."""
    return result.child() if simple_name(result) == "Alias" else result


def _under_its_name(jvm: Jvm, former: Any, made: Any) -> Any:
    """A result that keeps the name and the id that it had."""
    if simple_name(made) == "Alias" and int(made.exprId().id()) == int(former.exprId().id()):
        return made
    return alias(jvm, made, str(former.name()), like=former)
