"""What columns of windows are marked with: Spark's mark of event time, and ours.

An aggregation or a join of a stream lets go of its state by a column that has Spark's mark of event time, and takes one such
column at most. So the mark moves from the time column to `window_end`, which is what the watermark closes; `window_time` has the
delay under a key of ours, which a further window over it reads. Metadata of a column stays with it through projections, joins
and aggregations (Spark 4.1, statefulOperators.scala, WatermarkSupport).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sparksql.gateway.spark.scala import elements, scala_object, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, LogicalPlan
from sparksql.gateway.windowing.calls import Function, WindowCall

EVENT_TIME = "spark.watermarkDelayMs"  # Spark's: the watermark's delay in milliseconds
_SESSION = "spark.sessionWindow"  # Spark's: the column is a key by which an aggregation merges sessions
_DELAY = "sparksql.watermarkDelayMs"  # of a column that a further window may take the mark from
_WINDOW = "sparksql.window"  # what the windows are that the column tells of, as JSON
_ROLE = "sparksql.windowColumn"
_PART = "sparksql.partOfAverage"  # of the sum and of the count of an average, as JSON


class Role(StrEnum):
    """Names the columns that a window function adds."""

    START = "window_start"
    END = "window_end"
    TIME = "window_time"


ROLES = frozenset(role.value for role in Role)


@dataclass(frozen=True)
class Windows:
    """The windows of a call.

    `zone` is None where days are those of UTC, `delay` that of the watermark in milliseconds; `of_panes` tells that what is in
    them has been aggregated by panes, `pane_of` that they are the panes themselves, of windows of that function.
    """

    call: WindowCall
    zone: str | None
    delay: int | None
    of_panes: bool = False
    pane_of: Function | None = None


@dataclass(frozen=True)
class PartOfAverage:
    """Describes the sum or the count of an average: `number` is the average's own in its plan, `name` its result's."""

    number: int
    name: str
    is_count: bool


def mark_of_part(jvm: Jvm, part: PartOfAverage) -> Any:
    """Returns the Metadata of a column that is part of an average."""
    return metadata(jvm, {_PART: json.dumps(asdict(part))})


def part_of_average(column: Expression) -> PartOfAverage | None:
    """Returns what part of an average a column is, None for any other."""
    found = column.metadata()
    return PartOfAverage(**json.loads(str(found.getString(_PART)))) if found.contains(_PART) else None


def delay_of(column: Expression) -> int | None:
    """Returns the delay in milliseconds of a column's watermark, None when it has none."""
    metadata = column.metadata()
    for key in (EVENT_TIME, _DELAY):
        if metadata.contains(key):
            return int(metadata.getLong(key))
    return None


def has_event_time(column: Expression) -> bool:
    """Returns whether a column has Spark's mark."""
    return bool(column.metadata().contains(EVENT_TIME))


def is_session(key: Expression) -> bool:
    """Returns whether an aggregation merges sessions by a key."""
    return bool(key.metadata().contains(_SESSION)) if simple_name(key) in ("AttributeReference", "Alias") else False


def role_of(column: Expression) -> Role | None:
    """Returns which column of windows a column is, None for any other."""
    found = column.metadata()
    return Role(str(found.getString(_ROLE))) if found.contains(_ROLE) else None


def windows_of(column: Expression) -> Windows | None:
    """Returns the windows that a column tells of, None for any other."""
    found = column.metadata()
    if not found.contains(_WINDOW):
        return None
    told = json.loads(str(found.getString(_WINDOW)))
    call = told["call"]
    call |= {
        "function": Function(call["function"]),
        "partition": tuple(call["partition"]),
        "span": call["span"] and tuple(call["span"]),
    }
    pane_of = told["pane_of"] and Function(told["pane_of"])
    return Windows(WindowCall(**call), told["zone"], told["delay"], told["of_panes"], pane_of)


def mark(jvm: Jvm, role: Role, windows: Windows, *, closes: bool = True) -> Any:
    """Returns the Metadata of a column that a window function adds. `closes` tells that the watermark closes it."""
    told: dict[str, int | str] = {_WINDOW: json.dumps(asdict(windows)), _ROLE: role.value}
    match role:
        case Role.END if windows.delay is not None and closes:
            told[EVENT_TIME] = windows.delay
        case Role.TIME if windows.delay is not None and closes:
            told[_DELAY] = windows.delay
    return metadata(jvm, told)


def metadata(jvm: Jvm, told: dict[str, int | str]) -> Any:
    """Returns a column's Metadata."""
    return scala_object(jvm.org.apache.spark.sql.types, "Metadata").fromJson(json.dumps(told))


def alias(jvm: Jvm, expression: Expression, name: str, *, like: Any | None = None, told: Any | None = None) -> Any:
    """Returns `expression AS name`: under the id of the column `like`, or a new one; with the Metadata `told`, or its own."""
    expressions, option = jvm.org.apache.spark.sql.catalyst.expressions, jvm.scala.Option
    number = like.exprId() if like is not None else scala_object(expressions, "NamedExpression").newExprId()
    nothing = jvm.PythonUtils.toSeq([])
    return expressions.Alias(expression, name, number, nothing, option.apply(told), nothing)


def without_marks(jvm: Jvm, plan: LogicalPlan) -> Any:
    """Returns a query whose columns have no marks of ours: the catalog keeps the metadata of a table's columns."""
    columns = elements(plan.output())
    if not any(_is_ours(column) for column in columns):
        return plan
    none = metadata(jvm, {})
    named = [
        alias(jvm, column, str(column.name()), like=column, told=none) if _is_ours(column) else column
        for column in columns
    ]
    return jvm.org.apache.spark.sql.catalyst.plans.logical.Project(jvm.PythonUtils.toSeq(named), plan)


def _is_ours(column: Expression) -> bool:
    found = column.metadata()
    return bool(found.contains(_WINDOW) or found.contains(_DELAY))
