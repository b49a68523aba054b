"""Walks of plans: what the JVM is asked, and that a plan in which nothing is replaced is the plan itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparksql.gateway.spark.plans import children, nodes, rewritten
from sparksql.gateway.spark.scala import text_map


class Sequence:
    """A Scala collection."""

    def __init__(self, *values: Any) -> None:
        self._values = values

    def size(self) -> int:
        return len(self._values)

    def isEmpty(self) -> bool:
        return not self._values

    def head(self) -> Any:
        return self._values[0]

    def last(self) -> Any:
        return self._values[-1]

    def toIndexedSeq(self) -> Sequence:
        return self

    def apply(self, index: int) -> Any:
        return self._values[index]


class Node:
    """A node of a plan that counts what it is asked. `queries` are those in its expressions."""

    def __init__(self, name: str, *below: Node, queries: tuple[Node, ...] = ()) -> None:
        self._simple_name = name
        self.below, self.queries = below, queries
        self.asked = 0

    def children(self) -> Sequence:
        self.asked += 1
        return Sequence(*self.below)

    def subqueries(self) -> Sequence:
        self.asked += 1
        return Sequence(*self.queries)

    def subqueriesAll(self) -> Sequence:
        self.asked += 1
        return Sequence(*self._all())

    def _all(self) -> list[Node]:
        return [*self.queries, *(found for each in (*self.below, *self.queries) for found in each._all())]

    def withNewChildren(self, below: tuple[Node, ...]) -> Node:
        return Node(self._simple_name, *below, queries=self.queries)


JVM = SimpleNamespace(PythonUtils=SimpleNamespace(toSeq=tuple))


def test_all_nodes_of_a_plan_are_found_in_its_subqueries_too() -> None:
    inner = Node("Filter", Node("C"), queries=(Node("D"),))
    plan = Node("Join", Node("A", queries=(inner,)), Node("B"))
    assert sorted(node._simple_name for node in nodes(plan)) == ["A", "B", "C", "D", "Filter", "Join"]


def test_a_node_is_asked_once_however_often_its_plan_is_walked() -> None:
    leaf = Node("Leaf")
    plan = Node("Project", Node("Filter", leaf))
    first = nodes(plan)
    asked = [node.asked for node in first]
    assert asked == [2, 1, 1], "subqueries are asked of the whole plan, children of each node"
    assert nodes(plan) == first
    assert nodes(plan)[0] is plan and children(plan)[0] is first[1]
    assert [node.asked for node in first] == asked


@pytest.mark.parametrize("replaced", ["Leaf", "Filter", "Project", "Absent"])
def test_a_plan_is_made_anew_only_above_what_is_replaced(replaced: str) -> None:
    other = Node("Other")
    beside = Node("Beside")
    plan = Node("Project", Node("Join", Node("Filter", Node("Leaf")), beside))
    made = rewritten(JVM, plan, lambda node: other if node._simple_name == replaced else None)
    assert (made is plan) == (replaced == "Absent")
    found = nodes(made)
    assert (other in found) == (replaced != "Absent")
    assert (beside in found) == (replaced != "Project"), "what nothing is replaced in stays the same object"


class Map:
    """A java.util.Map, the end of whose iteration nobody wants to see."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def isEmpty(self) -> bool:
        return not self._values

    def keySet(self) -> Any:
        return SimpleNamespace(toArray=lambda: list(self._values))

    def get(self, key: str) -> str:
        return self._values[key]


@pytest.mark.parametrize("values", [{}, {"a": "1"}, {"a": "1", "B": ""}])
def test_a_map_of_texts_is_read_without_iterating_in_the_jvm(values: dict[str, str]) -> None:
    assert text_map(Map(values)) == values
