"""What the rows of an analysed plan are, node by node from the sources up: changes, or groups that may be gone.

Only nodes that are known to be exact over changes may stand over them. Each hands on, in hidden columns, the weight of a change,
1 for a row that comes and -1 for one that goes. An inner join multiplies weights: with streams on both sides it gives, batch by
batch, all of (L + dL) x (R + dR) that is not in L x R, so what is summed over it is what is summed over the join of the tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sparksql.gateway.changelog.aggregates import INTEGERS, Weighted
from sparksql.gateway.changelog.exact import check_exact, check_table
from sparksql.gateway.changelog.source import Source, source_of
from sparksql.gateway.spark.plans import children, span_of
from sparksql.gateway.spark.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, LogicalPlan
from sparksql.gateway.sql.errors import PlacedError
from sparksql.gateway.windowing.calls import Span
from sparksql.gateway.windowing.expressions import (
    aggregate,
    as_long,
    column_id,
    columns_in,
    is_column,
    project,
    replaced,
)
from sparksql.gateway.windowing.marks import alias

# Hidden columns.
WEIGHT, ORDER, DELETED = "__changelog_weight", "__changelog_order", "__changelog_deleted"
_EXACT = frozenset({*INTEGERS, "string", "binary", "boolean", "date", "timestamp", "timestamp_ntz"})
# Words of a text for nodes that a user writes, in messages.
_WORDS = {
    "Aggregate": "GROUP BY",
    "Deduplicate": "removal of duplicates",
    "Distinct": "SELECT DISTINCT",
    "EventTimeWatermark": "WATERMARK",
    "Expand": "GROUPING SETS or a window that slides",
    "Generate": "explode and the like",
    "GlobalLimit": "LIMIT",
    "Sort": "ORDER BY",
    "Union": "UNION",
    "Window": "a function OVER (...)",
}


@dataclass(frozen=True)
class Rows:
    """A plan without changes in it."""

    plan: LogicalPlan


@dataclass(frozen=True)
class Changes:
    """Rows that come and go, with the hidden columns `weight` and, of the rows of one source, `order`.

    `kinds` are the ids of columns that tell the kind of a change, `reserved` of all that are made of its kind and place. `keys`
    are sets of columns' ids: of any of them there is one row at a time.
    """

    plan: LogicalPlan
    weight: Any
    order: Any | None
    kinds: frozenset[int]
    reserved: frozenset[int]
    keys: frozenset[frozenset[int]]
    table: str

    @property
    def hidden(self) -> list[Any]:
        """Returns the hidden columns."""
        return [self.weight] if self.order is None else [self.weight, self.order]

    @property
    def shown(self) -> list[Any]:
        """Returns the columns of the query."""
        return _without(self.plan, self.hidden)


@dataclass(frozen=True)
class Groups:
    """Groups of an aggregation over changes, whose place in the text is `span`.

    In the hidden column `deleted` stands whether a group is gone.
    """

    plan: LogicalPlan
    deleted: Any
    span: Span | None

    @property
    def shown(self) -> list[Any]:
        """Returns the columns of the query."""
        return _without(self.plan, [self.deleted])


Relation = Rows | Changes | Groups


@dataclass(frozen=True)
class Reading:
    """Reads plans. `is_whole` tells that each batch gives the whole result: groups that are gone are left out of it."""

    jvm: Jvm
    is_whole: bool

    def relation(self, node: LogicalPlan) -> Relation:
        """Returns what the rows of a node are. Raises PlacedError for a node that is not exact over changes."""
        if (source := source_of(node)) is not None:
            return self._source(source)
        parts = [self.relation(child) for child in children(node)]
        if all(isinstance(part, Rows) for part in parts):
            return Rows(self._over(node, parts))
        kind = simple_name(node)
        match parts:
            case [Changes() | Groups() as below] if kind in ("SubqueryAlias", "View"):
                return replace(below, plan=self._over(node, parts))
            case [Changes() as below]:
                return self._over_changes(kind, node, below)
            case [Groups() as below]:
                return self._over_groups(kind, node, below)
            case [Rows() | Changes() as left, Rows() | Changes() as right] if kind == "Join":
                return self._join(node, left, right)
        raise _unknown(
            kind, node, "an aggregation of a changelog" if any(isinstance(p, Groups) for p in parts) else "a changelog"
        )

    def _over_changes(self, kind: str, node: LogicalPlan, below: Changes) -> Relation:
        match kind:
            case "Project":
                return self._project(node, below)
            case "Filter":
                check_exact(self.jvm, [node.condition()], below.reserved, node)
                return replace(below, plan=self._over(node, [below]))
            case "Aggregate":
                return self._aggregate(node, below)
            case _:
                raise _unknown(kind, node, "a changelog")

    def _over_groups(self, kind: str, node: LogicalPlan, below: Groups) -> Relation:
        match kind:
            case "Project":
                columns = [self._unless(below.deleted, named) for named in elements(node.projectList())]
                return replace(below, plan=project(self.jvm, [*columns, below.deleted], below.plan))
            case "Filter":  # HAVING: a group for which it does not hold any more is not in the result
                check_exact(self.jvm, [node.condition()], frozenset(), node)
                expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
                literal = scala_object(expressions, "Literal")
                holds = expressions.Coalesce(self.jvm.PythonUtils.toSeq([node.condition(), literal.FalseLiteral()]))
                deleted = alias(self.jvm, expressions.Or(below.deleted, expressions.Not(holds)), DELETED)
                return Groups(project(self.jvm, [*below.shown, deleted], below.plan), deleted.toAttribute(), below.span)
            case _:
                raise _unknown(kind, node, "an aggregation of a changelog")

    def _source(self, source: Source) -> Changes:
        jvm = self.jvm
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        minus = expressions.Literal.create("-", jvm.org.apache.spark.sql.types.DataTypes.StringType)
        goes = expressions.StartsWith(source.row_kind, minus)
        weight = alias(jvm, expressions.If(goes, as_long(jvm, -1), as_long(jvm, 1)), WEIGHT)
        order = alias(jvm, source.seq, ORDER)
        output = elements(source.rows.output())
        plan = project(jvm, [*output, weight, order], source.rows)
        kind, place = _id(source.row_kind), _id(source.seq)
        names = {str(column.name()).lower(): _id(column) for column in output}
        key = frozenset(names[name.lower()] for name in source.key)
        return Changes(
            plan,
            weight.toAttribute(),
            order.toAttribute(),
            frozenset({kind}),
            frozenset({kind, place}),
            frozenset({key} if key else ()),
            source.table,
        )

    def _project(self, node: LogicalPlan, below: Changes) -> Changes:
        named = elements(node.projectList())
        copies = [(_id(each), _handed_on(each)) for each in named]
        computed = [each for each, (_, origin) in zip(named, copies, strict=True) if origin is None]
        check_exact(self.jvm, computed, frozenset(), node)
        told = {_id(each) for each in computed if columns_in(each) & below.reserved}  # of the change, not of its row
        new_ids = {origin: made for made, origin in reversed(copies) if origin is not None}
        keys = (frozenset(new_ids.get(column, -1) for column in key) for key in below.keys)
        return replace(
            below,
            plan=project(self.jvm, [*named, *below.hidden], below.plan),
            kinds=frozenset(made for made, origin in copies if origin in below.kinds),
            reserved=frozenset(made for made, origin in copies if origin in below.reserved or made in told),
            keys=frozenset(key for key in keys if -1 not in key),
        )

    def _join(self, node: LogicalPlan, left: Rows | Changes, right: Rows | Changes) -> Changes:
        jvm = self.jvm
        if simple_name(node.joinType()) != "Inner$":
            message = (
                f"a {node.joinType().sql()!s} JOIN over a changelog cannot take rows back: use an INNER JOIN, or write both into "
                "tables by upsert and join those"
            )
            raise PlacedError(message, span_of(node))
        changes = [side for side in (left, right) if isinstance(side, Changes)]
        for side in (left, right):
            if isinstance(side, Rows):
                check_table(side.plan, node)
        reserved = frozenset[int]().union(*(side.reserved for side in changes))
        condition = option(node.condition())
        check_exact(jvm, [] if condition is None else [condition], reserved, node)
        joined = self._over(node, [left, right])
        weight = changes[0].weight
        if len(changes) > 1:
            product = jvm.org.apache.spark.sql.catalyst.expressions.Multiply(weight, changes[1].weight)
            named = alias(jvm, product, WEIGHT)
            shown = [column for side in changes for column in side.shown]
            joined, weight = project(jvm, [*shown, named], joined), named.toAttribute()
        elif changes[0].order is not None:
            joined = project(jvm, [*_without(joined, changes[0].hidden), weight], joined)
        keys = frozenset[frozenset[int]]()
        if isinstance(left, Changes) and isinstance(right, Changes):
            keys = _keys_of_join(left, right, [] if condition is None else _equalities(condition))
        table = " and ".join(side.table for side in changes)
        return Changes(joined, weight, None, frozenset(), reserved, keys, table)

    def _aggregate(self, node: LogicalPlan, below: Changes) -> Relation:
        jvm = self.jvm
        weighted = Weighted(jvm, below.weight)
        grouping, results = elements(node.groupingExpressions()), elements(node.aggregateExpressions())

        def taken_back(expression: Any) -> Any | None:
            return weighted.taken_back(expression) if simple_name(expression) == "AggregateExpression" else None

        aggregated = [replaced(jvm, each, taken_back) for each in results]
        check_exact(jvm, [*grouping, *results], below.reserved, node)
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        is_gone = (
            expressions.EqualTo(weighted.rows(), as_long(jvm, 0))
            if grouping
            else scala_object(expressions, "Literal").FalseLiteral()
        )
        made = [self._unless(is_gone, each, grouping, result) for each, result in zip(results, aggregated, strict=True)]
        deleted = alias(jvm, is_gone, DELETED)
        plan = aggregate(jvm, node, grouping, [*made, deleted], below.plan)
        groups = Groups(plan, deleted.toAttribute(), span_of(node))
        if not self.is_whole:
            return groups
        there = jvm.org.apache.spark.sql.catalyst.plans.logical.Filter(expressions.Not(groups.deleted), plan)
        return Rows(project(jvm, groups.shown, there))

    def _unless(self, is_gone: Any, former: Any, keys: list[Any] | None = None, made: Any | None = None) -> Any:
        """A result that is NULL, and not computed, where the group is gone: what divides by count(*) would fail there.

        `former` is the named result, `made` what takes its place. Keys, columns and calls alone stay as they are.
        """
        made = former if made is None else made
        if simple_name(former) != "Alias":
            return made
        inner = former.child()
        if simple_name(inner) in ("AggregateExpression", "Literal") or is_column(inner):
            return made
        if any(inner.semanticEquals(key) for key in keys or ()):
            return made
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        nothing = expressions.Literal.create(None, made.dataType())
        return alias(self.jvm, expressions.If(is_gone, nothing, made.child()), str(former.name()), like=former)

    def _over(self, node: LogicalPlan, parts: list[Any]) -> Any:
        below = [part.plan for part in parts]
        if all(new is old for new, old in zip(below, children(node), strict=True)):
            return node
        return node.withNewChildren(self.jvm.PythonUtils.toSeq(below))


def _keys_of_join(left: Changes, right: Changes, equal: list[tuple[Any, Any]]) -> frozenset[frozenset[int]]:
    """The keys of both sides together; those of one alone where its rows tell a key of the other."""
    found = {here | there for here in left.keys for there in right.keys}
    for one, other in ((left, right), (right, left)):
        columns = {_id(column) for column in one.shown}
        told = {_told_by(there) for here, there in equal if columns_in(here) <= columns}
        if any(key <= told for key in other.keys):
            found |= one.keys
    return frozenset(found)


def _equalities(condition: Any) -> list[tuple[Any, Any]]:
    """What a condition of AND says is equal, both ways round."""
    if simple_name(condition) == "And":
        return [pair for part in elements(condition.children()) for pair in _equalities(part)]
    if simple_name(condition) != "EqualTo":
        return []
    return [(condition.left(), condition.right()), (condition.right(), condition.left())]


def _told_by(expression: Any) -> int | None:
    """The id of the column whose value an equal one tells: of a type with one form of each value, integers also made wider."""
    type_name = str(expression.dataType().catalogString())
    if simple_name(expression) == "Cast" and type_name in INTEGERS:
        expression, wider = expression.child(), INTEGERS[: INTEGERS.index(type_name) + 1]
        return column_id(expression) if str(expression.dataType().catalogString()) in wider else None
    return column_id(expression) if type_name in _EXACT or type_name.startswith("decimal") else None


def _without(plan: LogicalPlan, hidden: list[Any]) -> list[Any]:
    ids = {_id(column) for column in hidden}
    return [column for column in elements(plan.output()) if _id(column) not in ids]


def _handed_on(named: Expression) -> int | None:
    """The id of the column that a named one only hands on, None for one that is computed."""
    return column_id(named.child() if simple_name(named) == "Alias" else named)


def _id(column: Expression) -> int:
    return int(column.exprId().id())


def _unknown(kind: str, node: LogicalPlan, over: str) -> PlacedError:
    message = (
        f"{_WORDS.get(kind, kind)} over {over} cannot take rows back: use WHERE, SELECT, GROUP BY with count, sum and avg, and INNER "
        "JOIN, or write the rows into a table by upsert and read that"
    )
    return PlacedError(message, span_of(node))
