"""Walks plans of the JVM. Plans do not change, so what is below a node is asked for once for each object that stands for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan

_CHILDREN = "_children"  # attributes of py4j's object
_NODES = "_nodes"


def children(node: LogicalPlan) -> tuple[Any, ...]:
    """Returns the plans right below a node, the same objects at each call."""
    known: tuple[Any, ...] | None = vars(node).get(_CHILDREN)
    if known is None:
        known = tuple(elements(node.children()))
        setattr(node, _CHILDREN, known)
    return known


def nodes(plan: LogicalPlan) -> tuple[Any, ...]:
    """Returns all nodes of a plan, those of its WITH and of its subqueries included; the same objects at each call."""
    known: tuple[Any, ...] | None = vars(plan).get(_NODES)
    if known is None:
        _, *below = _nodes(plan)
        known = tuple(below)
        setattr(plan, _NODES, known)  # without itself: what refers to itself is not let go of at once
    return plan, *known


def span_of(tree: Any) -> tuple[int, int] | None:
    """Returns the half-open range of the text that a node or an expression was read from."""
    start, stop = (option(each) for each in (tree.origin().startIndex(), tree.origin().stopIndex()))
    return None if start is None or stop is None else (int(start), int(stop) + 1)


def has_subqueries(plan: LogicalPlan) -> bool:
    """Returns whether any expression of a plan has a subquery; not asked of the queries of its WITH."""
    return not plan.subqueriesAll().isEmpty()


def rewritten(jvm: Jvm, plan: LogicalPlan, replaced: Callable[[Any], Any | None]) -> Any:
    """Returns a parsed plan with each node replaced for which `replaced` gives another one; not looked at inside subqueries."""
    other = replaced(plan)
    if other is not None:
        return other
    if simple_name(plan) == "UnresolvedWith":
        relations = [
            jvm.scala.Tuple3(relation._1(), rewritten(jvm, relation._2(), replaced), relation._3())
            for relation in elements(plan.cteRelations())
        ]
        plan = plan.copy(plan.child(), jvm.PythonUtils.toSeq(relations), plan.allowRecursion())
    before = children(plan)
    after = [rewritten(jvm, child, replaced) for child in before]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return plan
    return plan.withNewChildren(jvm.PythonUtils.toSeq(after))


def _nodes(plan: LogicalPlan) -> Iterator[Any]:
    pending = [(plan, has_subqueries(plan))]
    while pending:
        node, with_subqueries = pending.pop()
        yield node
        pending.extend((child, with_subqueries) for child in children(node))
        if with_subqueries:
            pending.extend((query, True) for query in elements(node.subqueries()))
        pending.extend((query, has_subqueries(query)) for query in _with_queries(node))


def _with_queries(node: LogicalPlan) -> list[Any]:
    match simple_name(node):
        case "UnresolvedWith":
            return [relation._2() for relation in elements(node.cteRelations())]
        case "WithCTE":
            return elements(node.cteDefs())
        case _:
            return []
