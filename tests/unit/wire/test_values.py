"""Values as text and as JSON: a table of what is written, and what holds for any value."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.wire.values import java_double, json_of_text, text

BELOW_TEN_MILLION = math.nextafter(1e7, 0)
BELOW_A_THOUSANDTH = math.nextafter(1e-3, 0)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
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
    ("value", "shown"),
    [
        (None, None),
        (True, "true"),
        (7, "7"),
        (1e10, "1.0E10"),
        ("x", "x"),
        ([1, None, "x"], '[1, null, "x"]'),
        ({"a": {"b": True}}, '{"a": {"b": true}}'),
    ],
)
def test_a_json_value_is_shown_as_text(value: Any, shown: str | None) -> None:
    assert text(value) == shown


@given(values)
def test_lists_and_objects_are_shown_as_the_json_that_they_are(value: Any) -> None:
    if isinstance(value, list | dict):
        assert json.loads(text(value) or "") == value


@given(st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_cast_to_text_is_the_same_json(value: bool | int | float) -> None:
    column_type = {bool: "boolean", int: "bigint", float: "double"}[type(value)]
    shown = text(value)
    assert shown is not None
    assert json.dumps(json_of_text(shown, column_type)) == json.dumps(value)


@pytest.mark.parametrize("shown", ["NaN", "Infinity", "-Infinity"])
def test_a_double_that_json_does_not_have_stays_text(shown: str) -> None:
    assert json_of_text(shown, "double") == shown
