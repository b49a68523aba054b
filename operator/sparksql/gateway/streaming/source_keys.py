"""Which columns tell the rows of a query apart, for an upsert that does not say: those of its source, carried through the query.

A source marks the plan that it gives with its keys. They are carried through what leaves each row as it is or leaves it out:
WHERE, watermarks, views, WITH, and projections that give a key column unchanged, under any name. Behind an aggregation the keys
are what it groups by. With anything else a row of the query is no row of the source any more, and the keys must be told.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.plans import children
from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import Dataset, Jvm, LogicalPlan
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.gateway.streaming.result_keys import HANDS_ON, result_keys
from sparksql.wire.control import ErrorReason

_TAG = "sparksql.keys"
_FIELD = "spec.streaming.upsert.keys"
_CARRIERS = HANDS_ON | {"EventTimeWatermark"}


def mark(jvm: Jvm, frame: Dataset, table: str, keys: Sequence[str], remedy: str) -> None:
    """Notes in a source's plan which of its columns tell rows apart; none if the table does not say, and `remedy` how it can."""
    frame.logicalPlan().setTagValue(_tag(jvm), json.dumps([table, list(keys), remedy]))


def inferred_keys(jvm: Jvm, plan: LogicalPlan, target: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of a query's key columns, of its analysed plan. Raises StatementError where they cannot be told.

    Of several columns with the values of one key it is the one that the target has.
    """
    columns = elements(plan.output())
    if (grouped := result_keys(plan)) is not None:
        if not grouped:
            raise _unknown("the query's result is one row, which has no key")
        return tuple(str(columns[position].name()) for position in grouped)
    known = {name.lower() for name in target}
    found: list[str] = []
    for key in _Source(jvm).keys(plan):
        names = [str(column.name()) for column in columns if _id(column) in key.ids]
        if not names:
            raise _unknown(f"the query does not give key column {key.name} of its source as it is; select it")
        found.append(next((name for name in names if name.lower() in known), names[0]))
    return tuple(found)


@dataclass(frozen=True)
class _Key:
    """A key column: its name in the source, and the ids of the columns of a plan that have its values."""

    name: str
    ids: frozenset[int]


class _Source:
    """Looks for the source of one plan."""

    def __init__(self, jvm: Jvm) -> None:
        self._tag = _tag(jvm)
        self._with: dict[int, Any] = {}

    def keys(self, plan: LogicalPlan) -> list[_Key]:
        """Returns the keys of a plan's rows. Raises StatementError where they cannot be told."""
        marked = option(plan.getTagValue(self._tag))
        if marked is not None:
            return _declared(plan, *json.loads(str(marked)))
        match simple_name(plan):
            case "Project":
                shown = [(_id(each), _shows(each)) for each in elements(plan.projectList())]
                return [_carried(key, shown) for key in self.keys(plan.child())]
            case "WithCTE":
                self._with.update({int(each.id()): each.child() for each in elements(plan.cteDefs())})
                return self.keys(plan.plan())
            case "CTERelationRef":
                return self._of_with(plan)
            case name if name in _CARRIERS:
                return self.keys(children(plan)[0])
            case "Aggregate":
                raise _unknown("the query does not give every column that it groups by; select them")
            case name if not children(plan):
                raise _unknown(f"the query's source ({name}) declares no keys")
            case name:
                raise _unknown(f"rows of the query are no rows of one source: there is {name} in its plan")

    def _of_with(self, reference: LogicalPlan) -> list[_Key]:
        query = self._with[int(reference.cteId())]
        shown = list(zip(map(_id, elements(reference.output())), map(_id, elements(query.output())), strict=True))
        return [_carried(key, shown) for key in self.keys(query)]


def _declared(plan: LogicalPlan, table: str, keys: list[str], remedy: str) -> list[_Key]:
    if not keys:
        raise _unknown(f"table {table} declares no key; {remedy}")
    ids = {str(column.name()).lower(): _id(column) for column in elements(plan.output())}
    return [_Key(key, frozenset({ids[key.lower()]})) for key in keys]


def _carried(key: _Key, shown: Sequence[tuple[int, int]]) -> _Key:
    """A key above a plan whose columns, by their ids, show those of the plan below."""
    return _Key(key.name, frozenset(above for above, below in shown if below in key.ids))


def _shows(named: LogicalPlan) -> int:
    """The id of the column that a named expression gives as it is, its own for anything else."""
    inner = named.child() if simple_name(named) == "Alias" else named
    return _id(inner if simple_name(inner) == "AttributeReference" else named)


def _id(column: LogicalPlan) -> int:
    return int(column.exprId().id())


def _tag(jvm: Jvm) -> Any:
    return jvm.org.apache.spark.sql.catalyst.trees.TreeNodeTag(_TAG)


def _unknown(why: str) -> StatementError:
    message = f"{_FIELD} is missing, and the keys cannot be inferred: {why}, or name the columns in {_FIELD}"
    return refusal(ErrorReason.INVALID_SPEC, message)
