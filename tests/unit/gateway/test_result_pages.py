"""Pages in JSON and previews of results: what a cell is, and what bounds a preview."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.results.pages import MAX_PREVIEW_BYTES, page_json, preview
from sparksql.wire.control import Column, ResultPage

ENTRIES = pa.map_(pa.string(), pa.list_(pa.int32()))


def rows_of(table: pa.Table) -> list[list[Any]]:
    page = ResultPage(columns=(Column(name='"rows":[]', type="string"),), rows=(), next_token=7, row_count=9)
    read = json.loads(page_json(page, table))
    assert (read["columns"], read["nextToken"], read["rowCount"]) == ([{"name": '"rows":[]', "type": "string"}], 7, 9)
    rows: list[list[Any]] = read["rows"]
    return rows


@pytest.mark.parametrize(
    ("value", "kind", "cell", "shown"),
    [
        (True, pa.bool_(), True, "true"),
        (7, pa.int64(), 7, "7"),
        (1.5, pa.float64(), 1.5, "1.5"),
        (1e10, pa.float64(), 1e10, "1.0E10"),
        (123456.0, pa.float64(), 123456.0, "123456.0"),
        (0.1, pa.float32(), 0.1, "0.1"),
        (-3.4028235e38, pa.float32(), -3.4028235e38, "-3.4028235E38"),
        (float("nan"), pa.float64(), "NaN", "NaN"),
        (float("-inf"), pa.float32(), "-Infinity", "-Infinity"),
        (Decimal("1000"), pa.decimal128(10, 0), "1000", "1000"),
        (Decimal("0E-10"), pa.decimal128(20, 10), "0.0000000000", "0.0000000000"),
        (datetime.date(2026, 1, 31), pa.date32(), "2026-01-31", "2026-01-31"),
        (-735_525, pa.date32(), "-0044-03-15", "-0044-03-15"),
        (
            datetime.datetime(2026, 1, 31, 10),
            pa.timestamp("us", "+09:00"),
            "2026-01-31 19:00:00",
            "2026-01-31 19:00:00",
        ),
        ('a"\n', pa.string(), 'a"\n', 'a"\n'),
        (b"ab", pa.binary(), "YWI=", "YWI="),
        ([1, None], pa.list_(pa.int32()), [1, None], "[1, null]"),
        ([0.1], pa.list_(pa.float32()), [0.1], "[0.1]"),
        ([Decimal("1.50")], pa.list_(pa.decimal128(10, 2)), ["1.50"], "[1.50]"),
        ([-735_525], pa.list_(pa.date32()), ["-0044-03-15"], "[-0044-03-15]"),
        ([("k", 1)], pa.map_(pa.string(), pa.int32()), {"k": 1}, "{k -> 1}"),
        ([({"a": 1}, 2)], pa.map_(pa.struct([("a", pa.int32())]), pa.int32()), {"{1}": 2}, "{{1} -> 2}"),
        ([(True, 1.5)], pa.map_(pa.bool_(), pa.float64()), {"true": 1.5}, "{true -> 1.5}"),
        ({"a": {"b": 1}}, pa.struct([("a", pa.struct([("b", pa.int8())]))]), {"a": {"b": 1}}, "{{1}}"),
        ([], ENTRIES, {}, "{}"),
        ([[], None], pa.list_(ENTRIES), [{}, None], "[{}, null]"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_value_as_a_json_cell_and_as_text(value: Any, kind: pa.DataType, cell: Any, shown: str) -> None:
    table = pa.table({"c": pa.array([value, None], kind)})
    assert rows_of(table) == [[cell], [None]]
    assert preview(table, 2) == ((shown,), (None,))


def test_columns_of_one_name_and_of_several_chunks_keep_their_places() -> None:
    chunk = pa.Table.from_arrays([pa.array([1, 2]), pa.array(["a", None])], names=["same", "same"])
    table = pa.concat_tables([chunk, chunk])
    assert rows_of(table) == [[1, "a"], [2, None]] * 2
    assert rows_of(table.slice(1, 2)) == [[2, None], [1, "a"]]
    assert rows_of(table.slice(0, 0)) == []


@given(rows=st.lists(st.tuples(st.text(max_size=3000), st.none()), min_size=1, max_size=20), limit=st.integers(0, 20))
def test_a_preview_is_bounded_in_rows_and_bytes(rows: list[tuple[str, None]], limit: int) -> None:
    columns = [pa.array([row[0] for row in rows], pa.string()), pa.nulls(len(rows), pa.string())]
    shown = preview(pa.Table.from_arrays(columns, names=["a", "b"]), limit)
    assert len(shown) <= limit
    assert sum(len(cell.encode()) for row in shown for cell in row if cell) <= MAX_PREVIEW_BYTES
    assert list(shown) == rows[: len(shown)]
