"""How the columns of a state are given: by the names of the text, and aggregates as what they are. Pure.

Spark keeps an aggregate in columns of its own: an average as a sum and a count. What can be told of these without Spark's
function is told; others are given as they are kept, as a struct.

Sums and averages of short decimals are kept without their scale, as a BIGINT and a DOUBLE (Spark's rule DecimalAggregates). They
are given with it, in the types of the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from sparksql.gateway.sql.own_columns import in_words
from sparksql.gateway.streaming.state.description import (
    AGGREGATE,
    Description,
    SplitAverage,
    StateColumn,
    StatefulOperator,
)
from sparksql.gateway.streaming.state.structure_nodes import Node
from sparksql.gateway.streaming.state_tables.operators import StateTable

# Functions whose first column is their value; a second one tells whether there is one, or is what it was chosen by.
_FIRST_COLUMN = frozenset(
    {"Count", "Sum", "Max", "Min", "First", "Last", "MaxBy", "MinBy", "BitAndAgg", "BitOrAgg", "BitXorAgg"}
)
_OF_AVERAGE = ("sum", "count")  # as Spark names what it keeps an average in
_DECIMAL = re.compile(r'"?decimal\((\d+),(\d+)\)"?')


class Form(Enum):
    """Names what is made of the columns that something is kept in."""

    VALUE = auto()  # the first of them
    SUM = auto()  # a sum, and whether it is of nothing
    AVERAGE = auto()  # a sum and a count
    AS_KEPT = auto()  # a struct of all


@dataclass(frozen=True)
class Unscaled:
    """Decimals of a precision and a scale whose sum is kept without the scale: 7.50 as 750."""

    precision: int
    scale: int

    @property
    def sum_type(self) -> str:
        """Returns the type of their sum in the text."""
        return f"decimal({self.precision + 10},{self.scale})"

    @property
    def mean_type(self) -> str:
        """Returns the type of their average in the text."""
        return f"decimal({self.precision + 4},{self.scale + 4})"


@dataclass(frozen=True)
class Part:
    """A column to be given: `places` are those of the columns that it is kept in, `kept` their names. `type` is Spark's.

    `unscaled` are the decimals of which the first column is the sum, None where that has its scale. `own` are those of `places`
    that no other column is given of, whose names `kept` then has; None for all.
    """

    name: str
    places: tuple[int, ...]
    form: Form = Form.VALUE
    type: str = ""
    kept: tuple[str, ...] = ()
    unscaled: Unscaled | None = None
    own: tuple[int, ...] | None = None

    @property
    def filled(self) -> tuple[int, ...]:
        """Returns the places of the columns that this one alone fills."""
        return self.places if self.own is None else self.own


@dataclass(frozen=True)
class Layout:
    """The columns of a state table. `places` count the columns of its key first, then those of its value.

    `is_told`: they have the names of the text, so that they may stand beside each other.
    """

    keys: tuple[Part, ...]
    values: tuple[Part, ...]
    is_told: bool = False


@dataclass(frozen=True)
class Kept:
    """A column of a state as Spark has it."""

    name: str
    type: str


def layout(
    table: StateTable,
    description: Description | None,
    key: Sequence[Kept],
    value: Sequence[Kept],
    *,
    as_kept: bool = False,
) -> Layout:
    """Returns how the columns of a state are given; with `as_kept` aggregates of several columns as a struct of these.

    What is described must have the types of what is kept, else it is of another state.
    """
    told, kept = table.described, (*key, *value)
    keys, values = range(len(key)), range(len(key), len(kept))
    key_names, value_names = [in_words(each.name) for each in key], [in_words(each.name) for each in value]
    if told is None or description is None:
        return Layout(_plain(key_names, keys, kept), _plain(value_names, values, kept))
    key_types, value_types = [each.type for each in key], [each.type for each in value]
    of_keys = [column.type for column in told.keys]
    if told.kind == AGGREGATE and description.has_buffers:
        functions = _functions(description, told)
        parted = zip(functions, told.values, strict=True)
        forms = [(_form(each.name, column, as_kept=as_kept), each.unscaled) for each, column in parted]
        buffers = [name for column in told.values for name in column.buffers]
        if key_types == of_keys and value_types == buffers:
            return _aggregation(told, forms, kept, keys, values, as_kept=as_kept)
        if value_types == of_keys + buffers:  # of session windows, and of the first form of aggregates
            of_key, of_value = values[: len(of_keys)], values[len(of_keys) :]
            return _aggregation(told, forms, kept, of_key, of_value, as_kept=as_kept)
    if key_types == of_keys:
        key_names = [in_words(column.name) for column in told.keys]
    columns = [each for each in told.values if table.side is not None and each.name.startswith(f"{table.side} ")]
    if columns and [each.type for each in columns] == value_types:
        value_names = [each.name.removeprefix(f"{table.side} ") for each in columns]
    return Layout(_plain(key_names, keys, kept), _plain(value_names, values, kept))


def _aggregation(
    told: StatefulOperator,
    forms: Sequence[tuple[Form, Unscaled | None]],
    kept: Sequence[Kept],
    keys: Sequence[int],
    values: Sequence[int],
    *,
    as_kept: bool,
) -> Layout:
    of_keys = [Part(in_words(column.name), (place,)) for column, place in zip(told.keys, keys, strict=True)]
    functions: list[Part] = []
    at = 0
    for column, (form, unscaled) in zip(told.values, forms, strict=True):
        places = tuple(values[at : at + len(column.buffers)])
        at += len(places)
        of_buffers = tuple(kept[place].name for place in places)
        functions.append(Part(in_words(column.name), places, form, column.type, of_buffers, unscaled))
    parts = _with_averages(functions, told.averages, as_kept=as_kept)
    names = _unique([part.name for part in (*of_keys, *parts)])
    named = [replace(part, name=name) for part, name in zip((*of_keys, *parts), names, strict=True)]
    return Layout(tuple(named[: len(of_keys)]), tuple(named[len(of_keys) :]), is_told=True)


def _with_averages(functions: Sequence[Part], averages: Sequence[SplitAverage], *, as_kept: bool) -> list[Part]:
    """The functions, with averages in the places of those that are of these alone."""
    found: dict[int, list[Part]] = {place: [part] for place, part in enumerate(functions)}
    for each in averages:
        for place in each.own:
            found[place] = []
    for each in averages:
        if as_kept and not each.own:  # what it is kept in is given already
            continue
        pair = each.total, each.count
        places = {place: functions[place].places[0] for place in pair}
        kept = tuple(name for place, name in zip(pair, _OF_AVERAGE, strict=True) if place in each.own)
        own = tuple(places[place] for place in pair if place in each.own)
        form = Form.AS_KEPT if as_kept else Form.AVERAGE
        part = Part(each.name, tuple(places.values()), form, "double", kept, own=own)
        found[min(each.own, default=each.total)].append(part)
    return [part for parts in found.values() for part in parts]


def _form(function: str, column: StateColumn, *, as_kept: bool) -> Form:
    if as_kept:
        return Form.VALUE if column.buffers == (column.type,) else Form.AS_KEPT
    match function, column.buffers:
        case "Sum", (total, "boolean") if total == column.type:
            return Form.SUM
        case "Average", ("double", "bigint") if column.type == "double":
            return Form.AVERAGE
        case "Average", (total, "bigint") if _DECIMAL.fullmatch(total) and _DECIMAL.fullmatch(column.type):
            return Form.AVERAGE
        case "Average", (total, "bigint") if total == column.type and total.startswith("interval "):
            return Form.AVERAGE
        case _, (first, *_) if function in _FIRST_COLUMN and first == column.type:
            return Form.VALUE
        case _:
            return Form.AS_KEPT


@dataclass(frozen=True)
class _Function:
    """Spark's class of an aggregate function, and the decimals that it sums up without their scale."""

    name: str = ""
    unscaled: Unscaled | None = None


def _functions(description: Description, told: StatefulOperator) -> Sequence[_Function]:
    """The functions of an aggregation, in the order of its state; without names where they are unknown."""
    nodes = description.nodes
    try:
        _, fields = nodes[told.structure]
        calls = [nodes[each["ref"]][1] for each in fields["functions"]]
        found = [_function(nodes, *nodes[call["aggregateFunction"]["ref"]]) for call in calls]
    except (KeyError, TypeError, ValueError):
        found = []
    return found if len(found) == len(told.values) else [_Function()] * len(told.values)


def _function(nodes: Mapping[str, Node], name: str, fields: Mapping[str, Any]) -> _Function:
    """The function of a node. Only Spark's rule makes UnscaledValue: no text can name it."""
    if name not in ("Sum", "Average") or "child" not in fields:
        return _Function(name)
    kind, argument = nodes[fields["child"]["ref"]]
    if kind != "UnscaledValue":
        return _Function(name)
    found = _DECIMAL.fullmatch(str(nodes[argument["child"]["ref"]][1]["type"]))
    if found is None:
        raise ValueError("an unscaled value is of no decimal")
    return _Function(name, Unscaled(int(found[1]), int(found[2])))


def _plain(names: Sequence[str], places: Sequence[int], kept: Sequence[Kept]) -> tuple[Part, ...]:
    """Columns as they are kept, but for those that only stand where there is nothing to keep."""
    named = zip(_unique(names), places, strict=True)
    return tuple(Part(name, (place,)) for name, place in named if kept[place].type != "void")


def _unique(names: Sequence[str]) -> list[str]:
    """The names, with a number behind each that was there before, as SQL compares them."""
    found: list[str] = []
    taken = {name.lower() for name in names}
    seen: Counter[str] = Counter()
    for name in names:
        seen[name.lower()] += 1
        unique, number = name, seen[name.lower()]
        while number > 1 and (unique := f"{name}_{number}").lower() in taken:
            number += 1
        taken.add(unique.lower())
        found.append(unique)
    return found
