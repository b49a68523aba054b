"""Rows of a result as JSON and as the preview in status. Each value is written as `wire/values.py` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sparksql.wire.values import JsonValue, text
from sparksql.wire.values import json_value as json_cell

MAX_PREVIEW_BYTES = 8192


def rows(table: pa.Table) -> Iterator[tuple[JsonValue, ...]]:
    """Returns the rows of a table as JSON values. Columns are taken by position, so equal names do no harm."""
    columns = [[json_cell(value) for value in _values(column)] for column in table.columns]
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


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_float32(column.type):  # widened to a double, 0.1 would read 0.10000000149011612
        return [None if shown is None else float(shown) for shown in column.cast(pa.string()).to_pylist()]
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):  # a date or timestamp outside the years 1..9999 of Python
        return list(column.cast(pa.string()).to_pylist())
