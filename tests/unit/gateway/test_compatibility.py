"""What a changed text may do with the state of the one before: differences of descriptions, and what people are told of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparksql.gateway.streaming.state.compatibility import differences
from sparksql.gateway.streaming.state.description import (
    Description,
    StateColumn,
    StatefulOperator,
    Watermark,
)
from sparksql.gateway.streaming.state.difference import Difference, DifferenceKind
from sparksql.gateway.streaming.state.messages import message
from sparksql.gateway.streaming.state.structure_nodes import Node
from tests.unit.gateway.descriptions import (
    CITY,
    CLICKS,
    COUNT,
    COUNTRY,
    JOIN,
    JOINED,
    NODES,
    OLD,
    ORDERS,
    RENAMED,
    REWORDED,
    STATELESS,
    TOTAL,
    TOTALS,
    whole,
    with_operator,
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(OLD, RENAMED, id="other names"),
        pytest.param(OLD, replace(OLD, text_hash="other"), id="another text"),
        pytest.param(OLD, replace(OLD, spark_version="4.2.0"), id="another Spark"),
        pytest.param(OLD, replace(OLD, watermarks=(Watermark("[1].ts", 1),)), id="another delay"),
        pytest.param(OLD, replace(OLD, sources=(replace(ORDERS, name="o"),)), id="a table renamed in its place"),
        pytest.param(OLD, replace(OLD, confs=(("spark.sql.shuffle.partitions", "7"),)), id="other settings"),
        pytest.param(STATELESS, replace(STATELESS, watermarks=OLD.watermarks), id="a watermark without state"),
        pytest.param(STATELESS, replace(STATELESS, output_mode="complete"), id="a mode without state"),
    ],
)
def test_a_change_that_fits_the_stream_state_is_no_difference(old: Description, new: Description) -> None:
    assert differences(old, new) == ()


@pytest.mark.parametrize(
    ("old", "new", "expected", "told"),
    [
        pytest.param(
            OLD, with_operator(values=(COUNT, replace(TOTAL, meaning="count([1].amount)"))),
            Difference(DifferenceKind.AGGREGATE_CHANGED, "aggregate", "total", "sum([1].amount)", "count([1].amount)"),
            "aggregate: column total was sum(amount), is count(amount)", id="aggregate changed",
        ),
        pytest.param(
            OLD, with_operator(values=(COUNT, replace(TOTAL, type="double"))),
            Difference(DifferenceKind.AGGREGATE_CHANGED, "aggregate", "total", "sum([1].amount) bigint", "double"),
            "aggregate: column total was sum(amount) bigint, is double", id="type changed",
        ),
        pytest.param(
            OLD, with_operator(values=(COUNT, TOTAL, StateColumn("top", "int", "max([1].amount)"))),
            Difference(DifferenceKind.AGGREGATE_ADDED, "aggregate", "top", after="max([1].amount)"),
            "aggregate: column top was added (max(amount))", id="aggregate added",
        ),
        pytest.param(
            OLD, with_operator(values=(TOTAL,)),
            Difference(DifferenceKind.AGGREGATE_REMOVED, "aggregate", "n", before="count(1)"),
            "aggregate: column n was removed (count(1))", id="aggregate removed",
        ),
        pytest.param(
            OLD, with_operator(values=(TOTAL, COUNT)),
            Difference(DifferenceKind.AGGREGATES_REORDERED, "aggregate", "n, total", "count(1), sum([1].amount)", "sum([1].amount), count(1)"),
            "aggregate: columns n, total were count(1), sum(amount) in this order, are sum(amount), count(1)",
            id="aggregates swapped",
        ),
        pytest.param(
            OLD, with_operator(keys=(COUNTRY, replace(CITY, meaning="[1].street"))),
            Difference(DifferenceKind.KEY_CHANGED, "aggregate", "city", "[1].city", "[1].street"),
            "aggregate: key column city was city, is street", id="key changed",
        ),
        pytest.param(
            OLD, with_operator(keys=(COUNTRY,)),
            Difference(DifferenceKind.KEY_REMOVED, "aggregate", "city", before="[1].city"),
            "aggregate: key column city was removed (city)", id="key removed",
        ),
        pytest.param(
            OLD, with_operator(keys=(CITY, COUNTRY)),
            Difference(DifferenceKind.KEYS_REORDERED, "aggregate", "country, city", "[1].country, [1].city", "[1].city, [1].country"),
            "aggregate: key columns country, city were country, city in this order, are city, country", id="keys swapped",
        ),
        pytest.param(
            OLD, with_operator(inputs=("source 1", "each row 2 times")),
            Difference(DifferenceKind.INPUT_CHANGED, "aggregate", "", "source 1", "source 1, each row 2 times"),
            "aggregate: its input was source 1, is source 1, each row 2 times", id="input changed",
        ),
        pytest.param(
            OLD, STATELESS,
            Difference(DifferenceKind.OPERATOR_REMOVED, "aggregate", before="by [1].country, [1].city, of count(1), sum([1].amount)"),
            "aggregate was removed (by country, city, of count(1), sum(amount))", id="operator removed",
        ),
        pytest.param(
            OLD, replace(OLD, operators=(TOTALS, StatefulOperator("limit", settings=(("limit", "3"),)))),
            Difference(DifferenceKind.OPERATOR_ADDED, "limit", after="limit 3"), "limit was added (limit 3)", id="operator added",
        ),
        pytest.param(
            JOINED, replace(JOINED, operators=(replace(JOIN, settings=(("type", "LeftOuter"), ("condition", "none"))),)),
            Difference(DifferenceKind.OPERATOR_CHANGED, "join of streams", "type", "Inner", "LeftOuter"),
            "join of streams: type was Inner, is LeftOuter", id="join type",
        ),
        pytest.param(
            JOINED, replace(JOINED, operators=(replace(JOIN, values=JOIN.values[1:]),)),
            Difference(DifferenceKind.COLUMN_REMOVED, "join of streams", "left id", before="[1].id"),
            "join of streams: column left id was removed (orders.id)", id="join column",
        ),
        pytest.param(
            JOINED, replace(JOINED, sources=(CLICKS, ORDERS)),
            Difference(DifferenceKind.SOURCES_REORDERED, "sources", "", "orders, clicks", "clicks, orders"),
            "sources were orders, clicks in this order, are clicks, orders", id="sources reordered",
        ),
        pytest.param(
            STATELESS, replace(STATELESS, sources=(CLICKS,)),
            Difference(DifferenceKind.SOURCE_CHANGED, "source orders", "", "parquet file:/orders", "parquet file:/clicks"),
            "source orders was parquet file:/orders, is parquet file:/clicks", id="source changed",
        ),
        pytest.param(
            STATELESS, replace(STATELESS, sources=(ORDERS, CLICKS)),
            Difference(DifferenceKind.SOURCE_ADDED, "source clicks", after="parquet file:/clicks"),
            "source clicks was added (parquet file:/clicks)", id="source added",
        ),
        pytest.param(
            JOINED, replace(JOINED, sources=(CLICKS,)),
            Difference(DifferenceKind.SOURCE_REMOVED, "source orders", before="parquet file:/orders"),
            "source orders was removed (parquet file:/orders)", id="source removed",
        ),
        pytest.param(
            OLD, replace(OLD, watermarks=(Watermark("[1].seen", 10_000),)),
            Difference(DifferenceKind.WATERMARK_CHANGED, "watermark", "[1].ts", "[1].ts", "[1].seen"),
            "watermark was ts, is seen", id="watermark column",
        ),
        pytest.param(
            OLD, replace(OLD, watermarks=()),
            Difference(DifferenceKind.WATERMARK_CHANGED, "watermark", "[1].ts", "[1].ts", "none"),
            "watermark was ts, is none", id="watermark removed",
        ),
        pytest.param(
            OLD, replace(OLD, output_mode="complete"),
            Difference(DifferenceKind.OUTPUT_MODE_CHANGED, "output mode", "", "append", "complete"),
            "output mode was append, is complete", id="output mode",
        ),
    ],
)  # fmt: skip
def test_a_change_that_does_not_fit_the_stream_state_is_found_and_told(
    old: Description, new: Description, expected: Difference, told: str
) -> None:
    found = differences(old, new)
    assert found == (expected,)
    text = message(found, old, new)
    assert text.startswith(
        f"the query is incompatible with the state in its checkpoint: {told}. To go on, change the query back"
    )
    assert "upgradeMode Stateless" in text
    assert "onIncompatible StartFresh" in text


def test_several_operators_of_a_kind_are_numbered() -> None:
    old = replace(OLD, operators=(TOTALS, TOTALS))
    new = replace(OLD, operators=(TOTALS, replace(TOTALS, keys=(COUNTRY,))))
    assert [each.operator for each in differences(old, new)] == ["aggregate 2"]


def test_message_of_an_incompatible_state_is_bounded() -> None:
    columns = tuple(StateColumn(f"c{number}", "int", f"max([1].{'x' * 500}{number})") for number in range(40))
    new = with_operator(values=columns)
    text = message(differences(OLD, new), OLD, new)
    assert "more. To go on" in text
    assert len(text) < 2500


def test_another_spark_version_may_word_the_same_sql_differently() -> None:
    assert differences(OLD, replace(REWORDED, spark_version="4.2.0")) == ()
    changed = replace(REWORDED, spark_version="4.2.0", text_hash="other")
    found = differences(OLD, changed)
    assert [each.change for each in found] == [DifferenceKind.AGGREGATE_CHANGED]
    assert "written by Spark 4.1.4 and this is 4.2.0" in message(found, OLD, changed)
    assert differences(OLD, REWORDED)


def test_operators_of_equal_wording_are_told_apart_by_their_structure() -> None:
    old, new = whole("a"), whole("b", text_hash="other")
    assert not differences(old, old)
    (found,) = differences(old, new)
    assert found == Difference(
        DifferenceKind.OPERATOR_CHANGED, "aggregate", "key column country: JsonToStructs schema", "int", "long"
    )
    assert "aggregate: key column country: JsonToStructs schema was int, is long" in message((found,), old, new)
    assert differences(old, replace(new, text_hash=old.text_hash)), "the same text can mean something else"


def test_operators_of_equal_structure_are_equal_whatever_their_wording() -> None:
    reworded = replace(whole("a", text_hash="other").operators[0], values=(COUNT, replace(TOTAL, meaning="mean(x)")))
    assert not differences(whole("a"), replace(whole("a", text_hash="other"), operators=(reworded,)))


def test_an_opaque_function_goes_on_with_the_same_sql_only() -> None:
    assert not differences(whole("o"), whole("o"))
    found = differences(whole("o"), whole("o", text_hash="other"))
    assert [each.change for each in found] == [DifferenceKind.NOT_COMPARABLE]
    assert "com.example.Function, which cannot be distinguished from another" in message(found, OLD, OLD)


@pytest.mark.parametrize(
    ("old", "new", "text_hash", "expected"),
    [
        (("a", "b"), ("a", "b"), "other", []),
        (("a", "b"), ("b", "b"), "other", [DifferenceKind.OPERATOR_CHANGED]),  # a constant was folded in another way
        (("a", ""), ("a", "a"), "other", []),
        (("b", ""), ("a", "b"), "other", [DifferenceKind.NOT_COMPARABLE]),
        (("b", ""), ("a", "b"), "hash", []),
    ],
    ids=[
        "same",
        "other order in the state",
        "earlier version",
        "earlier version, folded",
        "earlier version, same text",
    ],
)
def test_order_of_the_state_is_compared_where_the_old_description_has_it(
    old: tuple[str, str], new: tuple[str, str], text_hash: str, expected: list[DifferenceKind]
) -> None:
    was, now = (whole(each[0], as_written=each[1]) for each in (old, new))
    assert [each.change for each in differences(was, replace(now, text_hash=text_hash))] == expected


def test_same_text_with_other_parameters_is_another_text() -> None:
    old = replace(whole("o"), parameters="one")
    assert not differences(old, old) and not differences(replace(old, parameters=None), old)
    assert differences(old, replace(old, parameters="two"))


def test_conditions_on_groups_are_compared() -> None:
    nodes: dict[str, Node] = {**NODES, "g": ["GroupFilter", {"operators": [1], "condition": {"ref": "k"}}]}
    filtered = replace(whole("a"), group_filters=("g",), nodes=nodes)
    assert not differences(filtered, filtered)
    assert [each.change for each in differences(whole("a"), filtered)] == [DifferenceKind.GROUP_FILTER_CHANGED]
    assert "condition on its groups was none" in message(differences(whole("a"), filtered), OLD, OLD)


def test_options_that_values_are_read_with_matter_to_state_alone() -> None:
    read = (replace(ORDERS, reading="nullvalue=1"),)
    assert [each.change for each in differences(OLD, replace(OLD, sources=read))] == [DifferenceKind.SOURCE_CHANGED]
    assert not differences(STATELESS, replace(STATELESS, sources=read))


def test_append_may_not_become_update_over_groups() -> None:
    """Those that get no more rows would never be told."""
    update = replace(OLD, output_mode="update")
    assert [each.change for each in differences(OLD, update)] == [DifferenceKind.OUTPUT_MODE_CHANGED]
    assert not differences(update, OLD)
    assert not differences(JOINED, replace(JOINED, output_mode="update"))
