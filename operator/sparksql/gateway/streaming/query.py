"""Runs a streaming query in its operation's thread, from the start to the end, and stops it between two batches.

Invariants: nothing is written into a table before every check has passed; the thread does not return while its query is active,
so that an operation that has ended leaves nothing that writes; a checkpoint is written only while the `fence` holds it, and no
two statements go on from one state (`claims`).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started

from sparksql.gateway.operations.operation import Operation, OperationCancelledError
from sparksql.gateway.results.store import StoredResult
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan, StreamingQuery
from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.streaming import analysis, sinks, unsupported
from sparksql.gateway.streaming.async_progress import ENABLED
from sparksql.gateway.streaming.checkpoints import first_batch
from sparksql.gateway.streaming.checkpoints.claims import Claim, Claims
from sparksql.gateway.streaming.checkpoints.conditional import create_conditionally
from sparksql.gateway.streaming.checkpoints.content import check_content, check_logs
from sparksql.gateway.streaming.checkpoints.fence import CheckpointLease, Fence
from sparksql.gateway.streaming.checkpoints.savepoint import Savepoints
from sparksql.gateway.streaming.commit_once import start_into
from sparksql.gateway.streaming.continuity.losses import refusal_of_loss
from sparksql.gateway.streaming.continuity.snapshots import unread_source
from sparksql.gateway.streaming.kafka.sink import RecordStream
from sparksql.gateway.streaming.lag import Lag
from sparksql.gateway.streaming.planned import PlannedStream, StreamPlanner
from sparksql.gateway.streaming.progress import Watched, is_initialised, watch
from sparksql.gateway.streaming.rebuilding.rebuild import writes_again
from sparksql.gateway.streaming.rebuilding.runs import run_to_end
from sparksql.gateway.streaming.rewriting.spark_state import whole_states
from sparksql.gateway.streaming.rewriting.states import Query, States
from sparksql.gateway.streaming.sinks import Sink
from sparksql.gateway.streaming.state.describe import describe
from sparksql.gateway.streaming.state.description import Description
from sparksql.gateway.streaming.state.description_file import StateFile
from sparksql.gateway.streaming.stopping import bound_rounds, stop
from sparksql.gateway.streaming.upsert.batch import UpsertBatches
from sparksql.gateway.streaming.written import ReportedRows
from sparksql.wire.control import StreamOptions

_LOOKS = 3  # at the logs of a query that may be running

log = logging.getLogger(__name__)


class Streams:
    """Runs streaming queries, each in its operation's thread. One for the whole process."""

    def __init__(self, driver: SparkDriver, files: HadoopFiles) -> None:
        self._driver = driver
        self._files = files
        self._planner = StreamPlanner(driver)
        context = driver.context
        self._savepoints = Savepoints(driver.jvm, context._jsc.hadoopConfiguration(), str(context.version))
        self._fence = Fence(files)
        self._states = States(driver, files, self._savepoints, self._fence)
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
        statement = f"{operation.request.namespace}/{operation.request.name}"
        self._claims.take(Claim(operation.operation_id, statement, options.checkpoint, self._states.query_id(options)))

    def prepared(self, session: JvmSession, plan: LogicalPlan) -> Any:
        """Returns a parsed statement that Spark can analyse, see `analysis`."""
        return analysis.prepared(self._driver, session, plan)

    def _run_to_completion(self, operation: Operation, started: _Started, lease: CheckpointLease) -> None:
        query = started.query
        watched = Watched(query, Lag(query), started.batches or ReportedRows())
        try:
            if started.state.is_new:
                started.state.write(started.described())
            watch(operation, watched, lease.check)
        except (OperationCancelledError, StatementError):
            raise
        except Exception as failed:
            if is_initialised(query):  # it may have failed before it was looked at
                operation.stream = watched.read(has_ended=True)
                operation.started()
            lease.verify()  # what a driver runs into whose checkpoint is another's is not for the user to mend
            own = started.batches.error if started.batches is not None else None
            sql = operation.request.sql
            lost = started.state.refusal(failed, sql) or refusal_of_loss(failed, sql) or started.unread()
            raise own or lost or failed from None
        finally:
            stop(query, at_once=lease.is_lost)
            if operation.stream is not None:
                operation.stream = watched.read(has_ended=True)

    def compare(
        self, operation: Operation, session: JvmSession, plan: LogicalPlan, options: StreamOptions
    ) -> StoredResult:
        """Sees whether the query of a parsed INSERT could go on from a checkpoint, or from a savepoint to begin with.

        Both may be in use; nothing is written. Raises StatementError for what would be refused at the start,
        IncompatibleStateError if that is because of the state.
        """
        planned = self._planned(operation, session, plan, options)
        self._check_sink(planned.sink, self._states.location(planned.options), planned.options)
        self._planner.writer(operation, planned)
        return self._states.compare(self._query(operation, session, planned))

    def restored(
        self, operation: Operation, session: JvmSession, analysed: LogicalPlan, options: StreamOptions
    ) -> None:
        """Makes a checkpoint, for a query that is only looked at, of what `options.restore` names; that is only read.

        Raises StatementError, or IncompatibleStateError when the query cannot go on from it as it is.
        """
        read = partial(self._described, operation, session, analysed, options)
        self._states.copy(Query(session, analysed, options, read))

    def _check_sink(self, sink: Sink, state: str, options: StreamOptions) -> None:
        """Looks several times: a query that runs moves on between two looks at its logs."""
        is_rewritten = options.restore is not None and options.restore.rewrite
        checkpoint = state if is_rewritten else options.checkpoint
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
        query_of = self._query(operation, session, planned, lease)
        self._begin(operation, query_of, lease, may_be_behind=ENABLED in planned.parsed.options)
        described = partial(self._described, operation, session, planned.written, options, describe)
        unread = partial(unread_source, self._driver.jvm, self._files, planned.analysed, options.checkpoint)
        if planned.upsert is not None:
            state = self._states.match(query_of, operation)
            batches = UpsertBatches(planned.upsert, lease.verify)
            with unsupported.start_allowed(session, planned.analysed):
                query = self._start_upsert(self._planner.writer(operation, planned), batches)
            return _Started(query, state, described, unread, batches=batches)
        sinks.check_sink(sink, options.checkpoint, self._files)
        writer = self._planner.formatted(operation, planned)
        state = self._states.match(query_of, operation)
        sinks.mark(sink, options.checkpoint, self._files)
        try:
            with unsupported.start_allowed(session, planned.analysed):
                query = self._start_into(session, planned, writer)
            return _Started(query, state, described, unread, sink)
        except Exception:
            self._clear(sink, options, lease)
            raise

    def _planned(
        self, operation: Operation, session: JvmSession, plan: LogicalPlan, options: StreamOptions
    ) -> PlannedStream:
        """The query of a parsed INSERT after every check that needs no checkpoint."""
        planned = self._planner.planned(session, plan, options)
        try:
            self._planner.check_supported(operation, session, planned)
        except StatementError:  # a state that is another one as well names what has changed
            self._states.check(self._query(operation, session, planned))
            raise
        self._planner.check_target(planned)
        return planned

    def dry_run(
        self, operation: Operation, session: JvmSession, plan: LogicalPlan, options: StreamOptions
    ) -> PlannedStream:
        """Returns the query that a parsed INSERT would run, after every check of its start but those of its checkpoint.

        Nothing is started, claimed or written. Raises StatementError, or what Spark throws.
        """
        planned = self._planner.planned(session, plan, options)
        self._planner.check_supported(operation, session, planned)
        self._planner.check_target(planned)
        sinks.check_free(planned.sink, self._files)
        self._planner.writer(operation, planned)
        return planned

    def _begin(self, operation: Operation, query: Query, lease: CheckpointLease, *, may_be_behind: bool) -> None:
        """Takes the checkpoint, and makes the one that begins with a state, once the text is known to be right."""
        lease.take(query.options.unconfirmed, operation.check)
        if query.options.known is not None:
            check_content(self._files, query.options.checkpoint, query.options.known, may_be_behind=may_be_behind)
        check_logs(self._files, query.options.checkpoint, may_be_behind=may_be_behind)
        first_batch.remove_unfinished(self._files, query.options.checkpoint)
        self._states.restore(query, lease, operation)

    def _query(
        self, operation: Operation, session: JvmSession, planned: PlannedStream, lease: CheckpointLease | None = None
    ) -> Query:
        """The query of a start, or without a lease one that is looked at."""
        read = partial(self._described, operation, session, planned.written, planned.options)
        run = partial(self._run_planned, operation, session, planned, lease) if lease is not None else None
        return Query(session, planned.analysed, planned.options, read, run)

    def _run_planned(
        self, operation: Operation, session: JvmSession, planned: PlannedStream, lease: CheckpointLease, checkpoint: str
    ) -> None:
        """Runs the batch of history that is planned in a checkpoint, see `rebuilding`, to its end."""
        apart = replace(planned, options=planned.options.model_copy(update={"checkpoint": checkpoint}))
        batches = UpsertBatches(planned.upsert, lease.verify) if planned.upsert is not None else None
        once = self._driver.jvm.org.apache.spark.sql.streaming.Trigger.Once()
        allowed = unsupported.start_allowed(session, planned.analysed)
        with whole_states(session), allowed, self.running(operation.group):
            if batches is not None:
                query = self._start_upsert(self._planner.writer(operation, apart).trigger(once), batches)
            elif writes_again(planned.options):
                query = self._start_into(session, apart, self._planner.formatted(operation, apart).trigger(once))
            else:
                rows = self._driver.of_rows(session, planned.analysed)
                query = self._planner.writer(operation, replace(apart, frame=rows)).format("noop").trigger(once).start()
            run_to_end(query, operation, lease, batches)

    def _described(
        self,
        operation: Operation,
        session: JvmSession,
        written: LogicalPlan,
        options: StreamOptions,
        read: Callable[..., Description],
    ) -> Description:
        mask = operation.classified.masker.mask
        found = read(
            self._driver,
            session,
            written,
            text=operation.request.sql,
            output_mode=options.output_mode,
            mask=mask,
            qualified=self._files.qualified,
        )
        bound = sorted((each.name, each.type, mask(each.value)) for each in operation.request.parameters)
        return replace(found, parameters=hashlib.sha256(json.dumps(bound).encode()).hexdigest())

    def _clear(self, sink: Sink, options: StreamOptions, lease: CheckpointLease) -> None:
        """Once its query has ended: a table that it has written nothing into is free again."""
        lease.refresh()
        if lease.is_lost:
            return
        try:
            sinks.clear(sink, options.checkpoint, self._files)
        except Exception as failed:  # the next start finds it as its own
            log.warning("the log of a sink without a batch could not be removed: %s", type(failed).__name__)

    def _start_into(self, session: JvmSession, planned: PlannedStream, writer: Any) -> StreamingQuery:
        if isinstance(planned.frame, RecordStream):
            return writer.toTable(planned.parsed.name)
        return start_into(self._driver.jvm, session, writer, planned.parsed.name)

    def _start_upsert(self, writer: Any, batches: UpsertBatches) -> StreamingQuery:
        sources_package = self._driver.jvm.org.apache.spark.sql.execution.streaming.sources
        ensure_callback_server_started(self._driver.context._gateway)
        sources_package.PythonForeachBatchHelper.callForeachBatch(writer, batches)
        return writer.start()


@dataclass(frozen=True)
class _Started:
    """A query that has been started, and what its batches go through if not straight into the table.

    `described` reads what it keeps in its state, `unread` why a source cannot be read on.
    """

    query: StreamingQuery
    state: StateFile
    described: Callable[[], Description]
    unread: Callable[[], StatementError | None]
    sink: Sink = field(default_factory=Sink)
    batches: UpsertBatches | None = None
