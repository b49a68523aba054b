"""Values of result cells as text or JSON, and text made fit for a terminal. Pure.

Rows come from three sources: Arrow pages (Python objects), JSON pages, and the preview in status (strings as Spark
casts them). The same value looks the same whichever it came from, for all types but nested ones and intervals.
"""

from __future__ import annotations

import base64
import json
import math
import unicodedata
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

Cell = Any  # str, bool, int, float, Decimal, date, datetime, timedelta, bytes, list, dict or None

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATS = frozenset({"float", "double"})
_SAME_EVERYWHERE = _INTEGERS | {"string", "boolean", "date"}


def is_plain(column_type: str) -> bool:
    """Whether the preview's text of such a column says all that a full page would."""
    return column_type in _SAME_EVERYWHERE or column_type.startswith(("decimal(", "varchar(", "char("))


def is_number(column_type: str) -> bool:
    """Numbers are aligned to the right."""
    return column_type in _INTEGERS | _FLOATS or column_type.startswith("decimal(")


def cell_text(value: Cell) -> str | None:
    """Text of a cell for tables and CSV as Spark's own cast to string writes it; None is NULL."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value)
        case Decimal():
            return format(value, "f")
        case datetime():  # Arrow carries the session's time zone, the one Spark prints in
            return _without_trailing_zeros(value.replace(tzinfo=None).isoformat(sep=" "))
        case date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case list() | dict():
            return json.dumps(json_cell(value), ensure_ascii=False)
        case _:
            return str(value)


def json_cell(value: Cell, column_type: str = "") -> Any:
    """Value of a cell for JSON: numbers and booleans as such, decimals as strings (a JSON reader would round them)."""
    match value:
        case None | bool() | int():
            return value
        case str():
            return _from_text(value, column_type)
        case float():
            return value if math.isfinite(value) else _float_text(value)
        case list():
            return [json_cell(item) for item in value]
        case dict():
            return {cell_text(key): json_cell(item) for key, item in value.items()}
        case Decimal() | date() | bytes() | timedelta():
            return cell_text(value)
        case _:
            return str(value)


def _from_text(text: str, column_type: str) -> Any:
    if column_type in _INTEGERS:
        return int(text)
    if column_type in _FLOATS:
        return json_cell(float(text))
    if column_type == "boolean":
        return text == "true"
    return text


def _float_text(value: float) -> str:
    """As Java and so Spark prints a double: `1234.5`, `1.0E10`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = format(Decimal(repr(value)).normalize(), "E").partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _without_trailing_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _is_unsafe(char: str) -> bool:
    """Control, format (bidi overrides, zero-width), surrogate, line and paragraph separator characters."""
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str, keep: str = "") -> str:
    r"""Text with every character that could move the cursor or hide text as `\n`, `\t`, `\xNN` or `\uNNNN`."""
    if text.isprintable():
        return text
    return "".join(c if c in keep or not _is_unsafe(c) else repr(c)[1:-1] for c in text)


def json_text(value: Any, *, printable: bool = True) -> str:
    r"""JSON on one line. For a terminal what JSON itself leaves unescaped becomes `\uNNNN`, the same to any reader."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if text.isprintable() or not printable:
        return text
    return "".join(json.dumps(c)[1:-1] if _is_unsafe(c) else c for c in text)


def width(text: str) -> int:
    """Columns that printable text takes on a terminal: two for wide East Asian characters, none for combining marks."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in {"W", "F"} else 1 for c in text
    )
