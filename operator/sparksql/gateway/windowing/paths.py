"""The way from an aggregation down to the windows that it is by, and the same way over something else.

Only projections, filters and names may be on it: what else is there (a join, another aggregation) makes other rows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, LogicalPlan
from sparksql.gateway.windowing.bounds import MICROS
from sparksql.gateway.windowing.expressions import column_id, columns_in, project
from sparksql.gateway.windowing.marks import Role, Windows, role_of, windows_of


@dataclass(frozen=True)
class Path:
    """A way to the Project `assigning` that gives rows their `of` windows.

    `between` are the nodes on the way, the lowest first; `columns` those of windows that are known at its top, by id;
    `copies` the columns that are others by another id.
    """

    of: Windows
    assigning: LogicalPlan
    between: tuple[Any, ...]
    columns: dict[int, Role]
    copies: dict[int, int] = field(default_factory=dict)

    def role(self, expression: Expression) -> Role | None:
        """Returns which column of the windows an expression at the top is, None for any other."""
        column = column_id(expression)
        return None if column is None else self.columns.get(column)

    def rebuilt(self, jvm: Jvm, bottom: LogicalPlan, further: Sequence[Any]) -> Any:
        """Returns the same way over `bottom`, without the columns of windows and with the `further` columns of `bottom`."""
        plan = bottom
        for node in self.between:
            match simple_name(node):
                case "Project":
                    kept = [
                        named for named in elements(node.projectList()) if int(named.exprId().id()) not in self.columns
                    ]
                    present = {int(named.exprId().id()) for named in kept}
                    added = [column for column in further if int(column.exprId().id()) not in present]
                    plan = project(jvm, [*kept, *added], plan)
                case "Filter":
                    plan = node.copy(node.condition(), plan)
        return plan

    def origins(self, expression: Expression) -> set[int]:
        """Returns the ids of the columns, as they are at the bottom, that an expression at the top reads."""
        return {self._origin(each) for each in columns_in(expression)}

    def _origin(self, column: int) -> int:
        while column in self.copies:
            column = self.copies[column]
        return column


def path_to_windows(top: LogicalPlan, is_wanted: Callable[[Windows], bool]) -> Path | None:
    """Returns the way from a plan down to windows of a wanted call, None if there is none, or if windows decide on it."""
    between: list[Any] = []
    node = top
    while (windows := windows_assigned_by(node)) is None:
        if simple_name(node) not in ("Project", "Filter", "SubqueryAlias", "View"):
            return None
        between.insert(0, node)
        node = node.child()
    if not is_wanted(windows):
        return None
    columns = {
        int(named.exprId().id()): role
        for named in elements(node.projectList())[-3:]
        if (role := role_of(named)) is not None
    }
    copies: dict[int, int] = {}
    for each in between:
        if not _passes(each, columns, copies):
            return None
    between = [each for each in between if simple_name(each) in ("Project", "Filter")]
    return Path(windows, node, tuple(between), columns, copies)


def rows_below(assigning: LogicalPlan) -> Any:
    """Returns the rows below the windows that they are given, with MICROS as their last column."""
    node = assigning
    while simple_name(node) != "Project" or str(elements(node.projectList())[-1].name()) != MICROS:
        node = node.child()
    return node


def windows_assigned_by(node: LogicalPlan) -> Windows | None:
    """Returns the windows that a node gives its rows, None for any other node."""
    if simple_name(node) != "Project":
        return None
    last = elements(node.projectList())[-1]
    if simple_name(last) != "Alias" or simple_name(last.child()) == "AttributeReference":
        return None
    return windows_of(last) if role_of(last) is Role.TIME else None


def _passes(node: LogicalPlan, columns: dict[int, Role], copies: dict[int, int]) -> bool:
    """Whether a node does nothing with windows but hand them on; those that it hands on are noted."""
    match simple_name(node):
        case "Project":
            for named in elements(node.projectList()):
                if simple_name(named) == "AttributeReference":
                    continue
                inner = column_id(named.child()) if simple_name(named) == "Alias" else None
                if inner is not None:
                    copies[int(named.exprId().id())] = inner
                    if inner in columns:
                        columns[int(named.exprId().id())] = columns[inner]
                elif columns_in(named) & set(columns) or not named.deterministic():
                    return False
            return True
        case "Filter":
            return bool(node.condition().deterministic()) and not columns_in(node.condition()) & set(columns)
        case _:
            return True
