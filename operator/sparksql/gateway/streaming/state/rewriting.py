"""Whether a state that does not fit a text can be written anew so that it does, told from the descriptions of both.

Understood are two changes of an aggregation, one of them at a time: aggregates added behind those that are there, which begin
at the change, and aggregates removed. Each one that is kept must be the very same function of the same values, told by the
structure and not by its type. All else about the query must be as the state has it: its other operators are copied.

Over a changelog no aggregate is added: rows that the state has counted before are retracted later, and an aggregate that begins
at the change would take away what it never had. No aggregate is added either that the query had already, and Spark had left out
of the state: a constant had made it NULL, or another one.

An operator whose rows come from such an aggregation is the same one if it takes the same results of it, although the
aggregation has others now. So operators are compared by a digest that leaves out what aggregations below them compute.

Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparksql.gateway.streaming.state.compatibility import differences
from sparksql.gateway.streaming.state.description import AGGREGATE, Description, StatefulOperator
from sparksql.gateway.streaming.state.difference import Difference, DifferenceKind
from sparksql.gateway.streaming.state.structure_difference import opaque
from sparksql.gateway.streaming.state.structure_nodes import Node, is_ref

_AGGREGATE_NODE = "Aggregate"
_NOT_ADDED = (
    "an aggregate that the state lacks is not new in the query: a constant, parameter or variable of the query before had left it "
    "out of the state"
)


@dataclass(frozen=True)
class OperatorRewriting:
    """Says how the values of one aggregation are made.

    `place` is that of the operator among those with state, from 0. `sources` has for each aggregate of the new text the
    place of the one that it goes on from, None for one that begins. `before` and `after` are the types of the columns of
    each aggregate of the state and of the text.
    """

    place: int
    sources: tuple[int | None, ...]
    before: tuple[tuple[str, ...], ...]
    after: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Rewriting:
    """Says how a state is written anew; the differences are what that is for."""

    operators: tuple[OperatorRewriting, ...]
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class NotRewritable:
    """Says why a state is not written anew although only aggregates have changed."""

    reason: str


def rewriting(old: Description, new: Description) -> Rewriting | NotRewritable | None:
    """Returns how the state of `old` is made one of `new`; None when more than aggregates of a GROUP BY has changed."""
    if len(old.operators) != len(new.operators) or differences(old, replace(new, operators=old.operators)):
        return None
    before, after = _Functions(old), _Functions(new)
    operators: list[OperatorRewriting] = []
    told: list[Difference] = []
    reasons: list[str] = []
    for place, (was, now) in enumerate(zip(old.operators, new.operators, strict=True)):
        if not was.structure or not now.structure or before.around(was) != after.around(now):
            return None
        if opaque(new.nodes, now.structure) is not None:
            return None
        functions = before.of(was), after.of(now)
        if functions[0] == functions[1]:
            continue
        match _sources(*functions):
            case str(reason):
                reasons.append(reason)
            case sources if not _only_adds(
                _added(sources, functions[1]), before.as_written(was), after.as_written(now)
            ):
                reasons.append(_NOT_ADDED)
            case sources:
                operators.append(_operator(place, sources, was, now))
                told += _differences(_named(old, place), sources, was, now)
    if reasons:
        return NotRewritable(reasons[0])
    return _checked(old, new, Rewriting(tuple(operators), tuple(told))) if operators else None


def _sources(old: Sequence[str], new: Sequence[str]) -> tuple[int | None, ...] | str:
    """For each function of `new` the place of the same one in `old`, or why that is not all that there is to say."""
    kept = [each for each in new if each in old]
    added, removed = len(new) - len(kept), len(old) - len(kept)
    if not old:
        return "the aggregation has groups without aggregates"
    if not kept:
        return "no aggregate of the state is left"
    if kept != [each for each in old if each in new]:
        return "aggregates have changed places"
    if added and removed:
        return "aggregates are added and removed at once, or one has become another: do one after the other"
    if added and list(new[: len(old)]) != list(old):
        return "an aggregate is added before others, in the order of the target's columns: put it after them"
    return tuple(old.index(each) if each in old else None for each in new)


def _added(sources: Sequence[int | None], new: Sequence[str]) -> set[str]:
    return {each for each, source in zip(new, sources, strict=True) if source is None}


def _only_adds(added: set[str], old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether what is added to the state is added to the query, `old` and `new` being the functions of both.

    A constant of the old query may have left a function out of the state, or have made it equal to another one.
    """
    return not added or (set(old) <= set(new) and not added & set(old))


def _checked(old: Description, new: Description, found: Rewriting) -> Rewriting | NotRewritable:
    if not old.has_buffers:
        return NotRewritable(
            "an earlier version described the state without the columns of its aggregates: "
            "start the unchanged query once"
        )
    if old.spark_version != new.spark_version:
        return NotRewritable(
            f"it was written by Spark {old.spark_version} and this is {new.spark_version}: start the text that it is of once"
        )
    added = {any(source is None for source in each.sources) for each in found.operators}
    if new.retracts and True in added:
        return NotRewritable(
            "an aggregate that starts at the change would retract rows of the changelog that it never counted"
        )
    if len(added) > 1:
        return NotRewritable("one aggregation has aggregates added and another removed: do one after the other")
    for each in found.operators:
        is_whole = len(each.after) == len(each.sources) and all((*each.before, *each.after))
        if not is_whole or max(source for source in each.sources if source is not None) >= len(each.before):
            return NotRewritable("the stored columns of an aggregate are unknown")
        if any(
            each.before[source] != each.after[place] for place, source in enumerate(each.sources) if source is not None
        ):
            return NotRewritable("an aggregate is stored in columns of other types")
    return found


def _operator(
    place: int, sources: tuple[int | None, ...], was: StatefulOperator, now: StatefulOperator
) -> OperatorRewriting:
    before, after = (tuple(column.buffers for column in each.values) for each in (was, now))
    return OperatorRewriting(place, sources, before, after)


def _differences(
    name: str, sources: tuple[int | None, ...], was: StatefulOperator, now: StatefulOperator
) -> list[Difference]:
    added = [now.values[place] for place, source in enumerate(sources) if source is None]
    removed = [column for place, column in enumerate(was.values) if place not in sources]
    return [
        *(Difference(DifferenceKind.AGGREGATE_ADDED, name, each.name, after=each.meaning) for each in added),
        *(Difference(DifferenceKind.AGGREGATE_REMOVED, name, each.name, before=each.meaning) for each in removed),
    ]


def _named(description: Description, place: int) -> str:
    numbered = [at for at, each in enumerate(description.operators) if each.kind == AGGREGATE]
    return AGGREGATE if len(numbered) == 1 else f"{AGGREGATE} {numbered.index(place) + 1}"


class _Functions:
    """The aggregate functions of a description's operators, and what these are beside them, by digests."""

    def __init__(self, description: Description) -> None:
        self._nodes: Mapping[str, Node] = description.nodes
        self._stateful = frozenset(ref for each in description.operators for ref in (each.structure, each.as_written))
        self._digests: dict[str, str] = {}

    def around(self, operator: StatefulOperator) -> str:
        """The digest of an operator without its functions, and without those of aggregations below it."""
        return self._digest(operator.structure)

    def of(self, operator: StatefulOperator) -> tuple[str, ...]:
        """The functions of an aggregation in the order of its state; nothing of another operator."""
        return self._functions(operator.structure)

    def as_written(self, operator: StatefulOperator) -> tuple[str, ...]:
        """The functions of an aggregation in the order of the query, with those that constants leave out of the state."""
        return self._functions(operator.as_written or operator.structure)

    def _functions(self, structure: str) -> tuple[str, ...]:
        kind, fields = self._nodes[structure]
        return tuple(self._digest(each["ref"]) for each in fields["functions"]) if kind == _AGGREGATE_NODE else ()

    def _digest(self, ref: str) -> str:
        if ref not in self._digests:
            kind, fields = self._nodes[ref]
            if ref in self._stateful and kind == _AGGREGATE_NODE:
                fields = {name: value for name, value in fields.items() if name != "functions"}
            text = json.dumps([kind, self._told(fields)], sort_keys=True)
            self._digests[ref] = hashlib.sha256(text.encode()).hexdigest()
        return self._digests[ref]

    def _told(self, value: Any) -> Any:
        if is_ref(value):
            return {"ref": self._digest(value["ref"])}
        if isinstance(value, dict):
            return {name: self._told(each) for name, each in value.items()}
        return [self._told(each) for each in value] if isinstance(value, list) else value
