"""SESSION by Spark's own session_window: its aggregation merges sessions, in batches and in streams.

The function makes that column below the bounds, which are what a query is written with and sees. An aggregation by the bounds
becomes one by the column. Which session a row is in is not known before that is over, so nothing else can be done
with the bounds before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import nodes, span_of
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Jvm, JvmSession, LogicalPlan
from sparksql.gateway.windowing.assign import Timed
from sparksql.gateway.windowing.bounds import MICROS
from sparksql.gateway.windowing.calls import Function, WindowCall
from sparksql.gateway.windowing.distinct import DISTINCT_IN_SESSIONS
from sparksql.gateway.windowing.expressions import (
    aggregate,
    aggregations,
    as_long,
    column_id,
    project,
    replaced,
    transformed,
)
from sparksql.gateway.windowing.marks import EVENT_TIME, Role, Windows, alias, mark, metadata, windows_of
from sparksql.gateway.windowing.paths import Path, path_to_windows

SESSION = "__session_window"
KEY = "__session_key"  # the same for all rows, which no rule of the optimiser can tell
_FIELDS = {Role.START: 0, Role.END: 1, Role.TIME: 1}


def with_sessions(driver: SparkDriver, session: JvmSession, timed: Timed) -> Any:
    """Returns rows with the bounds, which stand for those of the session a row will be in, over rows with KEY and SESSION."""
    jvm, rows, windows = driver.jvm, timed.rows, timed.windows
    *columns, micros = elements(rows.output())
    expressions, to_seq = jvm.org.apache.spark.sql.catalyst.expressions, jvm.PythonUtils.toSeq
    long_type = jvm.org.apache.spark.sql.types.DataTypes.LongType
    time = alias(
        jvm,
        expressions.PreciseTimestampConversion(micros, long_type, timed.type),
        "__session_time",
        told=metadata(jvm, {} if windows.delay is None else {EVENT_TIME: windows.delay}),
    )
    key = f"pmod({MICROS}, 1L) AS {KEY}"
    frame = driver.of_rows(session, project(jvm, [*columns, micros, time], rows)).selectExpr(to_seq(["*", key]))
    gap = f"session_window(__session_time, '{windows.call.size} microseconds') AS {SESSION}"
    plan = frame.selectExpr(to_seq(["*", gap])).queryExecution().analyzed()
    *_, window = elements(plan.output())
    bounds = [
        alias(jvm, _bound(jvm, window, role), role.value, told=mark(jvm, role, windows, closes=False))
        for role in (Role.START, Role.END, Role.TIME)
    ]
    return project(jvm, [*columns, *bounds], plan)


def with_session_aggregations(jvm: Jvm, plan: LogicalPlan) -> Any:
    """Returns an analysed plan whose aggregations by bounds of sessions are by the sessions.

    Raises PlacedError for a session that is used in any other way.
    """
    plan = transformed(jvm, plan, lambda node: _aggregation(jvm, node))
    for node in nodes(plan):
        if (call := _left(node)) is not None:
            raise call.refusal(
                "which session a row is in is known when that is over: its rows are aggregated, "
                "GROUP BY window_start, window_end and further columns"
            )
    return plan


def _is_session(windows: Windows) -> bool:
    return windows.call.function is Function.SESSION


def _aggregation(jvm: Jvm, node: LogicalPlan) -> Any | None:
    if simple_name(node) != "Aggregate":
        return None
    if (
        simple_name(node.child()) == "Expand"
        and (sets := path_to_windows(node.child().child(), _is_session)) is not None
    ):
        raise replace(sets.of.call, span=span_of(node)).refusal(
            "SESSION does not support GROUPING SETS, ROLLUP and CUBE: each set of keys would have its own sessions"
        )
    path = path_to_windows(node.child(), _is_session)
    if path is None:
        return None
    call = replace(path.of.call, span=span_of(node))
    keys = elements(node.groupingExpressions())
    if not {Role.START, Role.END} <= {path.role(key) for key in keys}:
        raise call.refusal("GROUP BY takes both window_start and window_end")
    others = [key for key in keys if path.role(key) is None]
    check_partition(call, others, path)
    _check_distinct(call, node)
    *_, key_column, window = elements(path.assigning.child().output())
    child = path.rebuilt(jvm, _with_session(jvm, path, key_column, window), [key_column, window])
    streams = bool(node.isStreaming())

    def in_session(expression: Any) -> Any | None:
        role = path.role(expression)
        return None if role is None else _bound(jvm, window, role)

    results = []
    for result in elements(node.aggregateExpressions()):
        role = path.role(result.child() if simple_name(result) == "Alias" else result)
        if role is None:
            results.append(replaced(jvm, result, in_session))
        else:
            told = mark(jvm, role, path.of)
            results.append(alias(jvm, _bound(jvm, window, role), str(result.name()), like=result, told=told))
    constant = [key_column] if streams and not others else []
    return aggregate(jvm, node, [*others, *constant, window], results, child)


def _check_distinct(call: WindowCall, node: LogicalPlan) -> None:
    """Raises PlacedError for distinct aggregates that Spark makes of sessions of each value: several of them, or with FILTER."""
    calls = [
        each for result in elements(node.aggregateExpressions()) for each in aggregations(result) if each.isDistinct()
    ]
    filtered = any(each.filter().isDefined() for each in calls)
    values = {tuple(sorted(str(each) for each in elements(one.aggregateFunction().children()))) for one in calls}
    if filtered or len(values) > 1:
        raise call.refusal(f"several DISTINCTs, or one with FILTER: {DISTINCT_IN_SESSIONS}")


def check_partition(call: WindowCall, others: list[Any], path: Path) -> None:
    """Raises PlacedError unless GROUP BY and PARTITION BY say the same: rows of one session are not counted apart."""
    if not call.partition:
        return
    names = {str(column.name()).lower(): column_id(column) for column in elements(path.assigning.output())}
    wanted = {names.get(name.lower()) for name in call.partition}
    given = {origin for key in others for origin in path.origins(key)}
    if None in wanted:
        missing = next(name for name in call.partition if names.get(name.lower()) is None)
        raise call.refusal(f"its table has no column {missing}, which PARTITION BY names")
    if given != wanted or len(others) != len(wanted):
        columns = ", ".join(call.partition)
        raise call.refusal(
            f"GROUP BY takes window_start, window_end and the columns of PARTITION BY, {columns}, and no others"
        )


def _with_session(jvm: Jvm, path: Path, key_column: Any, window: Any) -> Any:
    """The rows with the session in place of its bounds."""
    columns = elements(path.assigning.projectList())[:-3]
    return project(jvm, [*columns, key_column, window], path.assigning.child())


def _bound(jvm: Jvm, window: Any, role: Role) -> Any:
    """A bound of a session, or the last instant in it."""
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    bound = expressions.GetStructField(window, _FIELDS[role], jvm.scala.Option.apply(None))
    if role is not Role.TIME:
        return bound
    types = jvm.org.apache.spark.sql.types.DataTypes
    micros = expressions.PreciseTimestampConversion(bound, bound.dataType(), types.LongType)
    before = expressions.Subtract(micros, as_long(jvm, 1))
    return expressions.PreciseTimestampConversion(before, types.LongType, bound.dataType())


def _left(node: LogicalPlan) -> WindowCall | None:
    """The call whose bounds a node stands for, but for an aggregation."""
    if simple_name(node) != "Project":
        return None
    for named in elements(node.projectList()):
        if simple_name(named) == "Alias" and simple_name(named.child()) == "GetStructField":
            windows = windows_of(named)
            if windows is not None and windows.call.function is Function.SESSION:
                return windows.call
    return None
