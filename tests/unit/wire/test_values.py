"""Values as text and as JSON: a table of what is written, and what holds for any value."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.wire.values import Nested, java_double, json_of_text, json_value, text

BELOW_TEN_MILLION = math.nextafter(1e7, 0)
BELOW_A_THOUSANDTH = math.nextafter(1e-3, 0)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3)
    | st.dates()
    | st.datetimes()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1e-3, "0.001"),
        (BELOW_A_THOUSANDTH, "9.999999999999998E-4"),
        (BELOW_TEN_MILLION, "9999999.999999998"),
        (1e7, "1.0E7"),
        (-1.25e-7, "-1.25E-7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "5.0E-324"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_a_double_is_written_as_java_writes_it(value: float, shown: str) -> None:
    assert java_double(value) == shown


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_double_reads_back_as_itself_and_has_an_exponent_outside_of_java_s_range(value: float) -> None:
    shown = java_double(value)
    assert float(shown) == value
    assert ("E" in shown) == (value != 0 and not 1e-3 <= abs(value) < 1e7)
    assert "." in shown


@pytest.mark.parametrize(
    ("value", "spark", "as_json"),
    [
        (None, None, "null"),
        (True, "true", "true"),
        (7, "7", "7"),
        (1e10, "1.0E10", "10000000000.0"),
        (math.inf, "Infinity", '"Infinity"'),
        (Decimal("0E-10"), "0.0000000000", '"0.0000000000"'),
        (date(2026, 1, 31), "2026-01-31", '"2026-01-31"'),
        (datetime(2026, 1, 31, 8, 0, 1, 500000, UTC), "2026-01-31 08:00:01.5", '"2026-01-31 08:00:01.5"'),
        (datetime(2026, 1, 31, 8), "2026-01-31 08:00:00", '"2026-01-31 08:00:00"'),
        (timedelta(days=1, seconds=2), "1 day, 0:00:02", '"1 day, 0:00:02"'),
        (b"ab", "YWI=", '"YWI="'),
        ([1, None, "x"], "[1, null, x]", '[1, null, "x"]'),
        ({"a": {"b": True}}, "{a -> {b -> true}}", '{"a": {"b": true}}'),
    ],
)
def test_a_value_as_spark_prints_it_and_as_json(value: Any, spark: str | None, as_json: str) -> None:
    assert text(value) == spark
    assert json.dumps(json_value(value)) == as_json


@pytest.mark.parametrize(
    ("pairs", "shown"), [([("k", 1)], {"k": 1}), ([("", 1), ("null", 2)], {"": 1, "null": 2}), ([(1, None)], {"1": None}), ([(1.5, [2]), (True, "x")], {"1.5": [2], "true": "x"})]
)  # fmt: skip
def test_pairs_as_arrow_gives_a_map_are_an_object(pairs: list[tuple[Any, Any]], shown: dict[str, Any]) -> None:
    assert json_value(pairs) == shown


@given(values)
def test_json_holds_any_value_and_nested_values_are_json_in_that_style(value: Any) -> None:
    written = json.dumps(json_value(value), allow_nan=False, ensure_ascii=False)
    if isinstance(value, list | dict):
        assert text(value, Nested.JSON) == written
    else:
        assert text(value, Nested.JSON) == text(value)


@given(values)
def test_the_text_of_a_value_is_that_of_its_json(value: Any) -> None:
    if not isinstance(value, list | dict):
        assert text(json_value(value)) == text(value)


@given(st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats())
def test_a_number_cast_to_text_is_the_same_json(value: bool | int | float) -> None:
    column_type = {bool: "boolean", int: "bigint", float: "double"}[type(value)]
    shown = text(value)
    assert shown is not None
    assert json.dumps(json_of_text(shown, column_type)) == json.dumps(json_value(value))
