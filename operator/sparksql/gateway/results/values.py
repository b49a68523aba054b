"""Rows of a result as JSON and as the preview in status. Each value is written as `wire/values.py` says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from sparksql.wire.values import JsonValue, json_key, text
from sparksql.wire.values import json_value as json_cell

MAX_PREVIEW_BYTES = 8192


def rows(table: pa.Table) -> Iterator[tuple[JsonValue, ...]]:
    """Returns the rows of a table as JSON values. Columns are taken by position, so equal names do no harm."""
    columns = [_cells(column) for column in table.columns]
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


def _cells(column: pa.ChunkedArray) -> list[JsonValue]:
    if pa.types.is_float32(column.type):  # widened to a double, 0.1 would read 0.10000000149011612
        return [None if shown is None else json_cell(float(shown)) for shown in column.cast(pa.string()).to_pylist()]
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):  # a date or timestamp outside the years 1..9999 of Python
        return list(column.cast(pa.string()).to_pylist())
    write = _writer(column.type)
    return [write(value) for value in values]


def _writer(kind: pa.DataType) -> Callable[..., JsonValue]:
    """What writes a value of a type. Only the type tells a map without entries from a list without items."""
    if pa.types.is_map(kind):
        item = _writer(kind.item_type)
        return lambda entries: None if entries is None else {json_key(key): item(value) for key, value in entries}
    if pa.types.is_list(kind):
        member = _writer(kind.value_type)
        return lambda members: None if members is None else [member(value) for value in members]
    if pa.types.is_struct(kind):
        fields = {field.name: _writer(field.type) for field in kind}
        return lambda row: None if row is None else {name: fields[name](value) for name, value in row.items()}
    return json_cell
