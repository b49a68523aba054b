"""Aggregates that take rows back: sums of weights, 1 for a row that comes and -1 for one that goes.

count(*) is the sum of weights, count(x) that of rows with x, sum(x) the sum of x or -x, and avg(x) the quotient of two of these.
What is summed is typed as Spark's own sum, but for avg of integers, which is exact here. Other aggregates cannot be made of what
comes and goes: the greatest value that goes does not tell the next one.

Results that only a gap in the changes, or an overflow that a later change does not undo, can give, are errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.plans import span_of
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm
from sparksql.gateway.sql.errors import PlacedError
from sparksql.gateway.windowing.expressions import as_long, cast, column_id, replaced

INTEGERS = ("tinyint", "smallint", "int", "bigint")  # the narrow ones first
_FLOATS = ("float", "double")
_GAP = (
    "a change retracts a row that was never inserted: the topic must be read from its beginning, with every change once, "
    "and the log of the database must have the old rows whole"
)
_TOO_LARGE = "a sum over a changelog is too large for its type: CAST what is summed to a larger DECIMAL"
_NOT_FINITE = "a sum over a changelog is NaN or infinite, which no later change can retract: filter such values"


@dataclass(frozen=True)
class Weighted:
    """Makes aggregates of rows with weights; `weight` is a BIGINT column."""

    jvm: Jvm
    weight: Any

    def rows(self) -> Any:
        """Returns the number of rows."""
        return self._counted(self.weight, None)

    def taken_back(self, call: Expression) -> Any:
        """Returns what an aggregate is over changes. Raises PlacedError for one that cannot be made of them."""
        function = call.aggregateFunction()
        kind = simple_name(function)
        if call.isDistinct() or kind not in ("Count", "Sum", "Average") or _tries(function, kind):
            name = f"{function.prettyName()}({'DISTINCT ' if call.isDistinct() else ''}...)"
            message = (
                f"{name} over a changelog cannot take rows back: use count, sum and avg without DISTINCT, or write the rows "
                "into a table by upsert and aggregate that table"
            )
            raise PlacedError(message, span_of(function) or span_of(call))
        condition = call.filter()
        match kind:
            case "Count":
                return self._counted(self._weight_where(elements(function.children())), condition)
            case "Sum":
                return self._sum(function, condition)
            case _:
                return self._average(function, condition)

    def _sum(self, function: Any, condition: Any) -> Any:
        value, type_name = function.child(), self._number(function)
        total = self._total(
            function, self._signed(cast(self.jvm, value, self._summed_type(function, type_name))), condition
        )
        return self._where_any(self._present(value, condition), self._checked(total, type_name))

    def _average(self, function: Any, condition: Any) -> Any:
        """Spark's own quotient, of another sum and another count."""
        jvm, value, type_name = self.jvm, function.child(), self._number(function)
        types = jvm.org.apache.spark.sql.types
        exact = types.DecimalType(20, 0) if type_name in INTEGERS else self._summed_type(function, type_name)
        sums = jvm.org.apache.spark.sql.catalyst.expressions.aggregate
        total = self._total(sums.Sum(cast(jvm, value, exact)), self._signed(cast(jvm, value, exact)), condition)
        present = self._present(value, condition)
        buffer_sum, buffer_count = elements(function.aggBufferAttributes())
        parts = {
            column_id(buffer_sum): cast(jvm, self._checked(total, type_name), buffer_sum.dataType()),
            column_id(buffer_count): present,
        }
        quotient = replaced(jvm, function.evaluateExpression(), lambda each: parts.get(column_id(each)))
        return self._where_any(present, quotient)

    def _number(self, function: Any) -> str:
        """The type of what is summed. Raises PlacedError for one that is no number."""
        type_name = str(function.child().dataType().catalogString())
        if type_name in INTEGERS + _FLOATS or type_name.startswith("decimal"):
            return type_name
        message = f"{function.prettyName()} over a changelog is of numbers, not of {type_name.upper()}"
        raise PlacedError(message, span_of(function))

    def _summed_type(self, function: Any, type_name: str) -> Any:
        """A type in which each value has its negative, and whose sum is of Spark's type."""
        types = self.jvm.org.apache.spark.sql.types.DataTypes
        if type_name in INTEGERS:
            return types.LongType
        return types.DoubleType if type_name in _FLOATS else function.child().dataType()

    def _total(self, function: Any, signed: Any, condition: Any) -> Any:
        of = function.withNewChildren(self.jvm.PythonUtils.toSeq([signed]))
        return of.toAggregateExpression(False, condition)

    def _present(self, value: Any, condition: Any) -> Any:
        return self._counted(self._weight_where([value]), condition)

    def _counted(self, weight: Any, condition: Any | None) -> Any:
        jvm = self.jvm
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        some = jvm.scala.Option.apply(None) if condition is None else condition
        total = expressions.aggregate.Sum(weight).toAggregateExpression(False, some)
        count = expressions.Coalesce(jvm.PythonUtils.toSeq([total, as_long(jvm, 0)]))
        return expressions.If(expressions.LessThan(count, as_long(jvm, 0)), self._error(_GAP, count), count)

    def _weight_where(self, values: list[Any]) -> Any:
        """The weight of a row in which none of these is NULL, 0 of another one."""
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        weight = self.weight
        for value in values:
            if value.nullable():
                weight = expressions.If(expressions.IsNotNull(value), weight, as_long(self.jvm, 0))
        return weight

    def _signed(self, value: Any) -> Any:
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        goes = expressions.LessThan(self.weight, as_long(self.jvm, 0))
        return expressions.If(goes, expressions.UnaryMinus(value, False), value)

    def _where_any(self, present: Any, result: Any) -> Any:
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        nothing = expressions.Literal.create(None, result.dataType())
        return expressions.If(expressions.EqualTo(present, as_long(self.jvm, 0)), nothing, result)

    def _checked(self, total: Any, type_name: str) -> Any:
        """A sum of which there are values."""
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        if type_name in _FLOATS:
            nothing = expressions.Literal.create(0.0, self.jvm.org.apache.spark.sql.types.DataTypes.DoubleType)
            is_finite = expressions.EqualTo(expressions.Subtract(total, total), nothing)  # NaN equals NaN only
            return expressions.If(is_finite, total, self._error(_NOT_FINITE, total))
        return expressions.If(expressions.IsNotNull(total), total, self._error(_TOO_LARGE, total))

    def _error(self, message: str, like: Any) -> Any:
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        literal = expressions.Literal.create(message, self.jvm.org.apache.spark.sql.types.DataTypes.StringType)
        return cast(self.jvm, expressions.RaiseError(literal), like.dataType())


def _tries(function: Any, kind: str) -> bool:
    """Whether a function is NULL where it is too large: a later change may make it small again."""
    match kind:
        case "Sum":
            return str(function.evalContext().evalMode().toString()) == "TRY"
        case "Average":
            return str(function.evalMode().toString()) == "TRY"
        case _:
            return False
