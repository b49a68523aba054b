"""Reads a streaming query over changes, and makes it one that takes updates back: the entry of this package."""

from __future__ import annotations

from typing import Any

from sparksql.gateway.changelog.relations import DELETED, Reading, Relation
from sparksql.gateway.changelog.source import source_of
from sparksql.gateway.spark.plans import has_subqueries, nodes, span_of
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.sql.errors import PlacedError
from sparksql.gateway.windowing.expressions import transformed


def has_changes(plan: LogicalPlan) -> bool:
    """Returns whether an analysed query reads changes as rows."""
    return any(source_of(node) is not None for node in nodes(plan))


def relation_of(jvm: Jvm, plan: LogicalPlan, *, is_whole: bool) -> Relation:
    """Returns what the rows of an analysed query over changes are; `is_whole` as in Reading.

    Raises PlacedError for what is not exact.
    """
    plan = jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False).apply(plan)
    if has_subqueries(plan):
        for node in nodes(plan):
            if any(has_changes(query) for query in elements(node.subqueries())):
                raise PlacedError(
                    "a changelog cannot be read in a subquery of an expression: use an inner JOIN", span_of(node)
                )
    return Reading(jvm, is_whole).relation(plan)


def for_checker(jvm: Jvm, plan: LogicalPlan) -> Any:
    """Returns a plan for Spark's checker, which allows joins of streams below an aggregation in append mode alone.

    It has watermarks in mind, whose late rows a join holds back. Below an aggregation of changes there are none, and a join
    gives all of its rows in the batch that brings them.
    """

    def change(node: Any) -> Any | None:
        if not _is_over_joined_streams(node):
            return None
        rows = jvm.org.apache.spark.sql.catalyst.plans.logical.LocalRelation(
            node.child().output(), jvm.PythonUtils.toSeq([]), True, jvm.scala.Option.apply(None)
        )
        return node.withNewChildren(jvm.PythonUtils.toSeq([rows]))

    return transformed(jvm, plan, change)


def joins_streams(plan: LogicalPlan) -> bool:
    """Returns whether an analysed plan has what `for_checker` hides."""
    return any(_is_over_joined_streams(node) for node in nodes(plan))


def _is_over_joined_streams(node: LogicalPlan) -> bool:
    if simple_name(node) != "Aggregate" or not node.isStreaming():
        return False
    if not any(str(each.name()) == DELETED for each in elements(node.aggregateExpressions())):
        return False
    return any(
        simple_name(below) == "Join" and below.left().isStreaming() and below.right().isStreaming()
        for below in nodes(node.child())
    )
