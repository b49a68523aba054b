"""Keyed, last-writer-wins MERGE of each batch into the target.

Of the rows of one key the one with the greatest `orderBy` wins, within a batch and against what the table has; a row for which
`deleteWhen` holds removes its key. A batch that ran, and whose checkpoint was not written before the driver died, runs again:
the table's own history tells that it is there already. Iceberg keeps the number of the batch in the snapshot that the MERGE
commits, Delta in its transaction log; both in the same commit as the rows (measured with Iceberg 1.12.0, see `_has_batch`).

A removed key leaves no trace in the table: a row of it that arrives later, though it is older, is inserted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from sparksql.api.execution import Upsert
from sparksql.gateway.changelog.batches import netted, takes_back
from sparksql.gateway.changelog.relations import DELETED, ORDER
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import Dataset, Jvm, JvmSession, LogicalPlan
from sparksql.gateway.sql.classifier import Classifier
from sparksql.gateway.sql.errors import StatementError, operation_error, refusal
from sparksql.gateway.sql.script import Fragment
from sparksql.wire.control import ErrorReason

# Names of our own in the batch that is merged; the target's columns have other ones, so that the user's expressions, which
# are not qualified, mean the target where they are evaluated on it.
_PREFIX = "__sparksql_"
_ORDER, _DELETE, _RANK = f"{_PREFIX}order", f"{_PREFIX}delete", f"{_PREFIX}rank"
_NO_ORDER = "spec.streaming.upsert: two rows of one batch have the same keys, and no orderBy tells which one wins"
_VIEW = f"{_PREFIX}batch"
_QUERY_ID = "sql.streaming.queryId"  # local property of Spark's stream thread
_QUERY_PROPERTY, _BATCH_PROPERTY = "sparksql.query", "sparksql.batch"


@dataclass(frozen=True)
class UpsertTarget:
    """A table that rows can be merged into: its quoted name, its columns, and whether Iceberg or Delta keeps it."""

    name: str
    columns: tuple[str, ...]
    is_delta: bool


def upsert_target(name: str, table: Any) -> UpsertTarget:
    """Returns the target of an analysed table. Raises StatementError for a format that knows no MERGE."""
    leaf = table
    while simple_name(leaf) == "SubqueryAlias":
        leaf = leaf.child()
    columns = tuple(str(column.name()) for column in elements(table.output()))
    if simple_name(leaf) == "DataSourceV2Relation" and "iceberg" in str(leaf.table().getClass().getName()):
        return UpsertTarget(_full_name(leaf) or name, columns, is_delta=False)
    if "delta" in _provider(leaf):
        return UpsertTarget(name, columns, is_delta=True)
    raise refusal(
        ErrorReason.INVALID_SPEC, f"spec.streaming.upsert: table {name} knows no MERGE; make it USING iceberg or delta"
    )


def _full_name(relation: LogicalPlan) -> str | None:
    """Catalog, namespace and name as SQL text: what follows a shorter name, as in `t.snapshots`, would be taken for the name."""
    catalog, identifier = option(relation.catalog()), option(relation.identifier())
    if catalog is None or identifier is None:
        return None
    parts = [str(catalog.name()), *map(str, identifier.namespace()), str(identifier.name())]
    return ".".join(map(_quoted, parts))


def _provider(leaf: LogicalPlan) -> str:
    match simple_name(leaf):
        case "LogicalRelation":
            table = option(leaf.catalogTable())
            return "" if table is None else str(option(table.provider()) or "").lower()
        case "DataSourceV2Relation":
            return str(leaf.table().getClass().getName()).lower()
        case _:
            return ""


def check_upsert(
    jvm: Jvm, classifier: Classifier, session: JvmSession, options: Upsert, target: UpsertTarget, frame: Dataset
) -> None:
    """Raises when keys, expressions or columns do not fit the target and the query: StatementError, or what Spark throws."""
    given = {str(column).lower() for column in frame.columns()}
    known = {column.lower() for column in target.columns}
    for key in options.keys:
        for where, columns in (("target", known), ("query", given)):
            if key.lower() not in columns:
                raise _invalid("keys", f"the {where} has no column {key}")
    missing = [column for column in target.columns if column.lower() not in given]
    if missing:
        raise _invalid("", f"the query must give every column of the target by name; it gives no {', '.join(missing)}")
    if options.order_by is not None:
        # Within a batch it orders the query's rows, against the table the target's.
        _check_expression(jvm, classifier, session, options.order_by, frame, session.table(target.name))
    if options.delete_when is not None:
        _check_expression(jvm, classifier, session, options.delete_when, frame)


def _check_expression(jvm: Jvm, classifier: Classifier, session: JvmSession, text: str, *frames: Dataset) -> None:
    """The text must be one expression, allowed by the session's class, over the columns of each of these Datasets."""
    parser = session.sessionState().sqlParser()
    try:
        parser.parseExpression(text)
        classifier.check(parser.parsePlan(f"SELECT {text}"), text)
        for frame in frames:
            frame.selectExpr(jvm.PythonUtils.toSeq([text]))
    except Exception as exception:
        raise StatementError(operation_error(exception, Fragment(text, 0), text)) from exception


class UpsertWriter:
    """Merges batches. `merge` is called in the query's thread, with the JVM's Dataset of the batch and its number."""

    def __init__(self, driver: SparkDriver, options: Upsert, target: UpsertTarget) -> None:
        self._driver = driver
        self._options = options
        self._target = target
        self._may_be_there = True  # only the first batch of a start can have been committed before

    def merge(self, frame: Dataset, batch_id: int) -> None:
        """Merges one batch into the target, unless it is there already. Called in the query's thread."""
        session = frame.sparkSession()
        query_id = str(session.sparkContext().getLocalProperty(_QUERY_ID))
        may_be_there, self._may_be_there = self._may_be_there, False
        batch = self._prepared(frame).persist()  # MERGE may read it more than once
        try:
            # Here, in the query's thread: MERGE would compute it in a thread of its own that no stop reaches, and a query that
            # is stopped meanwhile would wait for it for ever (Spark 4.1.4, adaptive execution, a plan that is cached inside
            # another's subquery). It also computes the state of a batch that is not merged, without which Spark ends the query.
            rows = batch.count()
            if may_be_there and not self._target.is_delta and self._has_batch(session, query_id, batch_id):
                return
            if rows == 0:
                return
            batch.createOrReplaceTempView(_VIEW)
            self._mark(session, query_id, batch_id)
            session.sql(merge_statement(self._options, self._target, takes_back=takes_back(frame)))
            session.catalog().dropTempView(_VIEW)
        finally:
            batch.unpersist()

    def _prepared(self, frame: Dataset) -> Any:
        """The batch under names of our own, one row for each key. Without an order two rows of one key are an error."""
        options, jvm = self._options, self._driver.jvm
        frame = netted(jvm, frame)
        given = [str(name) for name in frame.columns()]  # changes of a changelog bring their order, and which are gone
        by = options.order_by or (ORDER if ORDER in given else None)
        order = f"({by})" if by else "1"
        delete = f"coalesce(({options.delete_when}), false)" if options.delete_when else "false"
        delete = f"({DELETED} OR {delete})" if DELETED in given else delete
        columns = [f"{_quoted(name)} AS {_quoted(_PREFIX + name)}" for name in self._target.columns]
        batch = frame.selectExpr(jvm.PythonUtils.toSeq([*columns, f"{order} AS {_ORDER}", f"{delete} AS {_DELETE}"]))
        keys = ", ".join(_quoted(_PREFIX + _own(key, self._target)) for key in options.keys)
        rank = f"row_number() OVER (PARTITION BY {keys} ORDER BY {_ORDER} DESC NULLS LAST)"
        others = "false" if by else f"CAST(raise_error('{_NO_ORDER}') AS BOOLEAN)"
        ranked = batch.withColumn(_RANK, jvm.org.apache.spark.sql.functions.expr(rank))
        return ranked.where(f"CASE WHEN {_RANK} = 1 THEN true ELSE {others} END")

    def _has_batch(self, session: JvmSession, query_id: str, batch_id: int) -> bool:
        """Returns whether a snapshot of the table carries this query's batch.

        A batch without a change may leave none; it does no harm to merge it again.
        """
        snapshots = session.table(f"{self._target.name}.snapshots")
        ours = f"summary['{_QUERY_PROPERTY}'] = '{query_id}' AND CAST(summary['{_BATCH_PROPERTY}'] AS BIGINT) >= {batch_id}"
        return not bool(snapshots.where(ours).isEmpty())

    def _mark(self, session: JvmSession, query_id: str, batch_id: int) -> None:
        conf = session.conf()
        if self._target.is_delta:
            conf.set("spark.databricks.delta.write.txnAppId", query_id)
            conf.set("spark.databricks.delta.write.txnVersion", str(batch_id))
        else:
            conf.set(f"spark.sql.iceberg.snapshot-property.{_QUERY_PROPERTY}", query_id)
            conf.set(f"spark.sql.iceberg.snapshot-property.{_BATCH_PROPERTY}", str(batch_id))


def merge_statement(options: Upsert, target: UpsertTarget, *, takes_back: bool = False) -> str:
    """Returns the MERGE of a prepared batch; `takes_back` tells that its rows are of a changelog, and may be gone."""
    keys = " AND ".join(
        f"t.{_quoted(_own(key, target))} <=> s.{_quoted(_PREFIX + _own(key, target))}" for key in options.keys
    )
    newer = (
        f" AND coalesce(s.{_ORDER} >= ({options.order_by}), ({options.order_by}) IS NULL)" if options.order_by else ""
    )
    assignments = ", ".join(f"t.{_quoted(c)} = s.{_quoted(_PREFIX + c)}" for c in target.columns)
    columns = ", ".join(map(_quoted, target.columns))
    values = ", ".join(f"s.{_quoted(_PREFIX + c)}" for c in target.columns)
    delete = f"WHEN MATCHED{newer} AND s.{_DELETE} THEN DELETE " if options.delete_when or takes_back else ""
    return " ".join(
        (
            f"MERGE INTO {target.name} t USING {_VIEW} s ON {keys}",
            f"{delete}WHEN MATCHED{newer} THEN UPDATE SET {assignments}",
            f"WHEN NOT MATCHED AND NOT s.{_DELETE} THEN INSERT ({columns}) VALUES ({values})",  # noqa: S608 - names are quoted
        )
    )


def _own(key: str, target: UpsertTarget) -> str:
    """The key as the target spells it."""
    return next(column for column in target.columns if column.lower() == key.lower())


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _invalid(field: str, problem: str) -> StatementError:
    path = f"spec.streaming.upsert.{field}" if field else "spec.streaming.upsert"
    return refusal(ErrorReason.INVALID_SPEC, f"{path}: {problem}")


class UpsertBatches:
    """Called by the JVM with each batch. Keeps the error itself: on its way through the JVM it becomes a text.

    `verify` raises when the query may not write any more.
    """

    def __init__(self, upsert: UpsertWriter, verify: Callable[[], None]) -> None:
        self._upsert = upsert
        self._verify = verify
        self.error: Exception | None = None

    def call(self, frame: Dataset, batch_id: int) -> None:
        """Merges a batch. Raises what that raises."""
        try:
            self._verify()
            self._upsert.merge(frame, batch_id)
        except Exception as error:
            self.error = error
            raise

    class Java:
        """The interface of the JVM, as py4j looks for it."""

        implements: ClassVar = ["org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction"]
