"""Changes of queries with constants, drawn at random."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from ..meanings import Call, Result
from .drawing import HARMLESS, KEYS, LISTS, ONE, SETTINGS, WHERES, WINDOWS, P, Q, Query, excluded, joined, query, result
from .groups import Constant, Groups, meaning
from .joins import Join

T = TypeVar("T")


class Kind(StrEnum):
    """What is changed."""

    SAME = "same"  # another wording, or a setting of how a query runs
    FILTER = "filter"  # which later rows are read
    CONSTANT = "constant"
    SETTING = "setting"
    ORDER = "order"
    ADDED = "added"
    REMOVED = "removed"
    OTHER = "other"


@dataclass(frozen=True)
class Pair:
    """A query and the one that takes its place."""

    old: Query
    new: Query
    kind: Kind

    @property
    def is_harmless(self) -> bool:
        """Returns whether both mean the same for the state, so that it would be parked without need."""
        if self.kind in (Kind.SAME, Kind.FILTER):
            return True
        if self.kind is not Kind.CONSTANT or not isinstance(self.old, Groups) or not isinstance(self.new, Groups):
            return False
        old, new = self.old, self.new
        calls = [[meaning(each, call) for call in each.calls()] for each in (old, new)]
        sure = [[meaning(each, call) for call in each.certain()] for each in (old, new)]
        keys = [[tuple(key.value(row) for row in _probes(each)) for key in each.keys] for each in (old, new)]
        return calls[0] == calls[1] == sure[0] == sure[1] and keys[0] == keys[1]


def _probes(query: Groups) -> list[dict[str, object]]:
    return [{"k": k, "s": s, **query.known} for k in (None, 0, 1, 2, 7) for s in (None, "a", "x", "none")]


_KINDS = (
    *(Kind.CONSTANT,) * 4,
    Kind.SAME,
    Kind.SAME,
    *(each for each in Kind if each not in (Kind.CONSTANT, Kind.SAME)),
)


def changed(drawn: random.Random, old: Query) -> tuple[Kind, Query]:
    """Returns a change of a query."""
    kind = drawn.choice(_KINDS)
    match kind:
        case Kind.SAME:
            return kind, _same(drawn, old)
        case Kind.CONSTANT:
            return kind, replace(old, constants=_other_constants(drawn, old.constants))
        case Kind.SETTING:
            new = drawn.choice((excluded(drawn), excluded(drawn), drawn.choice(SETTINGS)))
            return kind, replace(old, conf=(new,))
        case _ if isinstance(old, Join):
            return _joined(drawn, old, kind)
        case _:
            return _grouped(drawn, old, kind)


def _joined(drawn: random.Random, old: Join, kind: Kind) -> tuple[Kind, Query]:
    match kind:
        case Kind.ORDER:
            return kind, replace(old, results=tuple(drawn.sample(old.results, len(old.results))))
        case Kind.REMOVED if len(old.results) > 1:
            return kind, replace(old, results=_without_one(drawn, old.results))
        case Kind.FILTER if old.other == "one":  # a source that is read twice
            return kind, old
        case Kind.FILTER:
            side = drawn.choice(("left", "right"))
            return kind, replace(old, left=drawn.choice(WHERES)) if side == "left" else replace(
                old, right=drawn.choice(WHERES)
            )
    return Kind.OTHER, replace(old, results=_put(drawn, old.results, joined(drawn), kind))


def _grouped(drawn: random.Random, old: Groups, kind: Kind) -> tuple[Kind, Query]:
    match kind:
        case Kind.ORDER:
            return kind, replace(old, results=tuple(drawn.sample(old.results, len(old.results))))
        case Kind.REMOVED if len(old.results) > 1:
            return kind, replace(old, results=_without_one(drawn, old.results))
        case Kind.FILTER if old.where in LISTS:  # the state has a bit for each value of the list
            return Kind.OTHER, replace(old, where=drawn.choice(LISTS))
        case Kind.FILTER:
            return kind, replace(old, where=drawn.choice(WHERES))
    return _groups(drawn, old, kind)


def _without_one(drawn: random.Random, parts: tuple[T, ...]) -> tuple[T, ...]:
    gone = drawn.randrange(len(parts))
    return (*parts[:gone], *parts[gone + 1 :])


def _groups(drawn: random.Random, old: Groups, kind: Kind) -> tuple[Kind, Query]:
    if kind is Kind.ADDED:
        return kind, replace(old, results=_put(drawn, old.results, result(drawn), kind))
    match drawn.choice(("keys", "results", "results", "window", "having", "hidden")):
        case "keys" if old.keys:
            return Kind.OTHER, replace(old, keys=_put(drawn, old.keys, drawn.choice(KEYS), Kind.OTHER))
        case "window" if old.window:
            return Kind.OTHER, replace(old, window=drawn.choice(WINDOWS))
        case "having":
            return Kind.OTHER, replace(
                old, having=None if old.having else (Call("rows", ONE), drawn.choice((P, Q, ONE)))
            )
        case "hidden":
            return Kind.OTHER, replace(old, hidden=() if old.hidden else (result(drawn),))
    return Kind.OTHER, replace(old, results=_put(drawn, old.results, result(drawn), Kind.OTHER))


def _put(drawn: random.Random, parts: tuple[T, ...], new: T, kind: Kind) -> tuple[T, ...]:
    if kind is Kind.ADDED:
        return (*parts, new) if drawn.random() < 0.7 else (new, *parts)
    place = drawn.randrange(len(parts))
    return (*parts[:place], new, *parts[place + 1 :])


def _other_constants(drawn: random.Random, old: Sequence[Constant]) -> tuple[Constant, ...]:
    p, q = old
    if drawn.random() < 0.75:
        return replace(p, value=drawn.choice([each for each in (0, 1, 2) if each != p.value])), q
    return p, replace(q, value=3 if q.value == 1 else 1)


def _same(drawn: random.Random, old: Query) -> Query:
    match drawn.choice(("style", "how", "conf", "wording", "wording")):
        case "style":
            return replace(
                old,
                style=drawn.choice(("plain", "subquery", "with") if isinstance(old, Groups) else ("plain", "subquery")),
            )
        case "how":
            ways = ("literal", "parameter", "variable")
            return replace(old, constants=tuple(replace(each, how=drawn.choice(ways)) for each in old.constants))
        case "conf":
            return replace(old, conf=(*old.conf, drawn.choice(HARMLESS)))
    if isinstance(old, Join):
        return old
    return replace(old, results=tuple(_reworded(drawn, each) for each in old.results))


def _reworded(drawn: random.Random, old: Result) -> Result:
    if (
        old.call
        and old.call.where
        and not old.call.where.is_constant
        and old.call.function in ("sum", "count", "min", "max", "avg")
    ):
        return replace(old, call=replace(old.call, wording=drawn.choice((0, 1, 2))))
    kinds = {"if": "case", "case": "if"}
    kind = kinds.get(old.kind, old.kind) if drawn.random() < 0.5 else old.kind
    return replace(old, kind=kind, parts=tuple(_reworded(drawn, part) for part in old.parts))


_CHANGES_OF_ONE = 8


def pairs(seed: int) -> Iterator[Pair]:
    """Yields pairs of a seed, without an end: the same each time. Several have one old query, so that this is run once."""
    drawn = random.Random(seed)
    while True:
        old = query(drawn)
        made = set()
        for _ in range(_CHANGES_OF_ONE):
            kind, new = changed(drawn, old)
            told = (new.text({"one": "one", "other": "other"}), new.conf, new.constants)
            if new != old and told not in made:
                made.add(told)
                yield Pair(old, new, kind)
