"""What a streaming query would give now: the rows of its batches are collected, with a checkpoint that is thrown away.

Of tables of files, Iceberg and Delta it reads what is there, and ends. Kafka and `rate` have no end, so it shows what they give
as it comes, until there are rows enough or its time is over.

It may go on from a savepoint, which is copied into that checkpoint: then it shows what the next batches of the query give.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.java_gateway import ensure_callback_server_started

from sparksql.gateway.operations.manager import PREVIEW_SECONDS
from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import Dataset, Jvm, StreamingQuery
from sparksql.gateway.spark.table_formats import is_iceberg
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.streaming import unsupported
from sparksql.gateway.streaming.stopping import bound_rounds, stop
from sparksql.gateway.streaming.without_sink import shown
from sparksql.wire.control import StreamOptions

_POLL_MILLIS = 200
_INTERVAL_MILLIS = 500  # between two batches of a source without end
# How much longer than its limit of time a preview with rows may take: to stop its query, in a few rounds, and to read them. Less
# than the 30 s after which the operator has it cancelled.
_ENDING_SECONDS = 20.0
# An aggregation shows its state so far in complete mode; Spark refuses that mode for a query without one.
_MODES = ("Complete", "Append")


@dataclass(frozen=True)
class Previewed:
    """A Dataset of the rows that were seen, and whether more could have come."""

    frame: Dataset
    is_cut: bool


@dataclass(frozen=True)
class Start:
    """The state that a query goes on from: `options.restore`, of which `make` makes the checkpoint of an analysed query."""

    options: StreamOptions
    make: Callable[[Any, StreamOptions], None]


@contextmanager
def previewed(
    driver: SparkDriver,
    files: HadoopFiles,
    operation: Operation,
    fragment: Fragment,
    frame: Dataset,
    rows: int,
    folder: str,
    show: Callable[[Any, int], None],
    start: Start | None = None,
) -> Iterator[Previewed]:
    """Yields the first `rows` rows of a streaming Dataset, while the context lasts; without a `start` it begins with nothing.

    `folder` is made and removed. `show` is called with a Dataset of the rows so far and their number, whenever that has
    changed. Raises OperationCancelledError, StatementError, or what Spark throws.
    """
    session = frame.sparkSession()
    bound_rounds(session)
    place = (fragment, operation.request.sql)
    try:
        if start is None:
            mode, ready = shown(driver, session, frame, _MODES, place, lambda ready: ready.limit(rows))
            checkpoint = f"{folder}/{mode.lower()}"
        else:  # a LIMIT would be one more operator with a state, and in another mode there may be other ones
            mode, ready = shown(driver, session, frame, (start.options.output_mode.value,), place)
            checkpoint = f"{folder}/{mode.lower()}"
            of = start.options.model_copy(update={"checkpoint": checkpoint, "rewrites": False, "rebuilds": False})
            start.make(ready.queryExecution().analyzed(), of)
            operation.check()
        seen = _Batches(driver, ready, rows, is_whole=mode == "Complete")
        with unsupported.start_allowed(session, ready.queryExecution().analyzed()):
            query = _start(driver.jvm, ready, mode, _is_endless(frame), seen, checkpoint)
        try:
            is_cut = _watch(operation, query, seen, rows, show)
            stop(query, at_once=True)
            yield Previewed(seen.frame(), is_cut)
        finally:
            stop(query, at_once=True)
            seen.close()
    finally:
        files.delete(folder)


class _Batches:
    """The first rows of the batches, in complete mode of the last one. Called by the JVM with each batch."""

    def __init__(self, driver: SparkDriver, frame: Dataset, most: int, *, is_whole: bool) -> None:
        self.error: Exception | None = None
        self._driver = driver
        self._session = frame.sparkSession()
        self._schema = frame.schema()
        self._most = most
        self._is_whole = is_whole
        self._internal_rows = driver.jvm.dev.sparksql.results.InternalRows
        self._found = self._none()

    def written(self, writer: Any) -> Any:
        ensure_callback_server_started(self._driver.context._gateway)
        helper = self._driver.jvm.org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper
        helper.callForeachBatch(writer, self)
        return writer

    def frame(self) -> Any:
        return self._internal_rows.frame(self._session, self._schema, self._found)

    def count(self) -> int:
        return int(self._found.size())

    def close(self) -> None:
        self._found = self._none()

    def call(self, frame: Dataset, batch_id: int) -> None:
        batch = self._with_nulls(frame).persist()
        try:
            batch.count()  # all of it: Spark ends a query some of whose state was not computed
            found = self._none() if self._is_whole else self._found
            if int(found.size()) < self._most:
                found = found.appendedAll(self._internal_rows.collect(batch.limit(self._most - int(found.size()))))
            self._found = found
        except Exception as error:
            self.error = error
            raise
        finally:
            batch.unpersist()

    def _with_nulls(self, frame: Dataset) -> Any:
        """The rows of a batch under columns that may be NULL: code for columns declared as never NULL makes 0 of NULL."""
        plan = frame.queryExecution().analyzed()
        rows = plan.rdd() if simple_name(plan) == "LogicalRDD" else frame.queryExecution().toRdd()
        return frame.sparkSession().internalCreateDataFrame(rows, self._schema.asNullable(), False)

    def _none(self) -> Any:
        return self._driver.jvm.PythonUtils.toSeq([])

    class Java:
        """The interface of the JVM, as py4j looks for it."""

        implements: ClassVar = ["org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction"]


def _watch(
    operation: Operation, query: StreamingQuery, seen: _Batches, rows: int, show: Callable[[Any, int], None]
) -> bool:
    """Until the query has ended, or has rows enough, or some rows and no time left; whether it is over before its end."""
    until = time.monotonic() + (operation.request.execution_seconds or PREVIEW_SECONDS)
    known = 0
    while not _has_ended(query, seen):
        operation.check()
        count = seen.count()
        if count >= rows:
            return True
        if count != known:
            known = count
            operation.grace_seconds = (
                _ENDING_SECONDS  # from here on its time ends it, not the limit of time for all statements
            )
            show(seen.frame(), count)
        if known and time.monotonic() >= until:
            return True
    return False


def _has_ended(query: StreamingQuery, seen: _Batches) -> bool:
    try:
        return bool(query.awaitTermination(_POLL_MILLIS))
    except Exception as failed:
        raise seen.error or failed from None


def _is_endless(frame: Dataset) -> bool:
    """Whether one of the sources is neither a table of files nor one of Iceberg or Delta."""
    leaves = (node for node in nodes(frame.queryExecution().analyzed()) if simple_name(node) == "StreamingRelationV2")
    return any(not is_iceberg(leaf.table()) for leaf in leaves)


def _start(jvm: Jvm, frame: Dataset, mode: str, endless: bool, rows: _Batches, checkpoint: str) -> Any:
    triggers = jvm.org.apache.spark.sql.streaming.Trigger
    writer = rows.written(frame.writeStream().outputMode(mode.lower()).option("checkpointLocation", checkpoint))
    return writer.trigger(triggers.ProcessingTime(_INTERVAL_MILLIS) if endless else triggers.AvailableNow()).start()
