"""Executes statements for their effect, by kind: one function a kind, in a table.

A path-based table is written only while the operation holds it. A statement that reads a STREAM is refused, unless it is the one
that runs as a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TypeVar

from sparksql.api.execution import StatementMode
from sparksql.gateway.execution.explained import explained
from sparksql.gateway.execution.result_keeper import ResultKeeper
from sparksql.gateway.execution.scope import Scope
from sparksql.gateway.execution.tables.drop import with_files
from sparksql.gateway.execution.tables.show import extended_tables
from sparksql.gateway.execution.unbounded_query import UnboundedQueries
from sparksql.gateway.execution.writes.targets import remove_temporary, write_targets
from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.results.store import EMPTY, StoredResult
from sparksql.gateway.results.writes.inner import inner_writes
from sparksql.gateway.results.writes.rows import rows_written
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import Dataset, LogicalPlan
from sparksql.gateway.sql.classifier import Classified, Statement
from sparksql.gateway.sql.conditions import Condition
from sparksql.gateway.sql.errors import PlacedError, StatementError, operation_error, own_refusal
from sparksql.gateway.sql.local_queries import with_rows_of_driver
from sparksql.gateway.sql.stream_reads import declared, may_read_stream
from sparksql.gateway.streaming import analysis, refusals, sinks, sources
from sparksql.gateway.streaming.insert import ctas_of_stream
from sparksql.gateway.streaming.kafka.ddl import make_view
from sparksql.gateway.streaming.query import Streams
from sparksql.wire.control import SubmitRequest

_CTAS = "CREATE TABLE AS SELECT"
_ADDS_ROWS = frozenset({"INSERT", "LOAD"})
# Parsed commands that run another one, which writes the rows.
_WRITE_INSIDE = frozenset({"CreateTableAsSelect", "ReplaceTableAsSelect", "InsertIntoDir"})

# What they are once analysed, with the query that they run beside their children.
_CREATES_FROM_QUERY = frozenset(
    {
        "CreateTableAsSelect",
        "ReplaceTableAsSelect",
        "CreateDataSourceTableAsSelectCommand",
        "CreateHiveTableAsSelectCommand",
        "OptimizedCreateHiveTableAsSelectCommand",
    }
)

T = TypeVar("T")


class Effects:
    """Executes parsed statements in their session. One for the whole process; its calls block, in the statement's thread."""

    def __init__(
        self,
        driver: SparkDriver,
        streams: Streams,
        unbounded: UnboundedQueries,
        files: HadoopFiles,
        keeper: ResultKeeper,
    ) -> None:
        self._driver = driver
        self._unbounded = unbounded
        self._streams = streams
        self._files = files
        self._keeper = keeper

    def execute(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        """Runs a statement and returns its rows, EMPTY without any.

        Raises StatementError, OperationCancelledError, or what Spark throws.
        """
        streaming = scope.operation.request.streaming
        if streaming is not None and scope.operation.is_stream(statement):
            self._streams.run(scope.operation, scope.session, plan, streaming)
            last = scope.operation.stream
            return replace(EMPTY, rows_written=None if last is None else last.rows_written)
        kind = statement.kind
        by_kind = Effects._query if kind.query else Effects._write if kind.dml else Effects._command
        return _BY_TYPE.get(kind.type, by_kind)(self, scope, statement, plan)

    def _query(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        streams, plan = self._with_streams(scope, statement, plan)
        if statement.local:
            plan = with_rows_of_driver(self._driver.jvm, plan)
        scope.operation.started()
        frame = self._frame(scope, statement, plan)
        if frame.isStreaming():
            if scope.operation.may_follow(statement):
                with self._streams.running(scope.operation.group):
                    return self._unbounded.run(scope, statement, frame)
            raise needs_streaming(scope.operation, sources.streaming_views(frame.logicalPlan()))
        if streams:
            raise sources.read_as_batch(streams)
        return self._rows(scope, frame)

    def _create_table_from_query(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        if _declared_streams(statement, plan):
            raise ctas_of_stream()
        return self._write(scope, statement, plan)

    def _write(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        """Holds the path-based tables that the statement writes, if any, while it runs."""
        operation, session = scope.operation, scope.session
        plan, analysed = self._batch_write(scope, statement, plan)
        targets = write_targets(session, analysed, self._files)
        if targets:
            operation.acquire(targets)
            if statement.kind.type in _ADDS_ROWS:
                sinks.check_batch(targets, self._files)
        operation.started()
        try:
            return self._written(scope, statement, plan)
        finally:
            for target in targets:
                remove_temporary(target, self._files)

    def _written(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        """Executes what may write rows, and counts these."""
        may_write_inside = statement.kind.dynamic or simple_name(plan) in _WRITE_INSIDE
        with inner_writes(self._driver, scope.session) if may_write_inside else nullcontext() as inner:
            frame = self._run(scope, statement, plan)
            count = rows_written(frame.logicalPlan(), inner)
        return replace(self._rows(scope, frame, is_write=statement.kind.dml), rows_written=count)

    def _execute_immediate(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        _, plan = self._with_streams(scope, statement, plan)
        scope.operation.started()
        return self._written(scope, statement, plan)

    def check_write(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> None:
        """Refuses a statement that writes what it reads of a STREAM, as its execution does. Raises StatementError."""
        if statement.kind.type == _CTAS and _declared_streams(statement, plan):
            raise ctas_of_stream()
        if statement.kind.dml:
            self._batch_write(scope, statement, plan)

    def _batch_write(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> tuple[LogicalPlan, LogicalPlan]:
        """The plan of a statement that writes, and the same analysed. Raises StatementError for one that reads a STREAM."""
        streams, plan = self._with_streams(scope, statement, plan)
        plan, analysed = self._with_tables(
            scope, statement, plan, lambda bound: self._driver.analyse(scope.session, bound).analyzed()
        )
        if simple_name(analysed) in _CREATES_FROM_QUERY and analysed.query().isStreaming():
            raise ctas_of_stream(sources.streaming_views(analysed.query()))
        if analysed.isStreaming():
            raise needs_streaming(scope.operation, sources.streaming_views(analysed))
        if streams:
            raise sources.read_as_batch(streams)
        return plan, analysed

    def _drop_table(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        return self._command(scope, statement, with_files(self._driver, scope.session, plan))

    def _create_temporary_view(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        _, plan = self._with_streams(scope, statement, plan)
        scope.operation.started()
        if make_view(self._driver, scope.session, plan):
            return EMPTY
        return self._rows(scope, self._run(scope, statement, plan))

    def _explain(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        _, plan = self._with_streams(scope, statement, plan)
        scope.operation.started()
        plan, frame = self._with_tables(
            scope, statement, plan, lambda bound: self._driver.of_rows(scope.session, bound)
        )
        result, masker = self._rows(scope, frame), scope.operation.classified.masker
        told = self._told(scope, plan.logicalPlan())
        return self._keeper.retold(result, lambda text: explained(text, told, masker), has_secrets=bool(masker))

    def _told(self, scope: Scope, plan: LogicalPlan) -> LogicalPlan:
        """What was explained, with what the views in it are; as it was written if that is an error, which the answer tells."""
        try:
            return self._driver.analyse(scope.session, plan).analyzed()
        except Exception:
            return plan

    def _show(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        if simple_name(plan) != "ShowTablesExtended":
            return self._command(scope, statement, plan)
        scope.operation.started()
        tables = extended_tables(self._driver, scope.session, plan, scope.operation.check)
        return self._command(scope, statement, plan) if tables is None else self._keeper.of_table(scope, *tables)

    def _command(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        _, plan = self._with_streams(scope, statement, plan)
        scope.operation.started()
        return self._rows(scope, self._run(scope, statement, plan))

    def _with_streams(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> tuple[list[str], LogicalPlan]:
        """The tables that a statement reads as a STREAM, and its plan with them made ready."""
        streams = _declared_streams(statement, plan)
        return streams, self._streams.prepared(scope.session, plan) if streams else plan

    def _with_tables(
        self, scope: Scope, statement: Statement, plan: LogicalPlan, use: Callable[[LogicalPlan], T]
    ) -> tuple[LogicalPlan, T]:
        return analysis.used(self._driver, scope.session, statement.fragment.text, plan, use)

    def _run(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> Dataset:
        """Executes a plan for its effect. Raises StatementError for one that reads a STREAM."""
        frame = self._frame(scope, statement, plan)
        if frame.isStreaming():
            raise needs_streaming(scope.operation, sources.streaming_views(frame.logicalPlan()))
        return frame

    def _frame(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> Dataset:
        """Executes a plan, unless it is a query: a Dataset of that is lazy."""
        if statement.kind.dynamic:  # whoever looks at it again runs it again
            return self._driver.of_rows(scope.session, plan)
        _, frame = self._with_tables(scope, statement, plan, lambda bound: self._driver.of_rows(scope.session, bound))
        return frame

    def _rows(self, scope: Scope, frame: Dataset, *, is_write: bool = False) -> StoredResult:
        scope.operation.check()
        if len(frame.columns()) == 0:
            return self._keeper.written(frame) if is_write else EMPTY
        return self._keeper.keep(scope, frame)


_Effect = Callable[[Effects, Scope, Statement, LogicalPlan], StoredResult]

# What is not here runs as a query, a write or a command, as its kind says.
_BY_TYPE: dict[str, _Effect] = {
    "ALTER TABLE": Effects._write,
    _CTAS: Effects._create_table_from_query,
    "CREATE TEMPORARY VIEW": Effects._create_temporary_view,
    "DROP TABLE": Effects._drop_table,
    "EXECUTE IMMEDIATE": Effects._execute_immediate,
    "EXPLAIN": Effects._explain,
    "LOAD": Effects._write,
    "SHOW": Effects._show,
    "TRUNCATE": Effects._write,
}


def _declared_streams(statement: Statement, plan: LogicalPlan) -> list[str]:
    return declared(plan) if may_read_stream(statement.fragment.text) else []


def check_script(classified: Classified, request: SubmitRequest) -> None:
    """Refuses a script before any of it runs, if a statement reads a STREAM and is not the one that runs as a stream.

    A single statement is refused when it runs: nothing has run before it, and its error has more to say of it. Raises
    StatementError, placed at the STREAM. A STREAM in a view, or in what EXECUTE IMMEDIATE runs, is seen only when the
    statement runs: those that come before it may make or change it.
    """
    stream = classified.statements[-1] if runs_stream(request) else None
    is_script = len(classified.statements) > 1 or any(each.kind.dynamic for each in classified.statements)
    if not is_script or request.mode is StatementMode.PREVIEW:  # that runs the query alone, for a while
        return
    for statement in classified.statements:
        if not statement.reads_stream or statement is stream:
            continue
        if statement.kind.query and request.mode is not StatementMode.EXECUTE and not runs_stream(request):
            continue  # a query of a STREAM can be looked at
        refused = ctas_of_stream() if statement.kind.type == _CTAS else _needs_streaming(request)
        placed = PlacedError(refused.error.message, statement.stream)
        error = operation_error(placed, statement.fragment, request.sql)
        raise StatementError(refusals.completed(error, statement.fragment, request.sql))


def needs_streaming(operation: Operation, views: Sequence[str] = ()) -> StatementError:
    """Returns the refusal of a statement that reads a STREAM, in `views` if any, and is not the one that runs as a stream."""
    return _needs_streaming(operation.request, views)


def _needs_streaming(request: SubmitRequest, views: Sequence[str] = ()) -> StatementError:
    what = f"a STREAM in the view {views[0]}" if views else "a STREAM"
    instead = f", or read a table in place of the view {views[0]}" if views else ""
    message = f"the statement reads {what} and runs until stopped: it needs spec.streaming{instead}"
    if runs_stream(request):
        message = (
            f"with spec.streaming only the last statement of a script may read a STREAM: this one reads {what} and "
            f"stands before it; make it the last one{instead}"
        )
    return own_refusal(Condition.INVALID_STREAMING_STATEMENT, message)


def runs_stream(request: SubmitRequest) -> bool:
    """Returns whether the last statement runs as a stream, or is looked at as one that would."""
    return any(each is not None for each in (request.streaming, request.dry_run, request.validate_against))
