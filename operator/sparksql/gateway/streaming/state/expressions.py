"""Expressions of Spark's plans as text that says what they mean, over columns of the sources.

Told by class names and children, not by Spark's own SQL text, which carries generated names and changes more often between
versions. Names, qualifiers, casts that are none, and wrappers that only help the planner leave no trace; the operands of what
commutes are in one order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject

from sparksql.gateway.spark.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm
from sparksql.gateway.windowing.expressions import is_column
from sparksql.gateway.windowing.marks import role_of, windows_of
from sparksql.gateway.windowing.time_windows import time_window

_OPERATORS = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Remainder": "%",
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "And": "AND",
    "Or": "OR",
}
_COMMUTATIVE = frozenset({"Add", "Multiply", "EqualTo", "EqualNullSafe", "And", "Or"})
_TRANSPARENT = frozenset(
    {
        "Alias",
        "CheckOverflow",
        "KnownFloatingPointNormalized",
        "KnownNotNull",
        "KnownNullable",
        "NormalizeNaNAndZero",
        "PreciseTimestampConversion",
        "PromotePrecision",
    }
)
# Their seed is drawn anew with each analysis.
_RANDOM = frozenset({"Rand", "Randn", "RandStr", "Shuffle", "Uniform", "Uuid"})
_SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"})
# Fields that say how, not what; or that the children tell already.
_UNTOLD_FIELDS = frozenset(
    {
        "ansiEnabled",
        "evalContext",
        "evalMode",
        "failOnError",
        "failOnErrorOverride",
        "inputAggBufferOffset",
        "mutableAggBufferOffset",
        "nullOnOverflow",
        "propagateNull",
        "returnNullable",
        "isDeterministic",
        "udfDeterministic",
        "udfNullable",
    }
)
_TYPE_FIELDS = frozenset({"dataType", "targetType", "toType"})
_MAX_CHARS = 4000


class Expressions:
    """Texts of expressions. `meanings` are those of the columns so far, by the id that Spark gave them.

    `mask` hides secret values in literals and names. `subquery` tells a subquery's plan.
    """

    def __init__(self, jvm: Jvm, mask: Callable[[str], str], subquery: Callable[[Any], str]) -> None:
        self._jvm = jvm
        self._mask = mask
        self._subquery = subquery
        self.meanings: dict[int, str] = {}

    def define(self, attribute: Any, meaning: str) -> None:
        """Gives a column its meaning. A very long one is kept as a digest: nested expressions grow without a bound."""
        if len(meaning) > _MAX_CHARS:
            meaning = f"{meaning[:100]}...{hashlib.sha256(meaning.encode()).hexdigest()}"
        self.meanings[int(attribute.exprId().id())] = meaning

    def define_named(self, named: Any) -> None:
        """Defines a column of a projection."""
        if simple_name(named) == "Alias":
            self.define(named, self.window(named, [named.child()]) or self._called(named) or self.text(named.child()))

    def _called(self, named: Any) -> str | None:
        """Returns the meaning of a column of a window table function, None for any other."""
        windows = windows_of(named)
        if windows is None or is_column(named.child()):
            return None
        call, arithmetic = windows.call, hashlib.sha256(self.text(named.child()).encode()).hexdigest()[:8]
        spans = [call.size] if call.step == call.size else [call.step, call.size]
        told = ", ".join([call.time, *map(_interval, (*spans, call.offset)), *([windows.zone] if windows.zone else [])])
        return f"{role_of(named)} of {call.function}({self._mask(told)}) #{arithmetic}"

    def window(self, column: Any, structs: list[Any]) -> str | None:
        """Returns the meaning of a column that holds time windows: `structs` are the windows that one time is in."""
        found = time_window(self._jvm, column, structs)
        if found is None:
            return None
        time, spans = self.text(found.time), (found.size, found.slide, found.offset)
        return f"window({time}, {', '.join(map(_interval, spans))})"

    def text(self, expression: Expression) -> str:
        """Returns what an expression means, as text."""
        name = simple_name(expression)
        match name:
            case "AttributeReference":
                known = self.meanings.get(int(expression.exprId().id()))
                return self._mask(str(expression.name())) if known is None else known
            case "Literal":
                return self._mask(str(expression.sql()))
            case "CurrentBatchTimestamp":
                kind = str(expression.dataType().catalogString())
                return {"date": "current_date()"}.get(kind, "current_timestamp()")
            case "VariableReference":
                return self.text(expression.varDef().currentValue())
            case "GetArrayStructFields":
                return f"{self.text(expression.child())}.{self._mask(str(expression.field().name()))}"
            case "GetStructField":
                return f"{self.text(expression.child())}.{self._mask(str(expression.extractFieldName()))}"
            case "Cast":
                return self._cast(expression)
            case "AggregateExpression":
                return self._aggregate(expression)
            case "OuterReference":
                return self.text(expression.e())
            case "SortOrder":
                return (
                    f"{self.text(expression.child())} {expression.direction().sql()} {expression.nullOrdering().sql()}"
                )
        children = [self.text(child) for child in elements(expression.children())]
        if name in _TRANSPARENT:
            return children[0]
        if name in _COMMUTATIVE:
            children.sort()
        if name in _OPERATORS and len(children) == 2:
            return f"({children[0]} {_OPERATORS[name]} {children[1]})"
        if name in _SUBQUERIES:
            children.append(self._subquery(expression.plan()))
        function = str(expression.prettyName())
        if name in _RANDOM:
            return f"{function}()"
        return f"{function}({', '.join([*children, *self._settings(expression, len(children))])})"

    def _cast(self, cast: Any) -> str:
        source, target = cast.child().dataType(), cast.dataType()
        child = self.text(cast.child())
        if source.sameType(target):
            return child
        needs_zone = scala_object(self._jvm.org.apache.spark.sql.catalyst.expressions, "Cast").needsTimeZone(
            source, target
        )
        zone = option(cast.timeZoneId()) if needs_zone else None
        return f"cast({child} AS {target.catalogString()}{f' @{zone}' if zone else ''})"

    def _aggregate(self, expression: Expression) -> str:
        text = self.text(expression.aggregateFunction())
        if expression.isDistinct():
            text = text.replace("(", "(DISTINCT ", 1)
        condition = option(expression.filter())
        return text if condition is None else f"{text} FILTER (WHERE {self.text(condition)})"

    def _settings(self, expression: Expression, children: int) -> list[str]:
        """Returns the fields besides the children, such as `ignoreNulls` of first().

        Those that only newer versions have would be told, too, and be a difference.
        """
        told: list[str] = []
        arity = int(expression.productArity())
        for index in range(arity) if arity > children else ():
            value, field = expression.productElement(index), str(expression.productElementName(index))
            if field in _UNTOLD_FIELDS:
                continue
            if field in _TYPE_FIELDS:
                told.append(str(value.catalogString()))
                continue
            if isinstance(value, JavaObject) and simple_name(value) == "Some":
                value = value.get()
            if isinstance(value, (bool, int, float, str)):
                told.append(f"@{value}" if field == "timeZoneId" else f"{field}={self._mask(str(value))}")
        return told


def _interval(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    return f"{micros}us" if rest else f"{seconds}s"
