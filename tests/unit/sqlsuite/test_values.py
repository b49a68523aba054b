"""Types and values: from what a protocol carries to what Hive's command line shows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.sqlsuite.decoding import FLINK, SPARK, TextStyle, from_json, from_text, parse_json
from tests.sqlsuite.printing import java_number, shown
from tests.sqlsuite.times import date_text, timestamp_micros, timestamp_text
from tests.sqlsuite.types import UnreadableError, column_types, parse_type

PACIFIC = ZoneInfo("America/Los_Angeles")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("int", "int"),
        ("decimal(10,2)", "decimal"),
        ("interval day to second", "interval"),
        ("string collate UNICODE_CI", "string"),
        ("geometry(any)", "geometry"),
        ("array<map<string,struct<a:time(6),b:char(3)>>>", "array"),
        ("struct<>", "struct"),
    ],
)
def test_type_is_read_from_its_text(text: str, name: str) -> None:
    kind = parse_type(text)
    assert (kind.text, kind.name) == (text, name)


@pytest.mark.parametrize("text", ["", "array<int", "array<int>>", "struct<a>", "INT"])
def test_text_that_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError):
        parse_type(text)


def test_columns_with_marks_in_their_names_are_read_by_these_names() -> None:
    schema = "struct<named_struct(a, 1):struct<a:int>,x < 1:boolean,a:b:string>"
    kinds = column_types(schema, ["named_struct(a, 1)", "x < 1", "a:b"])
    assert [kind.text for kind in kinds] == ["struct<a:int>", "boolean", "string"]
    with pytest.raises(UnreadableError):
        column_types(schema, ["named_struct(a, 1)", "x < 1"])


def test_part_of_a_nested_type_is_found_by_its_first_word() -> None:
    kind = parse_type("map<string,array<interval day>>")
    assert kind.has("interval") and kind.has("map") and not kind.has("struct")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "int", "NULL"),
        (True, "boolean", "true"),
        ("a b", "string", "a b"),
        (Decimal("1.50"), "decimal(3,2)", "1.50"),
        (Decimal("1E-18"), "decimal(38,18)", "0.000000000000000001"),
        (14, "interval year to month", "1-2"),
        (-3, "interval month", "-0-3"),
        (93_784_500_000, "interval day to second", "1 02:03:04.500000000"),
        (-1, "interval second", "-0 00:00:00.000001000"),
        ("1 months 2 days", "interval", "1 months 2 days"),
        ([None, "x"], "array<string>", '[null,"x"]'),
        ([("b", 2), ("a", None)], "map<string,int>", '{"a":null,"b":2}'),
        ((1, [True]), "struct<a:int,b:array<boolean>>", '{"a":1,"b":[true]}'),
        (["2020-01-01"], "array<date>", "[2020-01-01]"),
        (b"a\xff", "binary", "a\ufffd"),
    ],
)
def test_value_is_shown_as_hive_shows_it(value: Any, kind: str, text: str) -> None:
    assert shown(value, parse_type(kind)) == text


@pytest.mark.parametrize(
    ("style", "text"),
    [("UTF-8", "\x01\ufffd"), ("BASIC", "[1, -1]"), ("BASE64", "Af8"), ("HEX", "01FF"), ("HEX_DISCRETE", "[01 FF]")],
)
def test_binary_is_shown_in_the_style_of_its_session(style: str, text: str) -> None:
    assert shown(b"\x01\xff", parse_type("binary"), style) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1.25e-5, "1.25E-5"),
        (1e23, "1.0E23"),
        (5e-324, "4.9E-324"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_double_is_written_as_java_writes_it(value: float, text: str) -> None:
    assert java_number(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.1, "0.1"), (16777216.0, "1.6777216E7"), (1.4e-45, "1.4E-45")])
def test_float_has_the_digits_of_single_precision(value: float, text: str) -> None:
    assert java_number(value, single=True) == text


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01 00:00:00",
        "2024-02-29 12:34:56.123456",
        "1900-02-28 23:59:59.5",
        "0000-12-31 00:00:00",
        "-0044-03-15 01:02:03",
        "+294247-01-10 04:00:54.775807",
    ],
)
def test_timestamp_of_any_year_is_read_and_written(text: str) -> None:
    micros = timestamp_micros(text)
    assert micros is not None and timestamp_text(micros) == text


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("2020-07-01 00:00:00", "2020-06-30 17:00:00"),
        ("2020-01-01 00:00:00", "2019-12-31 16:00:00"),
        ("+12020-07-01 00:00:00", "+12020-06-30 17:00:00"),
        ("1500-01-01 00:00:00", "1499-12-31 16:07:02"),
        ("-0001-01-01 00:00:00", "-0002-12-31 16:07:02"),
    ],
)
def test_instant_is_shown_by_the_clock_of_its_zone(text: str, local: str) -> None:
    micros = timestamp_micros(text)
    assert micros is not None and timestamp_text(micros, PACIFIC) == local


@pytest.mark.parametrize(
    ("days", "text"), [(0, "1970-01-01"), (2932896, "9999-12-31"), (2932897, "+10000-01-01"), (-719529, "-0001-12-31")]
)
def test_date_of_any_year_is_written(days: int, text: str) -> None:
    assert date_text(days) == text


@pytest.mark.parametrize(
    ("json", "kind", "text"),
    [
        ("null", "int", "NULL"),
        ("9007199254740993", "bigint", "9007199254740993"),
        ("1.5", "decimal(10,3)", "1.500"),
        ("1E+2", "decimal(38,0)", "100"),
        ('"-0.000000000000000001"', "decimal(38,18)", "-0.000000000000000001"),
        ('"NaN"', "double", "NaN"),
        ("2.5", "float", "2.5"),
        ('"YWI="', "binary", "ab"),
        ('"2020-01-01T01:02:03.5Z"', "timestamp", "2020-01-01 01:02:03.5"),
        (
            '{"b":[1,null],"a":{"x":true}}',
            "struct<a:map<string,boolean>,b:array<int>>",
            '{"a":{"x":true},"b":[1,null]}',
        ),
        ('{"2":"b","1":"a"}', "map<int,string>", '{1:"a",2:"b"}'),
    ],
)
def test_json_value_is_read_by_its_type(json: str, kind: str, text: str) -> None:
    assert shown(from_json(parse_json(json), parse_type(kind)), parse_type(kind)) == text


@pytest.mark.parametrize(
    ("carried", "style", "kind", "text"),
    [
        ("INTERVAL '1-2' YEAR TO MONTH", SPARK, "interval year to month", "1-2"),
        ("INTERVAL '-1 02:03:04.5' DAY TO SECOND", SPARK, "interval day to second", "-1 02:03:04.500000000"),
        ("INTERVAL '90' MINUTE", SPARK, "interval minute", "0 01:30:00.000000000"),
        ("3 days", SPARK, "interval", "3 days"),
        ("[1, null]", SPARK, "array<interval>", "[1,null]"),
        ("{a -> INTERVAL '1' DAY}", SPARK, "map<string,interval day>", '{"a":1 00:00:00.000000000}'),
        ("{1, [x, y], null}", SPARK, "struct<a:int,b:array<string>,c:time(6)>", '{"a":1,"b":["x","y"],"c":null}'),
        ("{1=TRUE, 2=NULL}", FLINK, "map<int,boolean>", "{1:true,2:null}"),
        ("(x'6162', [2020-01-01 00:00:00.500000])", FLINK, "struct<a:binary,b:array<timestamp>>", '{"a":ab,"b":[2020-01-01 00:00:00.5]}'),
        ("[]", SPARK, "array<void>", "[]"),
        ("not a list", SPARK, "array<int>", "not a list"),
    ],
)  # fmt: skip
def test_text_of_another_type_is_read_by_it(carried: str, style: TextStyle, kind: str, text: str) -> None:
    assert shown(from_text(carried, parse_type(kind), style), parse_type(kind)) == text
