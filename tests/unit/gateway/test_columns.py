"""Columns of Arrow in the styles of the frontends: one table of them all, and what holds for any column."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.results.columns import FLINK_JSON, FLINK_PLAIN, HIVE_JSON, ColumnStyle, hive_text, quoted, texts
from sparksql.wire.values import java_double

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 500000)
ROW = pa.struct([("a", pa.int32()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("value", "kind", "flink", "plain", "hive"),
    [
        (True, pa.bool_(), "true", "TRUE", "true"),
        (7, pa.int64(), "7", "7", "7"),
        (2.0, pa.float64(), "2.0", "2.0", "2.0"),
        (0.1, pa.float32(), "0.1", "0.1", "0.1"),
        (float("nan"), pa.float64(), '"NaN"', "NaN", '"NaN"'),
        (float("-inf"), pa.float64(), '"-Infinity"', "-Infinity", '"-Infinity"'),
        (Decimal("100.50"), pa.decimal128(10, 2), "100.5", "100.50", "100.50"),
        (Decimal("100"), pa.decimal128(10, 0), "1E+2", "100", "100"),
        (Decimal("0E-10"), pa.decimal128(20, 10), "0", "0.0000000000", "0.0000000000"),
        ('a"\n', pa.string(), '"a\\"\\n"', 'a"\n', '"a\\"\\n"'),
        (b"hi", pa.binary(), '"aGk="', "x'6869'", '"aGk="'),
        (datetime.date(2026, 1, 31), pa.date32(), '"2026-01-31"', "2026-01-31", '"2026-01-31"'),
        (364522683, pa.date32(), '"+999999-03-18"', "+999999-03-18", '"+999999-03-18"'),
        (NOON, pa.timestamp("us"), '"2026-01-31T12:00:00.5"', "2026-01-31 12:00:00.500000", '"2026-01-31 12:00:00.5"'),
        (
            NOON,
            pa.timestamp("us", "+09:00"),
            '"2026-01-31T21:00:00.5Z"',
            "2026-01-31 21:00:00.500000",
            '"2026-01-31 21:00:00.5"',
        ),
        ([1, None], pa.list_(pa.int32()), "[1,null]", "[1, NULL]", "[1,null]"),
        ([("k", 1)], pa.map_(pa.string(), pa.int32()), '{"k":1}', "{k=1}", '{"k":1}'),
        ({"a": 1, "b": None}, ROW, '{"a":1,"b":null}', "(1, NULL)", '{"a":1,"b":null}'),
        ({}, pa.struct([]), "{}", "()", "{}"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_value_in_each_style(value: Any, kind: pa.DataType, flink: str, plain: str, hive: str) -> None:
    column = pa.array([None, value, value], kind)
    for style, shown in ((FLINK_JSON, flink), (FLINK_PLAIN, plain), (HIVE_JSON, hive)):
        assert texts(column, style).to_pylist() == [None, shown, shown]
        assert texts(column.slice(1, 1), style).to_pylist() == [shown]


numbers = st.none() | st.integers(-(2**31), 2**31 - 1)
rows = st.none() | st.fixed_dictionaries({"a": numbers, "b": st.none() | st.text(max_size=4)})


@given(
    column=st.lists(st.none() | st.lists(rows, max_size=3), max_size=6),
    begin=st.integers(0, 6),
    style=st.sampled_from([FLINK_JSON, HIVE_JSON]),
)
def test_nested_values_are_json_that_reads_back_as_they_are_wherever_a_column_is_cut(
    column: list[Any], begin: int, style: ColumnStyle
) -> None:
    shown = texts(pa.array(column, pa.list_(ROW)).slice(begin), style).to_pylist()
    assert [None if text is None else json.loads(text) for text in shown] == column[begin:]


@given(st.lists(st.none() | st.floats(), max_size=8))
def test_doubles_in_plain_text_are_written_one_way(column: list[float | None]) -> None:
    shown = texts(pa.array(column, pa.float64()), FLINK_PLAIN).to_pylist()
    assert shown == [None if value is None else java_double(value) for value in column]


@given(st.lists(st.none() | st.text(max_size=4), max_size=5))
def test_texts_are_left_as_they_are_where_a_column_is_text(column: list[str | None]) -> None:
    assert hive_text(pa.array(column, pa.string())).to_pylist() == column


@given(st.lists(st.none() | st.text(alphabet='a"\\\n\x1f\u00e9', max_size=3), max_size=5), st.integers(0, 2))
def test_texts_as_json_read_back_as_they_are_whatever_their_neighbours_hold(
    column: list[str | None], begin: int
) -> None:
    shown = quoted(pa.array(column, pa.string()).slice(begin)).to_pylist()
    assert [None if text is None else json.loads(text) for text in shown] == column[begin:]


@given(st.lists(st.none() | st.floats() | st.integers(-(2**60), 2**60).map(float), max_size=5))
def test_doubles_as_json_are_never_integers_and_keep_their_values(column: list[float | None]) -> None:
    shown = texts(pa.array(column, pa.float64()), FLINK_JSON).to_pylist()
    read = [None if text is None else json.loads(text) for text in shown]
    assert [value if value is None else repr(float(value)) for value in read] == [
        value if value is None else repr(value) for value in column
    ]
    assert not any(isinstance(value, int) for value in read)
