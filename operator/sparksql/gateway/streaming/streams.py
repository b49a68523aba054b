"""Runs a streaming query in its attempt's thread, from the start to the end, and stops it between two batches.

Invariants: nothing is written before every check has passed; the thread does not return while its query is active, so that
an attempt that has ended leaves nothing that writes.
"""

from __future__ import annotations

import time
from typing import Any

from sparksql.gateway.attempt import Attempt
from sparksql.gateway.errors import refusal
from sparksql.gateway.files import HadoopFiles
from sparksql.gateway.spark import SparkDriver
from sparksql.gateway.streaming import sinks, sources
from sparksql.gateway.streaming.insert import StreamInsert, parsed_insert, resolve
from sparksql.gateway.streaming.progress import read_stream
from sparksql.gateway.streaming.trigger import trigger
from sparksql.wire.control import ErrorReason, StreamOptions

POLL_MILLIS = 500
# How long a stop waits for the batch that runs; after that the batch is cut off, and runs again when the query goes on.
BATCH_END_SECONDS = 8.0
_BATCH_END_POLL_SECONDS = 0.02
# What the status of a query says until its sources are there and it looks for data.
_INITIALISING = frozenset({"Initializing StreamExecution", "Initializing sources"})


class Streams:
    """See the module. One for the whole process."""

    def __init__(self, driver: SparkDriver, files: HadoopFiles) -> None:
        self._driver = driver
        self._files = files
        self._active: set[str] = set()

    def runs(self, group: str) -> bool:
        """Whether a query of this attempt's group is active: it is stopped by its own thread, without interrupts."""
        return group in self._active

    def run(self, attempt: Attempt, session: Any, plan: Any, options: StreamOptions) -> None:
        """Runs the query of a parsed INSERT to its end. Raises StatementError, Cancelled, or what Spark throws."""
        query = self._start(attempt, session, plan, options)
        self._active.add(attempt.group)
        try:
            while not query.awaitTermination(POLL_MILLIS):
                _report(attempt, query)
                attempt.check()
            _report(attempt, query)
        finally:
            _stop(query)
            if attempt.stream is not None:
                attempt.stream = read_stream(query)
            self._active.discard(attempt.group)

    def _start(self, attempt: Attempt, session: Any, plan: Any, options: StreamOptions) -> Any:
        jvm = self._driver.jvm
        if options.upsert is not None:
            raise refusal(ErrorReason.NOT_IMPLEMENTED, "spec.streaming.upsert is not implemented yet")
        parsed = parsed_insert(jvm, plan)
        limits = read_limits(options)
        if limits and not sources.declared(parsed.query):
            message = (
                "spec.streaming.trigger: the query reads its STREAM through a view, where a limit of a batch cannot be "
                "added; give it in the view: FROM STREAM t WITH ('maxFilesPerTrigger' = '1')"
            )
            raise refusal(ErrorReason.INVALID_SPEC, message)
        query = sources.with_options(jvm, parsed.query, limits) if limits else parsed.query
        frame = self._driver.of_rows(session, query)
        sources.check(parsed.query, frame.logicalPlan())
        insert = resolve(self._driver, session, parsed, frame)
        sinks.check(insert.sink, options.checkpoint, self._files)
        attempt.check()
        return self._writer(attempt, insert, parsed.query, options).toTable(insert.target)

    def _writer(self, attempt: Attempt, insert: StreamInsert, query: Any, options: StreamOptions) -> Any:
        writer = insert.frame.writeStream().outputMode(options.output_mode.lower())
        for key, value in insert.options.items():
            writer = writer.option(key, value)
        if insert.sink.partitions:
            writer = writer.partitionBy(self._driver.jvm.PythonUtils.toSeq(list(insert.sink.partitions)))
        writer = writer.option("checkpointLocation", options.checkpoint)
        writer = writer.queryName(f"{attempt.request.namespace}/{attempt.request.name}")
        return writer.trigger(trigger(self._driver.jvm, options, query))


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
