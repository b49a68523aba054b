"""Row sets: Arrow tables as the bytes of a TRowSet.

A page of columns is written without touching single values, by numpy and Arrow; that is what makes large results fast. The
row-oriented form is for clients that speak protocol V5 or older. Invariant: a row set's columns depend on the types of the
result alone, never on its values, and an empty one has them all.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparksql.gateway.frontends.thrift.types import HiveType
from sparksql.gateway.results.columns import hive_text
from sparksql.protocols.hiveserver2.codec import STOP, TType, field_header, list_header
from sparksql.protocols.hiveserver2.messages import FIRST_COLUMNAR_PROTOCOL, TTypeId

_BINARY_IN_ROWS = 7  # rows have no binary value, they carry it as a text


@dataclass(frozen=True)
class _Carrier:
    """How values of a kind travel: the number of the union's member, the values' wire type, their numpy and Arrow types."""

    member: int
    kind: TType
    numpy: str = ""
    arrow: pa.DataType | None = None


_BOOLEAN = _Carrier(1, TType.BOOL, "u1", pa.uint8())
_BYTE = _Carrier(2, TType.BYTE, "i1", pa.int8())
_I16 = _Carrier(3, TType.I16, ">i2", pa.int16())
_I32 = _Carrier(4, TType.I32, ">i4", pa.int32())
_I64 = _Carrier(5, TType.I64, ">i8", pa.int64())
_DOUBLE = _Carrier(6, TType.DOUBLE, ">f8", pa.float64())
_TEXT = _Carrier(7, TType.STRING)
_BINARY = _Carrier(8, TType.STRING)


def _carrier(type_id: TTypeId) -> _Carrier:
    match type_id:
        case TTypeId.BOOLEAN_TYPE:
            return _BOOLEAN
        case TTypeId.TINYINT_TYPE:
            return _BYTE
        case TTypeId.SMALLINT_TYPE:
            return _I16
        case TTypeId.INT_TYPE:
            return _I32
        case TTypeId.BIGINT_TYPE:
            return _I64
        case TTypeId.FLOAT_TYPE | TTypeId.DOUBLE_TYPE:
            return _DOUBLE
        case TTypeId.BINARY_TYPE:
            return _BINARY
        case _:
            return _TEXT


def row_set(table: pa.Table, types: Sequence[HiveType], first_row: int, protocol: int) -> bytes:
    """Returns the rows of a table as a TRowSet. Columns are taken by position; `first_row` is the number of its first row."""
    columns = [_plain(column, _carrier(hive.id)) for column, hive in zip(table.columns, types, strict=True)]
    carriers = [_carrier(hive.id) for hive in types]
    parts = [field_header(TType.I64, 1), struct.pack(">q", first_row), field_header(TType.LIST, 2)]
    if protocol >= FIRST_COLUMNAR_PROTOCOL:
        parts += [list_header(TType.STRUCT, 0), field_header(TType.LIST, 3), list_header(TType.STRUCT, len(columns))]
        for column, carrier in zip(columns, carriers, strict=True):
            parts += _column(column, carrier)
    else:
        parts += [list_header(TType.STRUCT, table.num_rows), _rows(columns, carriers)]
    parts.append(STOP)
    return b"".join(parts)


def _plain(column: pa.ChunkedArray, carrier: _Carrier) -> pa.Array:
    """One array of the type that the carrier takes."""
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(array, pa.ChunkedArray):  # more than an array can hold, which no page is; or none at all
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if carrier is _TEXT:
        return hive_text(array)
    if carrier is _BINARY:
        return array.cast(pa.binary())
    if pa.types.is_float32(array.type):
        return array.cast(pa.string()).cast(pa.float64())  # 0.1 stays 0.1, as the client would print it
    return array.cast(carrier.arrow)


def _column(column: pa.Array, carrier: _Carrier) -> list[Any]:
    if carrier.kind is TType.STRING:
        values: Any = _strings(column)
    else:
        filled = pc.fill_null(column, pa.scalar(0, carrier.arrow)) if column.null_count else column
        values = filled.to_numpy(zero_copy_only=False).astype(carrier.numpy, copy=False).tobytes()
    nulls = _null_bitmap(column)
    return [
        field_header(TType.STRUCT, carrier.member),
        field_header(TType.LIST, 1),
        list_header(carrier.kind, len(column)),
        values,
        field_header(TType.STRING, 2),
        struct.pack(">i", len(nulls)),
        nulls,
        STOP,  # of TStringColumn and its like
        STOP,  # of TColumn
    ]


def _strings(column: pa.Array) -> memoryview | bytes:
    """Each value behind its length of four bytes: Arrow joins two columns, one of lengths and one of values."""
    if len(column) == 0:
        return b""
    filled = pc.fill_null(column.cast(pa.binary()), b"") if column.null_count else column.cast(pa.binary())
    offsets = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset : filled.offset + len(filled) + 1]
    lengths = np.diff(offsets).astype(">i4")
    ends = np.arange(0, 4 * len(filled) + 4, 4, dtype=np.int32)
    heads = pa.Array.from_buffers(pa.binary(), len(filled), [None, pa.py_buffer(ends), pa.py_buffer(lengths)])
    joined = pc.binary_join_element_wise(heads, filled, b"")
    _, joined_ends, data = joined.buffers()
    return memoryview(data)[: int(np.frombuffer(joined_ends, np.int32)[len(filled)])]


def _null_bitmap(column: pa.Array) -> bytes:
    """A bit for each row, lowest first, set for NULL; nothing when there is no NULL."""
    if column.null_count == 0:
        return b""
    missing = column.is_null().to_numpy(zero_copy_only=False)
    return np.packbits(missing, bitorder="little").tobytes()


def _rows(columns: Sequence[pa.Array], carriers: Sequence[_Carrier]) -> bytes:
    cells = [_cells(column, carrier) for column, carrier in zip(columns, carriers, strict=True)]
    head = field_header(TType.LIST, 1) + list_header(TType.STRUCT, len(columns))
    return b"".join(head + b"".join(row) + STOP for row in zip(*cells, strict=True))


def _cells(column: pa.Array, carrier: _Carrier) -> list[bytes]:
    member = _BINARY_IN_ROWS if carrier is _BINARY else carrier.member
    begin = field_header(TType.STRUCT, member)
    head, absent = begin + field_header(carrier.kind, 1), begin + STOP + STOP
    present = [value is not None for value in column.to_pylist()] if column.null_count else [True] * len(column)
    if carrier.kind is TType.STRING:
        texts = column.cast(pa.binary()).to_pylist()
        shown = [b"" if text is None else struct.pack(">i", len(text)) + text for text in texts]
    else:
        filled = pc.fill_null(column, pa.scalar(0, carrier.arrow))
        values = filled.to_numpy(zero_copy_only=False).astype(carrier.numpy, copy=False)
        size = values.dtype.itemsize
        data = values.tobytes()
        shown = [data[at : at + size] for at in range(0, len(data), size)]
    return [head + value + STOP + STOP if there else absent for value, there in zip(shown, present, strict=True)]
