"""A batch of changes under names of our own, one for each key, and what hands batches on to a target."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol

from sparksql.api.execution import Upsert
from sparksql.gateway.changelog import relations
from sparksql.gateway.changelog.batches import netted
from sparksql.gateway.spark.scala import scala_object
from sparksql.gateway.spark.shapes import Dataset, Jvm, JvmSession, StreamingQuery
from sparksql.gateway.sql.classifier import Classifier
from sparksql.gateway.sql.errors import StatementError, operation_error, refusal
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.streaming.upsert.names import DELETE, ORDER, PREFIX, prefixed, quoted
from sparksql.wire.control import ErrorReason

_RANK = f"{PREFIX}rank"
_NO_ORDER = "spec.streaming.upsert: two rows of one batch have the same keys; add orderBy to define which one wins"
_QUERY_ID = "sql.streaming.queryId"  # local property of Spark's stream thread


class BatchWriter(Protocol):
    """Brings batches into a target by its keys."""

    def check(self, session: JvmSession, frame: Dataset) -> None:
        """Raises when the target does not fit the query: StatementError, or what Spark throws. It writes nothing."""

    def write(self, frame: Dataset, batch_id: int) -> int | None:
        """Writes one batch, unless it is there already. Called in the query's thread, with the JVM's Dataset of it.

        Returns how many rows it has inserted, updated or deleted, None if that is unknown.
        """

    def described(self) -> str:
        """Returns what is done with each batch, for a reader of a plan."""


def prepared(jvm: Jvm, options: Upsert, columns: Iterable[str], keys: Iterable[str], frame: Dataset) -> Any:
    """Returns the batch's rows with these columns, one for each key, the columns' names with our prefix.

    Beside them it has their order and whether they delete. Without an order two rows of one key are an error; of equal
    values of the order a delete wins.
    """
    frame = netted(jvm, frame)
    given = [str(name) for name in frame.columns()]  # changes of a changelog bring their order, and which are gone
    order_by = options.order_by or (relations.ORDER if relations.ORDER in given else None)
    order = f"({order_by})" if order_by else "1"
    delete = f"coalesce(({options.delete_when}), false)" if options.delete_when else "false"
    delete = f"({relations.DELETED} OR {delete})" if relations.DELETED in given else delete
    named = [f"{quoted(name)} AS {prefixed(name)}" for name in columns]
    batch = frame.selectExpr(jvm.PythonUtils.toSeq([*named, f"{order} AS {ORDER}", f"{delete} AS {DELETE}"]))
    by = ", ".join(map(prefixed, keys))
    rank = f"row_number() OVER (PARTITION BY {by} ORDER BY {ORDER} DESC NULLS LAST, {DELETE} DESC)"
    others = "false" if order_by else f"CAST(raise_error('{_NO_ORDER}') AS BOOLEAN)"
    ranked = batch.withColumn(_RANK, jvm.org.apache.spark.sql.functions.expr(rank))
    return ranked.where(f"CASE WHEN {_RANK} = 1 THEN true ELSE {others} END").drop(_RANK)


def computed(jvm: Jvm, session: JvmSession, kept: Dataset) -> Any:
    """Returns a Dataset of the rows that a persisted one has; each of its readers reads them, however a plan copies it.

    Spark finds what is persisted by comparing plans, and misses it in the subquery by which a copy-on-write MERGE finds the files
    that it rewrites (Spark 4.1.4): the batch and its state would be computed twice. To be called once the rows are
    there. A lost executor's rows are computed again.
    """
    relation = scala_object(jvm.org.apache.spark.sql.execution, "LogicalRDD")
    rows = relation.fromDataset(kept.queryExecution().toRdd(), kept, False)
    return jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, rows)


def query_of(session: JvmSession) -> str:
    """Returns the id of the streaming query whose thread this is."""
    return str(session.sparkContext().getLocalProperty(_QUERY_ID))


def check_columns(options: Upsert, columns: Iterable[str], frame: Dataset) -> None:
    """Raises StatementError when the target lacks a key, or the query one of the target's columns."""
    names = tuple(columns)
    given = {str(column).lower() for column in frame.columns()}
    known = {column.lower() for column in names}
    for key in options.keys:
        for where, those in (("target", known), ("query", given)):
            if key.lower() not in those:
                raise invalid("keys", f"the {where} has no column {key}")
    missing = [column for column in names if column.lower() not in given]
    if missing:
        raise invalid("", f"the query must give every column of the target by name; it gives no {', '.join(missing)}")


def check_expression(jvm: Jvm, classifier: Classifier, session: JvmSession, text: str, *frames: Dataset) -> None:
    """Raises StatementError unless a text is one expression, allowed by the session's class, over each Dataset's columns."""
    parser = session.sessionState().sqlParser()
    try:
        parser.parseExpression(text)
        classifier.check(parser.parsePlan(f"SELECT {text}"), text)
        for frame in frames:
            frame.selectExpr(jvm.PythonUtils.toSeq([text]))
    except Exception as exception:
        raise StatementError(operation_error(exception, Fragment(text, 0), text)) from exception


def invalid(field: str, problem: str) -> StatementError:
    """Returns the error for a field of `spec.streaming.upsert`; an empty one is the object itself."""
    path = f"spec.streaming.upsert.{field}" if field else "spec.streaming.upsert"
    return refusal(ErrorReason.INVALID_SPEC, f"{path}: {problem}")


class UpsertBatches:
    """Called by the JVM with each batch. Keeps the error itself: on its way through the JVM it becomes a text.

    `verify` raises when the query may not write any more.
    """

    def __init__(self, writer: BatchWriter, verify: Callable[[], None]) -> None:
        self._writer = writer
        self._verify = verify
        self.error: Exception | None = None
        self._counts: tuple[int, int | None] = (0, 0)  # batches, and their rows

    def of(self, _query: StreamingQuery) -> int | None:
        """Returns the rows that the batches have changed since the query was started, None if unknown, or there is none yet."""
        batches, rows = self._counts
        return rows if batches else None

    def call(self, frame: Dataset, batch_id: int) -> None:
        """Writes a batch. Raises what that raises."""
        try:
            self._verify()
            changed = self._writer.write(frame, batch_id)
        except Exception as error:
            self.error = error
            raise
        batches, rows = self._counts
        self._counts = (batches + 1, None if rows is None or changed is None else rows + changed)

    class Java:
        """The interface of the JVM, as py4j looks for it."""

        implements: ClassVar = ["org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction"]
