"""Aggregates of CUMULATE with GAP: what a pane has of each, how panes become one, and what the aggregate is made of then.

Parts go through Python workers in a stream, so they are of types that these hand on unchanged; times are microseconds there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparksql.gateway.spark.plans import span_of
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm
from sparksql.gateway.windowing.calls import WindowCall
from sparksql.gateway.windowing.dynamic_processor import ADD, DISTINCT, GREATEST, LEAST
from sparksql.gateway.windowing.expressions import cast
from sparksql.gateway.windowing.marks import alias
from sparksql.gateway.windowing.merging import NO_DECIMAL, quotient

PART = "__curve_part_"
_EXTREMES = {"Min": LEAST, "Max": GREATEST, "BoolAnd": LEAST, "BoolOr": GREATEST}
_TIMES = frozenset({"timestamp", "timestamp_ntz"})
_CARRIED = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", *_TIMES}
)
_TAKEN = "it takes count, count(DISTINCT x), count_if, sum, min, max, avg, bool_and and bool_or, each with FILTER"


@dataclass(frozen=True)
class Part:
    """A column that a pane has of an aggregate, and how those of several panes become one: ADD, LEAST, GREATEST or DISTINCT.

    `type` is Spark's of what they become.
    """

    column: Any
    merge: str
    type: Any

    @property
    def name(self) -> str:
        """Returns the column's name."""
        return str(self.column.name())


@dataclass(frozen=True)
class Total:
    """An aggregate: its parts, and its value from what these have become, by their names."""

    parts: tuple[Part, ...]
    value: Callable[[Mapping[str, Any]], Any]


def total(jvm: Jvm, call: WindowCall, aggregation: Expression, number: int) -> Total:
    """Returns how an aggregate of a window is made of those of its panes. Raises PlacedError for one that is not."""
    function = aggregation.aggregateFunction()
    kind, name = simple_name(function), str(function.prettyName())
    functions = jvm.org.apache.spark.sql.catalyst.expressions.aggregate
    types = jvm.org.apache.spark.sql.types.DataTypes
    refused = replace(call, span=span_of(aggregation) or span_of(function) or call.span)
    arguments = elements(function.children())

    def part(of: Any, merge: str, suffix: str = "", type_: Any = None) -> Part:
        column = alias(jvm, of.toAggregateExpression(False, aggregation.filter()), f"{PART}{number}{suffix}")
        return Part(column, merge, of.dataType() if type_ is None else type_)

    if aggregation.isDistinct():
        if kind != "Count" or len(arguments) != 1:
            raise refused.refusal(f"{name}(DISTINCT ...) of this kind is no aggregate of a window with GAP: {_TAKEN}")
        check_type(refused, arguments[0], f"count(DISTINCT) of {arguments[0].sql()}")
        return _single(part(functions.CollectSet(_as_text(jvm, arguments[0])), DISTINCT, type_=types.LongType))
    match kind:
        case "Count" | "CountIf" if function.deterministic():
            return _single(part(function, ADD))
        case "Sum" if _is_plain(function) and _is_carried(function):
            return _single(part(function, ADD))
        case "Average" if _is_plain(function) and str(arguments[0].dataType().catalogString()) in NO_DECIMAL:
            doubles = cast(jvm, arguments[0], types.DoubleType)
            sums = part(functions.Sum(doubles), ADD, "_sum")
            counts = part(functions.Count(jvm.PythonUtils.toSeq(arguments[:1])), ADD, "_count")
            return Total((sums, counts), lambda made: quotient(jvm, made[sums.name], made[counts.name]))
        case "Min" | "Max" | "BoolAnd" | "BoolOr" if _is_plain(function) and _is_carried(arguments[0]):
            kept = functions.Min if _EXTREMES[kind] == LEAST else functions.Max
            only = part(kept(carried(jvm, arguments[0])), _EXTREMES[kind])
            return Total((only,), lambda made: restored(jvm, made[only.name], arguments[0].dataType()))
    typed = f" of {arguments[0].dataType().sql()}" if arguments else ""
    raise refused.refusal(f"{name}{typed} is no aggregate of a window with GAP: {_TAKEN}")


def check_type(call: WindowCall, expression: Expression, what: str) -> None:
    """Raises PlacedError for a value that Python's workers do not hand on unchanged."""
    if not _is_carried(expression):
        raise call.refusal(f"{what} cannot be of type {expression.dataType().sql()}: make it a text or a number")


def carried(jvm: Jvm, expression: Expression) -> Any:
    """Returns a value as Python's workers hand it on unchanged: a time as microseconds, a date as days."""
    expressions, types = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.types.DataTypes
    data_type = expression.dataType()
    match str(data_type.catalogString()):
        case "date":
            return expressions.UnixDate(expression)
        case name if name in _TIMES:
            return expressions.PreciseTimestampConversion(expression, data_type, types.LongType)
    return expression


def restored(jvm: Jvm, expression: Expression, data_type: Any) -> Any:
    """Returns a carried value as one of its own type."""
    expressions, types = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.types.DataTypes
    match str(data_type.catalogString()):
        case "date":
            return expressions.DateFromUnixDate(expression)
        case name if name in _TIMES:
            return expressions.PreciseTimestampConversion(expression, types.LongType, data_type)
    return cast(jvm, expression, data_type)


def _single(part: Part) -> Total:
    return Total((part,), lambda made: made[part.name])


def _as_text(jvm: Jvm, expression: Expression) -> Any:
    """A value as a text that no other value has."""
    expressions, types = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.types.DataTypes
    match str(expression.dataType().catalogString()):
        case "binary":
            return expressions.Hex(expression)
        case "float" | "double":
            expression = jvm.org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero(expression)
    return cast(jvm, carried(jvm, expression), types.StringType)


def _is_plain(function: Expression) -> bool:
    """Whether a function is none of those that give NULL in place of an error, and gives the same for the same rows."""
    return bool(function.deterministic()) and not str(function.prettyName()).startswith("try_")


def _is_carried(expression: Expression) -> bool:
    name = str(expression.dataType().catalogString())
    return name in _CARRIED or name.startswith("decimal(")
