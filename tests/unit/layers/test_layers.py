"""Figures of the import graph and the layers in pages are those of the code."""

from __future__ import annotations

import pytest

from tests.layers.__main__ import layers, placed, table
from tests.layers.graph import Figures, figures


def test_unit_above_two_floors_is_on_the_third() -> None:
    edges = {"a": frozenset({"b", "c"}), "b": frozenset({"c"}), "c": frozenset[str](), "d": frozenset({"c"})}
    assert figures("p", edges) == Figures("p", 4, 4, 3, ())


def test_units_in_a_cycle_are_named_without_units_above_and_below() -> None:
    edges = {
        "above": frozenset({"a"}),
        "a": frozenset({"b", "below"}),
        "b": frozenset({"a"}),
        "below": frozenset[str](),
    }
    assert figures("p", edges) == Figures("p", 4, 4, 1, ("a", "b"))


def test_layers_of_the_operator_contract_are_listed_lowest_first() -> None:
    pyproject = """
[[tool.importlinter.contracts]]
type = "layers"
containers = ["sparksql.gateway"]
layers = ["main"]

[[tool.importlinter.contracts]]
type = "layers"
layers = ["sparksql.operator | sparksql.front", "sparksql.api"]
"""
    assert layers(pyproject) == "`api < front, operator`\n"


def test_table_names_the_units_in_cycles() -> None:
    assert table([Figures("p", 2, 2, 0, ("p.a", "p.b"))]).splitlines()[-1] == "| `p` | 2 | 2 | 0 | `a`, `b` |"


def test_content_between_two_marks_is_replaced() -> None:
    page = "x\n<!-- layers -->\nold\n<!-- end -->\ny\n"
    assert placed(page, "layers", "new\n") == "x\n<!-- layers -->\nnew\n<!-- end -->\ny\n"


def test_page_without_the_place_is_refused_with_the_marks_to_add() -> None:
    with pytest.raises(ValueError, match="<!-- layers --> to <!-- end -->"):
        placed("x\n", "layers", "new\n")
