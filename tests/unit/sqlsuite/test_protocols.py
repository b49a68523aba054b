"""How each protocol writes types and values, and its errors."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.sqlsuite.arrow import rows
from tests.sqlsuite.comparing import Error, Reading
from tests.sqlsuite.printing import shown
from tests.sqlsuite.protocols.connect import ConnectReading
from tests.sqlsuite.protocols.control import ControlReading
from tests.sqlsuite.protocols.errors import told_error
from tests.sqlsuite.protocols.rest import RestReading
from tests.sqlsuite.protocols.thrift import ThriftReading
from tests.sqlsuite.types import parse_type

TEXT = "VARCHAR(2147483647)"


@pytest.mark.parametrize(
    ("reading", "kind", "told"),
    [
        (RestReading(), "int", "INTEGER"),
        (RestReading(), "decimal(10,2)", "DECIMAL(10,2)"),
        (RestReading(), "string collate UTF8_LCASE", TEXT),
        (RestReading(), "timestamp", "TIMESTAMP_WITH_LOCAL_TIME_ZONE(6)"),
        (RestReading(), "struct<a:array<int>,b:map<string,date>>", f"ROW<a ARRAY<INTEGER>,b MAP<{TEXT},DATE>>"),
        (RestReading(), "map<int,string>", TEXT),
        (RestReading(), "array<interval day>", TEXT),
        (RestReading(), "struct<a:int,A:int>", TEXT),
        (RestReading(), "void", TEXT),
        (ThriftReading(), "bigint", "BIGINT"),
        (ThriftReading(), "decimal(10,2)", "DECIMAL(10,2)"),
        (ThriftReading(), "array<int>", "ARRAY"),
        (ThriftReading(), "timestamp_ntz", "TIMESTAMP"),
        (ThriftReading(), "interval year to month", "STRING"),
        (ThriftReading(), "void", "NULL"),
        (ControlReading(), "map<int,string>", "map<int,string>"),
        (ConnectReading(), "interval day to second", "interval day to second"),
    ],
)
def test_type_is_described_as_the_protocol_describes_it(reading: Reading, kind: str, told: str) -> None:
    assert reading.type_of(parse_type(kind)) == told


@pytest.mark.parametrize(
    ("reading", "raw", "kind", "text"),
    [
        (RestReading(), Decimal("1.5"), "decimal(5,3)", "1.500"),
        (RestReading(), "{1=NULL}", "map<int,int>", "{1:null}"),
        (RestReading(), "{1 -> INTERVAL '1' DAY}", "map<int,interval day>", "{1:1 00:00:00.000000000}"),
        (RestReading(), {"a": ["YQ=="]}, "struct<a:array<binary>>", '{"a":[a]}'),
        (ThriftReading(), b"1.50", "decimal(5,2)", "1.50"),
        (ThriftReading(), b"ab", "binary", "ab"),
        (ThriftReading(), b'{"1":[true,null]}', "map<int,array<boolean>>", "{1:[true,null]}"),
        (ThriftReading(), 0.1, "float", "0.1"),
        (ControlReading(), "1.50", "decimal(5,2)", "1.50"),
        (ControlReading(), {"1": "2020-01-01 00:00:00"}, "map<int,timestamp>", "{1:2020-01-01 00:00:00}"),
    ],
)
def test_value_is_read_from_what_the_protocol_carries(reading: Reading, raw: Any, kind: str, text: str) -> None:
    parsed = parse_type(kind)
    assert shown(reading.value(raw, parsed), parsed) == text


@pytest.mark.parametrize(
    ("values", "arrow", "kind", "texts"),
    [
        ([1, None], pa.int32(), "int", ["1", "NULL"]),
        ([0, 2932897], pa.date32(), "date", ["1970-01-01", "+10000-01-01"]),
        ([0], pa.timestamp("us", "America/Los_Angeles"), "timestamp", ["1969-12-31 16:00:00"]),
        ([0], pa.timestamp("us"), "timestamp_ntz", ["1970-01-01 00:00:00"]),
        ([93_784_500_000], pa.duration("us"), "interval day to second", ["1 02:03:04.500000000"]),
        ([3_661_500_000_000], pa.time64("ns"), "time(6)", ["01:01:01.5"]),
        ([(14, -1, 500_000_000)], pa.month_day_nano_interval(), "interval", ["1 years 2 months -1 days 0.5 seconds"]),
        ([[1, None], [], None], pa.list_(pa.int64()), "array<bigint>", ["[1,null]", "[]", "NULL"]),
        ([[("b", 2), ("a", None)], None], pa.map_(pa.string(), pa.int32()), "map<string,int>", ['{"a":null,"b":2}', "NULL"]),
        ([{"a": [0]}, None], pa.struct([("a", pa.list_(pa.date32()))]), "struct<a:array<date>>", ['{"a":[1970-01-01]}', "NULL"]),
    ],
)  # fmt: skip
def test_value_of_a_column_of_arrow_is_read(values: list[Any], arrow: pa.DataType, kind: str, texts: list[str]) -> None:
    parsed = parse_type(kind)
    found = rows(pa.table({"c": pa.array(values, arrow)}))
    assert [shown(value, parsed) for (value,) in found] == texts


def test_values_of_a_slice_of_a_column_are_its_own() -> None:
    column = pa.array([[1], [2, 3], None, [4]], pa.list_(pa.int32())).slice(1, 2)
    assert [value for (value,) in rows(pa.table({"c": column}))] == [[2, 3], None]


@pytest.mark.parametrize(
    ("text", "state", "error"),
    [
        ("[DIVIDE_BY_ZERO] By zero. SQLSTATE: 22012 (line 1, position 8)", None, ("DIVIDE_BY_ZERO", "22012")),
        ("org.apache.spark.SparkThrowable: [A.B] text", None, ("A.B", None)),
        ("SqlExecutionException: it is [not] allowed", None, (None, None)),
        ("it is not allowed", "42501", (None, "42501")),
    ],
)
def test_condition_and_sql_state_are_found_in_the_text_of_an_error(
    text: str, state: str | None, error: tuple[str | None, str | None]
) -> None:
    assert told_error(text, state) == Error(*error, text)
