"""Runs one classified text in Spark, in the thread that it is called from, and stops it from another.

Each operation has its own thread and its own Spark job group. Invariants: a statement's settings are gone when it ends; nothing is started once the operation is cancelled;
a path-based table is written only while the operation holds it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from sparksql.gateway.execution.drop_table import with_files
from sparksql.gateway.execution.modes import explain, preview_query, validate
from sparksql.gateway.execution.progress import has_running_job, read_progress
from sparksql.gateway.execution.resources import check_resources
from sparksql.gateway.execution.write_targets import TEMPORARY, write_targets
from sparksql.gateway.operations.operation import Operation, OperationCancelledError
from sparksql.gateway.results.collector import COLLECT_ROWS, Collector
from sparksql.gateway.results.parquet import index_files
from sparksql.gateway.results.store import EMPTY, ResultStore, StoredResult
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.pools import Pools
from sparksql.gateway.spark.scala import option, simple_name
from sparksql.gateway.spark.shapes import Dataset, JvmSession, LogicalPlan
from sparksql.gateway.sql import policy as rules
from sparksql.gateway.sql.classifier import Classified, Classifier, Statement
from sparksql.gateway.sql.errors import StatementError, operation_error, refusal
from sparksql.gateway.sql.kinds import Effect
from sparksql.gateway.sql.local_queries import with_rows_of_driver
from sparksql.gateway.sql.masking import Masker
from sparksql.gateway.sql.parameters import ParameterBinder
from sparksql.gateway.streaming import analysis, sinks, sources
from sparksql.gateway.streaming.insert import ctas_of_stream
from sparksql.gateway.streaming.kafka.ddl import make_view, table_definition
from sparksql.gateway.streaming.preview import previewed
from sparksql.gateway.streaming.query import Streams
from sparksql.gateway.streaming.state.comparison import is_run
from sparksql.wire.control import MAX_RESULT_ROWS, Column, ErrorReason, Mode, Progress, StreamOptions, SubmitRequest
from sparksql.wire.driver import SqlPolicy

log = logging.getLogger(__name__)

# What Spark may report of a write, as metrics of the command; shown in this order under these names.
WRITE_METRICS = (
    ("numOutputRows", "num_output_rows"),
    ("numTargetRowsInserted", "num_inserted_rows"),
    ("numTargetRowsUpdated", "num_updated_rows"),
    ("numTargetRowsDeleted", "num_deleted_rows"),
    ("numOutputBytes", "num_output_bytes"),
    ("numFiles", "num_files"),
)
# What Spark says of a STREAM that is executed as a batch, and of every streaming plan that it refuses.
STREAM_REFUSED = "_LEGACY_ERROR_TEMP_3102"
_ADDS_ROWS = frozenset({"INSERT", "LOAD"})
_MAY_WRITE_PATHS = frozenset({"TRUNCATE", "LOAD", "ALTER TABLE"})


@dataclass(frozen=True)
class _Scope:
    """What one statement is run with."""

    operation: Operation
    session: JvmSession
    collector: Collector


class SparkExecutor:
    """Reads and runs statements in Spark. One for the whole process."""

    def __init__(
        self, driver: SparkDriver, policy: SqlPolicy, store: ResultStore, files: HadoopFiles, root: str
    ) -> None:
        self._driver = driver
        self._policy = policy
        self._store = store
        self._files = files
        self._root = root.rstrip("/")
        self._classifier = Classifier(driver.jvm, driver.base, policy)
        self._streams = Streams(driver, files, policy)
        self.pools = Pools(driver)
        self._threads: dict[str, Any] = {}
        self._clean_fingerprint = ""
        self._session_state = False

    @property
    def driver(self) -> SparkDriver:
        return self._driver

    @property
    def has_session_state(self) -> bool:
        return self._session_state

    def mark_initialised(self) -> None:
        """From now on, changes of the session are state that `init` would not bring back."""
        self._clean_fingerprint = self._driver.fingerprint()

    def classify(self, request: SubmitRequest) -> Classified:
        """Raises StatementError for what will not run."""
        rules.statement_conf(request.conf, self._policy)
        self._driver.activate(self._driver.base)  # the parser follows the settings of the thread's session
        try:
            if request.validate_against is not None:  # a streaming text, which may be a script
                classified = self._classifier.classify(request.sql, request.parameters, Mode.EXECUTE)
                return replace(classified, read_only=True, exclusive=False)
            return self._classifier.classify(request.sql, request.parameters, request.mode)
        finally:
            self._driver.deactivate()

    def run(self, operation: Operation) -> StoredResult:
        """Runs a manifest's statements, in the base session if they change it. Raises StatementError, or OperationCancelledError.

        A streaming script keeps its changes of the session to itself.
        """
        exclusive = operation.classified.exclusive and operation.request.streaming is None
        try:
            return self.run_in(operation, lambda: self._driver.base if exclusive else self._driver.clone())
        finally:
            if exclusive:
                self._note_session_state(operation.classified.statements)

    def run_in(self, operation: Operation, session_of: Callable[[], Any]) -> StoredResult:
        """Runs all statements in the session that `session_of` gives. Raises StatementError, or OperationCancelledError."""
        self._threads[operation.group] = self._driver.jvm.java.lang.Thread.currentThread()
        try:
            request = operation.request
            # Interrupting tasks as well frees the executors at once: a join or a sort looks at the kill flag late.
            self._driver.context.setJobGroup(operation.group, f"{request.namespace}/{request.name}", True)
            self.pools.enter(operation.group, request.priority)
            operation.check()
            session = session_of()
            self._driver.activate(session)
            with self._settings(session, rules.statement_conf(request.conf, self._policy)):
                return self._run_all(_Scope(operation, session, Collector(self._driver.jvm, session)))
        except (StatementError, OperationCancelledError):
            raise
        except Exception as exception:
            fragment = operation.classified.statements[0].fragment
            raise StatementError(operation_error(exception, fragment, operation.request.sql)) from exception
        finally:
            self._threads.pop(operation.group, None)
            self.pools.leave(operation.group)
            self._driver.deactivate()

    def stop(self, group: str, reason: str) -> None:
        """First round of stopping: the group's jobs, those it may still submit, and its thread, which may be planning.

        One round is not enough: a stage that was being submitted meanwhile runs on, so `stop_jobs` must follow.
        """
        self._driver.context._jsc.sc().cancelJobGroupAndFutureJobs(group, reason)
        thread = self._threads.get(group)
        if thread is not None and not self._streams.runs(group):
            thread.interrupt()

    def stop_jobs(self, group: str, reason: str) -> None:
        """Cancels the jobs of the group that the scheduler knows by now."""
        self._driver.context._jsc.sc().cancelJobGroup(group, reason)

    def is_quiet(self, group: str) -> bool:
        """Whether no job of the group runs."""
        return not has_running_job(self._driver.context, group)

    def progress(self, group: str) -> Progress:
        return read_progress(self._driver.context, group)

    def release_thread(self) -> None:
        """The last call of a thread that has run statements."""
        self._driver.release_thread()

    def _run_all(self, scope: _Scope) -> StoredResult:
        kept = EMPTY
        statements = scope.operation.classified.statements
        try:
            for index, statement in enumerate(statements, start=1):
                scope.operation.check()
                scope.operation.at_statement(index)
                result = self._run_one(scope, statement)
                if result.columns or index == 1:
                    self._store.discard(kept)
                    kept = result
        except BaseException:
            self._store.discard(kept)
            raise
        return kept

    def _run_one(self, scope: _Scope, statement: Statement) -> StoredResult:
        operation = scope.operation
        try:
            return self._execute(scope, statement)
        except (StatementError, OperationCancelledError):
            raise
        except Exception as exception:
            error = operation_error(exception, statement.fragment, operation.request.sql)
            is_batch = operation.request.mode is Mode.EXECUTE and not operation.is_stream(statement)
            if error.condition == STREAM_REFUSED and is_batch:
                raise _needs_streaming(operation) from exception
            raise StatementError(error) from exception
        finally:
            operation.release()

    def _execute(self, scope: _Scope, statement: Statement) -> StoredResult:
        operation, session = scope.operation, scope.session
        binder = ParameterBinder(self._driver.jvm, session)
        parameters = [p for p in operation.request.parameters if p.name in statement.names]
        plan = binder.parse(statement.fragment.text, binder.literals(parameters))
        Classifier(self._driver.jvm, session, self._policy).check(plan, statement.fragment.text)
        check_resources(plan, self._files, session.sessionState().sqlParser().parsePlan)
        masker = operation.classified.masker
        if operation.request.validate_against is not None:
            return self._compare(scope, statement, plan, operation.request.validate_against)
        if operation.request.mode is not Mode.EXECUTE and "STREAM" in statement.fragment.text.upper():
            plan = self._streams.prepared(session, plan)
        if statement.kind.type == "CREATE TABLE":
            plan = table_definition(self._driver, session, plan)
        with_tables = partial(analysis.used, self._driver, session, statement.fragment.text)
        match operation.request.mode:
            case Mode.VALIDATE:
                operation.started()
                _, result = with_tables(plan, lambda bound: validate(self._driver, session, bound))
                return _masked(result, masker)
            case Mode.EXPLAIN:
                operation.started()
                _, result = with_tables(plan, lambda bound: explain(self._driver, session, bound, masker))
                return result
            case Mode.PREVIEW:
                operation.started()
                query = with_rows_of_driver(self._driver.jvm, preview_query(self._driver.jvm, plan))
                _, frame = with_tables(query, lambda bound: self._driver.of_rows(session, bound))
                return self._keep_stream(scope, statement, frame) if frame.isStreaming() else self._keep(scope, frame)
            case Mode.EXECUTE:
                return self._execute_effect(scope, statement, plan)

    def _compare(self, scope: _Scope, statement: Statement, plan: LogicalPlan, against: StreamOptions) -> StoredResult:
        scope.operation.started()
        if statement is scope.operation.classified.statements[-1]:
            return self._streams.compare(scope.operation, scope.session, plan, against)
        return self._execute_effect(scope, statement, plan) if is_run(scope.session, statement, plan) else EMPTY

    def _execute_effect(self, scope: _Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        operation, session = scope.operation, scope.session
        with_tables = partial(analysis.used, self._driver, session, statement.fragment.text)
        streaming = operation.request.streaming
        if streaming is not None and operation.is_stream(statement):
            self._streams.run(operation, session, plan, streaming)
            return EMPTY
        if statement.kind.type == "DROP TABLE":
            plan = with_files(self._driver, session, plan)
        targets: frozenset[str] = frozenset()
        streams = sources.declared(plan) if "STREAM" in statement.fragment.text.upper() else []
        if streams and statement.kind.type == "CREATE TABLE AS SELECT":
            raise ctas_of_stream()
        if streams:
            plan = self._streams.prepared(session, plan)
        if statement.local and statement.kind.query:
            plan = with_rows_of_driver(self._driver.jvm, plan)
        if statement.kind.dml or statement.kind.type in _MAY_WRITE_PATHS:
            plan, analysed = with_tables(plan, lambda bound: self._driver.analyse(session, bound).analyzed())
            if analysed.isStreaming():
                raise _needs_streaming(operation)
            if streams:
                raise sources.read_as_batch(streams)
            targets = write_targets(session, analysed, self._files)
            if targets:
                operation.acquire(targets)
                if statement.kind.type in _ADDS_ROWS:
                    sinks.check_batch(targets, self._files)
        operation.started()
        if statement.kind.type == "CREATE TEMPORARY VIEW" and make_view(self._driver, session, plan):
            return EMPTY
        try:
            if statement.kind.dynamic:  # whoever looks at it again runs it again
                frame = self._driver.of_rows(session, plan)
            else:
                _, frame = with_tables(plan, lambda bound: self._driver.of_rows(session, bound))
        finally:
            for target in targets:
                self.remove_temporary(target)
        if frame.isStreaming():
            raise _needs_streaming(operation)
        if streams and statement.kind.query:
            raise sources.read_as_batch(streams)
        operation.check()
        if len(frame.columns()) == 0:
            return self._written(frame) if statement.kind.dml else EMPTY
        result = self._keep(scope, frame)
        return (
            self._without_secrets(result, operation.classified.masker) if statement.kind.type == "EXPLAIN" else result
        )

    def _without_secrets(self, result: StoredResult, masker: Masker) -> StoredResult:
        """A plan holds the statement's literals."""
        if result.table is not None:
            return replace(result, table=_masked_table(result.table, masker))
        if masker:
            self._store.discard(result)
            raise refusal(ErrorReason.RESULT_TOO_LARGE, "the plan is too large to be shown without its secrets")
        return result

    def _keep_stream(self, scope: _Scope, statement: Statement, frame: Dataset) -> StoredResult:
        """The first rows that a streaming query gives; they are shown as they come."""
        operation = scope.operation
        rows = _wanted_rows(operation) + 1
        folder = f"{self._root}/{operation.operation_id}-preview"

        def show(so_far: Any, count: int) -> None:
            operation.so_far = self._so_far(scope, so_far, count)

        with previewed(self._driver, self._files, operation, statement.fragment, frame, rows, folder, show) as found:
            kept = self._keep(scope, found.frame)
            return replace(kept, truncated=kept.truncated or found.is_cut)

    def _so_far(self, scope: _Scope, frame: Dataset, count: int) -> StoredResult:
        """What status shows of `count` rows that have come: the first ones, none if they are too wide for memory."""
        collector, wish = scope.collector, scope.operation.request.result
        shape = collector.shape(frame)
        first = collector.presentable(frame, shape) if shape.as_text else frame
        table = collector.collect(first, max(0, min(wish.max_rows, wish.preview_rows))).table
        return StoredResult(
            columns=_masked_columns(shape.columns, scope.operation.classified.masker),
            row_count=min(count, wish.max_rows),
            truncated=True,
            bytes=0 if table is None else table.nbytes,
            time_zone=shape.time_zone,
            table=table,
        )

    def _keep(self, scope: _Scope, frame: Dataset) -> StoredResult:
        """The first `maxRows` rows of a Dataset, in memory or in files."""
        collector, operation = scope.collector, scope.operation
        wanted = _wanted_rows(operation)
        shape = collector.shape(frame)
        if shape.as_text:
            frame = collector.presentable(frame, shape)
        columns = _masked_columns(shape.columns, operation.classified.masker)
        whole = wanted <= COLLECT_ROWS or collector.is_small(frame)
        if not whole:
            frame = collector.over_its_rows(frame)
        bound = wanted if whole else COLLECT_ROWS
        collected = collector.collect(frame, bound + 1)
        table = collected.table
        complete = whole or collected.row_count <= bound
        if complete and table is not None and self._store.has_room(table.nbytes):
            return StoredResult(
                columns=columns,
                row_count=min(collected.row_count, wanted),
                truncated=collected.row_count > wanted,
                bytes=table.nbytes,
                time_zone=shape.time_zone,
                table=table.slice(0, wanted),
            )
        frame = collected.frame if complete else collector.limited_per_partition(frame, wanted + 1)
        operation.check()
        if not shape.as_text:
            frame = collector.presentable(frame, shape)
        spilled = self._spill(scope, frame, wanted, collected.row_bytes)
        return replace(spilled, columns=columns, time_zone=shape.time_zone)

    def _spill(self, scope: _Scope, frame: Dataset, wanted: int, row_bytes: int) -> StoredResult:
        folder = f"{self._root}/{scope.operation.operation_id}"
        try:
            written = scope.collector.write(frame, folder, row_bytes)
            groups, total, size = index_files(self._files, folder, written, wanted)
            if not groups and not self._files.parts(folder):
                message = f"the executors' result files are not visible to the driver below {self._root}"
                raise refusal(ErrorReason.RESULT_TOO_LARGE, message)
        except BaseException:
            self._files.delete(folder)
            raise
        return StoredResult(
            columns=(), row_count=min(total, wanted), truncated=total > wanted, bytes=size, groups=groups, folder=folder
        )

    def _written(self, frame: Dataset) -> StoredResult:
        """One row of what Spark reports of a write; no row when it reports nothing."""
        plan = frame.logicalPlan()
        if simple_name(plan) != "CommandResult":
            return EMPTY
        metrics = plan.commandPhysicalPlan().metrics()
        found: list[tuple[str, int]] = []
        for metric, name in WRITE_METRICS:
            value = option(metrics.get(metric))
            if value is not None:
                found.append((name, int(value.value())))
        if not found:
            return EMPTY
        table = pa.table({name: [value] for name, value in found})
        columns = tuple(Column(name=name, type="bigint") for name, _ in found)
        return StoredResult(columns=columns, row_count=1, truncated=False, bytes=table.nbytes, table=table)

    def remove_temporary(self, target: str) -> None:
        """The committer leaves its folder behind; this operation holds the table alone, so nobody else is in it."""
        try:
            self._files.delete(f"{target}/{TEMPORARY}")
        except Exception as exception:
            log.warning("a folder of the committer could not be removed: %s", type(exception).__name__)

    @contextmanager
    def _settings(self, session: JvmSession, settings: dict[str, str]) -> Iterator[None]:
        """Sets a statement's settings. In the base session they are undone, unless the statement itself changed them."""
        conf = session.conf()
        before = {key: option(conf.getOption(key)) for key in settings}
        for key, value in settings.items():
            conf.set(key, value)
        try:
            yield
        finally:
            for key, old in before.items():
                if option(conf.getOption(key)) != settings[key]:
                    continue
                if old is None:
                    conf.unset(key)
                else:
                    conf.set(key, old)

    def _note_session_state(self, statements: tuple[Statement, ...]) -> None:
        if any(statement.kind.effect is Effect.SESSION for statement in statements):
            self._session_state = True
        elif not self._session_state:
            self._session_state = self._driver.fingerprint() != self._clean_fingerprint


def _wanted_rows(operation: Operation) -> int:
    return min(max(0, operation.request.result.max_rows), MAX_RESULT_ROWS)


def _needs_streaming(operation: Operation) -> StatementError:
    """The refusal of a statement that reads a STREAM and is not the one that runs as a stream."""
    message = "the statement reads a STREAM and runs until stopped: it needs spec.streaming"
    if operation.request.streaming is not None:
        message = "with spec.streaming only the last statement of a script may read a STREAM: this one comes before it"
    return refusal(ErrorReason.INVALID_SPEC, message)


def _masked_columns(columns: tuple[Column, ...], masker: Masker) -> tuple[Column, ...]:
    return tuple(column.model_copy(update={"name": masker.mask(column.name)}) for column in columns)


def _masked(result: StoredResult, masker: Masker) -> StoredResult:
    return replace(result, columns=_masked_columns(result.columns, masker))


def _masked_table(table: pa.Table, masker: Masker) -> pa.Table:
    columns = [[masker.mask_optional(str(value)) for value in column.to_pylist()] for column in table.columns]
    return pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], names=table.column_names)
