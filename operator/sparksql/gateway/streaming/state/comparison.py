"""Puts a changed text beside the state that it would go on from, and answers as rows.

Says what may be run of a script to look at its last statement. Nothing is started or written for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sparksql.gateway.operations.operation import ExplainedError
from sparksql.gateway.results.store import StoredResult
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan
from sparksql.gateway.sql.classifier import Statement
from sparksql.gateway.sql.conditions import Condition, own_error
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.state.description import Description
from sparksql.gateway.streaming.state.difference import Difference
from sparksql.gateway.streaming.state.messages import (
    NO_REMEDY,
    REBUILT_REMEDY,
    REMEDY,
    in_query_words,
    message,
    rebuilt_message,
    rewritten_message,
)
from sparksql.gateway.streaming.state.rebuilding import NotRebuildable, Rebuilding, history_rows, told
from sparksql.gateway.streaming.state.rewriting import NotRewritable, Rewriting
from sparksql.wire.control import COMPARISON, Column, ErrorReason, OperationError

# What a script may do to its own copy of the session, which is thrown away: kinds that leave nothing outside it.
_OF_SESSION = frozenset(
    {"CREATE TEMPORARY VIEW", "DECLARE", "DROP TEMPORARY FUNCTION", "DROP VARIABLE", "RESET", "SET", "USE"}
)
_COLUMNS = tuple(Column(name=name, type="string") for name in COMPARISON)
FITS = StoredResult(columns=_COLUMNS, row_count=0, truncated=False, bytes=0)


@dataclass(frozen=True)
class Misfit:
    """A text that does not fit a state as it is: the differences, and how the state is made anew for it, or why not.

    `how` is None when there is nothing to say about that.
    """

    found: Sequence[Difference]
    old: Description
    new: Description
    how: Rewriting | NotRewritable | Rebuilding | NotRebuildable | None = None

    @property
    def is_met(self) -> bool:
        """Returns whether the state is made anew, so that the text can start in another place."""
        return isinstance(self.how, Rewriting | Rebuilding)

    def rows(self) -> StoredResult:
        """Returns a row for each difference; before them, for a state that is computed anew, what is read for that."""
        match self.how:
            case Rewriting(differences=found):
                return _rows(found, self.old, self.new, NO_REMEDY)
            case Rebuilding() as how:
                return _rows(self.found, self.old, self.new, REBUILT_REMEDY, history_rows(how))
            case _:
                return _rows(self.found, self.old, self.new, REMEDY)

    def error(self) -> OperationError:
        """Returns what is told of the text."""
        match self.how:
            case Rewriting(differences=found):
                text = rewritten_message(found, self.old, self.new)
            case Rebuilding() as how:
                text = rebuilt_message(self.found, self.old, self.new, told(how))
            case NotRewritable(reason):
                text = message(self.found, self.old, self.new, f"the state cannot be migrated: {reason}")
            case NotRebuildable(reason):
                text = message(self.found, self.old, self.new, f"the state cannot be rebuilt: {reason}")
            case None:
                text = message(self.found, self.old, self.new)
        return own_error(Condition.STREAMING_STATE_INCOMPATIBLE, text, rewritable=self.is_met)


class IncompatibleStateError(ExplainedError):
    """The text does not fit the state; the rows tell each difference."""

    def __init__(self, misfit: Misfit) -> None:
        super().__init__(misfit.error(), misfit.rows())


def is_run(session: JvmSession, statement: Statement, plan: LogicalPlan) -> bool:
    """Returns whether a statement before the INSERT of a script is run for the comparison; False for one that changes nothing.

    Raises StatementError for one that would have to be run, and has an effect outside the session.
    """
    if statement.kind.read_only or _is_there(session, plan):
        return False
    if statement.kind.type in _OF_SESSION and not _is_global(plan):
        return True
    message = (
        f"the query cannot be validated without an effect: its {statement.kind.type} would have to run first; "
        "create what the INSERT needs by a statement of its own"
    )
    raise refusal(ErrorReason.NOT_IMPLEMENTED, message)


def _is_there(session: JvmSession, plan: LogicalPlan) -> bool:
    """CREATE TABLE IF NOT EXISTS of a table that there is."""
    if (
        simple_name(plan) != "CreateTable"
        or not plan.ignoreIfExists()
        or simple_name(plan.name()) != "UnresolvedIdentifier"
    ):
        return False
    parts = (str(part).replace("`", "``") for part in elements(plan.name().nameParts()))
    return bool(session.catalog().tableExists(".".join(f"`{part}`" for part in parts)))


def _is_global(plan: LogicalPlan) -> bool:
    """A global temporary view is there for all sessions."""
    match simple_name(plan):
        case "CreateViewCommand":
            return simple_name(plan.viewType()) != "LocalTempView$"
        case "CreateTempViewUsing":
            return bool(getattr(plan, "global")())  # a keyword of Python
        case _:
            return False


def _rows(
    found: Sequence[Difference],
    old: Description,
    new: Description,
    remedy: str,
    first: Sequence[tuple[str, ...]] = (),
) -> StoredResult:
    rows = [*first, *(_row(each, old, new, remedy) for each in found)]
    table = pa.table(
        {name: pa.array(cells, pa.string()) for name, cells in zip(COMPARISON, zip(*rows, strict=True), strict=True)}
    )
    return StoredResult(columns=_COLUMNS, row_count=len(rows), truncated=False, bytes=table.nbytes, table=table)


def _row(each: Difference, old: Description, new: Description, remedy: str) -> tuple[str, ...]:
    return (each.change.value, each.operator, *in_query_words(each, old, new), remedy)
