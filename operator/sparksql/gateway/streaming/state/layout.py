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
from sparksql.gateway.streaming.state.description import SplitAverage
from sparksql.gateway.streaming.state.plan_text import UnknownPlanError
from sparksql.gateway.windowing.expressions import aggregations
from sparksql.gateway.windowing.marks import PartOfAverage, part_of_average


@dataclass(frozen=True)
class Kept:
    """Holds what an operator keeps beside its keys, in the order of the state.

    `parts` are the aggregate functions of an aggregation, or the columns of both sides of a join, each with Spark's id of it.
    `averages` are those that two functions store.
    """

    kind: str
    parts: tuple[tuple[tuple[int, Expression], ...], ...]
    averages: tuple[SplitAverage, ...] = ()

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
            found.append(Kept("Aggregate", (functions,), _averages(elements(node.aggregateExpressions()), functions)))
        case "Join" if node.left().isStreaming() and node.right().isStreaming():
            sides = (elements(side.output()) for side in (node.left(), node.right()))
            found.append(Kept("Join", tuple(tuple((int(each.exprId().id()), each) for each in side) for side in sides)))


def _averages(results: Sequence[Any], functions: Sequence[tuple[int, Expression]]) -> tuple[SplitAverage, ...]:
    """The averages stored as a sum and a count. Spark stores equal functions once, at the place of the first."""
    places: dict[int, dict[bool, int]] = {}
    names: dict[int, str] = {}
    free: set[int] = set()  # places of functions that stand for a part of an average alone
    for result in results:
        for call in aggregations(result):
            part = _part(result, call)
            if part is None:
                continue
            place = _place(call, functions)
            if functions[place][0] == int(call.resultId().id()):
                free.add(place)
            names.setdefault(part.number, part.name)
            places.setdefault(part.number, {})[part.is_count] = place
    found: dict[tuple[int, int], SplitAverage] = {}
    for number, both in places.items():
        if len(both) == 2 and (pair := (both[False], both[True])) not in found:
            own = tuple(place for place in pair if place in free)
            free.difference_update(own)
            found[pair] = SplitAverage(names[number], *pair, own)
    return tuple(found.values())


def _part(result: Any, call: Any) -> PartOfAverage | None:
    """What part of an average an aggregate is: of a pane by its result's mark, of a window by that of what is summed."""
    if simple_name(result) == "Alias" and result.child().equals(call):
        return part_of_average(result)
    function = call.aggregateFunction()
    if simple_name(function) == "Sum" and simple_name(function.child()) == "AttributeReference":
        return part_of_average(function.child())
    return None


def _place(call: Any, functions: Sequence[tuple[int, Expression]]) -> int:
    number = int(call.resultId().id())
    own = next((place for place, (each, _) in enumerate(functions) if each == number), None)
    if own is not None:
        return own
    equal = (place for place, (_, each) in enumerate(functions) if each.semanticEquals(call))
    found = next(equal, None)
    if found is None:
        raise UnknownPlanError("Spark does not keep an aggregate that the plan has")
    return found


def _planning(jvm: Jvm, name: str) -> Any:
    return scala_object(jvm.org.apache.spark.sql.catalyst.planning, name)
