"""Rewrites expressions and plans of the JVM from Python: what Catalyst does with Scala functions, which py4j cannot hand over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparksql.gateway.spark.plans import children
from sparksql.gateway.spark.scala import elements, scala_object, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, LogicalPlan

Replace = Callable[[Any], Any | None]


def column_id(expression: Expression) -> int | None:
    """Returns Spark's id of a plain column, None for any other expression."""
    return int(expression.exprId().id()) if simple_name(expression) == "AttributeReference" else None


def is_column(expression: Expression) -> bool:
    """Returns whether an expression is a plain column."""
    return simple_name(expression) == "AttributeReference"


def walked(expression: Expression) -> Iterator[Any]:
    """Yields an expression and all below it."""
    pending = [expression]
    while pending:
        each = pending.pop()
        yield each
        pending.extend(elements(each.children()))


def columns_in(expression: Expression) -> frozenset[int]:
    """Returns the ids of the columns that an expression reads."""
    found = (column_id(each) for each in walked(expression))
    return frozenset(each for each in found if each is not None)


def replaced(jvm: Jvm, expression: Expression, replace: Replace) -> Any:
    """Returns an expression with each part replaced for which `replace` gives another one, outermost first."""
    other = replace(expression)
    if other is not None:
        return other
    before = elements(expression.children())
    after = [replaced(jvm, child, replace) for child in before]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return expression
    return expression.withNewChildren(jvm.PythonUtils.toSeq(after))


def transformed(jvm: Jvm, plan: LogicalPlan, change: Replace) -> Any:
    """Returns an analysed plan with each node changed for which `change` gives another one, innermost first."""
    before = children(plan)
    after = [transformed(jvm, child, change) for child in before]
    if any(new is not old for new, old in zip(after, before, strict=True)):
        plan = plan.withNewChildren(jvm.PythonUtils.toSeq(after))
    other = change(plan)
    return plan if other is None else other


def project(jvm: Jvm, columns: Sequence[Any], child: LogicalPlan) -> Any:
    """Returns a Project."""
    return jvm.org.apache.spark.sql.catalyst.plans.logical.Project(jvm.PythonUtils.toSeq(list(columns)), child)


def aggregate(jvm: Jvm, like: LogicalPlan, keys: Sequence[Any], results: Sequence[Any], child: LogicalPlan) -> Any:
    """Returns the Aggregate `like` with other keys, results and child."""
    to_seq = jvm.PythonUtils.toSeq
    return like.copy(to_seq(list(keys)), to_seq(list(results)), child, like.hint())


def aggregations(expression: Expression) -> list[Any]:
    """Returns the calls of aggregate functions in a result of an Aggregate."""
    return [each for each in walked(expression) if simple_name(each) == "AggregateExpression"]


def as_long(jvm: Jvm, value: int) -> Any:
    """Returns a BIGINT of a small number, which py4j hands over as an INT."""
    types = jvm.org.apache.spark.sql.types.DataTypes
    return cast(
        jvm, jvm.org.apache.spark.sql.catalyst.expressions.Literal.create(value, types.IntegerType), types.LongType
    )


def cast(jvm: Jvm, expression: Expression, data_type: Any) -> Any:
    """Returns an expression of a type that its own can be cast to without a time zone; itself if it is of it."""
    if expression.dataType().sameType(data_type):
        return expression
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    mode = scala_object(expressions, "EvalMode").LEGACY()
    return expressions.Cast(expression, data_type, jvm.scala.Option.apply(None), mode)
