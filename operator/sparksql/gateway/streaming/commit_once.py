"""Iceberg tables whose commit refuses a batch that the table has already, whichever driver has put it there.

A look before the commit is not enough: a driver that is frozen between the two commits when it wakes, and Iceberg rebases the
commit on what another driver has put there meanwhile (measured with Iceberg 1.12.0; Delta looks inside its transaction).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.scala import option, simple_name
from sparksql.gateway.spark.shapes import Jvm, JvmSession, LogicalPlan, StreamingQuery

# What Iceberg's own streaming sink writes into each snapshot: the query's id and the number of the batch.
SINK_KEYS = ("spark.sql.streaming.queryId", "spark.sql.streaming.epochId")


@dataclass(frozen=True)
class GuardedTable:
    """A table of Spark with such a commit, and where its catalog has it. `once` is what guards it."""

    once: Any
    table: Any
    catalog: Any
    identifier: Any

    def has_batch(self, query_id: str, batch_id: int) -> bool:
        """Returns whether a query's batch, or a later one, was in the table when it was read. It asks nobody."""
        branch, kept = self.table.branch(), self.table.table()
        head = kept.currentSnapshot() if branch is None else kept.snapshot(branch)
        return bool(self.once.holds(head, query_id, batch_id))

    def relation(self, jvm: Jvm) -> LogicalPlan:
        """Returns the table as the leaf of a plan."""
        some = jvm.scala.Option.apply
        relation = jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
        return relation.create(self.table, some(self.catalog), some(self.identifier))


def start_into(jvm: Jvm, session: JvmSession, writer: Any, name: str) -> StreamingQuery:
    """Starts the query of a DataStreamWriter into a table, guarded where that can be. Raises what Spark throws."""
    target = guarded(jvm, session.table(name).logicalPlan(), SINK_KEYS)
    if target is None:
        return writer.toTable(name)
    return jvm.dev.sparksql.streaming.StreamStart.into(writer, target.table, target.catalog, target.identifier)


def guarded(jvm: Jvm, plan: LogicalPlan, keys: tuple[str, str]) -> GuardedTable | None:
    """Returns an analysed table with such a commit, None for one that is not kept by Iceberg in its usual way.

    `keys` are the names of the query and of the batch's number among the properties of a snapshot.
    """
    leaf = plan
    while simple_name(leaf) == "SubqueryAlias":
        leaf = leaf.child()
    if (
        simple_name(leaf) != "DataSourceV2Relation"
        or _class(leaf.table()) != "org.apache.iceberg.spark.source.SparkTable"
    ):
        return None
    catalog, identifier, kept = option(leaf.catalog()), option(leaf.identifier()), leaf.table().table()
    if catalog is None or identifier is None or _class(kept) != "org.apache.iceberg.BaseTable":
        return None
    once, iceberg = jvm.dev.sparksql.streaming.CommitOnce.of(kept.operations(), *keys), jvm.org.apache.iceberg
    table = iceberg.spark.source.SparkTable(iceberg.BaseTable(once.operations(), kept.name(), kept.reporter()))
    branch = leaf.table().branch()
    return GuardedTable(once, table if branch is None else table.copyWithBranch(branch), catalog, identifier)


def _class(value: Any) -> str:
    return str(value.getClass().getName())
