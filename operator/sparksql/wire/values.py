"""Values of results as text and as JSON. Pure: the one place that says how a value of Spark's is written.

A value is what Arrow makes of it in Python (`to_pylist`), or what JSON does. Text is what Spark's cast to STRING prints:
timestamps as `2026-01-31 10:00:00.5` by the clock that they carry, decimals in full, doubles as Java prints them, binaries
in base64.

Columns of Arrow are written by `gateway/frontends/columns.py`, which has no Python object for each value of a simple type.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, auto
from typing import Any

JsonValue = str | int | float | bool | None | list[object] | dict[str, object]

INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATS = frozenset({"float", "double"})


class Nested(Enum):
    """The style in which the text of a list, map or row is written."""

    SPARK = auto()  # `[1, null]`, `{a -> 1}`
    JSON = auto()  # `[1, null]`, `{"a": 1}`


def java_double(value: float) -> str:
    """Returns a double as Java's `Double.toString` writes it: `0.001`, `1.0E10`, `Infinity`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = format(Decimal(repr(value)).normalize(), "E").partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def base64_text(value: bytes) -> str:
    """Returns a binary in base64."""
    return base64.b64encode(value).decode()


def json_value(value: Any) -> JsonValue:
    """Returns a value as JSON holds it: numbers and booleans where they are exact there, else text; a map as an object."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else java_double(value)
        case Decimal() | date() | timedelta() | bytes():
            return text(value)
        case dict():
            return {json_key(key): json_value(item) for key, item in value.items()}
        case list() if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {json_key(key): json_value(item) for key, item in value}  # Arrow's form of a map
        case list() | tuple():
            return [json_value(item) for item in value]
        case _:
            return str(value)


def json_key(key: Any) -> str:
    """Returns the key of a map as the name in a JSON object."""
    return _or_null(json_value(key))


def json_of_text(shown: str, column_type: str) -> JsonValue:
    """Returns the JSON value of a text that Spark has cast a value to, by the column's type (Spark's simple string)."""
    if column_type in INTEGERS:
        return int(shown)
    if column_type in FLOATS:
        return json_value(float(shown))
    if column_type == "boolean":
        return shown == "true"
    return shown


def text(value: Any, nested: Nested = Nested.SPARK) -> str | None:
    """Returns a value as text, None for NULL. `nested` is the style of lists and maps, as JSON values or as Python's."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            return _timestamp(value)
        case date():
            return value.isoformat()
        case bytes():
            return base64_text(value)
        case list() | dict() if nested is Nested.JSON:
            return json.dumps(json_value(value), ensure_ascii=False)
        case list():
            return f"[{_joined(value)}]"
        case dict():
            return "{" + ", ".join(f"{key} -> {_or_null(item)}" for key, item in value.items()) + "}"
        case _:
            return str(value)


def _joined(items: Sequence[Any]) -> str:
    return ", ".join(_or_null(item) for item in items)


def _or_null(value: Any) -> str:
    shown = text(value)
    return "null" if shown is None else shown


def _timestamp(value: datetime) -> str:
    """The wall clock of the zone that Arrow gave the value: the session's, in which Spark prints."""
    shown = value.replace(tzinfo=None).isoformat(sep=" ")
    return shown.rstrip("0") if "." in shown else shown
