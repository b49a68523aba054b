"""Runs a streaming query in its attempt's thread, from the start to the end, and stops it between two batches.

Invariants: nothing is written before every check has passed; the thread does not return while its query is active, so that
an attempt that has ended leaves nothing that writes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.java_gateway import ensure_callback_server_started

from sparksql.gateway.attempt import Attempt, Cancelled
from sparksql.gateway.classify import Classifier
from sparksql.gateway.errors import StatementError, refusal
from sparksql.gateway.files import HadoopFiles
from sparksql.gateway.spark import SparkDriver
from sparksql.gateway.streaming import sinks, sources, tables
from sparksql.gateway.streaming.insert import ParsedInsert, parsed_insert, resolve
from sparksql.gateway.streaming.progress import read_stream
from sparksql.gateway.streaming.trigger import trigger
from sparksql.gateway.streaming.upsert import Upsert, upsert_target
from sparksql.gateway.streaming.upsert import check as check_upsert
from sparksql.wire.control import ErrorReason, StreamOptions, UpsertOptions
from sparksql.wire.driver import SqlPolicy

POLL_MILLIS = 500
# How long a stop waits for the batch that runs; after that the batch is cut off, and runs again when the query goes on.
BATCH_END_SECONDS = 8.0
_BATCH_END_POLL_SECONDS = 0.02
# What the status of a query says until its sources are there and it looks for data.
_INITIALISING = frozenset({"Initializing StreamExecution", "Initializing sources"})
# What the message of Spark's StreamingQueryException says of a query whose first batch was not begun.
_INITIALISING_STATE = "Current State: INITIALIZING"


class Streams:
    """See the module. One for the whole process. `policy` is the class's."""

    def __init__(self, driver: SparkDriver, files: HadoopFiles, policy: SqlPolicy) -> None:
        self._driver = driver
        self._files = files
        self._policy = policy
        self._active: set[str] = set()

    def runs(self, group: str) -> bool:
        """Whether a query of this attempt's group is active: it is stopped by its own thread, without interrupts."""
        return group in self._active

    def run(self, attempt: Attempt, session: Any, plan: Any, options: StreamOptions) -> None:
        """Runs the query of a parsed INSERT to its end. Raises StatementError, Cancelled, or what Spark throws."""
        started = self._start(attempt, session, plan, options)
        query = started.query
        self._active.add(attempt.group)
        try:
            while not query.awaitTermination(POLL_MILLIS):
                _report(attempt, query)
                attempt.check()
            _report(attempt, query)
        except (Cancelled, StatementError):
            raise
        except Exception as failed:
            if _INITIALISING_STATE not in str(failed):  # it may have failed before it was looked at
                attempt.stream = read_stream(query)
                attempt.started()
            own = started.batches.error if started.batches is not None else None
            raise own or failed from None
        finally:
            _stop(query)
            if attempt.stream is not None:
                attempt.stream = read_stream(query)
            self._active.discard(attempt.group)

    def prepared(self, session: Any, plan: Any) -> Any:
        """A parsed statement that Spark can analyse, see `tables`."""
        return tables.prepared(self._driver.jvm, session, plan)

    def _start(self, attempt: Attempt, session: Any, plan: Any, options: StreamOptions) -> _Started:
        parsed = parsed_insert(self._driver.jvm, plan)
        query = self.prepared(session, self._limited(parsed.query, options))
        frame = self._driver.of_rows(session, query)
        sources.check(parsed.query, frame.logicalPlan())
        if options.upsert is not None:
            upsert = self._upsert(session, parsed, frame, options.upsert)
            attempt.check()
            return self._start_upsert(self._writer(attempt, frame, parsed, options), upsert)
        insert = resolve(self._driver, session, parsed, frame)
        sinks.check(insert.sink, options.checkpoint, self._files)
        writer = self._writer(attempt, insert.frame, parsed, options)
        if insert.sink.partitions:
            writer = writer.partitionBy(self._driver.jvm.PythonUtils.toSeq(list(insert.sink.partitions)))
        attempt.check()
        return _Started(writer.toTable(parsed.name))

    def _limited(self, query: Any, options: StreamOptions) -> Any:
        """The parsed query with the bounds of a batch among the options of its STREAMs."""
        limits = read_limits(options)
        if not limits:
            return query
        if not sources.declared(query):
            message = (
                "spec.streaming.trigger: the query reads its STREAM through a view, where a limit of a batch cannot be "
                "added; give it in the view: FROM STREAM t WITH ('maxFilesPerTrigger' = '1')"
            )
            raise refusal(ErrorReason.INVALID_SPEC, message)
        return sources.with_options(self._driver.jvm, query, limits)

    def _writer(self, attempt: Attempt, frame: Any, parsed: ParsedInsert, options: StreamOptions) -> Any:
        writer = frame.writeStream().outputMode(options.output_mode.lower())
        for key, value in parsed.options.items():  # first: what the text gives must not move the checkpoint
            writer = writer.option(key, value)
        writer = writer.option("checkpointLocation", options.checkpoint)
        writer = writer.queryName(f"{attempt.request.namespace}/{attempt.request.name}")
        return writer.trigger(trigger(self._driver.jvm, options, parsed.query))

    def _upsert(self, session: Any, parsed: ParsedInsert, frame: Any, options: UpsertOptions) -> Upsert:
        if not parsed.is_plain:
            message = "with spec.streaming.upsert columns are matched by name: leave the column list and PARTITION out"
            raise refusal(ErrorReason.INVALID_SPEC, message)
        target = upsert_target(parsed.name, session.table(parsed.name).logicalPlan())
        classifier = Classifier(self._driver.jvm, session, self._policy)
        check_upsert(self._driver.jvm, classifier, session, options, target, frame)
        return Upsert(self._driver, options, target)

    def _start_upsert(self, writer: Any, upsert: Upsert) -> _Started:
        batches = _Batches(upsert)
        sources_package = self._driver.jvm.org.apache.spark.sql.execution.streaming.sources
        ensure_callback_server_started(self._driver.context._gateway)
        sources_package.PythonForeachBatchHelper.callForeachBatch(writer, batches)
        return _Started(writer.start(), batches)


class _Batches:
    """Called by the JVM with each batch. Keeps the error itself: on its way through the JVM it becomes a text."""

    def __init__(self, upsert: Upsert) -> None:
        self._upsert = upsert
        self.error: Exception | None = None

    def call(self, frame: Any, batch_id: int) -> None:
        try:
            self._upsert.merge(frame, batch_id)
        except Exception as error:
            self.error = error
            raise

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction"]


@dataclass(frozen=True)
class _Started:
    """A query that has been started, and what its batches go through if not straight into the table."""

    query: Any
    batches: _Batches | None = None


def read_limits(options: StreamOptions) -> dict[str, str]:
    """Options of a source that bound a batch, under the names that file tables, Kafka and Iceberg know."""
    limits: dict[str, str] = {}
    if options.max_files_per_trigger:
        limits["maxFilesPerTrigger"] = str(options.max_files_per_trigger)
        limits["streaming-max-files-per-micro-batch"] = str(options.max_files_per_trigger)
    if options.max_rows_per_trigger:
        limits["maxOffsetsPerTrigger"] = str(options.max_rows_per_trigger)
        limits["streaming-max-rows-per-micro-batch"] = str(options.max_rows_per_trigger)
    return limits


def _report(attempt: Attempt, query: Any) -> None:
    if attempt.stream is None and str(query.status().message()) in _INITIALISING:
        return
    attempt.stream = read_stream(query)
    attempt.started()


def _stop(query: Any) -> None:
    """Stops a query, between two batches if one ends soon."""
    deadline = time.monotonic() + BATCH_END_SECONDS
    while query.isActive() and query.status().isTriggerActive() and time.monotonic() < deadline:
        time.sleep(_BATCH_END_POLL_SECONDS)
    query.stop()
