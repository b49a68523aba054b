from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.cli.cells import cell_text, is_plain, json_cell, json_text, printable, width


@pytest.mark.parametrize(
    ("value", "text", "as_json"),
    [
        (None, None, None),
        ("", "", ""),
        ("a\nb", "a\nb", "a\nb"),
        (True, "true", True),
        (0, "0", 0),
        (2**63 - 1, "9223372036854775807", 2**63 - 1),
        (1.5, "1.5", 1.5),
        (-0.001, "-0.001", -0.001),
        (1e10, "1.0E10", 1e10),
        (-1.25e-7, "-1.25E-7", -1.25e-7),
        (9999999.5, "9999999.5", 9999999.5),
        (12345678.9, "1.23456789E7", 12345678.9),
        (0.0, "0.0", 0.0),
        ([1, None, "2.0"], '[1, null, "2.0"]', [1, None, "2.0"]),
        ({"a": {"b": "ä"}}, '{"a": {"b": "ä"}}', {"a": {"b": "ä"}}),
    ],
)
def test_text_and_json_of_a_cell(value: Any, text: str | None, as_json: Any) -> None:
    assert cell_text(value) == text
    assert json_cell(value) == as_json


@pytest.mark.parametrize(
    ("text", "column_type", "value"),
    [
        ("7", "int", 7),
        ("-9223372036854775808", "bigint", -(2**63)),
        ("1.0E10", "double", 1e10),
        ("NaN", "double", "NaN"),
        ("true", "boolean", True),
        ("false", "boolean", False),
        ("1.10", "decimal(10,2)", "1.10"),
        ("7", "string", "7"),
        ("2026-01-31", "date", "2026-01-31"),
    ],
)
def test_a_preview_cell_is_the_same_json_as_the_full_value(text: str, column_type: str, value: Any) -> None:
    assert json_cell(text, column_type) == value


@pytest.mark.parametrize(
    ("column_type", "plain"),
    [("int", True), ("string", True), ("decimal(38,0)", True), ("double", False), ("timestamp", False),
     ("array<int>", False), ("binary", False)],
)  # fmt: skip
def test_only_types_that_the_preview_tells_in_full_are_plain(column_type: str, plain: bool) -> None:
    assert is_plain(column_type) is plain


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain äöü 漢字 😀", "plain äöü 漢字 😀"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\r\n\tb\x00", r"a\r\n\tb\x00"),
        ("\x9b2J", r"\x9b2J"),
        ("abc\u202egnp.exe", r"abc\u202egnp.exe"),
        ("zero\u200bwidth\u2028", r"zero\u200bwidth\u2028"),
        ("\ud800", r"\ud800"),
        (r"back\slash", r"back\slash"),
    ],
)
def test_control_and_invisible_characters_are_escaped_in_terminal_text(text: str, safe: str) -> None:
    assert printable(text) == safe


def test_terminal_text_keeps_the_control_characters_that_the_caller_exempts() -> None:
    assert printable("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"


@given(st.text())
def test_json_text_is_safe_and_says_the_same(text: str) -> None:
    written = json_text({"a": text})
    assert printable(written) == written
    assert json.loads(written) == {"a": text}


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("漢字", 4), ("e\u0301", 1), ("ä", 1)])
def test_width_of_a_text_counts_terminal_columns(text: str, columns: int) -> None:
    assert width(text) == columns
