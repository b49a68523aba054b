"""Queries that need no executor: which ones they are, and how their rows come to be without a job of Spark's.

`SELECT 1` is what connection pools ask to see whether a connection is alive, so it must be answered while all executors work.
For a query without FROM Spark 4.1 plans a scan of one row that it keeps in an RDD, which takes a job of one task; over a
relation of one row that the driver holds its optimiser computes the same query.
"""

from __future__ import annotations

import functools
from typing import Any

from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan

_ONE_ROW = "OneRowRelation"
_ON_DRIVER = frozenset({_ONE_ROW, "LocalRelation", "UnresolvedInlineTable"})
# Nodes that Spark's optimiser computes over rows of the driver's.
_COMPUTED = frozenset(
    {"Project", "Filter", "GlobalLimit", "LocalLimit", "SubqueryAlias", "UnresolvedSubqueryColumnAliases"}
)
# ExpressionInfo's groups of functions that make one value of one row. Aggregates, windows and generators Spark plans as nodes of
# their own, which its optimiser does not compute; a group that is not here may be like them.
_OF_ROWS = frozenset(
    f"{group}_funcs"
    for group in (
        *(
            "array",
            "bitwise",
            "collection",
            "conditional",
            "conversion",
            "csv",
            "datetime",
            "hash",
            "json",
            "lambda",
            "map",
        ),
        *("math", "misc", "predicate", "string", "struct", "url", "variant", "xml"),
    )
)
_MAX_LEVELS = 32
_MAX_EXPRESSIONS = 64


def is_local(jvm: Jvm, plan: LogicalPlan) -> bool:
    """Returns whether a parsed query computes nothing but rows of its own text, or asks for no rows at all (LIMIT 0)."""
    if _asks_for_nothing(plan):
        return True
    if plan.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.UNRESOLVED_IDENTIFIER()):
        return False  # IDENTIFIER(...) with a name that is computed, maybe that of a function
    node, calls_functions = plan, _calls_functions(jvm, plan)
    for _ in range(_MAX_LEVELS):
        name = simple_name(node)
        if name not in _ON_DRIVER | _COMPUTED or (calls_functions and not _calls_row_functions(jvm, node)):
            return False
        if name in _ON_DRIVER:
            return bool(plan.subqueriesAll().isEmpty())
        node = node.child()
    return False


def with_rows_of_driver(jvm: Jvm, plan: LogicalPlan) -> Any:
    """Returns a query that is local over a relation that the driver holds; one that asks for no rows as it is."""
    return plan if _asks_for_nothing(plan) else _replaced(jvm, plan)


def _replaced(jvm: Jvm, plan: LogicalPlan) -> Any:
    if simple_name(plan) == _ONE_ROW:
        return _one_row(jvm)
    children = elements(plan.children())
    if not children:
        return plan
    replaced = [_replaced(jvm, child) for child in children]
    if all(new is old for new, old in zip(replaced, children, strict=True)):
        return plan
    return plan.withNewChildren(jvm.PythonUtils.toSeq(replaced))


def _one_row(jvm: Jvm) -> Any:
    """A relation of one row without columns: a new one, since a plan's nodes are its own."""
    return _prototype(jvm).newInstance()


@functools.cache
def _prototype(jvm: Jvm) -> Any:
    """There is one JVM in a process."""
    row = jvm.org.apache.spark.sql.catalyst.InternalRow.empty()
    logical, none = jvm.org.apache.spark.sql.catalyst.plans.logical, jvm.scala.Option.empty()
    return logical.LocalRelation(jvm.PythonUtils.toSeq([]), jvm.PythonUtils.toSeq([row]), False, none)


def _calls_functions(jvm: Jvm, plan: LogicalPlan) -> bool:
    """Whether a parsed plan calls a function anywhere."""
    return bool(plan.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.UNRESOLVED_FUNCTION()))


def _calls_row_functions(jvm: Jvm, node: LogicalPlan) -> bool:
    """Whether the functions that a parsed node calls are all Spark's own, and each makes one value of one row."""
    if not _calls_functions(jvm, node):
        return True
    waiting = elements(node.expressions())
    for _ in range(_MAX_EXPRESSIONS):
        if not waiting:
            return True
        expression = waiting.pop()
        if simple_name(expression) == "UnresolvedFunction" and not _is_row_function(jvm, expression):
            return False
        waiting += elements(expression.children())
    return False  # too long to be looked through


def _is_row_function(jvm: Jvm, call: Any) -> bool:
    parts = elements(call.nameParts())
    if len(parts) != 1:
        return False
    analysis = jvm.org.apache.spark.sql.catalyst.analysis
    name = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(str(parts[0]))
    info = option(analysis.FunctionRegistry.builtin().lookupFunction(name))
    return info is not None and info.getGroup() in _OF_ROWS


def _asks_for_nothing(plan: LogicalPlan) -> bool:
    if simple_name(plan) != "GlobalLimit" or simple_name(plan.limitExpr()) != "Literal":
        return False
    value = plan.limitExpr().value()
    return isinstance(value, int) and value == 0
