"""A stream's description in its checkpoint: versions before, malformed files, savepoints, refusals of Spark, queries without one."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.reasons import Reason
from sparksql.gateway.streaming.checkpoints.batch_files import belongs
from sparksql.gateway.streaming.state.compatibility import differences
from sparksql.gateway.streaming.state.description import (
    AGGREGATE,
    Description,
    DescriptionError,
    Setting,
    StateColumn,
    StatefulOperator,
    StreamSource,
    Watermark,
)
from sparksql.gateway.streaming.state.description_file import CONDITIONS, NAME, is_refusal, refused
from sparksql.gateway.streaming.state.difference import DifferenceKind
from sparksql.gateway.streaming.state.messages import message
from sparksql.gateway.streaming.state.outline import undescribed
from sparksql.wire.control import ErrorReason, OperationError
from tests.unit.gateway.descriptions import (
    CITY,
    CLICKS,
    COUNT,
    COUNTRY,
    JOINED,
    NODES,
    OLD,
    ORDERS,
    REWORDED,
    STATELESS,
    TOTAL,
    whole,
    with_operator,
)

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
        (
            "STREAM_FAILED",
            "There are [2] sources in the checkpoint offsets and now there are [1] sources requested.",
            True,
        ),
        (
            "USER_RAISED_EXCEPTION",
            "There are [1] sources in the checkpoint offsets and now there are [2] sources",
            False,
        ),
        (None, "the sources in the checkpoint offsets", False),
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


TEXTS = st.sampled_from(["one", "other"])
SOURCES = st.sampled_from([(ORDERS,), (CLICKS,), (ORDERS, CLICKS)])
SETTINGS = st.sampled_from([(), (Setting("spark.sql.x", "1", "0"),), (Setting("spark.sql.x", "2", "0"),)])
OPERATORS = st.sampled_from([OLD, JOINED, STATELESS, whole("a"), whole("b")])


@given(
    texts=st.tuples(TEXTS, TEXTS),
    sources=st.tuples(SOURCES, SOURCES),
    given_settings=st.tuples(SETTINGS, SETTINGS),
    new=OPERATORS,
)
def test_state_with_an_outline_is_gone_on_from_by_the_same_text_sources_and_settings_alone(
    texts: tuple[str, str],
    sources: tuple[tuple[StreamSource, ...], tuple[StreamSource, ...]],
    given_settings: tuple[tuple[Setting, ...], tuple[Setting, ...]],
    new: Description,
) -> None:
    """A driver has died in the first batch, before the description was written: the next one has read the whole plan."""
    left = replace(undescribed("4.1.4", texts[0], "append", sources[0]), settings=given_settings[0])
    text_hash = undescribed("4.1.4", texts[1], "append").text_hash
    come = replace(new, text_hash=text_hash, sources=sources[1], settings=given_settings[1])
    same = (texts[0], sources[0], given_settings[0]) == (texts[1], sources[1], given_settings[1])
    assert (not differences(Description.from_json(left.to_json()), come)) == same
