"""Calls of the table function `savepoint_state` in parsed plans. What becomes of them: `streaming.state_tables`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import LogicalPlan
from sparksql.gateway.sql.window_calls import told_plan
from sparksql.wire.savepoints import STATE_FUNCTION

_NAME = re.compile(rf"\b{STATE_FUNCTION}\b", re.IGNORECASE)


def may_read_state(text: str) -> bool:
    """Returns whether a text has the name of the function anywhere."""
    return _NAME.search(text) is not None


def is_state_call(node: LogicalPlan) -> bool:
    """Returns whether a node of a parsed plan calls the function."""
    if simple_name(node) != "UnresolvedTableValuedFunction":
        return False
    return [str(part).lower() for part in elements(node.name())] == [STATE_FUNCTION]


def state_calls(plan: LogicalPlan) -> Iterator[Any]:
    """Yields the calls in a parsed statement."""
    return (node for node in nodes(told_plan(plan)) if is_state_call(node))
