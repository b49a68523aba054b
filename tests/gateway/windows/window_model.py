"""What windows hold, computed in plain Python: bounds, panes, aggregates, sessions, and the rows that a stream drops.

Times are whole microseconds since 1970, of UTC for TIMESTAMP and of the clock on the wall for TIMESTAMP_NTZ.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import reduce
from operator import and_, or_, xor
from typing import Any
from zoneinfo import ZoneInfo

SECOND, MINUTE, HOUR, DAY = 10**6, 60 * 10**6, 3600 * 10**6, 86_400 * 10**6
NEVER = -(2**63)
_EPOCH = datetime(1970, 1, 1)
Row = dict[str, Any]
Window = tuple[int, int]


@dataclass(frozen=True)
class Call:
    """A call of a window table function; `step` is HOP's slide. `zone` is None where no clock changes windows."""

    function: str
    size: int
    step: int
    offset: int = 0
    zone: str | None = None

    def sql(self, table: str) -> str:
        """Returns the call over `TABLE table`, lengths in microseconds."""
        lengths = [self.size] if self.function == "TUMBLE" else [self.step, self.size]
        offset = [self.offset] if self.offset else []
        told = ", ".join(f"'{length} microseconds'" for length in [*lengths, *offset])
        return f"{self.function}(TABLE {table}, DESCRIPTOR(ts), {told})"

    def windows(self, time: int) -> list[Window]:
        """Returns all windows that a time is in."""
        return [window for window in self._near(time) if window[0] <= time < window[1]]

    def pane_end(self, time: int) -> int:
        """Returns the end of the shortest span, with this time in it, that all windows are made of."""
        match self.function:
            case "CUMULATE":
                return min(end for _, end in self.windows(time))
            case "HOP" if self._is_of_parts_of_days:
                return min(
                    each for block in self._blocks(time) for each in (*self._slides(block), block[1]) if each > time
                )
            case "HOP":
                length = math.gcd(self.size, self.step)
                (pane,) = Call("TUMBLE", length, length, self.offset, self.zone if self._by_days else None).windows(
                    time
                )
                return pane[1]
            case _:
                return self.windows(time)[0][1]

    @property
    def _by_days(self) -> bool:
        return self.zone is not None and self.size % DAY == 0 and self.step % DAY == 0

    @property
    def _is_of_parts_of_days(self) -> bool:
        return self.function == "HOP" and self.zone is not None and self.size % DAY == 0 and self.step % DAY != 0

    def _blocks(self, time: int) -> Iterator[tuple[int, int, int]]:
        """The days that slides are counted from the beginning of: each one's start, its end, and its start on the clock.

        A slide that does not divide a day is counted from the beginning of as many days as it divides.
        """
        assert self.zone is not None
        length = math.lcm(self.step, DAY)
        last = time - (time - self.offset) % length
        for cut in range(last - (self.size // length + 2) * length, last + 3 * length, length):
            yield _instant(cut, self.zone), _instant(cut + length, self.zone), cut

    def _slides(self, block: tuple[int, int, int]) -> range:
        return range(block[0], block[1], self.step)

    def _hops(self, time: int) -> Iterator[Window]:
        """From each slide of a day to the same slide of the day that is SIZE later, or the end of that if it is shorter."""
        assert self.zone is not None
        for block in self._blocks(time):
            last_day = block[2] + self.size
            later, over = (_instant(each, self.zone) for each in (last_day, last_day + math.lcm(self.step, DAY)))
            for slide, begin in enumerate(self._slides(block)):
                yield begin, min(later + slide * self.step, over)

    def _near(self, time: int) -> Iterator[Window]:
        if self._is_of_parts_of_days:
            yield from self._hops(time)
            return
        days_of_zone = self.zone is not None and self.size % DAY == 0
        whole = self.step % DAY == 0
        cut_by_zone = self.zone if days_of_zone and (whole or self.function == "CUMULATE") else None

        def instant(local: int) -> int:
            return local if cut_by_zone is None else _instant(local, cut_by_zone)

        length = self.step if self.function == "HOP" else self.size
        last = time - (time - self.offset) % length
        around = range(last - (self.size // length + 3) * length, last + 3 * length, length)
        for cut in around:
            match self.function:
                case "CUMULATE" if cut_by_zone is not None and not whole:
                    start, over = instant(cut), instant(cut + self.size)
                    yield from ((start, end) for end in range(start + self.step, over, self.step))
                    yield start, over
                case "CUMULATE":
                    for end in range(cut + self.step, cut + self.size + 1, self.step):
                        yield instant(cut), instant(end)
                case _:
                    yield instant(cut), instant(cut + self.size)


def _instant(local: int, zone: str) -> int:
    """The instant at which the clock shows a time first, or, if it never does, would have without its change."""
    shown = (_EPOCH + timedelta(microseconds=local)).replace(tzinfo=ZoneInfo(zone))
    return (shown.astimezone(UTC).replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class Batch:
    """The rows of one micro-batch, and its watermark: of the rows of earlier ones, in microseconds."""

    rows: tuple[Row, ...]
    watermark: int


Group = tuple[Any, ...]
Kept = dict[tuple[Window, Group], list[Row]]


@dataclass(frozen=True)
class Query:
    """What is asked of windows: keys by name, SQL and Python; sets of their indices; results; a condition on both."""

    keys: tuple[str, ...]
    sets: tuple[tuple[int, ...], ...]
    grouping: str
    results: tuple[str, ...]
    where: str | None = None
    having: str | None = None

    @property
    def is_paned(self) -> bool:
        """Returns whether all results can be made of panes."""
        return all(AGGREGATES[name].is_merged for name in self.results)

    def sql(self, call: str) -> str:
        """Returns the text over a call."""
        keys = [f"{KEYS[name][0]} AS {name}" for name in self.keys]
        shown = [*keys, *(["grouping_id() AS gid"] if len(self.sets) > 1 else [])]
        shown += [f"{AGGREGATES[name].sql} AS {name}" for name in self.results]
        where = f" WHERE {CONDITIONS[self.where][0]}" if self.where else ""
        having = f" HAVING {HAVINGS[self.having][0]}" if self.having else ""
        columns = ", ".join(["window_start", "window_end", *shown])
        return f"SELECT {columns} FROM {call}{where} GROUP BY {self.grouping}{having}"

    def groups(self, row: Row) -> Iterator[Group]:
        """Yields the keys of a row's groups, one for each grouping set, with the number of that set behind them."""
        values = [KEYS[name][1](row) for name in self.keys]
        for chosen in self.sets:
            bits = sum(1 << len(values) - 1 - index for index in range(len(values)) if index not in chosen)
            key = [value if index in chosen else None for index, value in enumerate(values)]
            yield (*key, bits)

    def rows(self, kept: Kept) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of the answer."""
        for (window, group), rows in kept.items():
            if self.having and not HAVINGS[self.having][1](rows):
                continue
            shown = group if len(self.sets) > 1 else group[:-1]
            yield (*window, *shown, *(AGGREGATES[name].of(rows) for name in self.results))

    def takes(self, row: Row) -> bool:
        """Returns whether WHERE lets a row pass."""
        return row["ts"] is not None and (self.where is None or CONDITIONS[self.where][1](row))


def in_batch(call: Call, query: Query, batches: Iterable[Batch]) -> Kept:
    """Returns the rows of each window and group, of all batches together."""
    kept: Kept = defaultdict(list)
    for batch in batches:
        for row in filter(query.takes, batch.rows):
            _keep(kept, query, call.windows(row["ts"]), row)
    return kept


def in_stream(call: Call, query: Query, batches: Sequence[Batch]) -> Kept:
    """Returns the same of a stream in append mode: without late rows, and only windows that are over.

    A row is late when the watermark of the batch before its own has passed the end of its pane, or without panes of its window.
    """
    kept: Kept = defaultdict(list)
    passed = NEVER
    for batch in batches:
        for row in filter(query.takes, batch.rows):
            windows = call.windows(row["ts"])
            if query.is_paned:
                windows = windows if call.pane_end(row["ts"]) > passed else []
            _keep(kept, query, [window for window in windows if window[1] > passed], row)
        passed = batch.watermark
    return {key: rows for key, rows in kept.items() if key[0][1] <= passed}


def _keep(kept: Kept, query: Query, windows: Iterable[Window], row: Row) -> None:
    for window in windows:
        for group in query.groups(row):
            kept[window, group].append(row)


Session = tuple[int, int, list[Row]]


def sessions_in_batch(gap: int, query: Query, batches: Iterable[Batch]) -> Kept:
    """Returns the rows of each session of each group."""
    return sessions_in_stream(gap, query, [Batch(tuple(row for batch in batches for row in batch.rows), 2**63)])


def sessions_in_stream(gap: int, query: Query, batches: Sequence[Batch]) -> Kept:
    """Returns the same of a stream: a session that is over is not joined any more, and a row that would be over is late."""
    open_sessions: dict[Group, list[Session]] = defaultdict(list)
    kept: Kept = {}
    passed = NEVER
    for batch in batches:
        for row in filter(query.takes, batch.rows):
            if row["ts"] + gap > passed:
                for group in query.groups(row):
                    open_sessions[group].append((row["ts"], row["ts"] + gap, [row]))
        passed = batch.watermark
        for group, found in open_sessions.items():
            merged = _merged(found)
            kept |= {((start, end), group): rows for start, end, rows in merged if end <= passed}
            open_sessions[group] = [each for each in merged if each[1] > passed]
    return kept


def _merged(sessions: list[Session]) -> list[Session]:
    """Sessions that touch are one."""
    merged: list[Session] = []
    for start, end, rows in sorted(sessions, key=lambda each: each[:2]):
        if merged and start <= merged[-1][1]:
            before = merged.pop()
            start, end, rows = before[0], max(end, before[1]), before[2] + rows
        merged.append((start, end, rows))
    return merged


@dataclass(frozen=True)
class Aggregate:
    """An aggregate in SQL, and in Python over the rows of a group; whether it can be made of panes."""

    sql: str
    of: Callable[[list[Row]], Any]
    is_merged: bool = True


def _values(rows: Iterable[Row], column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def _of(column: str, function: Callable[[list[Any]], Any], taken: Callable[[Row], Any] = lambda row: True) -> Any:
    """The function of a column's values, None without any."""

    def of(rows: list[Row]) -> Any:
        values = _values(filter(taken, rows), column)
        return function(values) if values else None

    return of


def _mean(values: list[Any]) -> float:
    return float(sum(values)) / len(values)


def _decimal_mean(values: list[Decimal]) -> Decimal:
    return (sum(values, Decimal(0)) / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)


def _folded(function: Callable[[int, int], int]) -> Callable[[list[int]], int]:
    return lambda values: reduce(function, values)


AGGREGATES: dict[str, Aggregate] = {
    "n": Aggregate("count(*)", len),
    "count_i": Aggregate("count(i)", lambda rows: len(_values(rows, "i"))),
    "count_k": Aggregate("count(k)", lambda rows: len(_values(rows, "k"))),
    "count_ik": Aggregate("count(i, k)", lambda rows: sum(r["i"] is not None and r["k"] is not None for r in rows)),
    "sum_i": Aggregate("sum(i)", _of("i", sum)),
    "sum_g": Aggregate("sum(g)", _of("g", sum)),
    "sum_l": Aggregate("sum(l)", _of("l", sum)),
    "sum_d": Aggregate("sum(d)", _of("d", sum)),
    "sum_x": Aggregate("sum(x)", _of("x", sum)),
    "min_k": Aggregate("min(k)", _of("k", min)),
    "max_d": Aggregate("max(d)", _of("d", max)),
    "min_x": Aggregate("min(x)", _of("x", min)),
    "max_l": Aggregate("max(l)", _of("l", max)),
    "min_ts": Aggregate("min(ts)", _of("ts", min)),
    "max_ts": Aggregate("max(ts)", _of("ts", max)),
    "avg_i": Aggregate("avg(i)", _of("i", _mean)),
    "avg_x": Aggregate("avg(x)", _of("x", _mean)),
    "avg_d": Aggregate("avg(d)", _of("d", _decimal_mean), False),
    "all_b": Aggregate("bool_and(b)", _of("b", all)),
    "any_b": Aggregate("bool_or(b)", _of("b", any)),
    "bits_and": Aggregate("bit_and(i)", _of("i", _folded(and_))),
    "bits_or": Aggregate("bit_or(l)", _of("l", _folded(or_))),
    "bits_xor": Aggregate("bit_xor(i)", _of("i", _folded(xor))),
    "large": Aggregate("count_if(i > 20)", lambda rows: sum(value > 20 for value in _values(rows, "i"))),
    "n_true": Aggregate("count(*) FILTER (WHERE b)", lambda rows: sum(bool(row["b"]) for row in rows)),
    "sum_true": Aggregate("sum(i) FILTER (WHERE b)", _of("i", sum, lambda row: row["b"])),
    "avg_true": Aggregate("avg(i) FILTER (WHERE b)", _of("i", _mean, lambda row: row["b"])),
    "mixed": Aggregate("coalesce(sum(i), 0) * 2 + count(*)", lambda rows: 2 * sum(_values(rows, "i")) + len(rows)),
    "listed": Aggregate("array_sort(collect_list(i))", lambda rows: tuple(sorted(_values(rows, "i"))), False),
    "distinct_g": Aggregate("count(DISTINCT g)", lambda rows: len(set(_values(rows, "g"))), False),
    "distinct_true": Aggregate(
        "count(DISTINCT g) FILTER (WHERE b)", lambda rows: len(set(_values(filter(lambda r: r["b"], rows), "g"))), False
    ),
    "distinct_gk": Aggregate(
        "count(DISTINCT g, k)",
        lambda rows: len({(r["g"], r["k"]) for r in rows if r["g"] is not None and r["k"] is not None}),
        False,
    ),
    "distinct_sum": Aggregate("sum(DISTINCT i)", _of("i", lambda values: sum(set(values))), False),
}

KEYS: dict[str, tuple[str, Callable[[Row], Any]]] = {
    "k": ("k", lambda row: row["k"]),
    "g": ("g", lambda row: row["g"]),
    "upper_k": ("upper(k)", lambda row: None if row["k"] is None else row["k"].upper()),
    "some_k": ("coalesce(k, 'none')", lambda row: "none" if row["k"] is None else row["k"]),
    "odd": ("pmod(g, 2)", lambda row: None if row["g"] is None else row["g"] % 2),
    "b": ("b", lambda row: row["b"]),
}

CONDITIONS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "most": ("id % 5 <> 0", lambda row: row["id"] % 5 != 0),
    "known": ("i IS NOT NULL", lambda row: row["i"] is not None),
}

HAVINGS: dict[str, tuple[str, Callable[[list[Row]], bool]]] = {
    "several": ("count(*) > 1", lambda rows: len(rows) > 1),
    "sum": ("sum(i) > 10", lambda rows: sum(_values(rows, "i")) > 10),
}
