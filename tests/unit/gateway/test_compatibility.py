"""What a changed text may do with the state of the one before: differences of descriptions, and what people are told of them."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.reasons import Reason
from sparksql.gateway.streaming.checkpoints.batch_files import belongs
from sparksql.gateway.streaming.state.compatibility import Difference, DifferenceKind, differences, message
from sparksql.gateway.streaming.state.describe import undescribed
from sparksql.gateway.streaming.state.description import (
    AGGREGATE,
    Description,
    DescriptionError,
    StateColumn,
    StatefulOperator,
    StreamSource,
    Watermark,
)
from sparksql.gateway.streaming.state.description_file import CONDITIONS, NAME, is_refusal, refused
from sparksql.gateway.streaming.state.structure_nodes import Node
from sparksql.wire.control import ErrorReason, OperationError

ORDERS, CLICKS = StreamSource("orders", "parquet file:/orders"), StreamSource("clicks", "parquet file:/clicks")
COUNTRY, CITY = StateColumn("country", "string", "[1].country"), StateColumn("city", "string", "[1].city")
COUNT, TOTAL = StateColumn("n", "bigint", "count(1)"), StateColumn("total", "bigint", "sum([1].amount)")
TOTALS = StatefulOperator(AGGREGATE, (COUNTRY, CITY), (COUNT, TOTAL), inputs=("source 1",))
JOIN = StatefulOperator(
    "join of streams",
    (StateColumn("id", "int", "[1].id = [2].id"),),
    (StateColumn("left id", "int", "[1].id"), StateColumn("right id", "int", "[2].id")),
    (("type", "Inner"), ("condition", "none")),
    ("source 1", "source 2"),
)
OLD = Description("4.1.4", "hash", "append", (ORDERS,), (Watermark("[1].ts", 10_000),), (TOTALS,))
JOINED = replace(OLD, sources=(ORDERS, CLICKS), operators=(JOIN,))
STATELESS = replace(OLD, watermarks=(), operators=())


def with_operator(**changes: Any) -> Description:
    return replace(OLD, operators=(replace(TOTALS, **changes),))


RENAMED = with_operator(keys=(replace(COUNTRY, name="c"), CITY), values=(COUNT, replace(TOTAL, name="sum")))


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
        f"the SQL text does not fit the state in its checkpoint: {told}. To go on, change the text back"
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


REWORDED = with_operator(values=(COUNT, replace(TOTAL, meaning="sum(cast([1].amount AS bigint))")))


def test_another_spark_version_may_word_the_same_sql_differently() -> None:
    assert differences(OLD, replace(REWORDED, spark_version="4.2.0")) == ()
    changed = replace(REWORDED, spark_version="4.2.0", text_hash="other")
    found = differences(OLD, changed)
    assert [each.change for each in found] == [DifferenceKind.AGGREGATE_CHANGED]
    assert "written by Spark 4.1.4 and this is 4.2.0" in message(found, OLD, changed)
    assert differences(OLD, REWORDED)


NODES: dict[str, Node] = {
    "a": ["Aggregate", {"keys": [[{"ref": "k"}, []]], "functions": [], "input": {"ref": "s"}}],
    "b": ["Aggregate", {"keys": [[{"ref": "l"}, []]], "functions": [], "input": {"ref": "s"}}],
    "k": ["JsonToStructs", {"schema": {"type": "int"}, "child": "j"}],
    "l": ["JsonToStructs", {"schema": {"type": "long"}, "child": "j"}],
    "o": ["Aggregate", {"keys": [], "functions": [{"ref": "x"}], "input": {"ref": "s"}}],
    "x": ["Opaque", {"of": "com.example.Function"}],
    "s": ["Source", {"number": 1}],
}


def whole(digest: str, **changes: Any) -> Description:
    return replace(with_operator(structure=digest), nodes=NODES, **changes)


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
    assert "com.example.Function, which cannot be told from another" in message(found, OLD, OLD)


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


FIRST = replace(OLD, version=1)


def first_version(description: Description) -> str:
    """As it was written before there were structures."""
    raw = json.loads(replace(description, version=1).to_json())
    for name in ("group_filters", "nodes"):
        del raw[name]
    for each in raw["operators"]:
        del each["structure"]
    for each in raw["sources"]:
        del each["reading"]
    return json.dumps(raw)


def test_a_description_of_the_first_version_is_read() -> None:
    assert Description.from_json(first_version(OLD)) == FIRST


def test_the_same_text_goes_on_from_a_description_of_the_first_version() -> None:
    assert not differences(FIRST, whole("a"))
    assert not differences(FIRST, replace(whole("a"), sources=(replace(ORDERS, reading="x=1"),), group_filters=("g",)))
    assert differences(FIRST, replace(whole("a"), sources=(CLICKS,)))
    assert differences(FIRST, replace(REWORDED, nodes=NODES)), "a view or a function that is another one"


def test_changed_stateful_sql_does_not_go_on_from_a_version_1_description() -> None:
    new = whole("a", text_hash="other")
    found = differences(FIRST, new)
    assert [each.change for each in found] == [DifferenceKind.NOT_COMPARABLE]
    assert "start the text that the state is of once" in message(found, FIRST, new)
    assert [each.change for each in differences(FIRST, replace(new, sources=(CLICKS,)))] == [
        DifferenceKind.SOURCE_CHANGED
    ]
    assert not differences(replace(STATELESS, version=1), replace(STATELESS, text_hash="other"))


def test_the_current_time_of_the_first_version_may_have_been_a_literal() -> None:
    of_today, now = (
        with_operator(keys=(COUNTRY, replace(CITY, meaning=each))) for each in ("DATE '2026-01-01'", "current_date()")
    )
    assert not differences(replace(of_today, version=1), now)
    assert not differences(replace(now, version=1), of_today)
    assert differences(replace(now, version=1), replace(of_today, text_hash="other"))


def test_another_spark_version_is_held_to_types_operators_and_sources() -> None:
    typed = with_operator(values=(COUNT, replace(TOTAL, type="double")))
    for other, change in (
        (typed, DifferenceKind.AGGREGATE_CHANGED),
        (STATELESS, DifferenceKind.OPERATOR_REMOVED),
        (replace(OLD, sources=(CLICKS,)), DifferenceKind.SOURCE_CHANGED),
    ):
        assert [each.change for each in differences(OLD, replace(other, spark_version="4.2.0"))] == [change]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"version": 3}', OLD.to_json().replace('"kind"', '"sort"')]
)
def test_a_malformed_state_description_is_refused(text: str) -> None:
    with pytest.raises(DescriptionError):
        Description.from_json(text)


texts = st.text(max_size=8)
columns = st.lists(st.builds(StateColumn, texts, texts, texts), max_size=3).map(tuple)
pairs = st.lists(st.tuples(texts, texts), max_size=2).map(tuple)
operators = st.builds(
    StatefulOperator,
    st.sampled_from([AGGREGATE, "limit"]),
    columns,
    columns,
    pairs,
    st.lists(texts, max_size=2).map(tuple),
)
descriptions = st.builds(
    Description,
    spark_version=st.sampled_from(["4.1.4", "4.2.0"]),
    text_hash=st.sampled_from(["", "a", "b"]),
    output_mode=st.sampled_from(["append", "update", "complete"]),
    sources=st.lists(st.builds(StreamSource, texts, texts), max_size=3).map(tuple),
    watermarks=st.lists(st.builds(Watermark, texts, st.integers(0, 10**9)), max_size=2).map(tuple),
    operators=st.lists(operators, max_size=3).map(tuple),
    confs=pairs,
)


@given(descriptions)
def test_a_description_comes_back_from_its_file_and_fits_itself(description: Description) -> None:
    again = Description.from_json(description.to_json())
    assert again == description
    assert differences(description, again) == ()


@given(descriptions, descriptions)
def test_differences_are_found_in_both_directions_and_can_be_told(old: Description, new: Description) -> None:
    found, back = differences(old, new), differences(new, old)
    # Of output modes alone one may go on from the other and not the other way round.
    one_way = {DifferenceKind.OUTPUT_MODE_CHANGED}
    assert bool({each.change for each in found} - one_way) == bool({each.change for each in back} - one_way)
    if "complete" in (old.output_mode, new.output_mode):
        assert bool(found) == bool(back)
    if found:
        assert message(found, old, new)


@given(descriptions, st.data())
def test_any_other_meaning_of_a_column_is_found(old: Description, data: st.DataObject) -> None:
    places = [
        (index, part, column)
        for index, each in enumerate(old.operators)
        for part in ("keys", "values")
        for column in range(len(getattr(each, part)))
    ]
    if not places:
        return
    index, part, column = data.draw(st.sampled_from(places))
    changed = list(getattr(old.operators[index], part))
    changed[column] = replace(changed[column], meaning=changed[column].meaning + "!")
    others = list(old.operators)
    others[index] = (
        replace(others[index], keys=tuple(changed)) if part == "keys" else replace(others[index], values=tuple(changed))
    )
    assert differences(old, replace(old, operators=tuple(others)))


@pytest.mark.parametrize("batch", [0, 7])
def test_a_savepoint_takes_the_description_along(batch: int) -> None:
    assert belongs(NAME, batch)
    assert not belongs(f".{NAME}.crc", batch)


@pytest.mark.parametrize(
    ("condition", "text", "expected"),
    [
        ("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", "Provided value schema does not match.", True),
        (
            None,
            "assertion failed: There are [1] sources in the checkpoint offsets and now there are [2] sources.",
            True,
        ),
        ("DIVIDE_BY_ZERO", "Division by zero.", False),
        (None, "boom", False),
    ],
)
def test_refusals_of_spark_are_told_from_other_ends(condition: str | None, text: str, expected: bool) -> None:
    error = OperationError(condition=condition, message=text)
    assert is_refusal(error) is expected
    if expected:
        told = refused(error)
        assert told.reason is ErrorReason.STATE_INCOMPATIBLE
        assert Reason(told.reason) is Reason.STATE_INCOMPATIBLE
        assert text.rstrip(".") in told.message and "upgradeMode Stateless" in told.message


def test_spark_knows_the_conditions_that_are_taken_for_refusals() -> None:
    """So that a new version of Spark which renames one is noticed."""
    [jar] = (Path(pyspark.__file__).parent / "jars").glob("spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as archive:
        known = json.loads(archive.read("error/error-conditions.json"))
    for condition in CONDITIONS:
        main, _, sub = condition.partition(".")
        assert main in known and (not sub or sub in known[main]["subClass"]), condition


def test_a_query_that_cannot_be_described_fits_its_own_sql_only() -> None:
    one, other = (undescribed("4.1.4", text, "Append") for text in ("one", "other"))
    assert differences(one, one) == ()
    [gone, come] = differences(one, other)
    assert (gone.change, come.change) == (DifferenceKind.OPERATOR_REMOVED, DifferenceKind.OPERATOR_ADDED)
    assert "text " in message((gone, come), one, other)


def test_a_query_that_cannot_be_described_is_still_held_to_its_sources() -> None:
    of_orders, of_clicks = (undescribed("4.1.4", "one", "append", (each,)) for each in (ORDERS, CLICKS))
    assert Description.from_json(of_orders.to_json()) == of_orders
    assert not differences(of_orders, of_orders)
    assert not differences(of_orders, replace(of_orders, sources=(replace(ORDERS, name="o"),)))
    [found] = differences(of_orders, of_clicks)
    assert found.change is DifferenceKind.SOURCE_CHANGED
    read = replace(of_orders, sources=(replace(ORDERS, reading="nullvalue=1"),))
    assert [each.change for each in differences(of_orders, read)] == [DifferenceKind.SOURCE_CHANGED]
    known = replace(OLD, text_hash=of_orders.text_hash)
    assert not differences(known, of_orders) and not differences(of_orders, known)
    assert [each.change for each in differences(known, of_clicks)] == [DifferenceKind.SOURCE_CHANGED]


def test_sources_that_could_not_be_read_bind_nobody() -> None:
    unread, of_orders = undescribed("4.1.4", "one", "append"), undescribed("4.1.4", "one", "append", (ORDERS,))
    assert not differences(unread, of_orders) and not differences(of_orders, unread)
    other = undescribed("4.1.4", "other", "append", (ORDERS,))
    assert {each.change for each in differences(unread, other)} == {
        DifferenceKind.OPERATOR_REMOVED,
        DifferenceKind.OPERATOR_ADDED,
    }
