"""Gives each row its windows: the columns window_start, window_end and window_time, once for each window that it is in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan
from sparksql.gateway.windowing.bounds import END, MICROS, START, Stages, is_uneven_in_days, layers
from sparksql.gateway.windowing.calls import DAY, WindowCall
from sparksql.gateway.windowing.expressions import project
from sparksql.gateway.windowing.marks import ROLES, Role, Windows, alias, delay_of, has_event_time, mark, metadata

_INSTANT = "__window_instant"  # the last one in a window
_TIMES = frozenset({"timestamp", "timestamp_ntz"})
_UTC = frozenset({"UTC", "Z", "GMT", "ETC/UTC", "+00:00", "+0:00", "UTC+0", "UTC+00:00"})


@dataclass(frozen=True)
class Timed:
    """The rows of a call's table, with MICROS as their last column, and the type of their times."""

    rows: LogicalPlan
    type: Any
    windows: Windows


def timed(driver: SparkDriver, session: JvmSession, call: WindowCall, table: LogicalPlan) -> Timed:
    """Returns what the windows of a call over its analysed table are made of.

    Raises PlacedError for a time column that it cannot have.
    """
    columns = elements(table.output())
    time = _time_column(session, call, columns)
    windows = Windows(call, _zone(session, call, time), delay_of(time))
    return Timed(_with_micros(driver, table, columns, time), time.dataType(), windows)


def with_windows(driver: SparkDriver, session: JvmSession, timed: Timed, stages: Stages) -> Any:
    """Returns rows with windows in place of MICROS: by `stages` that lead to START and END."""
    jvm = driver.jvm
    expressions, to_seq = jvm.org.apache.spark.sql.catalyst.expressions, jvm.PythonUtils.toSeq
    *columns, _ = elements(timed.rows.output())
    frame = driver.of_rows(session, timed.rows)
    for layer in layers((*stages, (_INSTANT, f"{END} - 1L")), (START, END, _INSTANT)):
        frame = frame.selectExpr(to_seq(["*", *(f"{sql} AS {name}" for name, sql in layer)]))
    plan = frame.queryExecution().analyzed()
    made = {str(column.name()): column for column in elements(plan.output())[len(columns) :]}
    named = [
        alias(
            jvm,
            expressions.PreciseTimestampConversion(made[name], made[name].dataType(), timed.type),
            role.value,
            told=mark(jvm, role, timed.windows),
        )
        for role, name in ((Role.START, START), (Role.END, END), (Role.TIME, _INSTANT))
    ]
    return project(jvm, [*columns, *named], plan)


def _time_column(session: JvmSession, call: WindowCall, columns: list[Any]) -> Any:
    is_equal = session.sessionState().conf().resolver()
    found = [column for column in columns if is_equal.apply(str(column.name()), call.time)]
    if len(found) != 1:
        known = ", ".join(str(column.name()) for column in columns)
        has = "no column" if not found else "more than one column"
        raise call.refusal(f"its table has {has} {call.time}, which DESCRIPTOR names; it has {known[:500]}")
    type_name = str(found[0].dataType().catalogString())
    if type_name not in _TIMES:
        raise call.refusal(
            f"column {call.time}, which DESCRIPTOR names, must be TIMESTAMP or TIMESTAMP_NTZ and is {type_name.upper()}: "
            f"give CAST({call.time} AS TIMESTAMP) a name in the table, TABLE(SELECT ...)"
        )
    return found[0]


def _zone(session: JvmSession, call: WindowCall, time: Any) -> str | None:
    """The time zone whose days matter. Raises PlacedError for windows that are not defined in it."""
    zone = str(session.sessionState().conf().sessionLocalTimeZone())
    is_zoned = str(time.dataType().catalogString()) == "timestamp" and call.size % DAY == 0
    if not is_zoned or zone.upper() in _UTC:
        return None
    if is_uneven_in_days(call):
        raise call.refusal(
            f"SLIDE, {timedelta(microseconds=call.step)}, does not divide SIZE, {timedelta(microseconds=call.size)}, whose days are "
            f"those of the time zone {zone}: give a SLIDE that divides SIZE or is of whole days, set spark.sql.session.timeZone to "
            f"UTC, or give CAST({call.time} AS TIMESTAMP_NTZ) a name in the table, TABLE(SELECT ...)"
        )
    return zone


def _with_micros(driver: SparkDriver, table: LogicalPlan, columns: list[Any], time: Any) -> Any:
    """The rows that have a time, with it as MICROS. Marks of event time go: `window_end` will have the only one."""
    jvm, none = driver.jvm, metadata(driver.jvm, {})
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    moves = delay_of(time) is not None
    kept = [
        alias(jvm, column, str(column.name()), told=none) if moves and has_event_time(column) else column
        for column in columns
        if str(column.name()).lower() not in ROLES
    ]
    long_type = jvm.org.apache.spark.sql.types.DataTypes.LongType
    micros = alias(jvm, expressions.PreciseTimestampConversion(time, time.dataType(), long_type), MICROS)
    with_time = jvm.org.apache.spark.sql.catalyst.plans.logical.Filter(expressions.IsNotNull(time), table)
    return project(jvm, [*kept, micros], with_time)
