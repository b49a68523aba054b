"""CUMULATE with GAP: from a key's first event until it has been silent for GAP, a row at each step.

The rules, the same in a batch and in a stream:

- A window begins with the step that its first event is in. It has a row for each end of a step, with all events before, as long
  as that is before the last event plus GAP; steps without an event have theirs, too. The step of an event always has one.
- An event that comes GAP or more after the last one of its key is in a new window, which begins at nothing.

Rows are aggregated by panes of one step first. GAP is no shorter than a step, so whether a key has been silent for so long is
known from the first and the last event of its panes: batches find windows in these by SQL (`dynamic_batch`), streams by one row
for each key and pane that goes through a state of its own (`dynamic_stream`). In a stream the watermark closes panes; a row that
comes when its pane has been closed is late and in no window.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import nodes, span_of
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Dataset, JvmSession, LogicalPlan
from sparksql.gateway.windowing import dynamic_batch, dynamic_stream
from sparksql.gateway.windowing.assign import Timed, with_windows
from sparksql.gateway.windowing.bounds import stages
from sparksql.gateway.windowing.calls import Function, WindowCall
from sparksql.gateway.windowing.dynamic_processor import END, FIRST, LAST, PANE, START
from sparksql.gateway.windowing.dynamic_totals import Total, carried, check_type, restored, total
from sparksql.gateway.windowing.expressions import (
    aggregate,
    aggregations,
    as_long,
    columns_in,
    is_column,
    project,
    replaced,
    transformed,
)
from sparksql.gateway.windowing.marks import Role, Windows, alias, metadata
from sparksql.gateway.windowing.paths import Path, path_to_windows, rows_below, windows_assigned_by
from sparksql.gateway.windowing.sessions import check_partition

_KEY = "__curve_key_"
_TIME, _PANE_END = "__curve_time", "__curve_pane_end"


def with_steps(driver: SparkDriver, session: JvmSession, timed: Timed) -> Any:
    """Returns rows with the bounds of their panes, which stand for those of the windows that they will be in."""
    return with_windows(driver, session, timed, stages(_panes_of(timed.windows.call), None))


def with_curves(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """Returns an analysed plan whose aggregations by CUMULATE with GAP are made of panes.

    Raises PlacedError for a window that is used in any other way.
    """

    def change(node: Any) -> Any | None:
        if simple_name(node) != "Aggregate":
            return None
        path = path_to_windows(node.child(), lambda windows: windows.call.gap is not None)
        return None if path is None else _Curves(driver, session, node, path).aggregated()

    plan = transformed(driver.jvm, plan, change)
    for node in nodes(plan):
        windows = windows_assigned_by(node)
        if windows is not None and windows.call.gap is not None:
            raise windows.call.refusal(
                "with GAP, the window of a row is known only when the row arrives: "
                f"aggregate its rows, GROUP BY {', '.join(windows.call.partition)}, window_start, window_end"
            )
    return plan


def _panes_of(call: WindowCall) -> WindowCall:
    return replace(call, function=Function.TUMBLE, partition=(), gap=None)


class _Curves:
    """One aggregation, `node`, by windows that last until their key is silent."""

    def __init__(self, driver: SparkDriver, session: JvmSession, node: LogicalPlan, path: Path) -> None:
        self._driver = driver
        self._jvm = driver.jvm
        self._session = session
        self._node = node
        self._path = path
        self._call = replace(path.of.call, span=span_of(node))
        self._time_type = elements(path.assigning.output())[-1].dataType()

    def aggregated(self) -> Any:
        """Returns the aggregation's rows. Raises PlacedError for one that cannot be."""
        keys, totals = self._keys(), self._totals()
        names = [f"{_KEY}{index}" for index in range(len(keys))]
        parts = list({part.name: part for each in totals.values() for part in each.parts}.values())
        panes = self._panes(dict(zip(names, keys, strict=True)), [part.column for part in parts])
        made = dynamic_stream if self._node.isStreaming() else dynamic_batch
        assert self._call.gap is not None
        curves = made.curves(self._driver, panes, self._call.step, self._call.gap, names, parts)
        return self._results(curves.queryExecution().analyzed(), keys, totals)

    def _keys(self) -> list[Any]:
        """What rows are grouped by besides the bounds: as many as PARTITION BY names, and of these."""
        given = elements(self._node.groupingExpressions())
        if not {Role.START, Role.END} <= {self._path.role(key) for key in given}:
            raise self._call.refusal("GROUP BY takes both window_start and window_end")
        others = [key for key in given if self._path.role(key) is None]
        check_partition(self._call, others, self._path)
        for key in others:
            check_type(self._call, key, f"PARTITION BY {key.sql()}")
        return others

    def _totals(self) -> dict[int, Total]:
        """How each aggregate is made, by its id; equal ones are one."""
        made: list[tuple[Any, Total]] = []
        found: dict[int, Total] = {}
        for result in elements(self._node.aggregateExpressions()):
            for each in aggregations(result):
                if columns_in(each) & set(self._path.columns):
                    raise self._call.refusal("with GAP, the bounds of windows are known when rows have been aggregated")
                equal = next((known for other, known in made if other.semanticEquals(each)), None)
                if equal is None:
                    equal = total(self._jvm, self._call, each, len(made))
                    made.append((each, equal))
                found[int(each.resultId().id())] = equal
        return found

    def _panes(self, keys: dict[str, Any], parts: list[Any]) -> Dataset:
        """One row for each key and pane."""
        jvm = self._jvm
        *columns, micros = elements(rows_below(self._path.assigning).output())
        time = alias(jvm, micros, _TIME)
        rows = project(jvm, [*columns, time, micros], rows_below(self._path.assigning))
        panes = Windows(_panes_of(self._call), None, self._path.of.delay, pane_of=self._call.function)
        paned = with_windows(self._driver, self._session, Timed(rows, self._time_type, panes), stages(panes.call, None))
        *_, stamp, start, end, _ = elements(paned.output())
        child = self._path.rebuilt(jvm, paned, [start, end, stamp])
        named = [alias(jvm, carried(jvm, key), name) for name, key in keys.items()]
        child = project(jvm, [*elements(child.output()), *named], child)
        groups = [each.toAttribute() for each in named]
        functions = jvm.org.apache.spark.sql.catalyst.expressions.aggregate
        extremes = ((functions.Min(stamp), FIRST), (functions.Max(stamp), LAST))
        results = [
            *groups,
            alias(jvm, end, _PANE_END),
            alias(jvm, carried(jvm, start), PANE),
            *(alias(jvm, of.toAggregateExpression(), name) for of, name in extremes),
            *parts,
        ]
        return self._driver.of_rows(self._session, aggregate(jvm, self._node, [start, end, *groups], results, child))

    def _results(self, curves: LogicalPlan, keys: list[Any], totals: dict[int, Total]) -> Any:
        """The columns of the aggregation over the rows of windows."""
        jvm = self._jvm
        made = {str(column.name()): column for column in elements(curves.output())}

        def result(expression: Any) -> Any | None:
            if simple_name(expression) == "AggregateExpression":
                return totals[int(expression.resultId().id())].value(made)
            role = self._path.role(expression)
            if role is not None:
                return self._bound(made, role)
            for index, key in enumerate(keys):
                if expression.semanticEquals(key):
                    return restored(jvm, made[f"{_KEY}{index}"], key.dataType())
            return None

        named = []
        for each in elements(self._node.aggregateExpressions()):
            of = replaced(jvm, each, result)
            named.append(alias(jvm, of, str(each.name()), like=each, told=metadata(jvm, {})) if is_column(each) else of)
        return project(jvm, named, curves)

    def _bound(self, made: dict[str, Any], role: Role) -> Any:
        """A bound of a window, or the last instant in it."""
        micros = made[START if role is Role.START else END]
        if role is Role.TIME:
            micros = self._jvm.org.apache.spark.sql.catalyst.expressions.Subtract(micros, as_long(self._jvm, 1))
        return restored(self._jvm, micros, self._time_type)
