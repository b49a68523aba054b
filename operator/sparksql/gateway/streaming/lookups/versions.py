"""Joins with a table as it was at the time of each row: `JOIN lake.t FOR SYSTEM_TIME AS OF o.ts AS t ON ...`.

Spark reads one version for all rows; of another one, `version_syntax` has left the column's name in the plan. The join is taken
for one with the table as it is, with one condition more, which says nothing but which time is meant: once Spark has found out
what the names stand for, `tables` takes it off again.
"""

from __future__ import annotations

from typing import Any

from sparksql.gateway.spark.plans import nodes, rewritten
from sparksql.gateway.spark.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.sql.version_syntax import COLUMN
from sparksql.gateway.sql.window_calls import told_plan
from sparksql.wire.control import ErrorReason

_NAMING = frozenset({"SubqueryAlias", "UnresolvedSubqueryColumnAliases"})


def with_versions(jvm: Jvm, session: JvmSession, query: LogicalPlan) -> tuple[Any, int]:
    """Returns a parsed query without its AS OF a column, and how many there were. Raises StatementError for another place."""
    if not any(_is_by_row(node) for node in nodes(query)):
        return query, 0
    parser = session.sessionState().sqlParser()
    joins: list[Any] = []

    def replaced(node: LogicalPlan) -> Any | None:
        travel = _joined_version(node)
        if travel is None:
            return None
        joins.append(node)
        left = rewritten(jvm, node.left(), replaced)
        right = rewritten(jvm, node.right(), lambda below: below.relation() if _is_by_row(below) else None)
        expressions, condition = jvm.org.apache.spark.sql.catalyst.expressions, option(node.condition())
        time = _moment(jvm, parser.parseExpression(_column(travel)))
        told = expressions.EqualNullSafe(time, time)
        whole = told if condition is None else expressions.And(condition, told)
        return node.copy(left, right, node.joinType(), jvm.scala.Option.apply(whole), node.hint())

    query = rewritten(jvm, query, replaced)
    check_no_versions(query)
    return query, len(joins)


def check_no_versions(query: LogicalPlan) -> None:
    """Raises StatementError for AS OF a column in a parsed query or statement."""
    told = told_plan(query), *elements(query.innerChildren())  # of EXPLAIN, of CREATE VIEW
    if any(_is_by_row(node) for plan in told for node in nodes(plan)):
        raise refusal(
            ErrorReason.INVALID_SPEC,
            "AS OF a column is for a table that the STREAM of an INSERT is joined with, on the right of JOIN or LEFT JOIN, with ON: "
            "INSERT INTO r SELECT ... FROM STREAM o LEFT JOIN t FOR SYSTEM_TIME AS OF o.ts AS t ON o.k = t.k",
        )


def time_of(condition: Expression | None) -> tuple[Expression | None, Expression | None]:
    """Returns the rest of an analysed join's condition, and the time that it was AS OF; None for each that it has not."""
    if condition is None:
        return None, None
    rest, told = (condition.left(), condition.right()) if simple_name(condition) == "And" else (None, condition)
    if simple_name(told) != "EqualNullSafe" or not told.left().semanticEquals(told.right()):
        return condition, None
    return rest, told.left()


def _moment(jvm: Jvm, time: Expression) -> Any:
    """A parsed expression as a TIMESTAMP, of whatever type it turns out to be."""
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    mode = scala_object(expressions, "EvalMode").LEGACY()
    of_type = jvm.org.apache.spark.sql.types.DataTypes.TimestampType
    return expressions.Cast(time, of_type, jvm.scala.Option.apply(None), mode)


def _joined_version(node: LogicalPlan) -> Any | None:
    """The version by row that a parsed join has on its right."""
    if simple_name(node) != "Join" or simple_name(node.joinType()).startswith(("UsingJoin", "NaturalJoin")):
        return None
    side = node.right()
    while simple_name(side) in _NAMING:
        side = side.child()
    return side if _is_by_row(side) else None


def _is_by_row(node: LogicalPlan) -> bool:
    return simple_name(node) == "RelationTimeTravel" and bool(_column(node))


def _column(travel: LogicalPlan) -> str:
    """The column that a version is as of; empty for a time."""
    time = option(travel.timestamp())
    if time is None or simple_name(time) != "Literal" or time.value() is None:
        return ""
    text = str(time.value().toString())
    return text.removeprefix(COLUMN) if text.startswith(COLUMN) else ""
