"""Runs a query over a STREAM for a client that takes its rows as they come, until it is stopped.

A query whose rows stay as they are gives those of each batch. One whose result changes, an aggregation without a watermark, gives
its whole result after each batch (Spark's complete mode), and the client is told the difference: so a HAVING that holds no more,
or a LIMIT behind an ORDER BY, takes rows away again, which Spark's update mode would not tell.

Its checkpoint is thrown away at the end. It is for looking; what must not be lost belongs into a table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pyspark.java_gateway import ensure_callback_server_started

from sparksql.gateway.execution.result_keeper import ResultKeeper
from sparksql.gateway.execution.scope import Scope
from sparksql.gateway.results.changes import ChangingRows
from sparksql.gateway.results.collector import Collector, ResultShape
from sparksql.gateway.results.store import EMPTY, ResultStore, StoredResult
from sparksql.gateway.results.unbounded import Piece, RowsClosedError, UnboundedResult
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.shapes import Dataset, Jvm
from sparksql.gateway.sql.classifier import Statement
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming import unsupported
from sparksql.gateway.streaming.result_keys import result_keys
from sparksql.gateway.streaming.stopping import bound_rounds, stop
from sparksql.gateway.streaming.without_sink import shown
from sparksql.wire.control import ErrorReason

# Append first: a window that is over is told once. Complete mode keeps all windows for ever.
_MODES = ("Append", "Complete")
_INTERVAL_MILLIS = 500  # between two batches
_POLL_MILLIS = 100
# A result that changes is compared row by row in the driver's memory.
MOST_CHANGING_ROWS = 10_000
_MOST_CHANGING_BYTES = 16 << 20


class UnboundedQueries:
    """Runs such queries, each in its operation's thread. One for the whole process."""

    def __init__(
        self, driver: SparkDriver, files: HadoopFiles, keeper: ResultKeeper, store: ResultStore, root: str
    ) -> None:
        self._driver = driver
        self._files = files
        self._keeper = keeper
        self._store = store
        self._root = root.rstrip("/")

    def run(self, scope: Scope, statement: Statement, frame: Dataset) -> StoredResult:
        """Runs a streaming Dataset until the operation is stopped.

        Raises OperationCancelledError, StatementError, or what Spark throws.
        """
        operation, session = scope.operation, frame.sparkSession()
        bound_rounds(session)
        place = (statement.fragment, operation.request.sql)
        mode, ready = shown(self._driver, session, frame, _MODES, place)
        shape = scope.collector.shape(ready)
        columns = self._keeper.masked_columns(scope, shape)
        changing = None if mode == "Append" else ChangingRows(result_keys(ready.queryExecution().analyzed()))
        rows = UnboundedResult(columns, operation.loop, self._store.discard, is_changelog=changing is not None)
        batches = _Batches(self._driver.jvm, self._keeper, scope, shape, rows, changing)
        folder = f"{self._root}/{operation.operation_id}-checkpoint"
        with unsupported.start_allowed(session, ready.queryExecution().analyzed()):
            query = self._start(ready, mode, folder, batches)
        try:
            operation.follow(rows)
            while not query.awaitTermination(_POLL_MILLIS):
                operation.check()
        except Exception as failed:
            raise batches.error or failed from None
        finally:
            rows.close()
            stop(query, at_once=True)
            self._files.delete(folder)
        return replace(EMPTY, columns=columns)

    def _start(self, frame: Dataset, mode: str, folder: str, batches: _Batches) -> Any:
        streaming = self._driver.jvm.org.apache.spark.sql.streaming
        helper = self._driver.jvm.org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper
        ensure_callback_server_started(self._driver.context._gateway)
        writer = frame.writeStream().outputMode(mode.lower()).option("checkpointLocation", folder)
        writer = writer.trigger(streaming.Trigger.ProcessingTime(_INTERVAL_MILLIS))
        helper.callForeachBatch(writer, batches)
        return writer.start()


@dataclass
class _Batches:
    """Called by the JVM with each batch. Keeps the error itself: on its way through the JVM it becomes a text."""

    jvm: Jvm
    keeper: ResultKeeper
    scope: Scope
    shape: ResultShape
    rows: UnboundedResult
    changing: ChangingRows | None
    error: Exception | None = None

    def call(self, frame: Dataset, batch_id: int) -> None:
        """Hands on the rows of a batch. Raises RowsClosedError once nobody takes them."""
        batch = frame.persist()
        try:
            # All of it, whatever is shown: Spark ends a query some of whose state was not computed.
            count = int(batch.count())
            if self.changing is not None:
                self._changed(batch, count, self.changing)
            elif count:
                session = batch.sparkSession()
                scope = replace(self.scope, session=session, collector=Collector(self.jvm, session))
                self.rows.put(Piece(self.keeper.keep(scope, batch, part=f"-{batch_id}")))
        except RowsClosedError:
            raise
        except Exception as error:
            self.error = error
            raise
        finally:
            batch.unpersist()

    def _changed(self, batch: Dataset, count: int, changing: ChangingRows) -> None:
        collector = Collector(self.jvm, batch.sparkSession())
        frame = collector.presentable(batch, self.shape) if self.shape.as_text else batch
        collected = collector.collect(frame, MOST_CHANGING_ROWS, _MOST_CHANGING_BYTES)
        if count > MOST_CHANGING_ROWS or collected.table is None:
            message = (
                f"the result changes with each batch, and has {count} rows: at most {MOST_CHANGING_ROWS} rows of "
                f"{_MOST_CHANGING_BYTES >> 20} MiB together are followed. Select fewer rows, or write them into a table with INSERT"
            )
            raise refusal(ErrorReason.RESULT_TOO_LARGE, message)
        changes = changing.next(collected.table)
        if changes.kinds:
            table = changes.table
            size = len(changes.kinds)
            stored = StoredResult(
                self.rows.columns,
                size,
                truncated=False,
                bytes=table.nbytes,
                time_zone=self.shape.time_zone,
                table=table,
            )
            self.rows.put(Piece(stored, changes.kinds))

    class Java:
        """The interface of the JVM, as py4j looks for it."""

        implements: ClassVar = ["org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction"]
