"""Queries over groups with constants, as texts of SQL and as what they give by plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..meanings import Call, Expr, Result, Row
from .rows import CLOSER, rows_of

FIRST_WATERMARK = 90  # seconds: what the first part has closed
Key = tuple[Any, ...]
Answer = Mapping[Key, tuple[Any, ...]]


@dataclass(frozen=True)
class Constant:
    """A constant of a text. `how` it is given: `literal`, `parameter` or `variable`."""

    name: str
    value: int | None
    how: str

    @property
    def text(self) -> str:
        """Returns how the text has it."""
        match self.how:
            case "parameter":
                return f":{self.name}"
            case "variable":
                return f"session.{self.name}"
            case _:
                return "CAST(NULL AS INT)" if self.value is None else str(self.value)


@dataclass(frozen=True)
class Window:
    """Windows in seconds. `kind` is `window`, `TUMBLE`, `HOP`, `CUMULATE` or `SESSION`; `every` is the slide or the step."""

    kind: str
    size: int
    every: int = 0

    def source(self, stream: str) -> str:
        """Returns the FROM of a query."""
        of = f"TABLE(FROM {stream}), DESCRIPTOR(ts)"
        match self.kind:
            case "window":
                return stream
            case "TUMBLE":
                return f"TUMBLE({of}, INTERVAL {self.size} SECONDS)"
            case "SESSION":
                return f"SESSION({of}, INTERVAL {self.size} SECONDS)"
            case _:
                return f"{self.kind}({of}, INTERVAL {self.every} SECONDS, INTERVAL {self.size} SECONDS)"

    @property
    def keys(self) -> str:
        """Returns what the query groups by."""
        return f"window(ts, '{self.size} seconds')" if self.kind == "window" else "window_start, window_end"

    @property
    def bounds(self) -> tuple[str, str]:
        """Returns the columns of the bounds."""
        return ("window.start", "window.end") if self.kind == "window" else ("window_start", "window_end")

    def of(self, seconds: int) -> Iterator[tuple[int, int]]:
        """Yields the windows of a time; of sessions the one that begins with it."""
        size = self.size
        match self.kind:
            case "HOP":
                last = seconds // self.every * self.every
                yield from ((at, at + size) for at in range(last, seconds - size, -self.every))
            case "CUMULATE":
                begin = seconds // size * size
                yield from (
                    (begin, end) for end in range(begin + self.every, begin + size + 1, self.every) if end > seconds
                )
            case "SESSION":
                yield seconds, seconds + size
            case _:
                yield seconds // size * size, seconds // size * size + size


@dataclass(frozen=True)
class Groups:
    """A query over groups. `hidden` results are computed in a subquery and left out by the query around it."""

    keys: tuple[Expr, ...]
    results: tuple[Result, ...]
    constants: tuple[Constant, ...]
    where: Expr
    window: Window | None = None
    having: tuple[Call, Expr] | None = None
    hidden: tuple[Result, ...] = ()
    mode: str = "complete"
    style: str = "plain"
    conf: tuple[tuple[str, str], ...] = ()

    sources = ("one",)

    def text(self, names: Mapping[str, str]) -> str:
        """Returns the query of streams; `names` are those of the tables."""
        bounds = () if self.window is None else self.window.bounds
        shown = [f"{key.text} AS k{place}" for place, key in enumerate(self.keys)]
        shown += [f"{bound} AS w{place}" for place, bound in enumerate(bounds)]
        shown += [f"{each.text} AS r{place}" for place, each in enumerate(self.results)]
        more = [f"{each.text} AS h{place}" for place, each in enumerate(self.hidden)]
        watermark = " WATERMARK ts DELAY OF INTERVAL 10 SECONDS" if self.window or self.mode == "append" else ""
        stream = f"STREAM {names['one']}{watermark}"
        keys = [key.text for key in self.keys] + ([] if self.window is None else [self.window.keys])
        where = f"({self.where.text}) OR id > {CLOSER}" if self.mode == "append" else self.where.text
        found = (
            f"SELECT {', '.join([*more, *shown])} FROM {stream if self.window is None else self.window.source(stream)} "
            f"WHERE {where}" + (f" GROUP BY {', '.join(keys)}" if keys else "")
        )
        if self.having is not None:
            found += f" HAVING {self.having[0].text} > {self.having[1].text}"
        columns = ", ".join(each.rpartition(" AS ")[2] for each in shown)
        match self.style:
            case "subquery":
                found = f"SELECT {columns} FROM ({found}) AS g"
            case "with":
                found = f"WITH g AS ({found}) SELECT {columns} FROM g"
            case _ if more:
                found = f"SELECT {columns} FROM ({found})"
        for each in self.constants:
            found = found.replace(f"{{{each.name}}}", each.text)
        return found

    def passes(self, row: Row) -> bool:
        """Returns whether a row passes the filter."""
        return self.where.value(row) is True or (self.mode == "append" and row["id"] > CLOSER)

    @property
    def known(self) -> Row:
        """Returns the values of the constants."""
        return {each.name: each.value for each in self.constants}

    def calls(self) -> list[Call]:
        """Returns all calls of the text."""
        found = [call for each in (*self.hidden, *self.results) for call in each.calls()]
        return [*found, self.having[0]] if self.having else found

    def certain(self) -> list[Call]:
        """Returns the calls that the state has for sure."""
        found = [call for each in self.results for call in each.certain(self.known)]
        return [*found, self.having[0]] if self.having and self.having[0].is_certain else found


def meaning(query: Groups, call: Call) -> tuple[Any, ...]:
    """Returns what a call means for all rows that there are; what counts only counts which rows it counts."""
    found = call.contributions(_rows(query))
    match call.function:
        case "rows" | "count":
            return ("count", *(each is not None for each in found))
        case "count if":
            return ("count", *(each is True for each in found))
        case function:
            return (function, *found)


def answers(old: Groups, new: Groups) -> list[Answer]:
    """Returns what the new query may give after it has begun with the state of the old one.

    Rows of the first part pass the old filter. Aggregates that are added to all those of the old query begin with the second part,
    unless the state has them already. Otherwise each counts all rows.
    """
    had = {meaning(old, call) for call in old.certain()}
    may_have = {meaning(old, call) for call in old.calls()}
    wanted = {meaning(new, call) for call in new.calls()}
    before, after = ({_written(each, call) for call in each.calls()} for each in (old, new))
    if not before < after:
        return [_answer(old, new, wanted)]
    there = {meaning(new, call) for call in new.calls() if _written(new, call) in before}
    unsure = sorted((wanted & may_have) - had - there, key=repr)
    some = (each for size in range(len(unsure) + 1) for each in itertools.combinations(unsure, size))
    return [_answer(old, new, had | there | set(each)) for each in some]


def _written(query: Groups, call: Call) -> str:
    """The words of a call with the values of its constants."""
    found = call.text
    for each in query.constants:
        found = found.replace(f"{{{each.name}}}", str(each.value))
    return found


def _rows(query: Groups) -> list[dict[str, Any]]:
    return [{**row, **query.known} for row in rows_of("one")]


def _answer(old: Groups, new: Groups, whole: set[tuple[Any, ...]]) -> Answer:
    passed = [
        row
        for row, before in zip(_rows(new), _rows(old), strict=True)
        if (new.passes(row) if row["part"] == 2 else old.passes(before))
    ]
    is_whole = {call: meaning(new, call) in whole for call in new.calls()}
    found: dict[Key, tuple[Any, ...]] = {}
    for key, rows in _grouped(new, passed).items():

        def result(call: Call, rows: Sequence[Row] = rows) -> Any:
            return call.result([row for row in rows if is_whole[call] or row["part"] == 2])

        if new.having is not None and not result(new.having[0]) > new.having[1].value(new.known):
            continue
        found[key] = tuple(each.value(new.known, result) for each in new.results)
    return found


def _grouped(new: Groups, rows: Sequence[Row]) -> dict[Key, list[Row]]:
    groups: dict[Key, list[Row]] = {} if new.keys or new.window else {(): []}
    if new.window is None:
        for row in rows:
            groups.setdefault(tuple(key.value(row) for key in new.keys), []).append(row)
        return groups
    for row in rows:
        for bounds in new.window.of(row["ts"]):
            groups.setdefault((*(key.value(row) for key in new.keys), *bounds), []).append(row)
    if new.window.kind == "SESSION":
        groups = _merged(groups)
    if new.mode == "append":
        return {key: of for key, of in groups.items() if key[-1] > FIRST_WATERMARK}
    return groups


def _merged(groups: Mapping[Key, list[Row]]) -> dict[Key, list[Row]]:
    """Sessions of one key that meet are one."""
    found: dict[Key, list[Row]] = {}
    last: Key | None = None
    for key, rows in sorted(groups.items(), key=lambda each: (repr(each[0][:-2]), each[0][-2])):
        if last is not None and key[:-2] == last[:-2] and key[-2] < last[-1]:
            merged = (*last[:-1], max(last[-1], key[-1]))
            found[merged] = [*found.pop(last), *rows]
            last = merged
        else:
            found[key], last = rows, key
    return found
