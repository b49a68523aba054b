"""Values of results outside of Arrow: in JSON, and as the text of a single cell. Pure.

`gateway/results/columns.py` writes the values of a result. Who reads its pages has JSON values.
"""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal

JsonValue = str | int | float | bool | None | list[object] | dict[str, object]

INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATS = frozenset({"float", "double"})


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


def json_of_text(shown: str, column_type: str) -> JsonValue:
    """Returns the JSON value of a text that Spark has cast a value to, by the column's type (Spark's simple string)."""
    if column_type in INTEGERS:
        return int(shown)
    if column_type in FLOATS:
        return float(shown) if math.isfinite(float(shown)) else shown
    if column_type == "boolean":
        return shown == "true"
    return shown


def text(value: JsonValue) -> str | None:
    """Returns a JSON value as text, None for NULL: a double as Java writes it, lists and objects as JSON."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case list() | dict():
            return json.dumps(value, ensure_ascii=False)
        case int():
            return str(value)
