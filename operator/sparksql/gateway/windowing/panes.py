"""CUMULATE and HOP by panes: rows are aggregated once, by the shortest span that all windows are made of, and windows from those.

A row of a day by minutes is else in up to 1,440 windows. What an aggregation by windows costs is then the same for a row as that
of TUMBLE, and windows cost what there are keys. An aggregation with an aggregate that has no two steps (`merging`) puts rows into
each window.

In a stream a row that comes when the watermark has passed the end of its pane is late: it is in none of the windows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Jvm, JvmSession, LogicalPlan
from sparksql.gateway.windowing.assign import Timed, with_windows
from sparksql.gateway.windowing.bounds import MICROS, pane_stages, stages
from sparksql.gateway.windowing.calls import Function
from sparksql.gateway.windowing.expressions import (
    aggregate,
    aggregations,
    columns_in,
    is_column,
    project,
    replaced,
    transformed,
)
from sparksql.gateway.windowing.marks import Role, Windows, alias, mark
from sparksql.gateway.windowing.merging import Merge, merge_of
from sparksql.gateway.windowing.paths import Path, path_to_windows, rows_below

_PANED = frozenset({Function.CUMULATE, Function.HOP})


def with_panes(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """Returns an analysed plan whose aggregations by windows of CUMULATE and HOP are made of panes where they can be."""

    def change(node: Any) -> Any | None:
        if simple_name(node) != "Aggregate":
            return None
        expand = node.child() if simple_name(node.child()) == "Expand" else None
        top = node.child() if expand is None else expand.child()
        path = path_to_windows(top, _is_paned)
        if path is None:
            return None
        return _Panes(driver, session, node, expand, path).aggregated()

    return transformed(driver.jvm, plan, change)


def _is_paned(windows: Windows) -> bool:
    return windows.call.function in _PANED and windows.call.gap is None and not windows.of_panes


class _Panes:
    """One aggregation by windows, `node`, over the `expand` of its grouping sets if it has any."""

    def __init__(
        self,
        driver: SparkDriver,
        session: JvmSession,
        node: LogicalPlan,
        expand: LogicalPlan | None,
        path: Path,
    ) -> None:
        self._driver = driver
        self._jvm = driver.jvm
        self._session = session
        self._node = node
        self._expand = expand
        self._path = path

    def aggregated(self) -> Any | None:
        """Returns the aggregation made of panes, None for one that cannot be."""
        keys = self._keys()
        merges = self._merges()
        if keys is None or merges is None:
            return None
        jvm, of = self._jvm, self._path.of
        time_type = elements(self._path.assigning.output())[-1].dataType()
        pane = math.gcd(of.call.size, of.call.step)
        call = replace(of.call, function=Function.TUMBLE, size=pane, step=pane)
        panes = Windows(call, of.zone, of.delay, pane_of=of.call.function)
        rows = Timed(rows_below(self._path.assigning), time_type, panes)
        paned = with_windows(self._driver, self._session, rows, pane_stages(of.call, of.zone))
        *_, start, end, _ = elements(paned.output())
        named = {index: alias(jvm, key, f"__key_{index}") for index, key in enumerate(keys) if not is_column(key)}
        columns = [named[index].toAttribute() if index in named else key for index, key in enumerate(keys)]
        child = self._path.rebuilt(jvm, paned, [start, end])
        if named:
            child = project(jvm, [*elements(child.output()), *named.values()], child)
        parts = [part for merge in merges.values() for part in merge.parts]
        partial = aggregate(jvm, self._node, [start, end, *columns], [start, end, *columns, *parts], child)
        windows = self._windows(partial, start, [*columns, *(part.toAttribute() for part in parts)])
        return self._final(windows, keys, columns, merges)

    def _keys(self) -> list[Any] | None:
        """What rows are grouped by besides windows, in the finest set; None without a window, or with a condition on one."""
        if self._expand is None:
            given = elements(self._node.groupingExpressions())
        else:
            passed = _passed(self._expand)
            rows = [elements(row)[passed:] for row in elements(self._expand.projections())]
            given = list({int(key.exprId().id()): key for row in rows for key in row if is_column(key)}.values())
        others = [key for key in given if self._path.role(key) is None]
        if len(others) == len(given) or any(columns_in(key) & set(self._path.columns) for key in others):
            return None
        return others if all(key.deterministic() for key in others) else None

    def _merges(self) -> dict[int, Merge] | None:
        found: dict[int, Merge] = {}
        for result in elements(self._node.aggregateExpressions()):
            for call in aggregations(result):
                if columns_in(call) & set(self._path.columns):
                    return None
                merge = merge_of(self._jvm, call, str(result.name()))
                if merge is None:
                    return None
                found[int(call.resultId().id())] = merge
        return found

    def _windows(self, partial: LogicalPlan, pane_start: Any, columns: list[Any]) -> Any:
        """The panes in their windows, with those columns of the windows that the aggregation knows, under their ids."""
        jvm, of = self._jvm, replace(self._path.of, of_panes=True)
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        long_type = jvm.org.apache.spark.sql.types.DataTypes.LongType
        time_type = pane_start.dataType()
        micros = alias(jvm, expressions.PreciseTimestampConversion(pane_start, time_type, long_type), MICROS)
        rows = Timed(project(jvm, [*columns, micros], partial), time_type, of)
        plan = with_windows(self._driver, self._session, rows, stages(of.call, of.zone))
        *_, start, end, time = elements(plan.output())
        by_role = {Role.START: start, Role.END: end, Role.TIME: time}
        known = [
            alias(jvm, by_role[role], str(column.name()), like=column, told=mark(jvm, role, of))
            for column in elements((self._node if self._expand is None else self._expand).child().output())
            if (role := self._path.role(column)) is not None
        ]
        return project(jvm, [*columns, *known], plan)

    def _final(self, windows: LogicalPlan, keys: list[Any], columns: list[Any], merges: dict[int, Merge]) -> Any:
        jvm = self._jvm
        others = [(key, column) for key, column in zip(keys, columns, strict=True) if not is_column(key)]

        def merged(expression: Any) -> Any | None:
            if simple_name(expression) == "AggregateExpression":
                return merges[int(expression.resultId().id())].merged
            return next((column for key, column in others if expression.semanticEquals(key)), None)

        results = [replaced(jvm, each, merged) for each in elements(self._node.aggregateExpressions())]
        if self._expand is not None:
            child = _expanded(jvm, self._expand, windows)
            return aggregate(jvm, self._node, elements(self._node.groupingExpressions()), results, child)
        bounds = [key for key in elements(self._node.groupingExpressions()) if self._path.role(key) is not None]
        return aggregate(jvm, self._node, [*bounds, *columns], results, windows)


def _expanded(jvm: Jvm, expand: LogicalPlan, child: LogicalPlan) -> Any:
    """The Expand of grouping sets over another child, whose columns are handed on in place of the former ones."""
    to_seq = jvm.PythonUtils.toSeq
    passed, columns = _passed(expand), elements(child.output())
    projections = to_seq([to_seq([*columns, *elements(row)[passed:]]) for row in elements(expand.projections())])
    return expand.copy(projections, to_seq([*columns, *elements(expand.output())[passed:]]), child)


def _passed(expand: LogicalPlan) -> int:
    """How many columns an Expand hands on as they are; the keys of the grouping sets are behind them."""
    inner = {int(column.exprId().id()) for column in elements(expand.child().output())}
    return sum(int(column.exprId().id()) in inner for column in elements(expand.output()))
