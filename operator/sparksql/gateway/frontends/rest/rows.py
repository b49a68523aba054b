"""Rows of an Arrow table as the REST API writes them: JSON values, plain text, or an Arrow stream.

A page is made column by column and mostly inside Arrow: each column becomes a column of JSON texts (see `columns`), and those are
joined to rows, so that no Python object exists per cell of a simple type. Values read as Flink's do: in PLAIN_TEXT every value is
a string. A NULL is null in both. A column that goes out as VARCHAR without being text is written as in PLAIN_TEXT.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sparksql.gateway.frontends.columns import FLINK_JSON, FLINK_PLAIN, quoted, texts
from sparksql.gateway.frontends.rest.models import LogicalType, RowFormat, TypeRoot
from sparksql.gateway.frontends.rest.types import arrow_type

_ROW_BEGIN, _ROW_END = '{"kind":"INSERT","fields":[', "]}"


def write_rows(table: pa.Table, types: Sequence[LogicalType], row_format: RowFormat) -> bytes:
    """Returns the JSON list of a page's rows. Columns are taken by position. Raises UnknownZoneError for an instant in one."""
    if table.num_rows == 0:
        return b"[]"
    columns = [_cells(column, logical, row_format) for column, logical in zip(table.columns, types, strict=True)]
    rows = pc.binary_join_element_wise(*columns, ",")
    whole = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)
    joined = pc.binary_join(whole, f"{_ROW_END},{_ROW_BEGIN}")[0].as_buffer()
    return b"".join((f"[{_ROW_BEGIN}".encode(), joined, f"{_ROW_END}]".encode()))


def write_arrow(table: pa.Table, names: Sequence[str], types: Sequence[LogicalType]) -> bytes:
    """Returns the page as an Arrow IPC stream whose columns have their names in the result."""
    if table.num_columns == 0:
        fields = [pa.field(name, arrow_type(logical)) for name, logical in zip(names, types, strict=True)]
        named = pa.schema(fields).empty_table()
    else:
        fields = [pa.field(name, column.type) for name, column in zip(names, table.columns, strict=True)]
        named = pa.table(table.columns, schema=pa.schema(fields))
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, named.schema) as writer:
        writer.write_table(named)
    return buffer.getvalue()


def _cells(column: pa.ChunkedArray, logical: LogicalType, row_format: RowFormat) -> pa.Array:
    """One JSON text for each value of a column, none of them null."""
    array = _whole(column)
    as_text = logical.type is TypeRoot.VARCHAR and not _is_text(array.type)
    plain = row_format is RowFormat.PLAIN_TEXT or as_text
    shown = quoted(texts(array, FLINK_PLAIN)) if plain else texts(array, FLINK_JSON)
    return pc.fill_null(shown, "null")


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    return array


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
