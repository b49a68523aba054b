"""Values as Hive's command line shows them, which is how the golden files have them. Pure.

A value is None, a bool, an int, a float, a Decimal, bytes, a list, the pairs of a map, a tuple of a struct's fields, or a text. An
interval of months or of days is the number of its months or microseconds. Of any type but a string a text is shown as it is: its
writer has written it as Spark does.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from tests.sqlsuite.types import Type

_MICROS = 10**6
# Of the last unit of an interval's type: what is smaller is in the number, and Spark does not show it.
_LAST_UNITS = {"day": 86_400 * _MICROS, "hour": 3600 * _MICROS, "minute": 60 * _MICROS}
_BINARIES: Mapping[str, Callable[[bytes], str]] = {
    "UTF-8": lambda value: value.decode(errors="replace"),
    "BASIC": lambda value: str(list(np.frombuffer(value, np.int8).tolist())),
    "BASE64": lambda value: base64.b64encode(value).decode().rstrip("="),
    "HEX": lambda value: value.hex().upper(),
    "HEX_DISCRETE": lambda value: "[" + value.hex(" ").upper() + "]",
}


def shown(value: Any, kind: Type, binary_style: str = "UTF-8", *, nested: bool = False) -> str:
    """Returns a value's text. `nested` is one within a list, map or struct."""
    match value:
        case None:
            return "null" if nested else "NULL"
        case str():
            return f'"{value}"' if nested and kind.name in ("string", "char", "varchar") else value
        case bool():
            return str(value).lower()
        case int() if kind.name == "interval":
            return _interval(value, kind)
        case float():
            return java_number(value, single=kind.name == "float")
        case Decimal():
            return format(value, "f")
        case bytes():
            return _BINARIES[binary_style](value)
        case tuple():
            fields = zip(kind.names, value, kind.parts, strict=True)
            return _joined("{", (f'"{name}":{shown(v, t, binary_style, nested=True)}' for name, v, t in fields), "}")
        case list() if kind.name == "map":
            keys, values = kind.parts
            pairs = (
                f"{shown(k, keys, binary_style, nested=True)}:{shown(v, values, binary_style, nested=True)}"
                for k, v in value
            )
            return _joined("{", sorted(pairs, key=utf16), "}")
        case list():
            return _joined("[", (shown(item, kind.parts[0], binary_style, nested=True) for item in value), "]")
        case _:
            return str(value)


def java_number(value: float, *, single: bool = False) -> str:
    """Returns a float as Java writes it, from version 19 on: the fewest digits that tell it from its neighbours, two at least."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    number = np.float32(value) if single else np.float64(value)
    digits = np.format_float_scientific(number, unique=True, trim="0")
    if len(digits.partition("e")[0].lstrip("-")) == 3:  # a second digit may be nearer to what a very small one is
        longer = np.format_float_scientific(number, precision=1, unique=False, trim="0")
        digits = longer if type(number)(longer) == number else digits
    mantissa, _, exponent = digits.partition("e")
    if number == 0 or -3 <= int(exponent) < 7:
        return np.format_float_positional(type(number)(digits), unique=True, trim="0")
    return f"{mantissa}E{int(exponent)}"


def utf16(text: str) -> bytes:
    """Returns the key by which Java sorts texts."""
    return text.encode("utf-16-be", "surrogatepass")


def _interval(value: int, kind: Type) -> str:
    sign, size = ("-" if value < 0 else ""), abs(value)
    if "year" in kind.text or "month" in kind.text:
        return f"{sign}{size // 12}-{size % 12}"
    size -= size % _LAST_UNITS.get(kind.text.rpartition(" ")[2], 1)
    seconds, micros = divmod(size, _MICROS)
    minutes, hours = seconds // 60, seconds // 3600
    return f"{sign}{hours // 24} {hours % 24:02}:{minutes % 60:02}:{seconds % 60:02}.{micros:06}000"


def _joined(begin: str, items: Any, end: str) -> str:
    return begin + ",".join(items) + end
