"""Row sets: any table reads back as the values that went in, in columns and in rows, whatever its chunks and NULLs."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksql.gateway.frontends.thrift.fetching import MAX_REPLY_BYTES, fetched
from sparksql.gateway.frontends.thrift.operations import ResultColumn
from sparksql.gateway.frontends.thrift.rowset import row_set
from sparksql.gateway.frontends.thrift.types import hive_type
from sparksql.gateway.results.columns import hive_text
from sparksql.protocols.hiveserver2.codec import (
    BINARY,
    BOOL,
    DOUBLE,
    I16,
    I32,
    I64,
    Reader,
    Shape,
    Struct,
    TType,
    at,
    list_of,
)
from tests.support.work import seconds

COLUMNS, ROWS = 5, 4  # protocol versions V6 and V5
BYTE = Shape(TType.BYTE)


def union(*shapes: Any) -> type[Struct]:
    """A struct of which one field is set, numbered from 1."""
    body = {f"f{number}": at(number, shape) for number, shape in enumerate(shapes, start=1)}
    made = type("Union", (Struct,), {**body, "__annotations__": dict.fromkeys(body, Any)})
    return dataclass(frozen=True)(made)


def values_of(shape: Shape) -> type[Struct]:
    return union(list_of(shape), BINARY)


Column = union(*map(values_of, (BOOL, BYTE, I16, I32, I64, DOUBLE, BINARY, BINARY)))
Cell = union(*map(union, (BOOL, BYTE, I16, I32, I64, DOUBLE, BINARY)))
Row = union(list_of(Cell))
RowSet = union(I64, list_of(Row), list_of(Column))


def decoded(table: pa.Table, types: list[str], protocol: int) -> tuple[list[int], list[list[Any]], int]:
    """Which member of the union each column is, the columns, and the number of the first row."""
    found: Any = Reader(row_set(table, [hive_type(name) for name in types], 7, protocol)).message(RowSet)
    if protocol >= COLUMNS:
        assert found.f2 == []
        pairs = [next((n, part) for n in range(1, 9) if (part := getattr(c, f"f{n}"))) for c in found.f3]
        members = [number for number, _ in pairs]
        columns = [
            [None if bits and bits[i // 8] >> i % 8 & 1 else value for i, value in enumerate(part.f1)]
            for _, part in pairs
            for bits in [part.f2 and part.f2.ljust(len(part.f1), b"\0")]
        ]
        return members, columns, found.f1
    cells = [
        [next((n, c) for n in range(1, 8) if (c := getattr(cell, f"f{n}"))) for cell in row.f1] for row in found.f2
    ]
    members = [number for number, _ in cells[0]] if cells else []
    return members, [list(column) for column in zip(*([c.f1 for _, c in row] for row in cells), strict=True)], found.f1


CASES: list[tuple[str, pa.DataType, int, list[Any], list[Any]]] = [
    ("boolean", pa.bool_(), 1, [True, None, False], [True, None, False]),
    ("tinyint", pa.int8(), 2, [-128, None, 127], [-128, None, 127]),
    ("smallint", pa.int16(), 3, [-32768, None, 1], [-32768, None, 1]),
    ("int", pa.int32(), 4, [-(2**31), None, 7], [-(2**31), None, 7]),
    ("bigint", pa.int64(), 5, [-(2**63), None, 2**63 - 1], [-(2**63), None, 2**63 - 1]),
    ("float", pa.float32(), 6, [0.1, None, float("-inf")], [0.1, None, float("-inf")]),
    ("double", pa.float64(), 6, [0.1, None, 1e300], [0.1, None, 1e300]),
    ("string", pa.string(), 7, ["", None, "ä€😀"], ["", None, "ä€😀"]),
    ("binary", pa.binary(), 8, [b"", None, b"\0\xff"], [b"", None, b"\0\xff"]),
    ("decimal(10,2)", pa.decimal128(10, 2), 7, [Decimal("1.50"), None, Decimal("-0.01")], ["1.50", None, "-0.01"]),
    ("decimal(38,18)", pa.decimal128(38, 18), 7, [Decimal("1E-18"), None, Decimal(3)],
     ["0.000000000000000001", None, "3.000000000000000000"]),
    ("date", pa.date32(), 7, [dt.date(2026, 1, 31), None, dt.date(1, 1, 1)], ["2026-01-31", None, "0001-01-01"]),
    ("timestamp", pa.timestamp("us", "Europe/Berlin"), 7,
     [dt.datetime(2026, 1, 31, 9, 0, 0, 120000, dt.UTC), None, dt.datetime(2026, 7, 1, 0, 0, tzinfo=dt.UTC)],
     ["2026-01-31 10:00:00.12", None, "2026-07-01 02:00:00"]),
    ("timestamp_ntz", pa.timestamp("us"), 7, [dt.datetime(2026, 1, 31, 10, 20, 30), None, dt.datetime(1, 1, 1)],
     ["2026-01-31 10:20:30", None, "0001-01-01 00:00:00"]),
    ("void", pa.null(), 7, [None, None, None], [None, None, None]),
    ("interval day", pa.string(), 7, ["INTERVAL '1' DAY", None, ""], ["INTERVAL '1' DAY", None, ""]),
    ("array<int>", pa.list_(pa.int32()), 7, [[1, None], None, []], ["[1,null]", None, "[]"]),
    ("map<int,string>", pa.map_(pa.int32(), pa.string()), 7, [[(1, "a"), (2, None)], None, []],
     ['{"1":"a","2":null}', None, "{}"]),
]  # fmt: skip


@pytest.mark.parametrize("protocol", [COLUMNS, ROWS])
@pytest.mark.parametrize(("name", "kind", "member", "values", "expected"), CASES, ids=[case[0] for case in CASES])
def test_every_type_is_sent_in_its_thrift_column_type(
    name: str, kind: pa.DataType, member: int, values: list[Any], expected: list[Any], protocol: int
) -> None:
    table = pa.table({"c": pa.array(values, kind)})
    members, columns, first = decoded(table, [name], protocol)
    texts = [value if name == "binary" or not isinstance(value, bytes) else value.decode() for value in columns[0]]
    assert (members, texts, first) == ([min(member, 7) if protocol == ROWS else member], expected, 7)


@pytest.mark.parametrize(("name", "kind"), [(case[0], case[1]) for case in CASES], ids=[case[0] for case in CASES])
def test_no_rows_have_the_same_columns(name: str, kind: pa.DataType) -> None:
    full, _, _ = decoded(pa.table({"c": pa.array([None], kind)}), [name], COLUMNS)
    empty, columns, _ = decoded(pa.table({"c": pa.array([], kind)}), [name], COLUMNS)
    without_type, _, _ = decoded(pa.table({"c": pa.nulls(0)}), [name], COLUMNS)
    assert full == empty == without_type
    assert columns == [[]]


def cells_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    """Chunks of values."""
    return st.lists(st.lists(st.none() | values, max_size=20), min_size=1, max_size=3)


@given(
    cells_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=12)),
    st.sampled_from([COLUMNS, ROWS]),
    st.data(),
)
def test_texts_survive_chunks_slices_and_nulls(chunks: list[list[Any]], protocol: int, data: st.DataObject) -> None:
    flat = [value for chunk in chunks for value in chunk]
    begin = data.draw(st.integers(0, len(flat)))
    count = data.draw(st.integers(0, len(flat) - begin))
    table = pa.table({"c": pa.chunked_array([pa.array(chunk, pa.string()) for chunk in chunks])}).slice(begin, count)
    _, columns, _ = decoded(table, ["string"], protocol)
    shown = columns[0] if columns else []
    assert [None if value is None else value.decode() for value in shown] == flat[begin : begin + count]


@given(cells_of(st.integers(-(2**63), 2**63 - 1)), st.sampled_from([COLUMNS, ROWS]), st.data())
def test_numbers_survive_chunks_slices_and_nulls(chunks: list[list[Any]], protocol: int, data: st.DataObject) -> None:
    flat = [value for chunk in chunks for value in chunk]
    begin = data.draw(st.integers(0, len(flat)))
    table = pa.table({"c": pa.chunked_array([pa.array(chunk, pa.int64()) for chunk in chunks])}).slice(begin)
    _, columns, _ = decoded(table, ["bigint"], protocol)
    assert (columns[0] if columns else []) == flat[begin:]


leaves = st.one_of(
    st.tuples(st.just(pa.int64()), st.integers(-(2**53), 2**53)),
    st.tuples(st.just(pa.string()), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
    st.tuples(st.just(pa.bool_()), st.booleans()),
    st.tuples(st.just(pa.float64()), st.floats(allow_nan=False, allow_infinity=False)),
)


def wrapped(inner: st.SearchStrategy[tuple[pa.DataType, Any]]) -> st.SearchStrategy[tuple[pa.DataType, Any]]:
    return st.one_of(
        inner.map(lambda pair: (pa.list_(pair[0]), [pair[1], None, pair[1]])),
        inner.map(lambda pair: (pa.struct([('a "b"', pair[0]), ("c", pair[0])]), {'a "b"': pair[1], "c": None})),
        inner.map(lambda pair: (pa.map_(pa.string(), pair[0]), [('k"1', pair[1]), ("", None)])),
    )


@given(wrapped(st.recursive(leaves, wrapped, max_leaves=4)), st.integers(0, 4))
@settings(max_examples=200)
def test_nested_values_are_json(pair: tuple[pa.DataType, Any], begin: int) -> None:
    kind, value = pair
    rows = [value, None, value, value][begin:]
    shown = hive_text(pa.array([value, None, value, value], kind).slice(begin)).to_pylist()
    assert [text and json.loads(text) for text in shown] == [row if row is None else as_json(row, kind) for row in rows]


def as_json(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: as_json(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [as_json(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {part.name: as_json(value[part.name], part.type) for part in kind}
    return value


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.list_(pa.float32()), [0.1, 1e20], "[0.1,1e+20]"),
        (pa.list_(pa.float64()), [1.0, float("nan"), -float("inf"), None], '[1.0,"NaN","-Infinity",null]'),
        (pa.list_(pa.decimal128(20, 10)), [Decimal("1E-10")], "[0.0000000001]"),
        (pa.list_(pa.binary()), [b"\0x"], '["AHg="]'),
        (pa.list_(pa.date32()), [dt.date(2026, 1, 31)], '["2026-01-31"]'),
        (pa.list_(pa.timestamp("us")), [dt.datetime(2026, 1, 31, 1, 2, 3, 450000)], '["2026-01-31 01:02:03.45"]'),
        (pa.map_(pa.date32(), pa.int8()), [(dt.date(2026, 1, 31), 1)], '{"2026-01-31":1}'),
        (pa.list_(pa.string()), ["ä\n"], '["ä\\n"]'),
    ],
)
def test_leaves_of_nested_values_are_written_as_json(kind: pa.DataType, value: Any, expected: str) -> None:
    assert hive_text(pa.array([value], kind)).to_pylist() == [expected]


def test_a_page_is_encoded_without_looking_at_single_values() -> None:
    """It takes less than making objects of its five columns' values."""
    count = 10_000
    numbers = np.arange(count)
    texts = pa.array([f"row {number}" for number in range(count)])
    table = pa.table({"a": numbers, "b": numbers.astype("i4"), "c": numbers * 0.5, "d": texts, "e": texts})
    types = [hive_type(name) for name in ("bigint", "int", "double", "string", "string")]
    encoded = seconds(lambda: row_set(table, types, 0, COLUMNS))
    objects = seconds(lambda: [column.to_pylist() for column in table.columns])
    assert encoded < objects, f"{encoded / objects:.2f} times as long"


@pytest.mark.parametrize("protocol", [COLUMNS, ROWS])
async def test_a_reply_holds_as_many_rows_as_clients_take(protocol: int) -> None:
    columns = [ResultColumn("c", hive_type("boolean"))] * 40
    table = pa.table({str(number): pa.array([True, False] * 100_000) for number in range(40)})
    answer = await fetched(table.slice(0, 30_000 if protocol == ROWS else None), columns, 0, 200_000, protocol)
    assert 1 < answer.count < 200_000 if protocol == ROWS else answer.count == 200_000
    assert len(answer.encoded()) <= MAX_REPLY_BYTES + 100
    assert answer.has_more is (answer.count < 200_000)


async def test_a_row_that_is_too_large_is_sent_alone() -> None:
    table = pa.table({"c": pa.array(["x" * MAX_REPLY_BYTES, "y"])})
    answer = await fetched(table, [ResultColumn("c", hive_type("string"))], 0, 2, COLUMNS)
    assert (answer.count, answer.has_more) == (1, True)
