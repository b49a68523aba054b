"""From the text of an INSERT to the query that runs: the one path of Execute, Validate and Explain.

Nothing here writes, and nothing needs a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sparksql.api.execution import Upsert
from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.shapes import Dataset, JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming import analysis, real_time, sinks, sources, unsupported
from sparksql.gateway.streaming.async_progress import check_async_progress, with_each_batch
from sparksql.gateway.streaming.changes import taken_back
from sparksql.gateway.streaming.insert import ParsedInsert, parsed_insert, resolve_insert
from sparksql.gateway.streaming.kafka.sink import RecordStream
from sparksql.gateway.streaming.keyed import keyed_writer
from sparksql.gateway.streaming.lookups.rewrite import with_lookups
from sparksql.gateway.streaming.lookups.versions import with_versions
from sparksql.gateway.streaming.mini_batch_hint import hinted
from sparksql.gateway.streaming.row_limits import check_row_limit, with_row_limit
from sparksql.gateway.streaming.sinks import Sink
from sparksql.gateway.streaming.trigger import trigger
from sparksql.gateway.streaming.upsert.batch import BatchWriter
from sparksql.gateway.windowing.rewrite import for_stream
from sparksql.wire.control import ErrorReason, StreamOptions

_NO_LOOKUPS = (
    "spec.streaming.lookups: a query over a changelog has none, as a retraction must find the same row as the insert; "
    "leave the lookups out, or read the table with 'changelog.rows' = 'latest'"
)


@dataclass(frozen=True)
class PlannedStream:
    """The query of an INSERT that could start, as far as is known without its checkpoint.

    `analysed` is what Spark runs; `written` the same with joins where that has lookups, and so what the state means.
    """

    parsed: ParsedInsert
    options: StreamOptions
    frame: Dataset
    analysed: LogicalPlan
    written: LogicalPlan
    sink: Sink
    upsert: BatchWriter | None = None


class StreamPlanner:
    """Plans the queries of parsed INSERTs. One for the whole process."""

    def __init__(self, driver: SparkDriver) -> None:
        self._driver = driver

    def planned(self, session: JvmSession, plan: LogicalPlan, options: StreamOptions) -> PlannedStream:
        """Returns the query of a parsed INSERT, not checked for what Spark cannot run.

        `check` must follow. Raises StatementError, or what Spark throws.
        """
        parsed, options = hinted(self._driver.jvm, parsed_insert(self._driver.jvm, plan), options)
        query, versions = with_versions(self._driver.jvm, session, parsed.query)
        query = analysis.prepared(self._driver, session, sources.limited(self._driver.jvm, query, options))
        frame = self._driver.of_rows(session, query)
        exact, keyed = taken_back(self._driver, session, frame, options.output_mode, options.upsert)
        if (options.lookups or versions) and exact is not frame:
            raise refusal(ErrorReason.INVALID_SPEC, _NO_LOOKUPS)
        frame = for_stream(self._driver, session, exact, options.output_mode)
        real_time.check_real_time(self._driver, session, parsed, frame.logicalPlan(), options)
        planned = self._targeted(session, parsed, options, frame, keyed)
        if options.lookups or versions:
            read = with_lookups(self._driver, session, frame, options, versions)
            looked_up = self._targeted(session, parsed, options, read, keyed)
            planned = replace(looked_up, written=planned.written)
        sources.check_sources(parsed.query, planned.analysed)
        into_kafka = isinstance(planned.frame, RecordStream)
        given = {**planned.sink.options, **parsed.options}
        check_row_limit(self._driver.jvm, planned.analysed, options)
        check_async_progress(given, options.trigger, planned.analysed, into_kafka=into_kafka)
        return planned

    def check_supported(self, operation: Operation, session: JvmSession, planned: PlannedStream) -> None:
        """Refuses a query that Spark cannot run. Raises StatementError."""
        fragment, mode = operation.classified.statements[-1].fragment, planned.options.output_mode
        unsupported.check_supported(self._driver, session, planned.analysed, mode, fragment, operation.request.sql)

    def check_target(self, planned: PlannedStream) -> None:
        """Refuses an output mode that the target does not take. Raises StatementError."""
        sinks.check_mode(planned.sink, planned.options.output_mode)

    def writer(self, operation: Operation, planned: PlannedStream) -> Any:
        """Returns Spark's writer of a query, without the format of a table."""
        parsed, options = planned.parsed, planned.options
        rows = with_row_limit(self._driver, planned.frame, options)
        writer = rows.writeStream().outputMode(options.output_mode.lower())
        # First: what the text gives must not move the checkpoint.
        for key, value in [*planned.sink.options.items(), *with_each_batch(parsed.options).items()]:
            writer = writer.option(key, value)
        writer = writer.option("checkpointLocation", options.checkpoint)
        writer = writer.queryName(f"{operation.request.namespace}/{operation.request.name}")
        return writer.trigger(trigger(self._driver.jvm, options, parsed.query, planned.analysed))

    def formatted(self, operation: Operation, planned: PlannedStream) -> Any:
        """Returns the writer of a query whose rows go straight into a table."""
        writer, sink = self.writer(operation, planned), planned.sink
        if sink.provider:
            writer = writer.format(sink.provider)
        if sink.partitions:
            writer = writer.partitionBy(self._driver.jvm.PythonUtils.toSeq(list(sink.partitions)))
        return writer

    def _targeted(
        self, session: JvmSession, parsed: ParsedInsert, options: StreamOptions, frame: Dataset, keyed: Upsert | None
    ) -> PlannedStream:
        """The query as the target wants it."""
        if keyed is not None:
            upsert = keyed_writer(self._driver, session, parsed, frame, keyed)
            analysed = frame.queryExecution().analyzed()
            return PlannedStream(parsed, options, frame, analysed, analysed, Sink(), upsert)
        insert = resolve_insert(self._driver, session, parsed, frame)
        analysed = insert.frame.queryExecution().analyzed()
        return PlannedStream(parsed, options, insert.frame, analysed, analysed, insert.sink)
