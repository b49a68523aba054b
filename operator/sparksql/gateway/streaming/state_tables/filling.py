"""Which columns of a query fill those of a state: the way back from what `columns` gives. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from sparksql.gateway.streaming.state_tables.columns import Form, Layout, Part, Unscaled

_OF_ALL = {"operator", "key", "value"}  # the columns of a state that is read without the name of an operator


class MisfitError(Exception):
    """Says that the columns of a query are not those of the state; the message names column and remedy."""


class Value(Enum):
    """Names what a column of a state takes of one of a query."""

    AS_GIVEN = auto()
    TOTAL = auto()  # of a sum whose emptiness is kept beside it: NULL as 0
    IS_EMPTY = auto()  # whether such a sum is NULL
    UNSCALED = auto()  # a sum of decimals without its scale


@dataclass(frozen=True)
class Given:
    """A column of the query; `fields` are the names of those of a STRUCT, None for any other type."""

    name: str
    fields: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Filling:
    """What a column of the state is filled with: a column of the query by its place, or a field of it.

    `told` names it in messages; `unscaled` are the decimals of a sum that is kept without its scale.
    """

    told: str
    column: int
    field: int | None = None
    value: Value = Value.AS_GIVEN
    unscaled: Unscaled | None = None


def fillings(layout: Layout, given: Sequence[Given]) -> tuple[Filling, ...]:
    """Returns what fills each column of a state, its keys first, by the names of the query's columns.

    Names are compared as SQL compares them. Raises MisfitError when the query lacks a column, has one more, or gives an aggregate
    by a value that does not tell what is kept of it.
    """
    parts = [each for each in (*layout.keys, *layout.values) if each.filled]
    places = {column.name.lower(): place for place, column in enumerate(given)}
    _check_names([each.name for each in parts], [column.name for column in given])
    found: dict[int, Filling] = {}
    for part in parts:
        place = places[part.name.lower()]
        found |= zip(part.filled, _filled(part, place, given[place]), strict=True)
    return tuple(found[place] for place in range(len(found)))


def _check_names(wanted: Sequence[str], given: Sequence[str]) -> None:
    twice = [name for name, count in Counter(map(str.lower, given)).items() if count > 1]
    if twice:
        raise MisfitError(f"the query has column {twice[0]} twice")
    columns = f"the columns of the state are {', '.join(wanted)}"
    known, there = {name.lower() for name in wanted}, {name.lower() for name in given}
    if there == _OF_ALL and known != _OF_ALL:
        raise MisfitError(
            "the rows have the form of all operators, JSON, which loses some values: read one operator, "
            f"savepoint_state('savepoint', 'operator', 'kept'), and name it in spec.operator; {columns}"
        )
    lacking = [name for name in wanted if name.lower() not in there]
    if lacking:
        raise MisfitError(f"the query lacks column {lacking[0]}; {columns}")
    unknown = [name for name in given if name.lower() not in known]
    if unknown:
        raise MisfitError(f"the query has column {unknown[0]}, which the state has not; {columns}")


def _filled(part: Part, place: int, given: Given) -> list[Filling]:
    """What fills the columns that a key or an aggregate is kept in."""
    is_struct = given.fields is not None and part.form is Form.AS_KEPT
    if part.unscaled is not None and len(part.places) == 1:
        return [Filling(part.name, place, value=Value.UNSCALED, unscaled=part.unscaled)]
    if len(part.places) == 1 and not is_struct:
        return [Filling(part.name, place)]
    if given.fields is not None:
        return _of_fields(part, place, given.fields)
    if part.form is Form.SUM:
        return [Filling(part.name, place, value=value) for value in (Value.TOTAL, Value.IS_EMPTY)]
    kept = ", ".join(part.kept)
    raise MisfitError(
        f"column {part.name} must be a STRUCT of {kept}: the state stores more than the value; "
        "savepoint_state returns this form with 'kept' as the third argument"
    )


def _of_fields(part: Part, place: int, fields: Sequence[str]) -> list[Filling]:
    names = [name.lower() for name in fields]
    if sorted(names) != sorted(name.lower() for name in part.kept):
        raise MisfitError(
            f"column {part.name} must be a STRUCT of {', '.join(part.kept)}, and it is one of {', '.join(fields)}"
        )
    found = [Filling(f"{part.name}.{name}", place, names.index(name.lower())) for name in part.kept]
    if part.unscaled is not None:
        found[0] = replace(found[0], value=Value.UNSCALED, unscaled=part.unscaled)
    return found
