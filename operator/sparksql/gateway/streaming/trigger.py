"""When a streaming query begins its batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from sparksql.api.execution import TriggerMode
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, scala_object, simple_name, type_class
from sparksql.gateway.spark.shapes import Expression, Jvm, LogicalPlan
from sparksql.gateway.windowing.time_windows import lengths
from sparksql.wire.control import StreamOptions

# Bounds of an inferred interval. A batch costs some ten small files in the checkpoint, so less than a second gains little
# and more than a minute keeps readers waiting for windows that are long over.
MIN_INTERVAL_MILLIS = 1_000
MAX_INTERVAL_MILLIS = 60_000
# Of a real-time query this is how long it runs between two commits. Spark's own default of five minutes is what a stop would
# repeat, and for so long the query would report nothing.
REAL_TIME_MILLIS = 60_000
_DAY_MILLIS = 86_400_000
_WINDOW_FUNCTIONS = frozenset({"window", "session_window"})


def inferred_interval(window_millis: Iterable[int]) -> int:
    """Returns the milliseconds between batches for windows of these sizes and slides.

    They are the greatest common divisor of those, bounded.
    """
    divisor = math.gcd(*window_millis)
    return min(max(divisor, MIN_INTERVAL_MILLIS), MAX_INTERVAL_MILLIS)


def trigger(jvm: Jvm, options: StreamOptions, parsed: Any, analysed: LogicalPlan) -> Any:
    """Returns Spark's Trigger for these options and this query, parsed and analysed: its windows may be in a view."""
    triggers = jvm.org.apache.spark.sql.streaming.Trigger
    match options.trigger:
        case TriggerMode.AVAILABLE_NOW:
            return triggers.AvailableNow()
        case TriggerMode.INTERVAL:
            return triggers.ProcessingTime(int(options.interval_millis or 0))
        case TriggerMode.AUTO:
            given = options.interval_millis
            return triggers.ProcessingTime(
                inferred_interval([*window_millis(jvm, parsed), *lengths(jvm, analysed)])
                if given is None
                else int(given)
            )
        case TriggerMode.REAL_TIME:
            return triggers.RealTime(int(options.interval_millis or REAL_TIME_MILLIS))


def window_millis(jvm: Jvm, parsed: Any) -> Iterator[int]:
    """Yields the sizes and slides of the time windows in a parsed query, as far as they are literals."""
    for node in nodes(parsed):
        pending = elements(node.expressions())
        while pending:
            expression = pending.pop()
            children = elements(expression.children())
            pending.extend(children)
            if simple_name(expression) == "UnresolvedFunction" and _function(expression) in _WINDOW_FUNCTIONS:
                yield from (found for found in (millis(jvm, argument) for argument in children[1:3]) if found)


def _function(expression: Expression) -> str:
    return str(elements(expression.nameParts())[-1]).lower()


def millis(jvm: Jvm, argument: Any) -> int | None:
    """Returns the milliseconds of `'10 minutes'` or `INTERVAL 10 MINUTES`.

    Returns None for anything else, and for months and years.
    """
    if simple_name(argument) != "Literal" or argument.value() is None:
        return None
    value = argument.value()
    match type_class(argument.dataType()):
        case "DayTimeIntervalType":
            return int(value) // 1000
        case "CalendarIntervalType":
            parsed = value
        case "StringType":
            intervals = scala_object(jvm.org.apache.spark.sql.catalyst.util, "IntervalUtils")
            text = jvm.org.apache.spark.unsafe.types.UTF8String.fromString(str(value.toString()))
            try:
                parsed = intervals.stringToInterval(text)
            except Exception:
                return None  # no interval: analysis has told, or will tell, why
        case _:
            return None
    period, duration = parsed.extractAsPeriod(), parsed.extractAsDuration()
    return None if period.toTotalMonths() else int(period.getDays()) * _DAY_MILLIS + int(duration.toMillis())
