"""What a query over changes may compute: the same value for a row that goes as for the row that had come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sparksql.gateway.changelog.source import ROW_KIND, SEQ
from sparksql.gateway.spark.plans import nodes, span_of
from sparksql.gateway.spark.scala import elements, scala_object, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, LogicalPlan
from sparksql.gateway.spark.types import has_collation
from sparksql.gateway.sql.errors import PlacedError
from sparksql.gateway.windowing.expressions import columns_in, walked
from sparksql.gateway.windowing.marks import windows_of

# Nodes of a table that is joined: each batch must find the same rows in it.
_OF_TABLES = frozenset(
    {
        "Aggregate",
        "DataSourceV2Relation",
        "Filter",
        "HiveTableRelation",
        "Join",
        "LocalRelation",
        "LogicalRelation",
        "Project",
        "Range",
        "SubqueryAlias",
        "Union",
        "View",
    }
)
_TIME_WINDOW = "spark.timeWindow"  # Spark's, in the metadata of what window() gives


def check_exact(jvm: Jvm, expressions: Iterable[Expression], reserved: frozenset[int], node: LogicalPlan) -> None:
    """Raises PlacedError for an expression over changes that gives another value when a row is taken back.

    `reserved` are the ids of columns that tell the kind and the place of a change, which are only handed on. `node` is where
    the expressions stand.
    """
    patterns = scala_object(jvm.org.apache.spark.sql.catalyst.trees, "TreePattern")
    for each in expressions:
        span = span_of(each) or span_of(node)
        if not each.deterministic() or each.containsPattern(patterns.CURRENT_LIKE()):
            message = (
                "over a changelog an expression must give the same value when a row is retracted: remove "
                "rand(), uuid(), current_timestamp() and the like from the query"
            )
            raise PlacedError(message, span)
        if each.containsPattern(patterns.PLAN_EXPRESSION()):
            raise PlacedError("over a changelog there are no subqueries in expressions: use an inner JOIN", span)
        if has_collation(each.dataType()):
            message = "over a changelog equal texts must be the same texts: leave COLLATE out of columns and keys"
            raise PlacedError(message, span)
        if columns_in(each) & reserved:
            message = (
                f"columns {ROW_KIND} and {SEQ} of a changelog can be selected, and not decided by: the query retracts "
                "changes by itself; to handle changes as rows, read a table with 'changelog.rows' = 'latest' and its column _op"
            )
            raise PlacedError(message, span)
        if any(_tells_windows(part) for part in walked(each)):
            message = "windows over a changelog do not support retraction: group by date_trunc(...) of the time, or by a column"
            raise PlacedError(message, span)


def check_table(plan: LogicalPlan, join: LogicalPlan) -> None:
    """Raises PlacedError for what is joined with changes and is no table that gives the same rows in each batch."""
    span = span_of(plan) or span_of(join)
    if plan.isStreaming():
        message = "a changelog can be joined with another changelog or a table, not with another kind of STREAM"
        raise PlacedError(message, span)
    for node in nodes(plan):
        if simple_name(node) not in _OF_TABLES or not all(
            each.deterministic() for each in elements(node.expressions())
        ):
            message = (
                "a changelog can be joined with a table, its columns, filters and aggregates that give the same rows in each "
                "batch: write other rows into a table first, and join that"
            )
            raise PlacedError(message, span_of(node) or span)


def _tells_windows(expression: Any) -> bool:
    if simple_name(expression) not in ("Alias", "AttributeReference"):
        return False
    return bool(expression.metadata().contains(_TIME_WINDOW)) or windows_of(expression) is not None
