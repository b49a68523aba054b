"""Expressions and aggregates as texts of SQL beside what they mean in plain Python.

A text has names of constants in braces, `{p}`, which a query writes as literals, parameters or variables.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

Row = Mapping[str, Any]  # the columns of a row, and the constants


@dataclass(frozen=True)
class Expr:
    """An expression over one row."""

    text: str
    value: Callable[[Row], Any] = field(compare=False)

    @property
    def is_constant(self) -> bool:
        """Returns whether Spark may fold some of it: it has constants."""
        return "{" in self.text or self.text == "true" or not any(character.isalpha() for character in self.text)


def column(name: str) -> Expr:
    """Returns a column."""
    return Expr(name, lambda row: row[name])


def strict(text: str, of: Callable[..., Any], *parts: Expr) -> Expr:
    """Returns an expression that is NULL where one of its parts is."""

    def value(row: Row) -> Any:
        values = [part.value(row) for part in parts]
        return None if None in values else of(*values)

    return Expr(text.format(*(part.text for part in parts)), value)


def chosen(text: str, condition: Expr, yes: Expr, no: Expr) -> Expr:
    """Returns IF or CASE."""
    return Expr(
        text.format(condition.text, yes.text, no.text),
        lambda row: (yes if condition.value(row) else no).value(row),
    )


def first(text: str, one: Expr, other: Expr) -> Expr:
    """Returns COALESCE."""

    def value(row: Row) -> Any:
        found = one.value(row)
        return other.value(row) if found is None else found

    return Expr(text.format(one.text, other.text), value)


NULL = Expr("NULL", lambda _: None)
TRUE = Expr("true", lambda _: True)


@dataclass(frozen=True)
class Call:
    """A call of an aggregate function, of the values of `of` where `where` holds."""

    function: str
    of: Expr
    where: Expr | None = None
    wording: int = 0  # of calls that mean the same

    @property
    def text(self) -> str:
        """Returns the SQL of the call."""
        if self.where is not None and self.wording == 1:
            return f"{_NAMES[self.function].format(f'CASE WHEN {self.where.text} THEN {self.of.text} END')}"
        if self.where is not None and self.wording == 2:
            return f"{_NAMES[self.function].format(f'IF({self.where.text}, {self.of.text}, NULL)')}"
        call = _NAMES[self.function].format(self.of.text)
        return call if self.where is None else f"{call} FILTER (WHERE {self.where.text})"

    @property
    def is_certain(self) -> bool:
        """Returns whether the state has it for sure: no rule folds it."""
        is_used = self.function == "rows" or not self.of.is_constant
        return is_used and (self.where is None or not self.where.is_constant)

    def contributions(self, rows: Sequence[Row]) -> tuple[Any, ...]:
        """Returns what each row gives to it: two calls of one function with equal ones mean the same for these rows."""
        return tuple(self.of.value(row) if self.where is None or self.where.value(row) else None for row in rows)

    def result(self, rows: Sequence[Row]) -> Any:
        """Returns what the call gives for rows."""
        return FUNCTIONS[self.function]([each for each in self.contributions(rows) if each is not None])


def _sum(values: Sequence[Any]) -> Any:
    return sum(values[1:], values[0]) if values else None


def _mean(values: Sequence[Any]) -> Any:
    if not values:
        return None
    if isinstance(values[0], Decimal):
        return (sum(values, Decimal(0)) / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)
    return Decimal(sum(values)) / len(values)


def _xor(values: Sequence[int]) -> int | None:
    found = 0
    for each in values:
        found ^= each
    return found if values else None


def _deviation(values: Sequence[Any]) -> float | None:
    return statistics.stdev(map(float, values)) if len(values) > 1 else None


FUNCTIONS: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "rows": len,
    "count": len,
    "count if": lambda values: sum(map(bool, values)),
    "count distinct": lambda values: len(set(values)),
    "sum": _sum,
    "avg": _mean,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "xor": _xor,
    "deviation": _deviation,
}
_NAMES = {
    "rows": "count(*)",
    "count": "count({})",
    "count if": "count_if({})",
    "count distinct": "count(DISTINCT {})",
    "sum": "sum({})",
    "avg": "avg({})",
    "min": "min({})",
    "max": "max({})",
    "xor": "bit_xor({})",
    "deviation": "stddev({})",
}


@dataclass(frozen=True)
class Result:
    """A column of a query over groups: a call, or what a form makes of parts.

    `kind` is `call`, `null`, `number`, `if`, `case`, `coalesce`, `plus` or `times`; `condition` is that of IF and CASE, or the
    constant of `number` and `times`.
    """

    kind: str
    parts: tuple[Result, ...] = ()
    call: Call | None = None
    condition: Expr | None = None

    @property
    def text(self) -> str:
        """Returns the SQL of the column."""
        texts = [part.text for part in self.parts]
        of = self.condition.text if self.condition else ""
        match self.kind:
            case "call":
                return self.call.text if self.call else ""
            case "null":
                return "NULL"
            case "number":
                return of
            case "if":
                return f"IF({of}, {texts[0]}, {texts[1]})"
            case "case":
                return f"CASE WHEN {of} THEN {texts[0]} ELSE {texts[1]} END"
            case "coalesce":
                return f"coalesce({', '.join(texts)})"
            case "plus":
                return f"({texts[0]} + {texts[1]})"
            case _:
                return f"({texts[0]} * {of})"

    def calls(self) -> list[Call]:
        """Returns all calls that the text has."""
        return [self.call] if self.call else [call for part in self.parts for call in part.calls()]

    def certain(self, constants: Row) -> list[Call]:
        """Returns the calls that the state has for sure, whatever Spark folds or leaves out."""
        match self.kind:
            case "call":
                assert self.call
                return [self.call] if self.call.is_certain else []
            case "if" | "case":
                assert self.condition
                return self.parts[0 if self.condition.value(constants) else 1].certain(constants)
            case "coalesce":
                return self.parts[0].certain(constants)
            case "plus" if any(part.is_constant for part in self.parts):  # NULL + x is NULL
                return []
            case _:
                return [call for part in self.parts for call in part.certain(constants)]

    @property
    def is_constant(self) -> bool:
        """Returns whether it may be known without a row."""
        return self.kind in ("null", "number", "if", "case") or any(part.is_constant for part in self.parts)

    def value(self, constants: Row, result_of: Callable[[Call], Any]) -> Any:
        """Returns the value for one group."""
        if self.call:
            return result_of(self.call)
        values = [part.value(constants, result_of) for part in self.parts]
        match self.kind:
            case "null":
                return None
            case "number":
                assert self.condition
                return self.condition.value(constants)
            case "if" | "case":
                assert self.condition
                return values[0 if self.condition.value(constants) else 1]
            case "coalesce":
                return next((each for each in values if each is not None), None)
            case "plus":
                return None if None in values else values[0] + values[1]
            case _:
                assert self.condition
                return None if values[0] is None else values[0] * self.condition.value(constants)
