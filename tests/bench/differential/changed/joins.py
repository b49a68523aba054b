"""Joins of two streams with constants, as texts of SQL and as what they give by plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..meanings import Expr, Row
from .groups import Answer, Constant, Key
from .rows import rows_of


@dataclass(frozen=True)
class Join:
    """An inner join of two streams. Columns of the sides are `l_v` and `r_v` in expressions; the conditions of each side are its own."""

    results: tuple[Expr, ...]
    constants: tuple[Constant, ...]
    left: Expr
    right: Expr
    condition: Expr
    other: str = "other"
    style: str = "plain"
    conf: tuple[tuple[str, str], ...] = ()
    mode: str = "append"

    @property
    def sources(self) -> tuple[str, ...]:
        """Returns the tables."""
        return ("one", self.other)

    @property
    def known(self) -> Row:
        """Returns the values of the constants."""
        return {each.name: each.value for each in self.constants}

    def text(self, names: Mapping[str, str]) -> str:
        """Returns the query of streams; `names` are those of the tables."""
        shown = ", ".join(f"{each.text} AS r{place}" for place, each in enumerate(self.results))
        left, right = (
            f"(SELECT * FROM STREAM {names[source]} WHERE {where.text}) {alias}"
            for source, where, alias in (("one", self.left, "l"), (self.other, self.right, "r"))
        )
        found = (
            f"SELECT l_id AS k0, r_id AS k1, {shown} FROM {left} JOIN {right} ON l_k = r_k AND {self.condition.text}"
        )
        found = found.replace("l_", "l.").replace("r_", "r.")
        if self.style == "subquery":
            columns = ", ".join(f"r{place}" for place in range(len(self.results)))
            found = f"SELECT k0, k1, {columns} FROM ({found}) AS g"
        for each in self.constants:
            found = found.replace(f"{{{each.name}}}", each.text)
        return found


def answers(old: Join, new: Join) -> list[Answer]:
    """Returns what the new query gives: pairs with a row of the second part. Rows of the first one pass the old filters.

    A condition of constants alone is for Spark a filter of the left side.
    """
    found: dict[Key, tuple[Any, ...]] = {}
    is_filter = "l_" not in old.condition.text and "r_" not in old.condition.text
    for left in _passed(old.left, new.left, "one", old.known, new.known):
        for right in _passed(old.right, new.right, new.other, old.known, new.known):
            if 2 not in (left["part"], right["part"]) or left["k"] is None or left["k"] != right["k"]:
                continue
            pair = {
                **{f"l_{name}": value for name, value in left.items()},
                **{f"r_{name}": value for name, value in right.items()},
                **new.known,
            }
            had = not is_filter or left["part"] == 2 or old.condition.value(old.known) is True
            if had and new.condition.value(pair) is True:
                found[(left["id"], right["id"])] = tuple(each.value(pair) for each in new.results)
    return [found]


def _passed(old: Expr, new: Expr, source: str, before: Row, after: Row) -> list[Row]:
    def passes(row: Row) -> bool:
        first = row["part"] == 1
        return (old if first else new).value({**row, **(before if first else after)}) is True

    return [row for row in rows_of(source) if passes(row)]
