"""Values of result cells as text or JSON, and text made fit for a terminal. Pure.

Rows come from two sources: pages in JSON, and the preview in status (strings as Spark casts them). The same value looks the same
whichever it came from, for all types but nested ones.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from sparksql.wire.values import FLOATS, INTEGERS, JsonValue, json_of_text, text

Cell = JsonValue

_SAME_EVERYWHERE = INTEGERS | {"string", "boolean", "date"}


def is_plain(column_type: str) -> bool:
    """Tells whether the preview's text of such a column says all that a full page would."""
    return column_type in _SAME_EVERYWHERE or column_type.startswith(("decimal(", "varchar(", "char("))


def is_number(column_type: str) -> bool:
    """Numbers are aligned to the right."""
    return column_type in INTEGERS | FLOATS or column_type.startswith("decimal(")


def cell_text(value: Cell) -> str | None:
    """Returns a cell's text for tables and CSV, None for NULL; lists and maps as JSON, so that other programs can read them."""
    return text(value)


def json_cell(value: Cell, column_type: str = "") -> JsonValue:
    """Returns a cell for JSON: numbers and booleans as such, decimals as strings (a JSON reader would round them)."""
    return json_of_text(value, column_type) if isinstance(value, str) else value


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
