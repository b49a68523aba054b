"""The first N rows of a window in a stream: ROW_NUMBER() OVER (PARTITION BY window_start, window_end ... ORDER BY ...) <= N.

Spark has no window functions over streams. Two ways are open (Spark 4.1):

- Over an aggregation by windows, in append mode, all rows of a window come in one batch: any function OVER a partition by the
  window's end is right then, and is left as it is (`is_within_batches`).
- Over rows, an aggregation keeps the first N of each partition in a bounded heap (`collect_top_k`, an internal function of
  Spark's), which is closed with the window. It is deterministic: what ORDER BY leaves open the other columns decide.
"""

from __future__ import annotations

from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import span_of
from sparksql.gateway.spark.scala import elements, scala_object, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import PlacedError
from sparksql.gateway.windowing.expressions import column_id, project, transformed
from sparksql.gateway.windowing.marks import alias, has_event_time

MAX_ROWS = 10_000  # of a partition: its rows are one value of the state
_BETWEEN = ("Project", "SubqueryAlias", "Filter", "View", "Window")


def with_top_n(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """Returns an analysed plan of a stream with first rows kept by aggregations. Raises PlacedError for what has no order."""

    def change(node: Any) -> Any | None:
        if simple_name(node) != "Filter" or not node.isStreaming():
            return None
        path: list[Any] = []
        below = node.child()
        while simple_name(below) in ("Project", "SubqueryAlias", "View"):
            path.append(below)
            below = below.child()
        if simple_name(below) != "Window" or is_within_batches(below):
            return None
        count = _bound(node.condition(), below)
        if count is None:
            return None
        made = _TopN(driver, session, below, count).aggregated()
        for each in (*reversed(path), node):
            made = each.withNewChildren(driver.jvm.PythonUtils.toSeq([made]))
        return made

    return transformed(driver.jvm, plan, change)


def is_within_batches(window: LogicalPlan) -> bool:
    """Returns whether all rows of each partition of a Window come in one batch, in append mode."""
    ends = {column_id(key) for key in elements(window.partitionSpec()) if has_event_time_of(key)}
    if not ends:
        return False
    node = window.child()
    while simple_name(node) in _BETWEEN:
        node = node.child()
    if simple_name(node) != "Aggregate":
        return False
    return any(has_event_time_of(key) for key in elements(node.groupingExpressions()))


def has_event_time_of(key: Expression) -> bool:
    """Returns whether a key is a column that the watermark closes."""
    return simple_name(key) == "AttributeReference" and has_event_time(key)


def without_windows(jvm: Jvm, plan: LogicalPlan) -> Any:
    """Returns a plan for Spark's checker, with columns of nulls for the functions OVER partitions that come in one batch."""
    literal = jvm.org.apache.spark.sql.catalyst.expressions.Literal

    def change(node: Any) -> Any | None:
        if simple_name(node) != "Window" or not node.isStreaming() or not is_within_batches(node):
            return None
        nulls = [
            alias(jvm, literal.create(None, named.dataType()), str(named.name()), like=named)
            for named in elements(node.windowExpressions())
        ]
        return project(jvm, [*elements(node.child().output()), *nulls], node.child())

    return transformed(jvm, plan, change)


def _bound(condition: Any, window: LogicalPlan) -> int | None:
    """N of `rn <= N`, `rn < N` or `rn = N` among the parts that AND connects, for the one ROW_NUMBER of a Window."""
    named = elements(window.windowExpressions())
    if len(named) != 1 or simple_name(named[0].child().windowFunction()) != "RowNumber":
        return None
    if not any(has_event_time_of(key) for key in elements(window.partitionSpec())):
        return None
    return _least(condition, int(named[0].exprId().id()))


def _least(condition: Expression, number: int) -> int | None:
    kind = simple_name(condition)
    if kind == "And":
        found = [each for part in elements(condition.children()) if (each := _least(part, number)) is not None]
        return min(found, default=None)
    if kind not in ("LessThanOrEqual", "LessThan", "EqualTo"):
        return None
    left, right = elements(condition.children())
    if column_id(left) != number or simple_name(right) != "Literal" or right.value() is None:
        return None
    value = int(right.value())
    return value - 1 if kind == "LessThan" else value


class _TopN:
    """The first `count` rows of each partition of `window`, which numbers them by one ROW_NUMBER."""

    def __init__(self, driver: SparkDriver, session: JvmSession, window: LogicalPlan, count: int) -> None:
        self._driver = driver
        self._jvm = driver.jvm
        self._session = session
        self._window = window
        self._count = count
        by_id = {int(column.exprId().id()): column for column in elements(window.child().output())}
        self._columns = list(by_id.values())
        self._names = {number: f"c{index}" for index, number in enumerate(by_id)}

    def aggregated(self) -> Any:
        """Returns the plan, with the columns of the Window under their ids. Raises PlacedError for what has no order."""
        span = span_of(self._window)
        if not 1 <= self._count <= MAX_ROWS:
            raise PlacedError(
                f"the first rows of a window in a stream are 1 to {MAX_ROWS:,}, not {self._count:,}", span
            )
        to_seq, functions = self._jvm.PythonUtils.toSeq, self._jvm.org.apache.spark.sql.functions
        parts = [self._name(key) for key in elements(self._window.partitionSpec())]
        orders = elements(self._window.orderSpec())
        descending = bool(orders) and _is_descending(orders[0])
        keys = [sql for order in orders for sql in self._order(order, descending)]
        rest = [self._names[int(column.exprId().id())] for column in self._columns]
        rest = [name for name in rest if name not in parts]
        self._check_orderable([column for column in self._columns if self._names[int(column.exprId().id())] in rest])
        rows = project(self._jvm, self._columns, self._window.child())  # it may have a column twice
        frame = self._driver.of_rows(self._session, rows).toDF(to_seq(list(self._names.values())))
        row = functions.expr(f"struct({', '.join([*(f'{sql} AS k{i}' for i, sql in enumerate(keys)), *rest])})")
        columns = scala_object(self._jvm.org.apache.spark.sql, "Column")
        top = columns.internalFn(
            "collect_top_k", to_seq([row, functions.lit(self._count), functions.lit(not descending)])
        )
        grouped = frame.groupBy(to_seq([functions.col(name) for name in parts]))
        first = grouped.agg(top.alias("top"), to_seq([])).selectExpr(to_seq([*parts, "posexplode(top) AS (pos, kept)"]))
        shown = [name if name in parts else f"kept.{name} AS {name}" for name in self._names.values()]
        plan = first.selectExpr(to_seq([*shown, "pos + 1 AS number"])).queryExecution().analyzed()
        wanted = [*self._columns, elements(self._window.windowExpressions())[0]]
        named = [
            alias(self._jvm, made, str(column.name()), like=column)
            for made, column in zip(elements(plan.output()), wanted, strict=True)
        ]
        return project(self._jvm, named, plan)

    def _name(self, column: Expression) -> str:
        number = column_id(column)
        found = None if number is None else self._names.get(number)
        if found is None:
            raise PlacedError("PARTITION BY and ORDER BY of the first rows of a window take columns", span_of(column))
        return found

    def _order(self, order: Any, descending: bool) -> list[str]:
        """A key of ORDER BY as values that sort in the direction of the first key; NULL is the least there."""
        if bool(order.child().foldable()):
            return []
        name = self._name(order.child())
        reverse = _is_descending(order) != descending
        values = _reversed(name, str(order.child().dataType().catalogString())) if reverse else (name,)
        if not values:
            type_name = str(order.child().dataType().catalogString()).upper()
            raise PlacedError(
                f"a key of ORDER BY of type {type_name} goes in the direction of the first key",
                span_of(order) or span_of(order.child()),
            )
        nulls_first = str(order.nullOrdering().sql()) == "NULLS FIRST"
        if nulls_first != descending:
            return [*values]
        return [f"{name} IS NULL", *values]  # true is the greatest: the first going down, the last going up

    def _check_orderable(self, columns: list[Any]) -> None:
        ordering = scala_object(self._jvm.org.apache.spark.sql.catalyst.expressions, "RowOrdering")
        for column in columns:
            if not ordering.isOrderable(column.dataType()):
                raise PlacedError(
                    f"column {column.name()} of type {str(column.dataType().catalogString()).upper()} has no order, and cannot "
                    "be among the first rows of a window in a stream: leave it out, or CAST it",
                    span_of(self._window),
                )


def _is_descending(order: Any) -> bool:
    return str(order.direction().sql()) == "DESC"


def _reversed(name: str, type_name: str) -> tuple[str, ...]:
    """SQL of values that sort the other way round, NULL for NULL; none where there are none."""
    match type_name:
        case "tinyint" | "smallint" | "int" | "bigint":
            return (f"~{name}",)
        case "float" | "double":
            return (f"IF({name} IS NULL, NULL, NOT isnan({name}))", f"-{name}")  # NaN is greater than infinity
        case "boolean":
            return (f"NOT {name}",)
        case "date":
            return (f"~unix_date({name})",)
        case "timestamp":
            return (f"~unix_micros({name})",)
        case "timestamp_ntz":
            return (f"~timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {name})",)
        case "string" | "binary":  # the digits of the bytes turned round, and an end that is greater than all
            return (f"concat(translate(hex({name}), '0123456789ABCDEF', 'FEDCBA9876543210'), 'G')",)
        case _ if type_name.startswith("decimal"):
            return (f"-{name}",)
        case _:
            return ()
