"""IDENTIFIER(...) with a name that is computed: Spark's parser makes the rest of the statement once there is a name.

What a statement is, and what it asks for, does not depend on how its names are written. So it is read with any name in that
place, and runs with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from sparksql.gateway.spark.plans import children, rewritten
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, JvmSession, LogicalPlan

_WRAPPER = "PlanWithUnresolvedIdentifier"
_ANY_NAME = ("name",)


def with_any_name(jvm: Jvm, plan: LogicalPlan) -> LogicalPlan:
    """Returns a parsed statement with a name for each that is computed. Raises what Spark throws for a name of one part."""
    return _with_names(jvm, plan, lambda _: _ANY_NAME)


def with_names(jvm: Jvm, session: JvmSession, plan: LogicalPlan) -> LogicalPlan:
    """Returns a parsed statement with the names that are computed; one that cannot be computed is left, Spark tells why."""
    return _with_names(jvm, plan, lambda expression: _computed(jvm, session, expression))


def analysed(jvm: Jvm, session: JvmSession, expression: Expression) -> Expression | None:
    """Returns an expression over no columns as Spark's analysis resolves it, None for one that it cannot resolve."""
    catalyst, none = jvm.org.apache.spark.sql.catalyst, jvm.scala.Option.apply(None)
    logical, to_seq = catalyst.plans.logical, jvm.PythonUtils.toSeq
    query = logical.Project(to_seq([catalyst.analysis.UnresolvedAlias(expression, none)]), logical.OneRowRelation())
    try:
        found = session.sessionState().analyzer().execute(query)
    except (Py4JError, PySparkException):
        return None
    if simple_name(found) != "Project" or not found.resolved():
        return None
    column = found.projectList().head()
    return column.child() if simple_name(column) == "Alias" else column


def _with_names(jvm: Jvm, plan: LogicalPlan, name_of: Callable[[Expression], Sequence[str] | None]) -> LogicalPlan:
    # The statements of a block are looked at one by one, and have their names when it is their turn.
    if simple_name(plan) == "CompoundBody":
        return plan
    if not _has_wrapper(jvm.org.apache.spark.sql.catalyst.trees.TreePattern, plan):
        return plan

    def named(node: LogicalPlan) -> LogicalPlan | None:
        if simple_name(node) != _WRAPPER or (name := name_of(node.identifierExpr())) is None:
            return None
        below = [rewritten(jvm, child, named) for child in children(node)]
        return _built(jvm, node, name, below)

    return rewritten(jvm, plan, named)


def _built(jvm: Jvm, wrapper: LogicalPlan, name: Sequence[str], below: Sequence[LogicalPlan]) -> LogicalPlan:
    """What a wrapper holds back, with its place in the text."""
    origin, to_seq = jvm.org.apache.spark.sql.catalyst.trees.CurrentOrigin, jvm.PythonUtils.toSeq
    origin.set(wrapper.origin())
    try:
        return wrapper.planBuilder().apply(to_seq(list(name)), to_seq(list(below)))
    finally:
        origin.reset()


def _has_wrapper(patterns: Any, plan: LogicalPlan) -> bool:
    """Whether a name is computed in a plan. A WITH does not tell what is in its queries."""
    if plan.containsPattern(patterns.PLAN_WITH_UNRESOLVED_IDENTIFIER()):
        return True
    if not plan.containsPattern(patterns.UNRESOLVED_WITH()):
        return False
    relations = elements(plan.cteRelations()) if simple_name(plan) == "UnresolvedWith" else []
    below = (*children(plan), *(relation._2() for relation in relations))
    return any(_has_wrapper(patterns, each) for each in below)


def _computed(jvm: Jvm, session: JvmSession, expression: Expression) -> Sequence[str] | None:
    resolved = analysed(jvm, session, expression)
    if resolved is None:
        return None
    try:
        name = jvm.org.apache.spark.sql.catalyst.analysis.IdentifierResolution.evalIdentifierExpr(resolved)
    except (Py4JError, PySparkException):
        return None
    return [str(name.apply(index)) for index in range(name.size())]
