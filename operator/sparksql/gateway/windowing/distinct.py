"""COUNT(DISTINCT x) in streams in append mode, by Spark's own rule of two aggregations.

Spark refuses distinct aggregations of a stream, and its optimiser has a rule that makes two plain ones of them: the first by the
keys and the value, which spreads a hot key over all tasks, the second by the keys. It works on an analysed plan as well, keeps
the marks of event time, and both close a window in the same batch (measured with Spark 4.1.4). Distincts of one column share
one state, each FILTER a boolean in it.

The rule has columns and their numbers in the order of a hash table by ids, which are others in each analysis. What a stream finds
in its state after a restart must be the same columns, so both are put into the order of the results.
"""

from __future__ import annotations

from typing import Any

from sparksql.gateway.spark.scala import elements, scala_object, simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.windowing.expressions import aggregate, aggregations, column_id, replaced, transformed, walked
from sparksql.gateway.windowing.marks import is_session
from sparksql.wire.control import ErrorReason

DISTINCT_IN_SESSIONS = (
    "which session a row is in is not known of the rows of one value alone. Write size(collect_set(x)) for count(DISTINCT x), "
    "or approx_count_distinct(x)"
)
_PLAIN = 0  # the rule's number of the rows that aggregates without DISTINCT are made of


def with_distinct_in_two_steps(jvm: Jvm, plan: LogicalPlan) -> Any:
    """Returns an analysed plan whose distinct aggregations of streams are made of two. Raises StatementError for sessions.

    The first step has sessions of one value, which end where those of all values go on: a value would count in each of them.
    """
    rule = scala_object(jvm.org.apache.spark.sql.catalyst.optimizer, "RewriteDistinctAggregates")

    def change(node: Any) -> Any | None:
        if simple_name(node) != "Aggregate" or not node.isStreaming():
            return None
        results = elements(node.aggregateExpressions())
        if not any(call.isDistinct() for result in results for call in aggregations(result)):
            return None
        if any(is_session(key) for key in elements(node.groupingExpressions())):
            raise refusal(ErrorReason.INVALID_SPEC, f"DISTINCT in sessions of a stream: {DISTINCT_IN_SESSIONS}")
        filtered = [replaced(jvm, result, lambda each: _with_filter(jvm, each)) for result in results]
        keys = elements(node.groupingExpressions())
        return _in_order(jvm, rule.rewrite(aggregate(jvm, node, keys, filtered, node.child())))

    return transformed(jvm, plan, change)


def _in_order(jvm: Jvm, second: LogicalPlan) -> Any:
    """Both aggregations of the rule, with the groups of distincts and their columns in the order of the results."""
    first = second.child()
    expand = first.child()
    *keys, number = elements(first.groupingExpressions())
    rows = {int(row[len(keys)].value()): row for row in map(elements, elements(expand.projections()))}
    results = elements(second.aggregateExpressions())
    compared = [int(each.right().value()) for result in results for each in walked(result) if _compares(each, number)]
    order = [found for found in dict.fromkeys(compared) if found != _PLAIN]
    renumbered = {_PLAIN: _PLAIN, **{found: index for index, found in enumerate(order, _PLAIN + 1)}}
    literal = jvm.org.apache.spark.sql.catalyst.expressions.Literal

    def numbered(expression: Any) -> Any | None:
        if not _compares(expression, number):
            return None
        wanted = literal.create(renumbered[int(expression.right().value())], number.dataType())
        return expression.withNewChildren(to_seq([number, wanted]))

    to_seq = jvm.PythonUtils.toSeq
    used = [index for found in order for index in range(len(keys)) if not _is_null(rows[found][index])]
    own = elements(second.groupingExpressions())
    places = list(dict.fromkeys([*range(len(own)), *used, *range(len(keys))]))

    def row_of(found: int) -> Any:
        row = rows[found]
        wanted = literal.create(renumbered[found], number.dataType())
        return to_seq([*(row[place] for place in places), wanted, *row[len(keys) + 1 :]])

    sorted_keys, output = [keys[place] for place in places], elements(expand.output())
    projections = [row_of(found) for found in sorted(rows, key=lambda found: renumbered[found])]
    columns = [*(output[place] for place in places), *output[len(keys) :]]
    expand = expand.copy(to_seq(projections), to_seq(columns), expand.child())
    first = aggregate(jvm, first, [*sorted_keys, number], elements(first.aggregateExpressions()), expand)
    return aggregate(jvm, second, own, [replaced(jvm, result, numbered) for result in results], first)


def _compares(expression: Any, number: Any) -> bool:
    """Whether an expression is a condition of the rule's on the number of a group of distincts."""
    return simple_name(expression) == "EqualTo" and column_id(expression.left()) == column_id(number)


def _is_null(expression: Any) -> bool:
    return simple_name(expression) == "Literal" and expression.value() is None


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
