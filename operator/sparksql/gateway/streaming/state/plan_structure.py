"""Reads a plan's structure from Spark: one text of the whole plan by the session's own Java, and what its tables are."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sparksql.gateway.spark.names import JvmNames
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.streaming.state import source_identity
from sparksql.gateway.streaming.state.plan_text import UnknownPlanError, has_group_filter
from sparksql.gateway.streaming.state.structure import Kept, Leaf, Structure, structure

_CLASSES = ("CurrentTime", "HeldTable", "PlanText")


def prepared(jvm: Jvm, analysed: LogicalPlan) -> Any:
    """Returns an analysed plan so that what the optimiser makes of it tells the text and nothing else.

    CURRENT_TIMESTAMP and the like get the time of a batch, as Spark makes it of a streaming query; the optimiser would
    put in the time of its own run. Tables are held as they are, see `HeldTable`.
    """
    own = _own(jvm)
    return own.HeldTable.of(own.CurrentTime.ofBatch(analysed))


def table_of(jvm: Jvm, leaf: LogicalPlan) -> Any:
    """Returns the table that a leaf of a prepared plan is."""
    return _own(jvm).HeldTable.behind(leaf)


def plan_structure(
    jvm: Jvm,
    analysed: LogicalPlan,
    optimised: Any,
    unpushed: Callable[[], Any],
    kept: Kept,
    *,
    mask: Callable[[str], str],
    streamed: Callable[[Any], tuple[int, str]],
    qualified: Callable[[str], str],
) -> Structure:
    """Returns the structure of an optimised plan.

    `unpushed` optimises without moving filters. `kept` are the ids of what Spark keeps, see `layout`. `streamed` gives the number
    and the identity of a streaming table.
    """

    def read(plan: LogicalPlan) -> tuple[Any, list[Leaf]]:
        text = _own(jvm).PlanText.of(plan)
        tables = text.leaves()
        return json.loads(text.json()), [_leaf(tables.get(index)) for index in range(int(tables.size()))]

    def _leaf(table: Any) -> Leaf:
        ids = source_identity.column_ids(table)
        if simple_name(table) in source_identity.STREAMS:
            number, identity = streamed(table)
            return Leaf(mask(identity), number, ids)
        if not source_identity.is_told(table):
            return Leaf(str(table.relation().getClass().getName()), 0, ids, is_told=False)
        return Leaf(mask(source_identity.static_place(table, qualified)), 0, ids)

    above = None
    if has_group_filter(json.loads(_own(jvm).PlanText.of(analysed).json())):
        above = read(unpushed())
    return structure(*read(optimised), mask=mask, kept=kept, unpushed=above)


def _own(jvm: Jvm) -> Any:
    package = jvm.dev.sparksql.plans
    needed = [*(getattr(package, name) for name in _CLASSES), jvm.dev.sparksql.windows.MergedSessions]
    if any(isinstance(each, JvmNames) for each in needed):
        raise UnknownPlanError("the session's own jar is not on its class path, or is of an earlier version")
    return package
