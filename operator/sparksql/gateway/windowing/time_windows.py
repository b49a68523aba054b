"""Time windows in analysed plans.

Spark's analyzer leaves nothing of window(ts, '1 minute') but its arithmetic, which differs between versions; what it
does is found by doing it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, scala_object, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, LogicalPlan
from sparksql.gateway.windowing.marks import Role, role_of, windows_of

_MARK = "spark.timeWindow"  # the analyzer's, in the metadata of a window's column


@dataclass(frozen=True)
class TimeWindow:
    """window(time, size, slide, offset), in microseconds; `time` is an expression."""

    time: Any
    size: int
    slide: int
    offset: int


def time_window(jvm: Jvm, column: Any, structs: list[Any]) -> TimeWindow | None:
    """Returns the windows that a column holds, None for any other.

    `structs` are expressions of start and end, one for each window that a time is in.
    """
    if not column.metadata().contains(_MARK):
        return None
    time = _time(structs[0])
    spans = [_span_of_zero(jvm, struct) for struct in structs[:2]]
    if time is None or spans[0] is None or spans[-1] is None:
        return None
    start, end = spans[0]
    slide = end - start if len(spans) == 1 else abs(start - spans[-1][0])
    return TimeWindow(time, end - start, slide, start % slide) if slide > 0 else None


def lengths(jvm: Jvm, plan: LogicalPlan) -> Iterator[int]:
    """Yields the sizes and slides, in milliseconds, of all windows in an analysed plan, wherever they were written."""
    for node in nodes(plan):
        match simple_name(node):
            case "Project":
                for named in elements(node.projectList()):
                    if simple_name(named) == "Alias":
                        yield from _of_column(jvm, named, [named.child()])
            case "Expand":
                rows = [elements(row) for row in elements(node.projections())]
                for column, *same_place in zip(elements(node.output()), *rows, strict=True):
                    yield from _of_column(jvm, column, same_place)
            case _:
                pass


def _of_column(jvm: Jvm, column: Any, made_of: list[Any]) -> Iterator[int]:
    if role_of(column) is Role.TIME and (windows := windows_of(column)) is not None:
        found = (windows.call.size, windows.call.step)
    elif (window := time_window(jvm, column, made_of)) is not None:
        found = (window.size, window.slide)
    else:
        return
    yield from (each // 1000 for each in found if each >= 1000)


def _span_of_zero(jvm: Jvm, struct: Any) -> tuple[int, int] | None:
    """Start and end, in microseconds since 1970, of the window that the time 0 is in."""
    if simple_name(struct) != "CreateNamedStruct":
        return None
    _, start, _, end = (_at_zero(jvm, child) for child in elements(struct.children()))
    if start is None or end is None:
        return None
    return int(start.eval(None)), int(end.eval(None))


def _at_zero(jvm: Jvm, expression: Expression) -> Any | None:
    """The expression with 0 as its time; None when it reads anything else."""
    if _is_time(expression):
        return scala_object(jvm.org.apache.spark.sql.catalyst.expressions, "Literal").default(expression.toType())
    children = elements(expression.children())
    if not children:
        return expression if expression.foldable() else None
    replaced = [_at_zero(jvm, child) for child in children]
    if any(child is None for child in replaced):
        return None
    if all(new is old for new, old in zip(replaced, children, strict=True)):
        return expression
    return expression.withNewChildren(jvm.PythonUtils.toSeq(replaced))


def _time(expression: Expression) -> Any | None:
    """The column that windows are made of."""
    if _is_time(expression):
        return expression.child()
    found = (_time(child) for child in elements(expression.children()))
    return next((time for time in found if time is not None), None)


def _is_time(expression: Expression) -> bool:
    """Whether this makes a number of the time column."""
    return simple_name(expression) == "PreciseTimestampConversion" and str(expression.toType().typeName()) == "long"
