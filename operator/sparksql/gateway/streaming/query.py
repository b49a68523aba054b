"""Runs a streaming query in its operation's thread, from the start to the end, and stops it between two batches.

Invariants: nothing is written into a table before every check has passed; the thread does not return while its query is active,
so that an operation that has ended leaves nothing that writes; a checkpoint is written only while the `fence` holds it, and no
two statements go on from one state (`claims`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started

from sparksql.api.execution import Upsert
from sparksql.gateway.operations.operation import Operation, OperationCancelledError
from sparksql.gateway.results.store import StoredResult
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.shapes import Dataset, JvmSession, LogicalPlan, StreamingQuery
from sparksql.gateway.sql.classifier import Classifier
from sparksql.gateway.sql.errors import StatementError, operation_error, refusal
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.streaming import analysis, history, real_time, sinks, sources, unsupported
from sparksql.gateway.streaming.async_progress import check_async_progress, with_each_batch
from sparksql.gateway.streaming.checkpoints import first_batch
from sparksql.gateway.streaming.checkpoints.claims import Claim, Claims, query_id_in
from sparksql.gateway.streaming.checkpoints.conditional import create_conditionally
from sparksql.gateway.streaming.checkpoints.fence import CheckpointLease, Fence
from sparksql.gateway.streaming.checkpoints.savepoint import SavepointError, Savepoints
from sparksql.gateway.streaming.commit_once import start_into
from sparksql.gateway.streaming.insert import ParsedInsert, parsed_insert, resolve_insert
from sparksql.gateway.streaming.kafka.sink import RecordStream
from sparksql.gateway.streaming.mini_batch_hint import hinted
from sparksql.gateway.streaming.progress import read_stream, watch
from sparksql.gateway.streaming.sinks import Sink
from sparksql.gateway.streaming.state import description_file
from sparksql.gateway.streaming.state.comparison import FITS
from sparksql.gateway.streaming.state.describe import describe
from sparksql.gateway.streaming.state.description import Description
from sparksql.gateway.streaming.state.description_file import StateFile
from sparksql.gateway.streaming.state.outline import outline
from sparksql.gateway.streaming.stopping import bound_rounds, stop
from sparksql.gateway.streaming.trigger import trigger
from sparksql.gateway.streaming.upsert import UpsertBatches, UpsertWriter, check_upsert, upsert_target
from sparksql.gateway.windowing.rewrite import for_stream
from sparksql.wire.control import ErrorReason, RestoreOptions, StreamOptions
from sparksql.wire.driver import SqlPolicy

_LOOKS = 3  # at the logs of a query that may be running
# What the message of Spark's StreamingQueryException says of a query whose first batch was not begun.
_INITIALISING_STATE = "Current State: INITIALIZING"

log = logging.getLogger(__name__)


class Streams:
    """Runs streaming queries, each in its operation's thread. One for the whole process. `policy` is the class's."""

    def __init__(self, driver: SparkDriver, files: HadoopFiles, policy: SqlPolicy) -> None:
        self._driver = driver
        self._files = files
        self._policy = policy
        context = driver.context
        self._savepoints = Savepoints(driver.jvm, context._jsc.hadoopConfiguration(), str(context.version))
        self._fence = Fence(files)
        self._claims = Claims()
        self._active: set[str] = set()
        self._written: dict[str, str] = {}  # folders of files that active queries write, by their checkpoint

    def runs(self, group: str) -> bool:
        """Returns whether a query of this operation's group is active: it is stopped by its own thread, without interrupts."""
        return group in self._active

    @contextmanager
    def running(self, group: str) -> Iterator[None]:
        """Marks a query of this operation's group as active: an interrupt in the middle of its stop would leave it behind."""
        self._active.add(group)
        try:
            yield
        finally:
            self._active.discard(group)

    def run(self, operation: Operation, session: JvmSession, plan: LogicalPlan, options: StreamOptions) -> None:
        """Runs the query of a parsed INSERT to its end. Raises StatementError, OperationCancelledError, or what Spark throws."""
        self._claim(operation, options)
        try:
            lease = self._fence.lease(options.checkpoint, operation.request.boot_id, operation.operation_id)
            try:
                self._run_leased(operation, session, plan, options, lease)
            finally:
                lease.release()
        finally:
            self._claims.release(operation.operation_id)

    def _run_leased(
        self,
        operation: Operation,
        session: JvmSession,
        plan: LogicalPlan,
        options: StreamOptions,
        lease: CheckpointLease,
    ) -> None:
        bound_rounds(session)
        create_conditionally(session, options.checkpoint, self._files)
        started = self._start(operation, session, plan, options, lease)
        if started.sink.path is not None:
            self._written[options.checkpoint] = started.sink.path
        try:
            self._claims.identify(operation.operation_id, str(started.query.id()))
            with self.running(operation.group):
                self._run_to_completion(operation, started, lease)
        finally:
            self._clear(started.sink, options, lease)
            self._written.pop(options.checkpoint, None)

    def _claim(self, operation: Operation, options: StreamOptions) -> None:
        """Takes what the run goes on from. Raises StatementError when another statement does."""
        query_id = query_id_in(self._files.read_text(f"{options.checkpoint}/metadata"))
        if query_id is None and options.restore is not None:
            query_id = options.restore.query_id
        statement = f"{operation.request.namespace}/{operation.request.name}"
        self._claims.take(Claim(operation.operation_id, statement, options.checkpoint, query_id))

    def prepared(self, session: JvmSession, plan: LogicalPlan) -> Any:
        """Returns a parsed statement that Spark can analyse, see `analysis`."""
        return analysis.prepared(self._driver, session, plan)

    def _run_to_completion(self, operation: Operation, started: _Started, lease: CheckpointLease) -> None:
        query = started.query
        try:
            if started.state.is_new:
                started.state.write(started.described())
            watch(operation, query, lease.check)
        except (OperationCancelledError, StatementError):
            raise
        except Exception as failed:
            if _INITIALISING_STATE not in str(failed):  # it may have failed before it was looked at
                operation.stream = read_stream(query)
                operation.started()
            lease.verify()  # what a driver runs into whose checkpoint is another's is not for the user to mend
            own = started.batches.error if started.batches is not None else None
            raise own or _of_state(started, failed, operation.request.sql) or failed from None
        finally:
            stop(query, at_once=lease.is_lost)
            if operation.stream is not None:
                operation.stream = read_stream(query)

    def compare(
        self, operation: Operation, session: JvmSession, plan: LogicalPlan, options: StreamOptions
    ) -> StoredResult:
        """Sees whether the query of a parsed INSERT could go on from a checkpoint, or from a savepoint to begin with.

        Both may be in use; nothing is written. Raises StatementError for what would be refused at the start,
        IncompatibleStateError if that is because of the state.
        """
        planned = self._planned(operation, session, plan, options)
        options, state = planned.options, self._state_of(planned.options)
        self._check_sink(planned.sink, options.checkpoint)
        self._writer(operation, planned)
        StateFile(self._files, state).check(self._described(operation, session, planned, describe))
        history.check_history(self._driver.jvm, planned.analysed, state, self._files)
        return FITS

    def _state_of(self, options: StreamOptions) -> str:
        """Where the state is that the query would go on from."""
        restore = options.restore
        if restore is None or self._files.exists(f"{options.checkpoint}/metadata"):
            return options.checkpoint
        try:
            return self._savepoints.checkpoint_in(restore.location)
        except SavepointError as failed:
            raise _not_restored(failed) from failed

    def _check_sink(self, sink: Sink, checkpoint: str) -> None:
        """Looks several times: a query that runs moves on between two looks at its logs."""
        if sink.path is not None and self._written.get(checkpoint) == sink.path:
            return
        for left in reversed(range(_LOOKS)):
            try:
                sinks.check_sink(sink, checkpoint, self._files)
                return
            except StatementError:
                if not left:
                    raise

    def _start(
        self,
        operation: Operation,
        session: JvmSession,
        plan: LogicalPlan,
        options: StreamOptions,
        lease: CheckpointLease,
    ) -> _Started:
        planned = self._planned(operation, session, plan, options)
        options, sink = planned.options, planned.sink
        self._begin(operation, options, lease)
        described = partial(self._described, operation, session, planned, describe)
        if planned.upsert is not None:
            state = self._match_state(operation, session, planned)
            batches = UpsertBatches(planned.upsert, lease.verify)
            with unsupported.start_allowed(session, planned.analysed):
                query = self._start_upsert(self._writer(operation, planned), batches)
            return _Started(query, state, described, batches=batches)
        sinks.check_sink(sink, options.checkpoint, self._files)
        writer = self._writer(operation, planned)
        if sink.provider:
            writer = writer.format(sink.provider)
        if sink.partitions:
            writer = writer.partitionBy(self._driver.jvm.PythonUtils.toSeq(list(sink.partitions)))
        state = self._match_state(operation, session, planned)
        sinks.mark(sink, options.checkpoint, self._files)
        try:
            with unsupported.start_allowed(session, planned.analysed):
                query = self._start_into(session, planned, writer)
            return _Started(query, state, described, sink)
        except Exception:
            self._clear(sink, options, lease)
            raise

    def _planned(
        self, operation: Operation, session: JvmSession, plan: LogicalPlan, options: StreamOptions
    ) -> _Planned:
        """The query of a parsed INSERT after every check that needs no checkpoint."""
        parsed, options = hinted(self._driver.jvm, parsed_insert(self._driver.jvm, plan), options)
        query = self.prepared(session, self._limited(parsed.query, options))
        frame = for_stream(self._driver, session, self._driver.of_rows(session, query), options.output_mode)
        real_time.check_real_time(self._driver, session, parsed, frame.logicalPlan(), options)
        if options.upsert is not None:
            upsert = self._upsert(session, parsed, frame, options.upsert)
            planned = _Planned(parsed, options, frame, frame.queryExecution().analyzed(), Sink(), upsert)
        else:
            insert = resolve_insert(self._driver, session, parsed, frame)
            planned = _Planned(parsed, options, insert.frame, insert.frame.queryExecution().analyzed(), insert.sink)
        sources.check_sources(parsed.query, planned.analysed)
        into_kafka = isinstance(planned.frame, RecordStream)
        given = {**planned.sink.options, **parsed.options}
        check_async_progress(given, options.trigger, planned.analysed, into_kafka=into_kafka)
        self._check_supported(operation, session, planned)
        sinks.check_mode(planned.sink, options.output_mode)
        return planned

    def _check_supported(self, operation: Operation, session: JvmSession, planned: _Planned) -> None:
        """Refuses a query that Spark cannot run. Raises StatementError.

        If the query's state is another one as well, that is what is told: it names what has changed.
        """
        fragment, sql = operation.classified.statements[-1].fragment, operation.request.sql
        try:
            unsupported.check_supported(
                self._driver, session, planned.analysed, planned.options.output_mode, fragment, sql
            )
        except StatementError:
            description = self._described(operation, session, planned, describe)
            StateFile(self._files, self._state_of(planned.options)).check(description)
            raise

    def _begin(self, operation: Operation, options: StreamOptions, lease: CheckpointLease) -> None:
        """Takes the checkpoint, and makes the one that begins with a savepoint, once the text is known to be right."""
        lease.take(options.unconfirmed, operation.check)
        first_batch.remove_unfinished(self._files, options.checkpoint)
        if options.restore is not None:
            self._restore(options.restore, options.checkpoint)

    def _restore(self, restore: RestoreOptions, checkpoint: str) -> None:
        try:
            self._savepoints.restore(restore.location, checkpoint, restore.query_id)
        except SavepointError as failed:
            raise _not_restored(failed) from failed

    def _match_state(self, operation: Operation, session: JvmSession, planned: _Planned) -> StateFile:
        """Sees that the query goes on from what the checkpoint has, and notes there what it keeps in its state.

        The last step before the start; of a new checkpoint it notes an outline, see `description_file`. Raises StatementError
        when the state is another one or rows would be left out, or OperationCancelledError.
        """
        checkpoint = planned.options.checkpoint
        file = StateFile(self._files, checkpoint)
        description = self._described(operation, session, planned, outline if file.is_new else describe)
        file.check(description)
        history.check_history(self._driver.jvm, planned.analysed, checkpoint, self._files)
        operation.check()
        file.write(description)
        return file

    def _described(
        self, operation: Operation, session: JvmSession, planned: _Planned, read: Callable[..., Description]
    ) -> Description:
        return read(
            self._driver,
            session,
            planned.analysed,
            text=operation.request.sql,
            output_mode=planned.options.output_mode,
            mask=operation.classified.masker.mask,
            qualified=self._files.qualified,
        )

    def _limited(self, query: LogicalPlan, options: StreamOptions) -> LogicalPlan:
        """The parsed query with the bounds of a batch among the options of its STREAMs."""
        limits = sources.read_limits(options)
        if not limits:
            return query
        if not sources.declared(query):
            message = (
                "spec.streaming.trigger: the query reads its STREAM through a view, where a limit of a batch cannot be "
                "added; give it in the view: FROM STREAM t WITH ('maxFilesPerTrigger' = '1')"
            )
            raise refusal(ErrorReason.INVALID_SPEC, message)
        return sources.with_options(self._driver.jvm, query, limits)

    def _clear(self, sink: Sink, options: StreamOptions, lease: CheckpointLease) -> None:
        """Once its query has ended: a table that it has written nothing into is free again."""
        lease.refresh()
        if lease.is_lost:
            return
        try:
            sinks.clear(sink, options.checkpoint, self._files)
        except Exception as failed:  # the next start finds it as its own
            log.warning("the log of a sink without a batch could not be removed: %s", type(failed).__name__)

    def _writer(self, operation: Operation, planned: _Planned) -> Any:
        parsed, options = planned.parsed, planned.options
        writer = planned.frame.writeStream().outputMode(options.output_mode.lower())
        # First: what the text gives must not move the checkpoint.
        for key, value in [*planned.sink.options.items(), *with_each_batch(parsed.options).items()]:
            writer = writer.option(key, value)
        writer = writer.option("checkpointLocation", options.checkpoint)
        writer = writer.queryName(f"{operation.request.namespace}/{operation.request.name}")
        return writer.trigger(trigger(self._driver.jvm, options, parsed.query, planned.analysed))

    def _upsert(self, session: JvmSession, parsed: ParsedInsert, frame: Dataset, options: Upsert) -> UpsertWriter:
        if not parsed.is_plain:
            message = "with spec.streaming.upsert columns are matched by name: leave the column list and PARTITION out"
            raise refusal(ErrorReason.INVALID_SPEC, message)
        target = upsert_target(parsed.name, session.table(parsed.name).logicalPlan())
        classifier = Classifier(self._driver.jvm, session, self._policy)
        check_upsert(self._driver.jvm, classifier, session, options, target, frame)
        return UpsertWriter(self._driver, options, target)

    def _start_into(self, session: JvmSession, planned: _Planned, writer: Any) -> StreamingQuery:
        if isinstance(planned.frame, RecordStream):
            return writer.toTable(planned.parsed.name)
        return start_into(self._driver.jvm, session, writer, planned.parsed.name)

    def _start_upsert(self, writer: Any, batches: UpsertBatches) -> StreamingQuery:
        sources_package = self._driver.jvm.org.apache.spark.sql.execution.streaming.sources
        ensure_callback_server_started(self._driver.context._gateway)
        sources_package.PythonForeachBatchHelper.callForeachBatch(writer, batches)
        return writer.start()


@dataclass(frozen=True)
class _Planned:
    """The query of an INSERT that could start, as far as is known without its checkpoint."""

    parsed: ParsedInsert
    options: StreamOptions
    frame: Dataset
    analysed: LogicalPlan
    sink: Sink
    upsert: UpsertWriter | None = None


@dataclass(frozen=True)
class _Started:
    """A query that has been started, and what its batches go through if not straight into the table.

    `described` reads what it keeps in its state.
    """

    query: StreamingQuery
    state: StateFile
    described: Callable[[], Description]
    sink: Sink = field(default_factory=Sink)
    batches: UpsertBatches | None = None


def _not_restored(failed: SavepointError) -> StatementError:
    message = f"spec.streaming.startFrom: the savepoint cannot be restored: {failed}"
    return refusal(ErrorReason.INVALID_SPEC, message)


def _of_state(started: _Started, failed: Exception, sql: str) -> StatementError | None:
    """The error of a query whose state Spark has refused, None for any other."""
    error = operation_error(failed, Fragment(sql, 0), sql)
    if not description_file.is_refusal(error):
        return None
    started.state.undo()
    return StatementError(description_file.refused(error))
