"""Distinct counts by a key whose values the filter lists: the values share their state, each as a bit.

`WHERE channel IN ('a', 'b', 'other') GROUP BY window, channel` with `count(DISTINCT user)` would keep each user once for each
channel. Users who are in several are kept once: first by window and user with the bits of the channels, then by window, where
each bit counts for its channel; last a row for each channel that had rows. Other aggregates are kept for each channel apart.

Sessions are left as they are: which session a row is in depends on the rows of its own key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, JvmSession, LogicalPlan
from sparksql.gateway.windowing.expressions import (
    aggregate,
    aggregations,
    column_id,
    is_column,
    project,
    replaced,
    transformed,
)
from sparksql.gateway.windowing.marks import alias, has_event_time, is_session
from sparksql.gateway.windowing.merging import Merge, merge_of

MAX_VALUES = 62  # bits of a BIGINT
MAX_COLUMNS = 100  # of the state, for what is kept for each value apart
_LISTED = frozenset({"string", "tinyint", "smallint", "int", "bigint", "boolean", "date"})


@dataclass(frozen=True)
class _Listed:
    """A key of an aggregation and the literals that the filter below allows it."""

    key: Any
    values: tuple[Any, ...]


def with_shared_values(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """Returns an analysed plan whose distinct counts by listed keys share their state, in streams in append mode."""

    def change(node: Any) -> Any | None:
        if simple_name(node) != "Aggregate" or not node.isStreaming():
            return None
        counted = _counted(node)
        listed = None if counted is None else _listed(node)
        return None if counted is None or listed is None else _Shared(driver, session, node, counted, listed).plan()

    return transformed(driver.jvm, plan, change)


def _counted(node: LogicalPlan) -> Any | None:
    """The one column whose distinct values an aggregation counts; None for any other aggregation, and for sessions."""
    keys = elements(node.groupingExpressions())
    if not all(is_column(key) for key in keys) or any(is_session(key) for key in keys):
        return None
    if not any(has_event_time(key) for key in keys):
        return None
    calls = [call for result in elements(node.aggregateExpressions()) for call in aggregations(result)]
    distinct = [call for call in calls if call.isDistinct()]
    values = [child for call in distinct for child in elements(call.aggregateFunction().children())]
    is_plain = all(
        simple_name(call.aggregateFunction()) == "Count" and option(call.filter()) is None for call in distinct
    )
    if not distinct or not is_plain or len(values) != len(distinct) or len({column_id(each) for each in values}) != 1:
        return None
    return values[0] if is_column(values[0]) else None


def _listed(node: LogicalPlan) -> _Listed | None:
    """The key with the longest list of values in the conditions right below an aggregation."""
    found = []
    below = node.child()
    names: dict[int, int] = {}
    conditions: list[Any] = []
    while simple_name(below) in ("Project", "Filter", "SubqueryAlias", "Generate", "View"):
        if simple_name(below) == "Filter":
            conditions += _conjuncts(below.condition())
        if simple_name(below) == "Project":
            for named in elements(below.projectList()):
                if simple_name(named) == "Alias" and (inner := column_id(named.child())) is not None:
                    names[int(named.exprId().id())] = inner
        below = elements(below.children())[0]
    for key in elements(node.groupingExpressions()):
        column = column_id(key)
        while column in names:
            column = names[column]
        for condition in conditions:
            values = _values(condition, column, key)
            if 2 <= len(values) <= MAX_VALUES:
                found.append(_Listed(key, tuple(values)))
    return max(found, key=lambda listed: len(listed.values), default=None)


def _conjuncts(condition: Expression) -> list[Any]:
    if simple_name(condition) != "And":
        return [condition]
    return [each for part in elements(condition.children()) for each in _conjuncts(part)]


def _values(condition: Expression, column: int | None, key: Any) -> list[Any]:
    """The literals of `column IN (...)`, or of equalities that OR connects; none if it is anything else."""
    found: dict[str, Any] = {}
    pending = [condition]
    while pending:
        each = pending.pop()
        kind = simple_name(each)
        parts = elements(each.children())
        if kind == "Or":
            pending.extend(parts)
            continue
        if kind not in ("In", "EqualTo") or column_id(parts[0]) != column:
            return []
        for literal in parts[1:]:
            same = simple_name(literal) == "Literal" and literal.dataType().sameType(key.dataType())
            if not same or literal.value() is None or str(key.dataType().catalogString()) not in _LISTED:
                return []
            found.setdefault(str(literal.sql()), literal)
    return list(found.values())


class _Shared:
    """One aggregation whose distinct counts of the column `counted` share the state of the `listed` key's values."""

    def __init__(
        self, driver: SparkDriver, session: JvmSession, node: LogicalPlan, counted: Any, listed: _Listed
    ) -> None:
        self._driver = driver
        self._jvm = driver.jvm
        self._session = session
        self._node = node
        self._counted = counted
        self._listed = listed

    def plan(self) -> Any | None:
        """Returns the aggregation, under its columns' ids; None where its other aggregates cannot be kept apart."""
        merges = self._merges()
        if merges is None:
            return None
        jvm, key = self._jvm, column_id(self._listed.key)
        keys = [each for each in elements(self._node.groupingExpressions()) if column_id(each) != key]
        functions = jvm.org.apache.spark.sql.catalyst.expressions.aggregate
        bits = functions.BitOrAgg(self._bit_of_row()).toAggregateExpression()
        mask = alias(jvm, bits, "__bits")
        parts = [part for apart in merges for merge in apart.values() for part in merge.parts]
        first_keys = [*keys, self._counted]
        first = aggregate(jvm, self._node, first_keys, [*first_keys, mask, *parts], self._node.child())
        of_values = [self._of_value(index, mask.toAttribute(), apart) for index, apart in enumerate(merges)]
        columns = [column for each in of_values for column in each]
        second = aggregate(jvm, self._node, keys, [*keys, *columns], first)
        return self._rows(second, keys, of_values)

    def _merges(self) -> list[dict[int, Merge]] | None:
        """The other aggregates by their ids, of the rows of each value apart."""
        expressions, some = self._jvm.org.apache.spark.sql.catalyst.expressions, self._jvm.scala.Option.apply
        calls = [call for result in elements(self._node.aggregateExpressions()) for call in aggregations(result)]
        others = [call for call in calls if not call.isDistinct()]
        if len(others) * len(self._listed.values) > MAX_COLUMNS:
            return None
        found = []
        for index, value in enumerate(self._listed.values):
            apart: dict[int, Merge] = {}
            for call in others:
                is_value = expressions.EqualTo(self._listed.key, value)
                own = option(call.filter())
                condition = is_value if own is None else expressions.And(is_value, own)
                filtered = call.copy(call.aggregateFunction(), call.mode(), False, some(condition), call.resultId())
                merge = merge_of(self._jvm, filtered, f"__part_{index}_{len(apart)}")
                if merge is None:
                    return None
                apart[int(call.resultId().id())] = merge
            found.append(apart)
        return found

    def _bit_of_row(self) -> Any:
        """CASE WHEN key = first THEN 1 WHEN key = second THEN 2 ..."""
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        bits = self._long(0)
        for index, value in reversed(list(enumerate(self._listed.values))):
            bits = expressions.If(expressions.EqualTo(self._listed.key, value), self._long(1 << index), bits)
        return bits

    def _of_value(self, index: int, mask: Any, apart: dict[int, Merge]) -> list[Any]:
        """Of a value: whether it had rows, its distinct count, and its other aggregates."""
        jvm = self._jvm
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        functions = expressions.aggregate
        has_bit = expressions.Not(
            expressions.EqualTo(expressions.BitwiseAnd(mask, self._long(1 << index)), self._long(0))
        )
        is_counted = expressions.And(has_bit, expressions.IsNotNull(self._counted))
        one = expressions.If(is_counted, self._long(1), self._long(0))
        return [
            alias(jvm, functions.BoolOr(has_bit).toAggregateExpression(), f"__had_{index}"),
            alias(jvm, functions.Sum(one).toAggregateExpression(), f"__distinct_{index}"),
            *(alias(jvm, merge.merged, f"__other_{index}_{at}") for at, merge in enumerate(apart.values())),
        ]

    def _rows(self, second: LogicalPlan, keys: list[Any], of_values: list[list[Any]]) -> Any:
        """A row for each value that had rows, with the results of the aggregation."""
        jvm, to_seq = self._jvm, self._jvm.PythonUtils.toSeq
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        names = ["had", "value", "distinct", *(f"other_{at}" for at in range(len(of_values[0]) - 2))]
        structs = []
        for value, columns in zip(self._listed.values, of_values, strict=True):
            had, distinct, *others = (column.toAttribute() for column in columns)
            fields = zip(names, (had, value, distinct, *others), strict=True)
            named = [each for name, field in fields for each in (expressions.Literal.create(name, _text(jvm)), field)]
            structs.append(expressions.CreateNamedStruct(to_seq(named)))
        row = alias(jvm, expressions.Explode(expressions.CreateArray(to_seq(structs), False)), "__value")
        exploded = self._driver.of_rows(self._session, project(jvm, [*keys, row], second)).queryExecution().analyzed()
        struct = elements(exploded.output())[-1]
        field = {
            name: expressions.GetStructField(struct, index, jvm.scala.Option.apply(None))
            for index, name in enumerate(names)
        }
        with_rows = jvm.org.apache.spark.sql.catalyst.plans.logical.Filter(field["had"], exploded)
        calls = [call for result in elements(self._node.aggregateExpressions()) for call in aggregations(result)]
        others = [int(call.resultId().id()) for call in calls if not call.isDistinct()]
        places = {each: f"other_{at}" for at, each in enumerate(dict.fromkeys(others))}
        key = column_id(self._listed.key)

        def result_of(expression: Any) -> Any | None:
            if simple_name(expression) == "AggregateExpression":
                return field["distinct" if expression.isDistinct() else places[int(expression.resultId().id())]]
            return field["value"] if column_id(expression) == key else None

        results = []
        for result in elements(self._node.aggregateExpressions()):
            made = replaced(jvm, result, result_of)
            is_named = simple_name(made) in ("Alias", "AttributeReference")
            results.append(made if is_named else alias(jvm, made, str(result.name()), like=result))
        return project(jvm, results, with_rows)

    def _long(self, value: int) -> Any:
        """A BIGINT: py4j hands over a small number as an INT, so that it goes as the text of one."""
        return self._session.sessionState().sqlParser().parseExpression(f"{value}L")


def _text(jvm: Jvm) -> Any:
    return jvm.org.apache.spark.sql.types.DataTypes.StringType
