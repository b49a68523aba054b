"""Rows of a result as JSON and as the preview in status. Each value is written as `wire/values.py` says."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from sparksql.gateway.results.times import date_texts, timestamp_texts, without_zeros
from sparksql.wire.values import JsonValue, json_key, text
from sparksql.wire.values import json_value as json_cell

MAX_PREVIEW_BYTES = 8192


def rows(table: pa.Table) -> Iterator[tuple[JsonValue, ...]]:
    """Returns the rows of a table as JSON values. Columns are taken by position, so equal names do no harm.

    Raises UnknownZoneError for an instant in one.
    """
    columns = [[cell for chunk in column.chunks for cell in _cells(chunk)] for column in table.columns]
    return zip(*columns, strict=True) if columns else iter(() for _ in range(table.num_rows))


def preview(rows_: Iterable[Sequence[JsonValue]], limit: int) -> tuple[tuple[str | None, ...], ...]:
    """Returns the first rows as text, at most `limit` and MAX_PREVIEW_BYTES in all."""
    shown: list[tuple[str | None, ...]] = []
    size = 0
    for row in rows_:
        if len(shown) >= limit:
            break
        cells = tuple(text(cell) for cell in row)
        size += sum(len(cell.encode()) if cell else 4 for cell in cells) + 4 * len(cells)
        if size > MAX_PREVIEW_BYTES:
            break
        shown.append(cells)
    return tuple(shown)


def _cells(column: pa.Array) -> list[JsonValue]:
    """The values of a column. Only the type tells a map without entries from a list without items."""
    kind = column.type
    if pa.types.is_nested(kind):
        return _nested_cells(column)
    if pa.types.is_float32(kind):  # widened to a double, 0.1 would read 0.10000000149011612
        return [None if shown is None else json_cell(float(shown)) for shown in column.cast(pa.string()).to_pylist()]
    if pa.types.is_date(kind):
        return list(date_texts(column).to_pylist())
    if pa.types.is_timestamp(kind):
        return list(without_zeros(timestamp_texts(column)).to_pylist())
    return [json_cell(value) for value in column.to_pylist()]


def _nested_cells(column: pa.Array) -> list[JsonValue]:
    kind = column.type
    found: list[JsonValue]
    if pa.types.is_struct(kind):
        fields = {part.name: _cells(values) for part, values in zip(kind, column.flatten(), strict=True)}
        found = [{name: cells[row] for name, cells in fields.items()} for row in range(len(column))]
    elif pa.types.is_map(kind):
        keys, items = (_cells(_held(column, part)) for part in (column.keys, column.items))
        found = [{json_key(keys[at]): items[at] for at in extent} for extent in _extents(column)]
    else:
        members = _cells(_held(column, column.values))
        found = [[members[at] for at in extent] for extent in _extents(column)]
    return [value if valid else None for value, valid in zip(found, column.is_valid().to_pylist(), strict=True)]


def _held(column: pa.Array, values: pa.Array) -> pa.Array:
    """The values that the lists or maps of a column hold, which may be a part of a longer one."""
    begin, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
    return values.slice(begin, end - begin)


def _extents(column: pa.Array) -> Iterator[range]:
    """Where the values of each list or map are among those that are held."""
    offsets = column.offsets.to_pylist()
    return (range(start - offsets[0], end - offsets[0]) for start, end in itertools.pairwise(offsets))
