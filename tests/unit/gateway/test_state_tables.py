"""A savepoint's state as tables: which operators there are, by which names, and how their columns are given."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sparksql.gateway.streaming.state.description import (
    AGGREGATE,
    Description,
    SplitAverage,
    StateColumn,
    StatefulOperator,
)
from sparksql.gateway.streaming.state.structure_nodes import Node
from sparksql.gateway.streaming.state_tables.columns import Form, Kept, Layout, Unscaled, layout
from sparksql.gateway.streaming.state_tables.operators import SparkOperator, StateTable, state_tables

from .descriptions import JOIN, OLD, TOTALS

SAVE = "stateStoreSave"
KEY = [Kept("country", "string"), Kept("city", "string")]


def tables(operators: list[str], *described: StatefulOperator) -> list[tuple[str, int, bool]]:
    """By the names of Spark's operators, in the order of their numbers."""
    noted = [SparkOperator(number, name) for number, name in enumerate(operators)]
    found = state_tables(noted[::-1], replace(OLD, operators=described) if described else None)
    return [(each.name, each.operator.operator_id, each.described is not None) for each in found]


def test_operators_are_matched_from_the_top_and_from_left_to_right() -> None:
    over_both = replace(JOIN, inputs=("operator 1", "operator 2"))
    found = tables(["symmetricHashJoin", SAVE, SAVE], TOTALS, TOTALS, over_both)
    expected = [("aggregate 1", 1), ("aggregate 2", 2), ("join of streams left", 0), ("join of streams right", 0)]
    assert found == [(name, number, True) for name, number in expected]


@pytest.mark.parametrize(
    ("operators", "described", "expected"),
    [
        ([SAVE, SAVE], (), [("aggregate 1", 1, False), ("aggregate 2", 0, False)]),
        (["dedupe"], (TOTALS,), [("deduplication", 0, False)]),
        ([SAVE], (TOTALS, TOTALS), [("aggregate", 0, False)]),
        (["someNewExec"], (StatefulOperator("SomeNew"),), [("someNewExec", 0, True)]),
        ([SAVE, SAVE], (TOTALS, replace(TOTALS, inputs=("operator 1",))), [("aggregate 1", 1, True), ("aggregate 2", 0, True)]),
    ],
)  # fmt: skip
def test_operators_that_are_not_those_described_are_told_by_spark_alone(
    operators: list[str], described: tuple[StatefulOperator, ...], expected: list[tuple[str, int, bool]]
) -> None:
    assert tables(operators, *described) == expected


CURVE = StatefulOperator("state of a Python function", inputs=("operator 1",))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (("window",), [("aggregate", None), ("curve", "window")]),
        (("a", "b"), [("aggregate", None), ("curve a", "a"), ("curve b", "b")]),
        ((), [("aggregate", None), ("curve", None)]),
    ],
)
def test_a_function_has_a_table_for_each_of_its_variables(
    variables: tuple[str, ...], expected: list[tuple[str, str | None]]
) -> None:
    noted = [SparkOperator(0, "transformWithStateInPySparkExec", variables), SparkOperator(1, SAVE)]
    found = state_tables(noted, replace(OLD, operators=(TOTALS, CURVE)))
    assert [(each.name, each.variable) for each in found] == expected
    assert all(each.described is not None for each in found)


def aggregate(function: str, type: str, *buffers: str) -> Description:
    """One aggregate by country and city."""
    nodes: dict[str, Node] = {
        "a": ["Aggregate", {"keys": [], "functions": [{"ref": "call"}]}],
        "call": ["AggregateExpression", {"aggregateFunction": {"ref": "f"}}],
        "f": [function, {}],
    }
    column = StateColumn("total", type, "f(x)", buffers)
    return replace(OLD, operators=(replace(TOTALS, values=(column,), structure="a"),), nodes=nodes)


def laid_out(description: Description, *value: str, key: list[Kept] = KEY, side: str | None = None) -> Layout:
    table = StateTable("x", SparkOperator(0, SAVE), side, description.operators[0])
    return layout(table, description, key, [Kept(f"v{place}", name) for place, name in enumerate(value)])


@pytest.mark.parametrize(
    ("function", "type", "buffers", "form"),
    [
        ("Count", "bigint", ("bigint",), Form.VALUE),
        ("First", "int", ("int", "boolean"), Form.VALUE),
        ("Sum", "bigint", ("bigint",), Form.VALUE),
        ("Sum", "decimal(30,2)", ("decimal(30,2)", "boolean"), Form.SUM),
        ("Average", "double", ("double", "bigint"), Form.AVERAGE),
        ("Average", "decimal(24,6)", ("decimal(30,2)", "bigint"), Form.AVERAGE),
        ("Average", "interval day to second", ("interval day to second", "bigint"), Form.AVERAGE),
        ("Average", "interval day", ("interval day to second", "bigint"), Form.AS_KEPT),
        ("CollectSet", "array<int>", ("binary",), Form.AS_KEPT),
        ("Max", "bigint", ("int",), Form.AS_KEPT),
        ("OfAnExtension", "bigint", ("bigint",), Form.AS_KEPT),
    ],
)
def test_an_aggregate_is_given_as_what_it_is_if_that_is_known(
    function: str, type: str, buffers: tuple[str, ...], form: Form
) -> None:
    found = laid_out(aggregate(function, type, *buffers), *buffers)
    assert found.is_told and [each.name for each in found.keys] == ["country", "city"]
    (value,) = found.values
    assert (value.name, value.form, value.places) == ("total", form, tuple(range(2, 2 + len(buffers))))


@pytest.mark.parametrize(
    ("function", "type", "buffers"),
    [("Sum", "bigint", ("bigint",)), ("Average", "double", ("double", "bigint"))],
)
@pytest.mark.parametrize("argument", ["UnscaledValue", "Cast"])
def test_decimals_are_unscaled_where_spark_sums_up_their_unscaled_values(
    function: str, type: str, buffers: tuple[str, ...], argument: str
) -> None:
    described = aggregate(function, type, *buffers)
    nodes: dict[str, Node] = {
        **described.nodes,
        "f": [function, {"child": {"ref": "u"}}],
        "u": [argument, {"child": {"ref": "x"}}],
        "x": ["Column", {"type": '"decimal(6,2)"'}],
    }
    (value,) = laid_out(replace(described, nodes=nodes), *buffers).values
    assert value.unscaled == (Unscaled(6, 2) if argument == "UnscaledValue" else None)
    assert (Unscaled(6, 2).sum_type, Unscaled(6, 2).mean_type) == ("decimal(16,2)", "decimal(10,6)")


def paned(*averages: SplitAverage) -> Description:
    """A window of panes: its values are sums and counts."""
    doubles = StateColumn("mean", "double", "sum(x)", ("double",))
    counts = StateColumn("mean", "bigint", "sum(n)", ("bigint",))
    totals = replace(TOTALS, values=(doubles, counts), averages=averages)
    return replace(OLD, operators=(totals,))


def shown(description: Description) -> list[tuple[str, Form, tuple[int, ...], tuple[str, ...]]]:
    table = StateTable("x", SparkOperator(0, SAVE), None, description.operators[0])
    kept = [Kept("sum", "double"), Kept("sum", "bigint")]
    found = layout(table, description, KEY, kept).values
    return [(each.name, each.form, each.filled, each.kept) for each in found]


def test_aggregates_of_an_average_become_a_column() -> None:
    whole = paned(SplitAverage("mean", 0, 1, (0, 1)))
    assert shown(whole) == [("mean", Form.AVERAGE, (2, 3), ("sum", "count"))]


def test_average_with_a_shared_count_is_filled_by_a_sum() -> None:
    sharing = paned(SplitAverage("a", 0, 1, (0,)))
    assert shown(sharing) == [("a", Form.AVERAGE, (2,), ("sum",)), ("mean", Form.AS_KEPT, (3,), ("sum",))]
    of_others = paned(SplitAverage("a", 0, 1, ()))
    assert [name for name, *_ in shown(of_others)] == ["mean", "a", "mean_2"]


def test_description_without_averages_has_none() -> None:
    whole = paned(SplitAverage("mean", 0, 1, (0, 1)))
    assert Description.from_json(whole.to_json()) == whole
    raw = json.loads(whole.to_json())
    assert raw["version"] == 3
    del raw["operators"][0]["averages"]
    assert Description.from_json(json.dumps(raw)) == paned()


def test_keys_that_stand_among_the_values_are_taken_from_there() -> None:
    found = laid_out(
        aggregate("Count", "bigint", "bigint"), "string", "string", "bigint", key=[*KEY, Kept("start", "timestamp")]
    )
    assert found.is_told and [each.places for each in (*found.keys, *found.values)] == [(3,), (4,), (5,)]


def test_columns_of_other_types_than_described_have_the_names_that_they_are_kept_by() -> None:
    found = laid_out(aggregate("Count", "bigint", "bigint"), "int", "void", key=[Kept("k", "int"), Kept("K", "int")])
    assert not found.is_told
    assert [each.name for each in (*found.keys, *found.values)] == ["k", "K_2", "v0"]


def test_aggregates_of_one_name_and_rows_of_a_join_have_names_of_their_own() -> None:
    column = StateColumn("City", "bigint", "count(1)", ("bigint",))
    counts = replace(OLD, operators=(replace(TOTALS, kind=AGGREGATE, values=(column,)),))
    assert [each.name for each in laid_out(counts, "bigint").values] == ["City_2"]
    joined = laid_out(replace(OLD, operators=(JOIN,)), "int", key=[Kept("field0", "int")], side="right")
    assert [each.name for each in (*joined.keys, *joined.values)] == ["id", "id"]
