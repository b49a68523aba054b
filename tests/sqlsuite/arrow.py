"""Values of Arrow's columns, as Spark Connect carries them. Pure.

Days, times and intervals are read as numbers: Python's own objects have fewer years, or there are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from pyarrow.cffi import ffi
from pyspark.sql.variant_utils import VariantUtils

from tests.sqlsuite.times import date_text, interval_text, time_text, timestamp_text

# Formats of Arrow's C interface.
_MONTHS = b"tiM"
_NUMBERS = ffi.new("char[]", b"i")


def table_of(data: bytes) -> pa.Table:
    """Returns the table of an Arrow stream; months of intervals become numbers, as pyarrow has no arrays of them."""
    with pa.ipc.open_stream(data) as stream:
        return pa.Table.from_batches([_with_numbers_of_months(batch) for batch in stream])


def rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Returns the rows of a table, as `printing.shown` takes their values."""
    columns = [[v for chunk in column.chunks for v in _values(chunk)] for column in table.columns]
    return zip(*columns, strict=True) if columns else iter([()] * table.num_rows)


def _with_numbers_of_months(batch: pa.RecordBatch) -> pa.RecordBatch:
    array, schema = ffi.new("struct ArrowArray*"), ffi.new("struct ArrowSchema*")
    addresses = int(ffi.cast("uintptr_t", array)), int(ffi.cast("uintptr_t", schema))
    batch._export_to_c(*addresses)
    _number_months(schema)
    return pa.RecordBatch._import_from_c(*addresses)


def _number_months(schema: Any) -> None:
    if ffi.string(schema.format) == _MONTHS:
        schema.format = _NUMBERS
    for index in range(schema.n_children):
        _number_months(schema.children[index])


def _values(array: pa.Array) -> list[Any]:
    """The values of a column as `printing.shown` takes them."""
    kind = array.type
    if pa.types.is_map(kind):
        keys, items = _values(array.keys), _values(array.items)
        return [None if span is None else list(zip(keys[span], items[span], strict=True)) for span in _spans(array)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = _values(array.values)
        return [None if span is None else items[span] for span in _spans(array)]
    if pa.types.is_struct(kind):
        return _structs(array)
    if kind.id == pa.lib.Type_INTERVAL_MONTH_DAY_NANO:
        return [None if each is None else interval_text(*each) for each in array.to_pylist()]
    return [_simple(value, kind) for value in _numbers(array)] if _is_number(kind) else array.to_pylist()


def _structs(array: pa.Array) -> list[Any]:
    fields = [_values(field) for field in array.flatten()]
    rows: list[Any] = list(zip(*fields, strict=True)) if fields else [()] * len(array)
    if _is_variant(array.type):
        value, metadata = (array.type.get_field_index(name) for name in ("value", "metadata"))
        rows = [row[value] and VariantUtils.to_json(row[value], row[metadata]) for row in rows]
    return [row if there else None for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)]


def _is_variant(kind: pa.DataType) -> bool:
    return any((field.metadata or {}).get(b"variant") == b"true" for field in kind)


def _spans(array: pa.Array) -> list[slice | None]:
    offsets, present = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [slice(a, b) if there else None for a, b, there in zip(offsets, offsets[1:], present, strict=False)]


def _is_number(kind: pa.DataType) -> bool:
    """Whether Python's own object would have fewer years, or there is none."""
    return bool(
        pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
        or pa.types.is_time64(kind)
    )


def _numbers(array: pa.Array) -> list[int | None]:
    dtype = np.int32 if array.type.bit_width == 32 else np.int64
    data = array.buffers()[1]
    found = np.frombuffer(data, dtype)[array.offset : array.offset + len(array)].tolist()
    return [value if there else None for value, there in zip(found, array.is_valid().to_pylist(), strict=True)]


def _simple(value: int | None, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_date32(kind):
        return date_text(value)
    if pa.types.is_timestamp(kind):
        return timestamp_text(value, ZoneInfo(kind.tz) if kind.tz else None)
    return time_text(value) if pa.types.is_time64(kind) else value
