"""What rows are merged into: an Iceberg or Delta table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan
from sparksql.gateway.spark.table_formats import is_delta, is_iceberg
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.upsert.names import quoted
from sparksql.wire.control import ErrorReason


@dataclass(frozen=True)
class UpsertTarget:
    """A table that rows can be merged into: its quoted name, its columns, and whether Iceberg or Delta keeps it."""

    name: str
    columns: tuple[str, ...]
    is_delta: bool

    def own(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Returns keys as the target spells them."""
        columns = {column.lower(): column for column in self.columns}
        return tuple(columns[key.lower()] for key in keys)

    def identity(self, session: JvmSession) -> str:
        """Returns the id that its format gave the table when it was made: a table that is made anew has another one."""
        if self.is_delta:
            return str(session.sql(f"DESCRIBE DETAIL {self.name}").head().getAs("id"))
        return str(table_leaf(session.table(self.name).logicalPlan()).table().table().uuid())


def upsert_target(name: str, table: Any) -> UpsertTarget:
    """Returns the target of an analysed table. Raises StatementError for a format that knows no MERGE."""
    leaf = table_leaf(table)
    columns = tuple(str(column.name()) for column in elements(table.output()))
    if simple_name(leaf) == "DataSourceV2Relation" and is_iceberg(leaf.table()):
        return UpsertTarget(_full_name(leaf) or name, columns, is_delta=False)
    if _is_delta(leaf):
        return UpsertTarget(name, columns, is_delta=True)
    raise refusal(
        ErrorReason.INVALID_SPEC,
        f"spec.streaming.upsert: table {name} does not support MERGE; create it USING iceberg or delta",
    )


def table_leaf(table: LogicalPlan) -> LogicalPlan:
    """Returns the relation of an analysed table, without the names that are around it."""
    while simple_name(table) == "SubqueryAlias":
        table = table.child()
    return table


def _full_name(relation: LogicalPlan) -> str | None:
    """Catalog, namespace and name as SQL text: what follows a shorter name, as in `t.snapshots`, would be taken for the name."""
    catalog, identifier = option(relation.catalog()), option(relation.identifier())
    if catalog is None or identifier is None:
        return None
    parts = [str(catalog.name()), *map(str, identifier.namespace()), str(identifier.name())]
    return ".".join(map(quoted, parts))


def _is_delta(leaf: LogicalPlan) -> bool:
    match simple_name(leaf):
        case "LogicalRelation":
            table = option(leaf.catalogTable())
            return table is not None and str(option(table.provider())).lower() == "delta"
        case "DataSourceV2Relation":
            return is_delta(leaf.table())
        case _:
            return False
