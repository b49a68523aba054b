"""Draws what is run and computed: settings, calls of window functions, queries over them, orders of rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from .window_model import (
    AGGREGATES,
    CONDITIONS,
    DAY,
    HAVINGS,
    HOUR,
    KEYS,
    MINUTE,
    SECOND,
    Call,
    Kept,
    Query,
    Row,
)
from .window_runs import Setting

# Zones and days on which their clocks change; in Havana that is at midnight.
CHANGES = {
    "UTC": ("2024-02-29", "2026-12-31"),
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Asia/Kolkata": ("2026-01-31", "2026-12-31"),
    "America/Havana": ("2026-03-08", "2026-11-01"),
}
BY_WINDOW = "window_start, window_end"


def drawn_setting(draw: random.Random) -> Setting:
    """Returns a setting; Spark takes no watermark on TIMESTAMP_NTZ, which is for batches."""
    kind = draw.choice(("TIMESTAMP", "TIMESTAMP", "TIMESTAMP", "TIMESTAMP_NTZ"))
    return Setting(kind, draw.choice(sorted(CHANGES)), draw.random() < 0.4, draw.random() < 0.5)


def drawn_middle(draw: random.Random, zone: str) -> int:
    """Returns a time near a change of clocks or the end of a month."""
    day = datetime.fromisoformat(draw.choice(CHANGES[zone])).replace(tzinfo=UTC)
    return round(day.timestamp()) * SECOND + draw.randint(-4, 12) * HOUR


def drawn_call(draw: random.Random, setting: Setting) -> Call:
    """Returns a call with windows of part of a second up to a week; HOP's slide need not divide its size."""
    function = draw.choice(("TUMBLE", "HOP", "HOP", "CUMULATE", "CUMULATE"))
    unit = draw.choice((333_333, SECOND, 7 * SECOND, MINUTE, HOUR, DAY, DAY, DAY))
    size = unit * draw.choice((1, 2, 3, 4, 7) if unit == DAY else (1, 2, 5, 6, 10, 24))
    match function:
        case "TUMBLE":
            step = size
        case "HOP":
            step = draw.choice([each for each in (unit, 2 * unit, 3 * unit, size) if each <= size])
        case _:
            step = draw.choice((6 * HOUR, HOUR, 12 * HOUR)) if size == DAY else unit
    offset = draw.choice((0, 0, 1, -1, 3, -8)) * (HOUR if unit == DAY else unit // 2)
    if unit == DAY and draw.random() < 0.4:
        offset = draw.choice((4, -3)) * DAY
    zoned = setting.kind == "TIMESTAMP" and setting.zone != "UTC"
    return Call(function, size, step, offset, setting.zone if zoned else None)


def drawn_query(draw: random.Random, kinds: str) -> Query:
    """Returns a query whose results are `paned`, `unpaned` or `distinct` ones."""
    merged = [name for name, each in AGGREGATES.items() if each.is_merged]
    distinct = [name for name in AGGREGATES if name.startswith("distinct")]
    match kinds:
        case "paned":
            results = draw.sample(merged, 6)
        case "distinct":
            results = draw.sample(distinct, draw.randint(1, 3)) + draw.sample(merged, draw.randint(0, 3))
        case _:
            results = ["listed", "avg_d", *draw.sample(merged, 3)]
    keys = tuple(draw.sample(sorted(KEYS), draw.randint(0, 2)))
    sets, grouping = _grouping(draw, [KEYS[name][0] for name in keys])
    where, having = draw.choice((None, None, *CONDITIONS)), draw.choice((None, None, None, *HAVINGS))
    return Query(keys, sets, grouping, tuple(results), where, having)


def plainly_grouped(query: Query, keys: Sequence[str]) -> Query:
    """Returns a query by windows and keys, without grouping sets."""
    grouping = ", ".join([BY_WINDOW, *(KEYS[name][0] for name in keys)])
    return replace(query, keys=tuple(keys), sets=(tuple(range(len(keys))),), grouping=grouping)


def _grouping(draw: random.Random, keys: list[str]) -> tuple[tuple[tuple[int, ...], ...], str]:
    every, listed = tuple(range(len(keys))), ", ".join(keys)
    match draw.choice(("plain", "plain", "rollup", "cube", "sets")) if keys else "plain":
        case "rollup":
            return tuple(every[:length] for length in range(len(keys) + 1)), f"{BY_WINDOW}, ROLLUP({listed})"
        case "cube":
            sets = tuple(tuple(each for each in every if bits >> each & 1) for bits in range(1 << len(keys)))
            return sets, f"{BY_WINDOW}, CUBE({listed})"
        case "sets":
            return ((), every), f"GROUPING SETS (({BY_WINDOW}), ({BY_WINDOW}, {listed}))"
        case _:
            return (every,), ", ".join([BY_WINDOW, *keys])


@dataclass(frozen=True)
class Order:
    """A key of ORDER BY; `nulls_first` is None where the text says nothing of it."""

    name: str
    descending: bool
    nulls_first: bool | None

    def sql(self) -> str:
        """Returns the key's text."""
        nulls = {None: "", True: " NULLS FIRST", False: " NULLS LAST"}[self.nulls_first]
        return f"{_ORDERED.get(self.name, self.name)} {'DESC' if self.descending else 'ASC'}{nulls}"

    def sorted(self, rows: Iterable[Row], zone: str) -> list[Row]:
        """Returns rows in the order of this key alone, those that are equal in theirs."""
        rows = list(rows)
        nulls = [row for row in rows if _ordered(row, self.name, zone) is None]
        known = [row for row in rows if _ordered(row, self.name, zone) is not None]
        known.sort(key=lambda row: _ordered(row, self.name, zone), reverse=self.descending)
        first = not self.descending if self.nulls_first is None else self.nulls_first
        return nulls + known if first else known + nulls


_ORDERED = {"day": "date(ts)", "wall": "CAST(ts AS TIMESTAMP_NTZ)"}


def _ordered(row: Row, name: str, zone: str) -> Any:
    if name not in _ORDERED:
        return row[name]
    wall = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row["ts"])).astimezone(ZoneInfo(zone))
    return wall.date() if name == "day" else wall.replace(tzinfo=None)


@dataclass(frozen=True)
class Top:
    """The first rows of windows and `parts`, and what of their numbers is shown."""

    parts: tuple[str, ...]
    orders: tuple[Order, ...]
    shown: str
    is_shown: Callable[[int], bool]

    def sql(self, call: str) -> str:
        """Returns the text over a call."""
        partition, orders = ", ".join([BY_WINDOW, *self.parts]), ", ".join(order.sql() for order in self.orders)
        number = f"ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY {orders}) AS rn"
        return f"SELECT {BY_WINDOW}, k, g, l, d, x, id, rn FROM (SELECT *, {number} FROM {call}) WHERE {self.shown}"

    def rows(self, kept: Kept, zone: str) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of the answer."""
        for (window, _), rows in kept.items():
            ordered = rows
            for order in reversed(self.orders):
                ordered = order.sorted(ordered, zone)
            for number, row in enumerate(ordered, 1):
                if self.is_shown(number):
                    yield (*window, *(row[name] for name in ("k", "g", "l", "d", "x", "id")), number)


def drawn_top(draw: random.Random) -> Top:
    """Returns the first rows by keys of several types; a string goes in the direction of the first key."""
    orders: list[Order] = []
    for name in draw.sample(("i", "l", "d", "x", "b", "ts", "k", "g", *_ORDERED), draw.randint(1, 4)):
        descending = orders[0].descending if name == "k" and orders else draw.random() < 0.5
        orders.append(Order(name, descending, draw.choice((None, True, False))))
    orders.append(Order("id", draw.random() < 0.5, None))
    most = draw.randint(1, 4)
    shown, is_shown = draw.choice(
        (
            (f"rn <= {most}", lambda number: number <= most),
            (f"rn < {most + 1}", lambda number: number <= most),
            (f"rn = {most}", lambda number: number == most),
            (f"rn <= {most} AND rn > 1", lambda number: 1 < number <= most),
        )
    )
    return Top(tuple(draw.sample(("k", "g", "b"), draw.randint(0, 2))), tuple(orders), shown, is_shown)
