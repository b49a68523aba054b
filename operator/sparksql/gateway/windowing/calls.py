"""Calls of window table functions in parsed plans: found, checked, and told as data.

Spark has no such functions. Its parser keeps the table of a call in an expression, where nothing that is done to the tables of
a plan (bindings of Kafka tables, options of a STREAM, watermarks) would reach it. So a call is opened first: the table becomes
the child of a hint that carries the other arguments, until it is replaced by windows.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sparksql.gateway.spark.plans import rewritten, span_of
from sparksql.gateway.spark.scala import elements, scala_object, simple_name, type_class
from sparksql.gateway.spark.shapes import Expression, Jvm, LogicalPlan
from sparksql.gateway.sql.errors import PlacedError
from sparksql.gateway.sql.window_calls import called, window_calls
from sparksql.gateway.windowing.statements import with_queries

DAY = 86_400_000_000  # microseconds
_CARRIER = f"sparksql.window.{uuid.uuid4().hex}."  # of a hint's name that no text can have; behind it the function's
_MOST_WINDOWS = 1_000_000  # that a row may be in: a year by minutes is half of it
_ALIASED = "UnresolvedTVFAliases"
_TABLE = "FunctionTableSubqueryArgumentExpression"
KEPT_AS_TEXT = {
    "CreateView": "view of the catalog",
    "CreateIcebergView": "view of the catalog",
    "AlterViewAs": "view of the catalog",
    "CacheTableAsSelect": "CACHE TABLE",
}
Span = tuple[int, int]


class Function(StrEnum):
    """Names the window table functions."""

    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    SESSION = "SESSION"


# Parameters behind DATA and TIMECOL, in the order of positional arguments; Flink's names.
_PARAMETERS: dict[Function, tuple[str, ...]] = {
    Function.TUMBLE: ("SIZE", "OFFSET"),
    Function.HOP: ("SLIDE", "SIZE", "OFFSET"),
    Function.CUMULATE: ("STEP", "SIZE", "OFFSET", "GAP"),
    Function.SESSION: ("GAP",),
}
_OPTIONAL = frozenset({"OFFSET"})
_EXAMPLES: dict[Function, str] = {
    Function.TUMBLE: "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)",
    Function.HOP: "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '1' HOUR)",
    Function.CUMULATE: "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' DAY)",
    Function.SESSION: "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTE)",
}
_UNTIL_SILENT = (
    "CUMULATE(DATA => TABLE t PARTITION BY k, TIMECOL => DESCRIPTOR(ts), STEP => INTERVAL '1' MINUTE, "
    "GAP => INTERVAL '5' MINUTE)"
)


@dataclass(frozen=True)
class WindowCall:
    """A call with its arguments, in microseconds.

    `step` is the distance of two windows' ends: CUMULATE's STEP, HOP's SLIDE, TUMBLE's SIZE; a SESSION's `size` is its gap.
    `gap` is that of a CUMULATE whose windows last until their key is silent, and whose `size` is then the step.
    `partition` are the columns of PARTITION BY; `span` is the call's range of the text that Spark has read.
    """

    function: Function
    time: str
    size: int
    step: int
    offset: int = 0
    partition: tuple[str, ...] = ()
    span: Span | None = None
    gap: int | None = None

    def refusal(self, message: str) -> PlacedError:
        """Returns the error that this call cannot be done."""
        return PlacedError(f"{self.function}: {message}", self.span)


def opened(jvm: Jvm, plan: LogicalPlan) -> Any:
    """Returns a parsed statement with the calls in its queries opened. Raises PlacedError for one that cannot be reached."""
    kind = simple_name(plan)
    if kind in KEPT_AS_TEXT and any(window_calls(plan)):
        raise PlacedError(
            f"a {KEPT_AS_TEXT[kind]} cannot call window table functions, as it stores the query's "
            "text only: use CREATE TEMPORARY VIEW or a WITH"
        )
    plan = with_queries(jvm, plan, lambda query: rewritten(jvm, query, lambda node: _opened(jvm, node)))
    for node, function in window_calls(plan):
        raise PlacedError(
            f"{function} cannot stand in a subquery of an expression or behind LATERAL: put {_EXAMPLES[Function(function)]} "
            "into a WITH, WITH w AS (...), and read w there",
            span_of(node),
        )
    return plan


def carried(node: LogicalPlan) -> bool:
    """Returns whether a node of a parsed plan is an opened call; its child is the call's table."""
    return simple_name(node) == "UnresolvedHint" and str(node.name()).startswith(_CARRIER)


def read_call(jvm: Jvm, carrier: LogicalPlan) -> WindowCall:
    """Returns what an opened call says. Raises PlacedError for arguments that it cannot have."""
    function = Function(str(carrier.name()).removeprefix(_CARRIER))
    begin, end, partition, *arguments = elements(carrier.parameters())
    span = (int(begin.value()), int(end.value()))
    given = _by_name(function, arguments, span)
    time = _time_column(function, given.pop("TIMECOL"), span)
    micros = {name: _micros(jvm, function, name, value, span) for name, value in given.items()}
    columns = tuple(_column_name(function, column, span) for column in elements(partition.children()))
    return _checked(function, time, micros, columns, span)


def _opened(jvm: Jvm, node: LogicalPlan) -> Any | None:
    if simple_name(node) == _ALIASED:
        inner = _opened(jvm, node.child())
        if inner is None:
            return None
        names = jvm.org.apache.spark.sql.catalyst.analysis.UnresolvedSubqueryColumnAliases
        return names(node.outputNames(), inner)
    name = called(node)
    if name is None:
        return None
    function = Function(name)
    span = span_of(node) or (0, 0)
    table, rest = _data(function, elements(node.functionArgs()), span)
    if not table.orderByExpressions().isEmpty() or table.withSinglePartition():
        raise PlacedError(f"{function}: its table allows neither ORDER BY nor WITH SINGLE PARTITION", span)
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    literal = scala_object(expressions, "Literal")
    to_seq = jvm.PythonUtils.toSeq
    partition = expressions.CreateArray(table.partitionByExpressions(), False)
    parameters = to_seq([literal.apply(span[0]), literal.apply(span[1]), partition, *rest])
    child = rewritten(jvm, table.plan(), lambda inner: _opened(jvm, inner))
    return jvm.org.apache.spark.sql.catalyst.plans.logical.UnresolvedHint(_CARRIER + function, parameters, child)


def _data(function: Function, arguments: list[Any], span: Span) -> tuple[Any, list[Any]]:
    """The argument that is the table, and the others."""
    for index, argument in enumerate(arguments):
        is_named = simple_name(argument) == "NamedArgumentExpression"
        if (str(argument.key()).upper() == "DATA") if is_named else index == 0:
            value = argument.value() if is_named else argument
            if simple_name(value) == _TABLE:
                return value, [*arguments[:index], *arguments[index + 1 :]]
    raise PlacedError(
        f"{function}: its first argument, DATA, is TABLE t or TABLE(SELECT ...): {_EXAMPLES[function]}", span
    )


def _by_name(function: Function, arguments: list[Any], span: Span) -> dict[str, Any]:
    """The arguments but DATA, by the names of their parameters."""
    names = ("TIMECOL", *_PARAMETERS[function])
    given: dict[str, Any] = {}
    for index, argument in enumerate(arguments):
        if simple_name(argument) == "NamedArgumentExpression":
            name, value = str(argument.key()).upper(), argument.value()
        elif len(given) < index or index >= len(names):
            raise PlacedError(f"{function} has too many arguments: {_EXAMPLES[function]}", span)
        else:
            name, value = names[index], argument
        if name not in names:
            raise PlacedError(f"{function} has no argument {name}; it takes DATA, {', '.join(names)}", span)
        if name in given:
            raise PlacedError(f"{function} has the argument {name} twice", span)
        given[name] = value
    optional = _OPTIONAL | ({"SIZE"} if "GAP" in given else {"GAP"} if function is Function.CUMULATE else set())
    missing = [name for name in names if name not in given and name not in optional]
    if missing:
        raise PlacedError(f"{function} lacks {', '.join(missing)}: {_EXAMPLES[function]}", span)
    return given


def _time_column(function: Function, value: Expression, span: Span) -> str:
    if simple_name(value) == "UnresolvedFunction" and _joined(value.nameParts()).upper() == "DESCRIPTOR":
        columns = elements(value.arguments())
        if len(columns) == 1 and simple_name(columns[0]) == "UnresolvedAttribute":
            return _column_name(function, columns[0], span)
    raise PlacedError(f"{function}: TIMECOL is the column of the times, DESCRIPTOR(ts)", span_of(value) or span)


def _column_name(function: Function, column: Expression, span: Span) -> str:
    if simple_name(column) != "UnresolvedAttribute":
        raise PlacedError(f"{function}: PARTITION BY allows columns, not expressions", span_of(column) or span)
    return str(elements(column.nameParts())[-1])


def _joined(parts: Any) -> str:
    return ".".join(str(part) for part in elements(parts))


def _micros(jvm: Jvm, function: Function, name: str, value: Expression, span: Span) -> int:
    """The microseconds of an INTERVAL, or of its text."""
    negated = simple_name(value) == "UnaryMinus"
    literal = value.child() if negated else value
    found = None
    if simple_name(literal) == "Literal" and literal.value() is not None:
        found = _of_literal(jvm, literal)
    if found is None:
        raise PlacedError(
            f"{function}: {name} is an interval of days or less, INTERVAL '10' MINUTE; months and years differ in length",
            span_of(value) or span,
        )
    return -found if negated else found


def _of_literal(jvm: Jvm, literal: Expression) -> int | None:
    value = literal.value()
    match type_class(literal.dataType()):
        case "DayTimeIntervalType":
            return int(value)
        case "CalendarIntervalType":
            pass
        case "StringType":
            text = jvm.org.apache.spark.unsafe.types.UTF8String.fromString(str(value.toString()))
            try:
                value = scala_object(jvm.org.apache.spark.sql.catalyst.util, "IntervalUtils").stringToInterval(text)
            except Exception:
                return None
        case _:
            return None
    if value.extractAsPeriod().toTotalMonths():
        return None
    duration = value.extractAsDuration()
    micros = int(duration.getSeconds()) * 1_000_000 + int(duration.getNano()) // 1000
    return int(value.extractAsPeriod().getDays()) * DAY + micros


def _checked(
    function: Function, time: str, micros: dict[str, int], partition: tuple[str, ...], span: Span
) -> WindowCall:
    """Raises PlacedError for lengths that do not go with each other."""
    for name, value in micros.items():
        if name != "OFFSET" and value <= 0:
            raise PlacedError(f"{function}: {name} must be longer than nothing", span)
    if partition and function is not Function.SESSION and "GAP" not in micros:
        raise PlacedError(
            f"{function}: its table allows no PARTITION BY, as its windows are the same for all rows: leave it out",
            span,
        )
    step = micros.get("STEP", micros.get("SLIDE"))
    if step is not None and micros.get("SIZE", 0) // step > _MOST_WINDOWS:
        raise PlacedError(f"{function}: a row would be in more than {_MOST_WINDOWS:,} windows", span)
    offset = micros.get("OFFSET", 0)
    match function:
        case Function.SESSION:
            gap = micros["GAP"]
            return WindowCall(function, time, gap, gap, 0, partition, span)
        case Function.TUMBLE:
            return WindowCall(function, time, micros["SIZE"], micros["SIZE"], offset, span=span)
        case Function.HOP:
            if micros["SIZE"] < micros["SLIDE"]:
                raise PlacedError(
                    f"{function}: SLIDE is longer than SIZE, rows between two windows would be in none; SLIDE is the first argument",
                    span,
                )
            return WindowCall(function, time, micros["SIZE"], micros["SLIDE"], offset, span=span)
        case Function.CUMULATE if "GAP" in micros:
            _check_until_silent(micros, partition, span)
            return WindowCall(function, time, micros["STEP"], micros["STEP"], 0, partition, span, micros["GAP"])
        case Function.CUMULATE:
            if micros["SIZE"] % micros["STEP"]:
                raise PlacedError(f"{function}: SIZE must be a multiple of STEP; STEP is the first argument", span)
            return WindowCall(function, time, micros["SIZE"], micros["STEP"], offset, span=span)


def _check_until_silent(micros: dict[str, int], partition: tuple[str, ...], span: Span) -> None:
    """Raises PlacedError for what a CUMULATE with GAP cannot have."""
    if "SIZE" in micros:
        message = (
            "SIZE and GAP exclude each other: a window is over after SIZE, or when its key has been silent for GAP"
        )
    elif "OFFSET" in micros:
        message = "OFFSET goes with SIZE: with GAP a window begins with the step of its key's first event"
    elif micros["GAP"] < micros["STEP"]:
        message = "GAP must be at least STEP: that a key is silent is seen at a step"
    elif micros["STEP"] % DAY == 0:
        message = (
            "with GAP, STEP must be no whole days: steps are cut in UTC, where days are not those of the time zone"
        )
    elif not partition:
        message = f"GAP needs the keys that may be silent, PARTITION BY behind the table: {_UNTIL_SILENT}"
    else:
        return
    raise PlacedError(f"{Function.CUMULATE}: {message}", span)
