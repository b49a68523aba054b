"""The columns of state in the order in which Spark keeps them, read from the plan that Spark runs.

Spark's rules fold constants and simplify conditions. After that, an aggregate may be gone, or equal to another one, and its
place in the state goes to the next. `optimised` leaves such rules out, so that meanings are those of the text. The two plans come
from one analysed plan, and no rule changes the ids of its functions and columns: by these, each column of the state finds
its meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, LogicalPlan
from sparksql.gateway.streaming.state.plan_text import UnknownPlanError


@dataclass(frozen=True)
class Kept:
    """Holds what an operator keeps beside its keys, in the order of the state.

    `parts` are the aggregate functions of an aggregation, or the columns of both sides of a join, each with Spark's id of it.
    """

    kind: str
    parts: tuple[tuple[tuple[int, Expression], ...], ...]

    @property
    def ids(self) -> tuple[tuple[int, ...], ...]:
        """Returns the ids of the parts."""
        return tuple(tuple(each for each, _ in part) for part in self.parts)


class Layout:
    """The operators of a plan that keep functions or columns, those first whose rows others take."""

    def __init__(self, operators: Sequence[Kept]) -> None:
        self._operators = list(operators)
        self._next = 0

    @property
    def ids(self) -> list[tuple[str, tuple[tuple[int, ...], ...]]]:
        """Returns the kinds of the operators and the ids of what they keep."""
        return [(each.kind, each.ids) for each in self._operators]

    def next(self, kind: str) -> Kept:
        """Returns the next operator. Raises UnknownPlanError if it is of another kind, or there is none."""
        if self._next == len(self._operators) or self._operators[self._next].kind != kind:
            raise UnknownPlanError(f"Spark runs other operators than the text has: no {kind} where one is")
        self._next += 1
        return self._operators[self._next - 1]


def layout(jvm: Jvm, plan: LogicalPlan) -> Layout:
    """Returns what the operators of a plan keep, which is the one that Spark runs."""
    found: list[Kept] = []
    _visit(jvm, plan, found)
    return Layout(found)


def _visit(jvm: Jvm, node: LogicalPlan, found: list[Kept]) -> None:
    for child in elements(node.children()):
        _visit(jvm, child, found)
    match simple_name(node):
        case "Aggregate" if node.isStreaming():
            planned = option(_planning(jvm, "PhysicalAggregation").unapply(node))
            if planned is None:
                raise UnknownPlanError("Spark's plan of an aggregation has an unknown form")
            functions = tuple((int(each.resultId().id()), each) for each in elements(planned._2()))
            found.append(Kept("Aggregate", (functions,)))
        case "Join" if node.left().isStreaming() and node.right().isStreaming():
            sides = (elements(side.output()) for side in (node.left(), node.right()))
            found.append(Kept("Join", tuple(tuple((int(each.exprId().id()), each) for each in side) for side in sides)))


def _planning(jvm: Jvm, name: str) -> Any:
    return scala_object(jvm.org.apache.spark.sql.catalyst.planning, name)
