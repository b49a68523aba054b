"""Values as the released server writes them, in both row formats, whatever way Arrow holds them."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import struct
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.frontends.rest.models import RowFormat
from sparksql.gateway.frontends.rest.rows import write_arrow, write_rows
from sparksql.gateway.frontends.rest.types import logical_type
from sparksql.gateway.results.zones import UnknownZoneError, wall_clock
from sparksql.wire.values import java_double
from tests.support.work import seconds

MOMENT = dt.datetime(2024, 2, 29, 12, 34, 56, 123456)


def written(array: pa.Array, spark_type: str, row_format: RowFormat) -> list[str]:
    """The JSON text of each value, as it stands in the page."""
    text = write_rows(pa.table({"c0": array}), [logical_type(spark_type)], row_format).decode()
    begin, between, end = '[{"kind":"INSERT","fields":[', ']},{"kind":"INSERT","fields":[', "]}]"
    assert text.startswith(begin) and text.endswith(end), text
    return text[len(begin) : -len(end)].split(between)


# Spark's type, Arrow's, a value, what JSON and what PLAIN_TEXT make of it.
VALUES: list[tuple[str, pa.DataType, Any, str, str]] = [
    ("boolean", pa.bool_(), True, "true", '"TRUE"'),
    ("tinyint", pa.int8(), -1, "-1", '"-1"'),
    ("smallint", pa.int16(), 2, "2", '"2"'),
    ("int", pa.int32(), 3, "3", '"3"'),
    ("bigint", pa.int64(), 2**63 - 1, "9223372036854775807", '"9223372036854775807"'),
    ("float", pa.float32(), 0.1, "0.1", '"0.1"'),
    ("float", pa.float32(), 1e10, "1e+10", '"1.0E10"'),
    ("double", pa.float64(), 2.25, "2.25", '"2.25"'),
    ("double", pa.float64(), 1e8, "100000000.0", '"1.0E8"'),
    ("double", pa.float64(), -9999999999.0, "-9999999999.0", '"-9.999999999E9"'),
    ("double", pa.float64(), 1e10, "1e+10", '"1.0E10"'),
    ("double", pa.float64(), 1e100, "1e+100", '"1.0E100"'),
    ("double", pa.float64(), 1e-7, "1e-7", '"1.0E-7"'),
    ("double", pa.float64(), -0.0, "-0.0", '"-0.0"'),
    ("double", pa.float64(), math.inf, '"Infinity"', '"Infinity"'),
    ("double", pa.float64(), -math.inf, '"-Infinity"', '"-Infinity"'),
    ("double", pa.float64(), math.nan, '"NaN"', '"NaN"'),
    ("decimal(10,2)", pa.decimal128(10, 2), Decimal("12.30"), "12.3", '"12.30"'),
    ("decimal(10,0)", pa.decimal128(10, 0), Decimal(100), "1E+2", '"100"'),
    ("decimal(20,2)", pa.decimal128(20, 2), Decimal("0.00"), "0", '"0.00"'),
    ("decimal(20,2)", pa.decimal128(20, 2), Decimal("-70.00"), "-7E+1", '"-70.00"'),
    ("decimal(20,2)", pa.decimal128(20, 2), Decimal("70.10"), "70.1", '"70.10"'),
    ("decimal(9,8)", pa.decimal128(9, 8), Decimal("-0.00000012"), "-1.2E-7", '"-0.00000012"'),
    ("decimal(9,8)", pa.decimal128(9, 8), Decimal("0.00000120"), "0.0000012", '"0.00000120"'),
    (
        "decimal(38,18)",
        pa.decimal128(38, 18),
        Decimal("0.000000001000000000"),
        "1E-9",
        '"0.000000001000000000"',
    ),
    (
        "decimal(38,9)",
        pa.decimal128(38, 9),
        Decimal("12345678901234567890.123456789"),
        "12345678901234567890.123456789",
        '"12345678901234567890.123456789"',
    ),
    ("string", pa.string(), 'é漢😀 "q" \\ \t', '"é漢😀 \\"q\\" \\\\ \\t"', '"é漢😀 \\"q\\" \\\\ \\t"'),
    ("string", pa.string(), '\\"\0\x1f\x7f\\n\n', '"\\\\\\"\\u0000\\u001f\x7f\\\\n\\n"', '"\\\\\\"\\u0000\\u001f\x7f\\\\n\\n"'),
    ("string", pa.string(), "", '""', '""'),
    ("string", pa.string(), 'a "quoted" \\ text', '"a \\"quoted\\" \\\\ text"', '"a \\"quoted\\" \\\\ text"'),
    ("binary", pa.binary(), b"hello", '"aGVsbG8="', "\"x'68656c6c6f'\""),
    ("binary", pa.binary(), b"", '""', "\"x''\""),
    ("date", pa.date32(), dt.date(2024, 2, 29), '"2024-02-29"', '"2024-02-29"'),
    ("date", pa.date32(), dt.date(1, 1, 1), '"0001-01-01"', '"0001-01-01"'),
    ("timestamp_ntz", pa.timestamp("us"), MOMENT, '"2024-02-29T12:34:56.123456"', '"2024-02-29 12:34:56.123456"'),
    (
        "timestamp_ntz",
        pa.timestamp("us"),
        dt.datetime(2024, 2, 29),
        '"2024-02-29T00:00:00"',
        '"2024-02-29 00:00:00.000000"',
    ),
    (
        "timestamp",
        pa.timestamp("us", "Asia/Tokyo"),
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
        '"1970-01-01T09:00:00Z"',
        '"1970-01-01 09:00:00.000000"',
    ),
    (
        "timestamp",
        pa.timestamp("us", "UTC"),
        dt.datetime(2024, 2, 29, 12, 34, 56, 500000, tzinfo=dt.UTC),
        '"2024-02-29T12:34:56.5Z"',
        '"2024-02-29 12:34:56.500000"',
    ),
    ("array<int>", pa.list_(pa.int32()), [1, None, 3], "[1,null,3]", '"[1, NULL, 3]"'),
    ("array<int>", pa.list_(pa.int32()), [], "[]", '"[]"'),
    ("map<string,int>", pa.map_(pa.string(), pa.int32()), [("k", 7), ("n", None)], '{"k":7,"n":null}', '"{k=7, n=NULL}"'),
    ("map<int,string>", pa.map_(pa.int32(), pa.string()), [(1, "a")], '"{1=a}"', '"{1=a}"'),
    (
        "struct<x:int,y:string>",
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        {"x": 1, "y": None},
        '{"x":1,"y":null}',
        '"(1, NULL)"',
    ),
    ("struct<>", pa.struct([]), {}, "{}", '"()"'),
    (
        "array<map<string,decimal(5,2)>>",
        pa.list_(pa.map_(pa.string(), pa.decimal128(5, 2))),
        [[("a", Decimal("1.50"))], None],
        '[{"a":1.5},null]',
        '"[{a=1.50}, NULL]"',
    ),
    ("interval day", pa.string(), "INTERVAL '1' DAY", "\"INTERVAL '1' DAY\"", "\"INTERVAL '1' DAY\""),
]  # fmt: skip


@pytest.mark.parametrize(("spark_type", "arrow_type", "value", "as_json", "as_text"), VALUES)
def test_a_value_reads_as_the_released_server_writes_it(
    spark_type: str, arrow_type: pa.DataType, value: Any, as_json: str, as_text: str
) -> None:
    array = pa.array([value, None], arrow_type)
    assert written(array, spark_type, RowFormat.JSON) == [as_json, "null"]
    assert written(array, spark_type, RowFormat.PLAIN_TEXT) == [as_text, "null"]


@pytest.mark.parametrize(("spark_type", "arrow_type", "value", "as_json", "as_text"), VALUES)
def test_a_slice_and_many_chunks_read_the_same(
    spark_type: str, arrow_type: pa.DataType, value: Any, as_json: str, as_text: str
) -> None:
    values = pa.array([value, None, value, value], arrow_type)
    chunks = pa.chunked_array([values.slice(1, 2), values.slice(3)])
    assert written(chunks, spark_type, RowFormat.JSON) == ["null", as_json, as_json]
    assert written(chunks, spark_type, RowFormat.PLAIN_TEXT) == ["null", as_text, as_text]


texts = st.text(max_size=12)
CELLS = {
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), st.floats()),
    "string": (pa.string(), texts),
    "binary": (pa.binary(), st.binary(max_size=8)),
    "boolean": (pa.bool_(), st.booleans()),
    "array<string>": (pa.list_(pa.string()), st.lists(st.none() | texts, max_size=3)),
    "struct<a:string,b:bigint>": (
        pa.struct([("a", pa.string()), ("b", pa.int64())]),
        st.fixed_dictionaries({"a": st.none() | texts, "b": st.none() | st.integers(0, 9)}),
    ),
    "map<string,bigint>": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(texts, st.none() | st.integers(0, 9), max_size=3).map(lambda found: list(found.items())),
    ),
}


@given(st.data())
def test_rows_written_as_json_read_back_as_the_same_values(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=3))
    count = data.draw(st.integers(0, 5))
    columns = [data.draw(st.lists(st.none() | CELLS[name][1], min_size=count, max_size=count)) for name in names]
    arrays = [pa.array(values, CELLS[name][0]) for name, values in zip(names, columns, strict=True)]
    table = pa.table(arrays, names=[f"c{index}" for index in range(len(names))])
    types = [logical_type(name) for name in names]
    rows = json.loads(write_rows(table, types, RowFormat.JSON))
    assert len(rows) == count
    for index, (name, values) in enumerate(zip(names, columns, strict=True)):
        for row, value in zip(rows, values, strict=True):
            assert _same(name, row["fields"][index], value), (name, row["fields"][index], value)
    plain = json.loads(write_rows(table, types, RowFormat.PLAIN_TEXT))
    shown = [row["fields"] for row in plain]
    assert all(
        (cell is None) == (value is None) and isinstance(cell, str | None)
        for row, cells in zip(shown, zip(*columns, strict=True), strict=True)
        for cell, value in zip(row, cells, strict=True)
    )


def _same(name: str, seen: Any, value: Any) -> bool:
    match value:
        case float() if not math.isfinite(value):
            return bool(seen == {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN"))
        case bytes():
            return bool(seen == base64.b64encode(value).decode())
        case list() if name.startswith("map"):
            return bool(seen == dict(value))
        case _:
            return bool(seen == value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_keeps_its_value_in_both_formats(value: float) -> None:
    array = pa.array([value])
    (as_json,) = written(array, "double", RowFormat.JSON)
    assert json.loads(as_json) == value and isinstance(json.loads(as_json), float)
    assert float(java_double(value)) == value


@given(st.lists(st.none() | st.decimals(min_value=-(10**12), max_value=10**12, places=9), min_size=1, max_size=20))
def test_a_decimal_reads_as_java_prints_it(values: list[Decimal | None]) -> None:
    array = pa.array(values, pa.decimal128(38, 9))
    expected = ["null" if value is None else str(value.normalize(Context(prec=50))) for value in values]
    assert written(array, "decimal(38,9)", RowFormat.JSON) == ["0" if text == "-0" else text for text in expected]
    plain = ["null" if value is None else f'"{value or abs(value):f}"' for value in values]
    assert written(array, "decimal(38,9)", RowFormat.PLAIN_TEXT) == plain


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_float_keeps_its_value(value: float) -> None:
    (as_json,) = written(pa.array([value], pa.float32()), "float", RowFormat.JSON)
    assert struct.pack("f", json.loads(as_json)) == struct.pack("f", value)


JAVA_DOUBLES = {1.0: "1.0", 0.001: "0.001", 9999999.0: "9999999.0", 1e7: "1.0E7", 0.0001: "1.0E-4", 123456789.5: "1.234567895E8"}  # fmt: skip


@pytest.mark.parametrize("value", JAVA_DOUBLES)
def test_a_double_is_spelled_as_in_java(value: float) -> None:
    assert java_double(value) == JAVA_DOUBLES[value]


CLOCKS = [
    ("UTC", 0), ("Z", 0), ("GMT", 0), ("Asia/Tokyo", 9 * 3600), ("+09:00", 9 * 3600), ("-08:30", -(8 * 3600 + 1800)),
    ("GMT+9", 9 * 3600), ("UTC-03:30", -(3 * 3600 + 1800)), ("UT+1", 3600), ("+01:02:03", 3723), ("America/New_York", -5 * 3600),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "seconds"), CLOCKS)
def test_an_instant_shows_the_wall_clock_of_every_spelling_of_a_zone(zone: str, seconds: int) -> None:
    epoch = pa.array([0, None], pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))
    assert wall_clock(epoch).to_pylist() == [dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds), None]


def test_a_zone_that_nobody_knows_is_told_with_the_remedy() -> None:
    epoch = pa.array([0], pa.timestamp("us", "UTC")).cast(pa.timestamp("us", "Mars/Olympus"))
    with pytest.raises(UnknownZoneError, match=r"'Mars/Olympus'.*spark\.sql\.session\.timeZone"):
        write_rows(pa.table({"a": epoch}), [logical_type("timestamp")], RowFormat.JSON)


def test_years_beyond_four_digits_have_a_sign() -> None:
    days = pa.array([2932897], pa.int32()).cast(pa.date32())
    assert written(days, "date", RowFormat.JSON) == ['"+10000-01-01"']
    micros = pa.array([253402300800000000], pa.timestamp("us"))
    assert written(micros, "timestamp_ntz", RowFormat.JSON) == ['"+10000-01-01T00:00:00"']


def test_a_page_without_rows_is_an_empty_list() -> None:
    assert write_rows(pa.table({}), [logical_type("int")], RowFormat.JSON) == b"[]"


def test_an_arrow_page_has_the_columns_names_and_types_even_without_rows() -> None:
    types = [logical_type("int"), logical_type("map<string,decimal(5,2)>")]
    for table in (pa.table({}), pa.table({"c0": pa.array([1], pa.int32()), "c1": pa.array([None], pa.map_(pa.string(), pa.decimal128(5, 2)))})):  # fmt: skip
        read = pa.ipc.open_stream(write_arrow(table, ("a", "a"), types)).read_all()
        assert read.schema.names == ["a", "a"]
        assert list(map(str, read.schema.types)) == ["int32", "map<string, decimal128(5, 2)>"]
        assert read.num_rows == table.num_rows


def test_writing_a_page_takes_less_than_making_objects_of_its_values() -> None:
    """So it is written without looking at single values."""
    count = 5_000
    table = pa.table(
        {
            "a": pa.array(range(count), pa.int64()),
            "b": pa.array([f"name {index}" for index in range(count)]),
            "c": pa.array([index * 1.1 for index in range(count)]),
            "d": pa.array([Decimal(index) / 100 for index in range(count)], pa.decimal128(18, 2)),
            "e": pa.array([MOMENT + dt.timedelta(seconds=index) for index in range(count)], pa.timestamp("us", "UTC")),
        }
    )
    types = [logical_type(name) for name in ("bigint", "string", "double", "decimal(18,2)", "timestamp")]
    objects = seconds(lambda: [column.to_pylist() for column in table.columns])
    for row_format in (RowFormat.JSON, RowFormat.PLAIN_TEXT):
        written = seconds(lambda form=row_format: write_rows(table, types, form))  # type: ignore[misc]
        assert written < objects, f"{row_format}: {written / objects:.2f} times as long"
