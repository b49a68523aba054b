"""Aggregates in two steps: of parts, and of what the parts gave.

count is the sum of counts, sum of sums, min, max and those of bits and booleans of themselves, avg the quotient of a sum and a
count. Others have no such rule here, nor has avg of decimals, whose digits would be rounded twice, nor a sum that is NULL where
it is too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm
from sparksql.gateway.windowing.expressions import as_long, cast
from sparksql.gateway.windowing.marks import PartOfAverage, alias, mark_of_part

_OF_THEMSELVES = frozenset({"Sum", "Min", "Max", "BoolAnd", "BoolOr", "BitAndAgg", "BitOrAgg", "BitXorAgg"})
_COUNTS = frozenset({"Count", "CountIf"})
_SUM, _COUNT = "_sum", "_count"  # what the names of an average's parts end with
NO_DECIMAL = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})


@dataclass(frozen=True)
class Merge:
    """An aggregate in two steps: the columns that a part has of it, and what is made of those of all parts."""

    parts: tuple[Any, ...]
    merged: Any


def merge_of(jvm: Jvm, call: Expression, name: str) -> Merge | None:
    """Returns the two steps of an aggregate, None for one that has none. Its parts get names that begin with `name`."""
    function = call.aggregateFunction().clone()  # two calls of one object share its buffer, whatever their FILTERs are
    kind = simple_name(function)
    if call.isDistinct() or not function.deterministic():
        return None
    functions = jvm.org.apache.spark.sql.catalyst.expressions.aggregate
    condition, to_seq = call.filter(), jvm.PythonUtils.toSeq

    def part(of: Any, suffix: str = "", told: Any | None = None) -> Any:
        return alias(jvm, of.toAggregateExpression(False, condition), name + suffix, told=told)

    def part_of_average(of: Any, suffix: str) -> Any:
        known = PartOfAverage(int(call.resultId().id()), name, is_count=suffix == _COUNT)
        return part(of, suffix, mark_of_part(jvm, known))

    def total(column: Any) -> Any:
        return functions.Sum(column).toAggregateExpression()

    if kind in _OF_THEMSELVES and not _hides_overflow(function):
        first = part(function)
        again = function.withNewChildren(to_seq([first.toAttribute()])).toAggregateExpression()
        return Merge((first,), cast(jvm, again, function.dataType()))
    if kind in _COUNTS:
        first = part(function)
        return Merge((first,), or_zero(jvm, total(first.toAttribute())))
    if kind == "Average" and str(function.child().dataType().catalogString()) in NO_DECIMAL:
        doubles = cast(jvm, function.child(), jvm.org.apache.spark.sql.types.DataTypes.DoubleType)
        counts = functions.Count(to_seq([function.child()]))
        parts = part_of_average(functions.Sum(doubles), _SUM), part_of_average(counts, _COUNT)
        return Merge(parts, quotient(jvm, *(total(each.toAttribute()) for each in parts)))
    return None


def _hides_overflow(function: Expression) -> bool:
    """Whether a sum is NULL where it is too large: the sum of a part would be left out of the whole."""
    if simple_name(function) != "Sum":
        return False
    mode = str(function.evalContext().evalMode().toString())
    return mode == "TRY" or (mode == "LEGACY" and simple_name(function.dataType()) == "DecimalType")


def or_zero(jvm: Jvm, expression: Expression) -> Any:
    """Returns a BIGINT, 0 for NULL."""
    to_seq = jvm.PythonUtils.toSeq
    return jvm.org.apache.spark.sql.catalyst.expressions.Coalesce(to_seq([expression, as_long(jvm, 0)]))


def quotient(jvm: Jvm, dividend: Expression, divisor: Expression) -> Any:
    """Returns a quotient that is NULL where the divisor is 0, as avg of nothing is."""
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    double_type = jvm.org.apache.spark.sql.types.DataTypes.DoubleType
    nothing, zero = (expressions.Literal.create(value, double_type) for value in (None, 0.0))
    double = cast(jvm, divisor, double_type)
    return expressions.Divide(dividend, expressions.If(expressions.EqualTo(double, zero), nothing, double))
