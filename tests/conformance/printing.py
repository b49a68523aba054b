"""How each client shows a value: the only differences between clients that the comparison of rows allows.

A `Printing` turns the expected value into what the client's program prints. Whatever is not said here must be equal.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from tests.conformance.queries import Interval, Struct, Variant

Printing = Callable[[Any], Any]


def _is_special(value: Any) -> bool:
    return isinstance(value, float) and (value != value or abs(value) == float("inf"))


def _instant(value: dt.datetime) -> str:
    """Wall clock of UTC, which is every session's zone here; only the fraction's digits that are needed."""
    shown = value.replace(tzinfo=None).isoformat(sep=" ")
    return shown.rstrip("0") if "." in shown else shown


def json_value(value: Any) -> Any:
    """A nested value of a HiveServer2 result, parsed as JSON: keys of maps are strings, everything without a JSON form too."""
    match value:
        case dict():
            return {str(key): json_value(item) for key, item in value.items()}
        case list():
            return [json_value(item) for item in value]
        case dt.datetime():
            return _instant(value)
        case dt.date():
            return value.isoformat()
        case _:
            return value


def dbapi(value: Any) -> Any:
    """PyHive: dates and nested values as text, decimals and timestamps as Python's."""
    match value:
        case dt.datetime():
            return {"timestamp": value.replace(tzinfo=None).isoformat(sep=" ")}
        case dt.date():
            return value.isoformat()
        case Decimal():
            return {"decimal": format(value, "f")}
        case bytes():
            return {"bytes": value.hex()}
        case list() | dict():
            return Nested(value)
        case Interval() | Variant():
            return str(value)
        case float() if _is_special(value):
            return {"nan": "nan", "inf": "inf", "-inf": "-inf"}[str(value)]
        case _:
            return value


def impyla(value: Any) -> Any:
    """impyla: as PyHive, dates as Python's."""
    is_date = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    return {"date": value.isoformat()} if is_date else dbapi(value)


def node(value: Any) -> Any:
    """hive-driver: decimals are numbers of JavaScript, nested values are parsed."""
    match value:
        case dt.datetime():
            return _instant(value)
        case Decimal():
            return float(value)
        case dict():
            return {"object": json_value(value)}
        case list():
            return [node(item) for item in value]
        case float() if _is_special(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case _:
            return dbapi(value)


def connect(value: Any) -> Any:
    """pyspark-client: Python's own values; instants without zone in the zone of the process, which is UTC."""
    match value:
        case Struct():
            return {"struct": [[name, connect(item)] for name, item in value.items()]}
        case dict():
            return {"map": [[connect(key), connect(item)] for key, item in value.items()]}
        case list():
            return [connect(item) for item in value]
        case Variant():
            return {"VariantVal": str(value)}
        case dt.date() if not isinstance(value, dt.datetime):
            return {"date": value.isoformat()}
        case _:
            return dbapi(value)


def flink_jdbc(value: Any) -> Any:
    """Flink's JDBC driver: java.sql types; intervals and VARIANT, which it cannot read, arrive as VARCHAR."""
    match value:
        case dt.datetime():
            shown = value.replace(tzinfo=None).isoformat(sep=" ")
            return {"timestamp": shown.rstrip("0") if "." in shown else f"{shown}.0"}
        case dt.date():
            return {"date": value.isoformat()}
        case dict() if not isinstance(value, Struct) and all(isinstance(key, str) for key in value):
            return {"map": [[flink_jdbc(key), flink_jdbc(item)] for key, item in value.items()]}
        case list() | dict():
            return Nested(value)
        case float() if _is_special(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case _:
            return dbapi(value)


def flink_text(value: Any) -> str:
    """Flink SQL Client: a table of text, in the format PLAIN_TEXT."""
    match value:
        case None:
            return "<NULL>"
        case bool():
            return str(value).upper()
        case bytes():
            return f"x'{value.hex()}'"
        case dt.datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        case dt.date():
            return value.isoformat()
        case Struct():
            return "(" + ", ".join(_inner(item) for item in value.values()) + ")"
        case dict():
            return "{" + ", ".join(f"{_inner(key)}={_inner(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(_inner(item) for item in value) + "]"
        case float() if _is_special(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case Decimal():
            return format(value, "f")
        case _:
            return str(value)


def _inner(value: Any) -> str:
    return "NULL" if value is None else flink_text(value)


def beeline(value: Any) -> Any:
    """beeline's csv2: text; binaries are decoded."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case bytes():
            return value.decode("utf-8", "replace")
        case dt.datetime():
            shown = _instant(value)
            return shown if "." in shown else f"{shown}.0"
        case dt.date():
            return value.isoformat()
        case list() | dict():
            return Nested(value)
        case float() if _is_special(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case Decimal():
            return format(value, "f")
        case _:
            return str(value)


class Nested:
    """Equal to every text, bytes of a text or parsed JSON that means the same."""

    def __init__(self, value: Any) -> None:
        self._wanted = json_value(value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dict) and set(other) == {"bytes"}:  # impyla has arrays so
            other = bytes.fromhex(other["bytes"]).decode()
        try:
            return isinstance(other, str) and bool(json.loads(other) == self._wanted)
        except ValueError:
            return False

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"JSON of {json.dumps(self._wanted, ensure_ascii=False)}"


def expected(rows: Sequence[tuple[Any, ...]], printing: Printing) -> list[list[Any]]:
    return [[printing(cell) for cell in row] for row in rows]
