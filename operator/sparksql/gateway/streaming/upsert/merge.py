"""Keyed, last-writer-wins MERGE of each batch into the target.

Of the rows of one key the one with the greatest `orderBy` wins, within a batch and against what the table has; a row for which
`deleteWhen` holds removes its key. A batch that ran, and whose checkpoint was not written before the driver died, runs again:
the table's own history tells that it is there already. Iceberg keeps the number of the batch in the snapshot that the MERGE
commits, Delta in its transaction log; both in the same commit as the rows (measured with Iceberg 1.12.0, see `_has_batch`).

A removed key leaves no trace in the table: a row of it that arrives later, though it is older, is inserted again, unless what
was removed is kept beside the table (`deleted`).
"""

from __future__ import annotations

from sparksql.api.execution import Upsert
from sparksql.gateway.changelog.batches import takes_back
from sparksql.gateway.results.writes.rows import rows_written
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements
from sparksql.gateway.spark.shapes import Dataset, JvmSession, LogicalPlan
from sparksql.gateway.sql.classifier import Classifier
from sparksql.gateway.streaming.commit_once import GuardedTable, guarded
from sparksql.gateway.streaming.upsert.batch import check_columns, check_expression, computed, prepared, query_of
from sparksql.gateway.streaming.upsert.deleted import DeletedKeys, kept_changes
from sparksql.gateway.streaming.upsert.names import DELETE, ORDER, VIEW, prefixed, quoted
from sparksql.gateway.streaming.upsert.target import UpsertTarget

_KEYS = _QUERY_PROPERTY, _BATCH_PROPERTY = "sparksql.query", "sparksql.batch"


class MergeWriter:
    """Merges batches into a table of Iceberg or Delta."""

    def __init__(self, driver: SparkDriver, options: Upsert, target: UpsertTarget) -> None:
        self._driver = driver
        self._options = options
        self._target = target
        self._deleted = DeletedKeys.wanted(options, target)

    def check(self, session: JvmSession, frame: Dataset) -> None:
        """Raises when columns, expressions or the deleted keys do not fit: StatementError, or what Spark throws."""
        jvm, options = self._driver.jvm, self._options
        classifier = Classifier(jvm, session, self._driver.policy)
        check_columns(options, self._target.columns, frame)
        if options.order_by is not None:
            # Within a batch it orders the query's rows, against the table the target's.
            check_expression(jvm, classifier, session, options.order_by, frame, session.table(self._target.name))
        if options.delete_when is not None:
            check_expression(jvm, classifier, session, options.delete_when, frame)
        if self._deleted is not None:
            self._deleted.check(session)

    def described(self) -> str:
        """Returns the target and the keys."""
        return f"Upsert into {self._target.name} by ({', '.join(map(quoted, self._target.own(self._options.keys)))})"

    def write(self, frame: Dataset, batch_id: int) -> int | None:
        """Merges one batch into the target, unless it is there already. Called in the query's thread.

        Returns how many rows the MERGE has changed, None if that is unknown.
        """
        session, options, target = frame.sparkSession(), self._options, self._target
        query_id = query_of(session)
        batch = prepared(self._driver.jvm, options, target.columns, target.own(options.keys), frame).persist()
        try:
            # Here, in the query's thread: MERGE would compute it in a thread of its own that no stop reaches, and a query that
            # is stopped meanwhile would wait for it for ever (Spark 4.1.4, adaptive execution, a plan that is cached inside
            # another's subquery). It also computes the state of a batch that is not merged, without which Spark ends the query.
            if batch.count() == 0:
                return 0
            table = None if target.is_delta else guarded(self._driver.jvm, self._table(session), _KEYS)
            if self._has_batch(session, table, query_id, batch_id):
                return 0
            computed(self._driver.jvm, session, batch).createOrReplaceTempView(VIEW)
            if self._deleted is not None:
                self._deleted.note(session)
            merge = merge_statement(options, target, takes_back=takes_back(frame))
            changed = self._merge(session, merge, table, query_id, batch_id)
            if self._deleted is not None:
                self._deleted.expire(session)
            session.catalog().dropTempView(VIEW)
            return changed
        finally:
            batch.unpersist()

    def _table(self, session: JvmSession) -> LogicalPlan:
        return session.table(self._target.name).logicalPlan()

    def _merge(
        self, session: JvmSession, merge: str, table: GuardedTable | None, query_id: str, batch_id: int
    ) -> int | None:
        marks = self._marks(query_id, batch_id)
        conf = session.conf()
        for key, value in marks.items():
            conf.set(key, value)
        try:
            return self._execute(session, merge, table)
        finally:  # commits into another table must not carry them: Delta would take the next one for this one
            for key in marks:
                conf.unset(key)

    def _execute(self, session: JvmSession, merge: str, table: GuardedTable | None) -> int | None:
        """Runs a MERGE into the table that its name stands for, or into the guarded one. Returns the rows that it has changed."""
        plan = session.sessionState().sqlParser().parsePlan(merge)
        if table is not None:
            to_seq = self._driver.jvm.PythonUtils.toSeq
            target, source = elements(plan.children())
            named = target.withNewChildren(to_seq([table.relation(self._driver.jvm)]))
            plan = plan.withNewChildren(to_seq([named, source]))
        return rows_written(self._driver.of_rows(session, plan).logicalPlan(), None)

    def _has_batch(self, session: JvmSession, table: GuardedTable | None, query_id: str, batch_id: int) -> bool:
        """Returns whether a snapshot of the table carries this query's batch; Delta looks for itself.

        A batch without a change may leave none; it does no harm to merge it again.
        """
        if self._target.is_delta:
            return False
        if table is not None:
            return table.has_batch(query_id, batch_id)
        snapshots = session.table(f"{self._target.name}.snapshots")
        ours = f"summary['{_QUERY_PROPERTY}'] = '{query_id}' AND CAST(summary['{_BATCH_PROPERTY}'] AS BIGINT) >= {batch_id}"
        return not bool(snapshots.where(ours).isEmpty())

    def _marks(self, query_id: str, batch_id: int) -> dict[str, str]:
        """Settings by which the formats note in a commit which batch it is."""
        if self._target.is_delta:
            return {
                "spark.databricks.delta.write.txnAppId": query_id,
                "spark.databricks.delta.write.txnVersion": str(batch_id),
            }
        prefix = "spark.sql.iceberg.snapshot-property"
        return {f"{prefix}.{_QUERY_PROPERTY}": query_id, f"{prefix}.{_BATCH_PROPERTY}": str(batch_id)}


def merge_statement(options: Upsert, target: UpsertTarget, *, takes_back: bool = False) -> str:
    """Returns the MERGE of a prepared batch; `takes_back` tells that its rows are of a changelog, and may be gone."""
    keys = " AND ".join(f"t.{quoted(key)} <=> s.{prefixed(key)}" for key in target.own(options.keys))
    source = VIEW if options.deleted_retention_seconds is None else f"({kept_changes(options, target)})"
    newer = (
        f" AND coalesce(s.{ORDER} >= ({options.order_by}), ({options.order_by}) IS NULL)" if options.order_by else ""
    )
    assignments = ", ".join(f"t.{quoted(c)} = s.{prefixed(c)}" for c in target.columns)
    columns = ", ".join(map(quoted, target.columns))
    values = ", ".join(f"s.{prefixed(c)}" for c in target.columns)
    delete = f"WHEN MATCHED{newer} AND s.{DELETE} THEN DELETE " if options.delete_when or takes_back else ""
    return " ".join(
        (
            f"MERGE INTO {target.name} t USING {source} s ON {keys}",
            f"{delete}WHEN MATCHED{newer} THEN UPDATE SET {assignments}",
            f"WHEN NOT MATCHED AND NOT s.{DELETE} THEN INSERT ({columns}) VALUES ({values})",  # noqa: S608 - names are quoted
        )
    )
