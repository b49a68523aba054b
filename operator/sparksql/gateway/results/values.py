"""Values of a result as people and JSON see them.

Numbers and booleans stay what they are where JSON can hold them exactly; everything else is text as Spark's cast to STRING
prints it: timestamps and dates as `2026-01-31 10:00:00.5`, decimals in full, binary in base64. NULL is null.
"""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

MAX_PREVIEW_BYTES = 8192
_SAFE_EXPONENTS = range(-3, 7)  # Java prints a double without an exponent from 10**-3 up to below 10**7

Cell = str | int | float | bool | None | list[object] | dict[str, object]


def rows(table: pa.Table) -> Iterator[tuple[Cell, ...]]:
    """Rows of a table as JSON values. Columns are taken by position, so equal names do no harm."""
    columns = [[json_cell(value) for value in _values(column)] for column in table.columns]
    return zip(*columns, strict=True) if columns else iter(() for _ in range(table.num_rows))


def preview(rows_: Iterable[Sequence[Cell]], limit: int) -> tuple[tuple[str | None, ...], ...]:
    """The first rows as text, at most `limit` and MAX_PREVIEW_BYTES in all."""
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


def json_cell(value: Any) -> Cell:
    """One value as JSON holds it."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _float_text(value)
        case Decimal():
            return format(value, "f")
        case datetime.datetime():
            return _timestamp_text(value)
        case datetime.date():
            return value.isoformat()
        case datetime.timedelta():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(key): json_cell(item) for key, item in value.items()}
        case list() if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {text(json_cell(key)) or "null": json_cell(item) for key, item in value}  # Arrow's form of a map
        case list() | tuple():
            return [json_cell(item) for item in value]
        case _:
            return str(value)


def text(cell: object) -> str | None:
    """A JSON value as Spark prints it in a cell: `[1, 2]`, `{a, NULL}` as `{...}` with names, true, 1.0E10."""
    match cell:
        case None:
            return None
        case bool():
            return "true" if cell else "false"
        case float():
            return _float_text(cell)
        case list():
            return "[" + ", ".join(_nested(item) for item in cell) + "]"
        case dict():
            return "{" + ", ".join(f"{key} -> {_nested(item)}" for key, item in cell.items()) + "}"
        case _:
            return str(cell)


def _nested(cell: object) -> str:
    shown = text(cell)
    return "null" if shown is None else shown


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_float32(column.type):  # widened to a double, 0.1 would read 0.10000000149011612
        return [None if shown is None else float(shown) for shown in column.cast(pa.string()).to_pylist()]
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):  # a date or timestamp outside the years 1..9999 of Python
        return list(column.cast(pa.string()).to_pylist())


def _timestamp_text(value: datetime.datetime) -> str:
    shown = value.replace(tzinfo=None).isoformat(sep=" ")
    return shown.rstrip("0") if "." in shown else shown


def _float_text(value: float) -> str:
    """A double as Java prints it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or math.floor(math.log10(abs(value))) in _SAFE_EXPONENTS:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    mantissa, _, exponent = format(Decimal(repr(value)).normalize(), "E").partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
