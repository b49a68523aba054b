"""COUNT(DISTINCT x) in streams, by Spark's own rule of two aggregations.

Spark refuses distinct aggregations of a stream, and its optimiser has a rule that makes two plain ones of them: the first by the
keys and the value, which spreads a hot key over all tasks, the second by the keys. It works on an analysed plan as well, keeps
the marks of event time, and both close a window in the same batch (measured with Spark 4.1.4). Distincts of one column share
one state, each FILTER a boolean in it.
"""

from __future__ import annotations

from typing import Any

from sparksql.gateway.spark.scala import elements, scala_object, simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.windowing.expressions import aggregate, aggregations, replaced, transformed


def with_distinct_in_two_steps(jvm: Jvm, plan: LogicalPlan) -> Any:
    """Returns an analysed plan whose distinct aggregations of streams are made of two."""
    rule = scala_object(jvm.org.apache.spark.sql.catalyst.optimizer, "RewriteDistinctAggregates")

    def change(node: Any) -> Any | None:
        if simple_name(node) != "Aggregate" or not node.isStreaming():
            return None
        results = elements(node.aggregateExpressions())
        if not any(call.isDistinct() for result in results for call in aggregations(result)):
            return None
        filtered = [replaced(jvm, result, lambda each: _with_filter(jvm, each)) for result in results]
        return rule.rewrite(aggregate(jvm, node, elements(node.groupingExpressions()), filtered, node.child()))

    return transformed(jvm, plan, change)


def _with_filter(jvm: Jvm, expression: Any) -> Any | None:
    """A distinct aggregation with a FILTER: one group of distincts without any the rule leaves to Spark's planner."""
    if (
        simple_name(expression) != "AggregateExpression"
        or not expression.isDistinct()
        or expression.filter().isDefined()
    ):
        return None
    true = scala_object(jvm.org.apache.spark.sql.catalyst.expressions, "Literal").TrueLiteral()
    some = jvm.scala.Option.apply(true)
    return expression.copy(expression.aggregateFunction(), expression.mode(), True, some, expression.resultId())
