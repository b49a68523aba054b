"""Rows of an Arrow table as the REST API writes them: JSON values, plain text, or an Arrow stream.

A page is made column by column and mostly inside Arrow: each column becomes a column of JSON texts (see `columns`), and those are
joined to rows at once with all that stands between them, so that no Python object exists per cell of a simple type, and each
text is copied once. Values read as Flink's do: in PLAIN_TEXT every value is
a string. A NULL is null in both. A column that goes out as VARCHAR without being text is written as in PLAIN_TEXT.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparksql.gateway.frontends.rest.models import LogicalType, RowFormat, TypeRoot
from sparksql.gateway.frontends.rest.types import arrow_type
from sparksql.gateway.results.changes import RowKind, with_kinds
from sparksql.gateway.results.columns import FLINK_PLAIN, Cells, json_cells, text_cells, texts, whole
from sparksql.gateway.results.unbounded import UnboundedPage

_ROW_BEGIN, _ROW_END = '{{"kind":"{}","fields":[', "]}"


def write_rows(
    table: pa.Table, types: Sequence[LogicalType], row_format: RowFormat, kinds: Sequence[RowKind] | None = None
) -> bytes:
    """Returns the JSON list of a page's rows, which are insertions unless there are `kinds`. Columns are taken by position.

    Raises UnknownZoneError for an instant in one.
    """
    if table.num_rows == 0:
        return b"[]"
    pieces: list[str | pa.Array] = []
    between = _ROW_BEGIN.format(RowKind.INSERT)
    if kinds is not None:
        pieces.append(pa.array([_ROW_BEGIN.format(kind) for kind in kinds]))
        between = ""
    for column, logical in zip(table.columns, types, strict=True):
        cells = _cells(whole(column), logical, row_format)
        pieces += [between + cells.before, cells.inside]
        between = f"{cells.after},"
    rows = pc.binary_join_element_wise(*pieces, f"{cells.after}{_ROW_END},", "")
    _, ends, data = rows.buffers()
    without_last_comma = memoryview(data)[: int(np.frombuffer(ends, np.int32)[len(rows)]) - 1]
    return b"".join((b"[", without_last_comma, b"]"))


def write_changes(page: UnboundedPage, names: Sequence[str], types: Sequence[LogicalType]) -> bytes:
    """Returns a page of a query without end as an Arrow IPC stream; a changelog's first column is the kind of each row."""
    if page.kinds is None:
        return write_arrow(page.table, names, types)
    return _stream(with_kinds(_named(page.table, names, types), page.kinds))


def write_arrow(table: pa.Table, names: Sequence[str], types: Sequence[LogicalType]) -> bytes:
    """Returns the page as an Arrow IPC stream whose columns have their names in the result."""
    return _stream(_named(table, names, types))


def _named(table: pa.Table, names: Sequence[str], types: Sequence[LogicalType]) -> pa.Table:
    if table.num_columns == 0:
        fields = [pa.field(name, arrow_type(logical)) for name, logical in zip(names, types, strict=True)]
        return pa.schema(fields).empty_table()
    fields = [pa.field(name, column.type) for name, column in zip(names, table.columns, strict=True)]
    return pa.table(table.columns, schema=pa.schema(fields))


def _stream(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def _cells(column: pa.Array, logical: LogicalType, row_format: RowFormat) -> Cells:
    """JSON of the values of a column, none of them null."""
    as_text = logical.type is TypeRoot.VARCHAR and not _is_text(column.type)
    plain = row_format is RowFormat.PLAIN_TEXT or as_text
    cells = text_cells(texts(column, FLINK_PLAIN)) if plain else json_cells(column)
    return Cells("", pc.fill_null(cells.whole(), "null"), "") if column.null_count else cells


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
