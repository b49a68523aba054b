"""Values that the protocols carry, as `printing` takes them. Pure.

JSON holds the values of typed columns. What a protocol has no type for travels as text, in one of two styles: as Spark's cast to
STRING writes it, or as Flink's clients show it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from tests.sqlsuite.times import timestamp_micros, timestamp_text
from tests.sqlsuite.types import Type

_DIGITS = Context(prec=80)
_INTERVAL = re.compile(r"INTERVAL '([+-]?)(.*)' (\w+)(?: TO (\w+))?")
_MONTHS = {"YEAR": 12, "MONTH": 1}
_MICROS = {"DAY": 86_400 * 10**6, "HOUR": 3600 * 10**6, "MINUTE": 60 * 10**6, "SECOND": 10**6}


def parse_json(text: str) -> Any:
    """Returns a JSON value whose numbers keep their digits."""
    return json.loads(text, parse_float=Decimal)


def from_json(raw: Any, kind: Type) -> Any:
    """Returns the value that JSON holds. Instants are written by the clock of the session's zone, whatever mark follows."""
    if raw is None:
        return None
    match kind.name:
        case "float" | "double":
            return float(raw)
        case "decimal":
            return decimal_of(str(raw), kind)
        case "binary":
            return base64.b64decode(raw)
        case "timestamp" | "timestamp_ntz":
            return _timestamp(str(raw))
        case "array":
            return [from_json(item, kind.parts[0]) for item in raw]
        case "map":
            keys, values = kind.parts
            return [(_key(key, keys), from_json(v, values)) for key, v in raw.items()]
        case "struct":
            return tuple(from_json(raw.get(n), part) for n, part in zip(kind.names, kind.parts, strict=True))
        case _:
            return raw


def decimal_of(text: str, kind: Type) -> Decimal:
    """Returns a decimal with the digits that its type has behind the point."""
    scale = int(kind.text.rstrip(")").rpartition(",")[2])
    return Decimal(text).quantize(Decimal(1).scaleb(-scale), context=_DIGITS)


def interval_of(text: str) -> int | str:
    """Returns the months or microseconds of an interval's text. One of the old kind, which has both, stays as it is."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        return text
    sign, numbers, first, last = match.groups()
    sizes = _MONTHS if first in _MONTHS else _MICROS
    units = [*sizes][[*sizes].index(first) : [*sizes].index(last or first) + 1]
    found = re.findall(r"\d+(?:\.\d+)?", numbers)
    size = sum(Decimal(number) * sizes[unit] for number, unit in zip(found, units, strict=True))
    return -int(size) if sign == "-" else int(size)


@dataclass(frozen=True)
class TextStyle:
    """How nested values are written: brackets of a struct, what stands between a key and its value, and NULL."""

    struct: tuple[str, str]
    assign: str
    null: str


SPARK = TextStyle(("{", "}"), " -> ", "null")
FLINK = TextStyle(("(", ")"), "=", "NULL")


def from_text(text: str, kind: Type, style: TextStyle = SPARK) -> Any:
    """Returns the value that a text means. A text within it is taken to end at the next mark of its surroundings."""
    if not kind.parts:
        return _leaf(text, kind, style)
    value, end = _Reader(text, style).value(kind, 0, "")
    return value if end == len(text) else text


@dataclass(frozen=True)
class _Reader:
    text: str
    style: TextStyle

    def value(self, kind: Type, at: int, closing: str) -> tuple[Any, int]:
        """The value at a place of the text, and where it ends: before a comma, an assignment or the closing bracket."""
        if self.text.startswith(self.style.null, at) and self._ends(at + len(self.style.null), closing):
            return None, at + len(self.style.null)
        match kind.name:
            case "array":
                return self._items(kind, at, "[", "]")
            case "map":
                return self._items(kind, at, "{", "}")
            case "struct":
                return self._items(kind, at, *self.style.struct)
            case _:
                end = next((i for i in range(at, len(self.text)) if self._ends(i, closing)), len(self.text))
                return _leaf(self.text[at:end], kind, self.style), end

    def _items(self, kind: Type, at: int, begin: str, end: str) -> tuple[Any, int]:
        if not self.text.startswith(begin, at):
            return self.text[at:], len(self.text)
        at += 1
        items: list[Any] = []
        parts = self._parts(kind)
        while not self.text.startswith(end, at):
            if at >= len(self.text):
                return self.text, len(self.text)
            at += 2 if self.text.startswith(", ", at) else 0
            item, at = self.value(next(parts), at, end)
            if kind.name == "map":
                value, at = self.value(kind.parts[1], at + len(self.style.assign), end)
                item = (item, value)
            items.append(item)
        return (tuple(items) if kind.name == "struct" else items), at + 1

    def _parts(self, kind: Type) -> Iterator[Type]:
        if kind.name == "struct":
            yield from kind.parts
        while True:
            yield kind.parts[0]

    def _ends(self, at: int, closing: str) -> bool:
        return at >= len(self.text) or self.text.startswith(
            (", ", self.style.assign, *([closing] if closing else ())), at
        )


def _leaf(text: str, kind: Type, style: TextStyle) -> Any:
    match kind.name:
        case "interval":
            return interval_of(text)
        case "boolean":
            return text.lower()
        case "timestamp" | "timestamp_ntz":
            return _timestamp(text)
        case "binary" if style is FLINK:
            return bytes.fromhex(text[2:-1])
        case _:
            return text


def _timestamp(text: str) -> str:
    micros = timestamp_micros(text)
    return text if micros is None else timestamp_text(micros)


def _key(key: str, kind: Type) -> Any:
    """The key that the name of a JSON object means: a number or a text, or of a nested type JSON or Spark's text."""
    match kind.name:
        case "tinyint" | "smallint" | "int" | "bigint":
            return int(key)
        case "boolean":
            return key.lower()
        case _ if kind.parts:
            try:
                return from_json(parse_json(key), kind)
            except ValueError:
                return from_text(key, kind)
        case _:
            return from_json(key, kind)
