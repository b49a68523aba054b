"""Which tables the state of a savepoint consists of: what Spark has noted of its operators, and what is described. Pure.

Spark numbers the operators of a plan from the top, each before those below it, from left to right; a description has those
first whose rows others take, and tells which these are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparksql.gateway.streaming.state.description import AGGREGATE, IN_PYTHON, Description, StatefulOperator

JOIN = "join of streams"
SIDES = ("left", "right")
_KINDS = {
    "stateStoreSave": AGGREGATE,
    "sessionWindowStateStoreSaveExec": AGGREGATE,
    "symmetricHashJoin": JOIN,
    "dedupe": "deduplication",
    "dedupeWithinWatermark": "deduplication",
    "globalLimit": "limit",
    "transformWithStateInPySparkExec": IN_PYTHON,
    "transformWithStateInPandasExec": IN_PYTHON,
}  # what a description calls that which Spark's metadata of a state calls otherwise
_SHOWN = {IN_PYTHON: "curve"}  # of CUMULATE with GAP, which alone has such a state
_INPUT = re.compile(r"operator (\d+)")


@dataclass(frozen=True)
class SparkOperator:
    """An operator with state as Spark has noted it.

    `variables` are those of a function that keep a value for each key; None where the state is one table of keys and values.
    """

    operator_id: int
    name: str
    variables: tuple[str, ...] | None = None


@dataclass(frozen=True)
class StateTable:
    """A table of keys and values.

    A join of streams has one for each side, a function one for each variable; `described` is None where nothing is told.
    """

    name: str
    operator: SparkOperator
    side: str | None = None
    described: StatefulOperator | None = None
    variable: str | None = None


def state_tables(operators: Sequence[SparkOperator], description: Description | None) -> tuple[StateTable, ...]:
    """Returns the tables of a state, those first whose rows others take."""
    ordered = sorted(operators, key=lambda each: -each.operator_id)
    told: Sequence[StatefulOperator | None] = [None] * len(ordered)
    matched = _matched(operators, description) if description is not None else None
    if matched is not None and description is not None:
        ordered, told = matched, description.operators
    kinds = [_kind(each) for each in ordered]
    names = _names([_SHOWN.get(kind, kind) for kind in kinds])
    found = zip(names, ordered, told, strict=True)
    return tuple(table for each in found for table in _tables(*each))


def _tables(name: str, operator: SparkOperator, known: StatefulOperator | None) -> Iterator[StateTable]:
    if _kind(operator) == JOIN:
        for side in SIDES:
            yield StateTable(f"{name} {side}", operator, side, known)
        return
    variables = operator.variables or (None,)
    for variable in variables:
        told = f"{name} {variable}" if len(variables) > 1 else name
        yield StateTable(told, operator, described=known, variable=variable)


def _matched(operators: Sequence[SparkOperator], description: Description) -> list[SparkOperator] | None:
    """Spark's operators in the order of the description; None if they are others."""
    places = list(_from_top(description.operators))
    by_id = sorted(operators, key=lambda each: each.operator_id)
    if len(places) != len(by_id):
        return None
    found = dict(zip(places, by_id, strict=True))
    ordered = [found[place] for place in range(len(by_id))]
    pairs = zip(ordered, description.operators, strict=True)
    return ordered if all(each.name not in _KINDS or _kind(each) == told.kind for each, told in pairs) else None


def _from_top(described: Sequence[StatefulOperator]) -> Iterator[int]:
    """The places of operators, each before those whose rows it takes."""
    below = [[int(found[1]) - 1 for found in map(_INPUT.fullmatch, each.inputs) if found] for each in described]
    taken = {place for places in below for place in places}
    pending = [place for place in reversed(range(len(described))) if place not in taken]
    while pending:
        place = pending.pop()
        yield place
        pending.extend(reversed([each for each in below[place] if each < place]))


def _kind(operator: SparkOperator) -> str:
    return _KINDS.get(operator.name, operator.name)


def _names(kinds: Sequence[str]) -> Iterator[str]:
    """The kinds, those that there are several of with a number."""
    several = {kind for kind, count in Counter(kinds).items() if count > 1}
    seen: Counter[str] = Counter()
    for kind in kinds:
        seen[kind] += 1
        yield f"{kind} {seen[kind]}" if kind in several else kind
