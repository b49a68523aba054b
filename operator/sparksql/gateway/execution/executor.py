"""Runs one classified text in Spark, in the thread that it is called from, and stops it from another.

Each operation has its own thread and its own Spark job group. Invariants: a statement's settings are gone when it ends; nothing
is started once the operation is cancelled; a path-based table is written only while the operation holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from sparksql.api.execution import StatementMode
from sparksql.gateway.execution.effects import Effects, check_script, needs_streaming, runs_stream
from sparksql.gateway.execution.jobs import SparkJobs
from sparksql.gateway.execution.modes import explain, explain_stream, preview_query, validate
from sparksql.gateway.execution.resources import check_resources
from sparksql.gateway.execution.result_keeper import ResultKeeper, masked
from sparksql.gateway.execution.scope import Scope
from sparksql.gateway.execution.session.changes import SessionChanges
from sparksql.gateway.execution.unbounded_query import UnboundedQueries
from sparksql.gateway.execution.writes.targets import remove_temporary
from sparksql.gateway.operations.operation import Operation, OperationCancelledError
from sparksql.gateway.results.collector import Collector
from sparksql.gateway.results.earlier import EarlierResults
from sparksql.gateway.results.store import EMPTY, ResultReader, ResultStore, StoredResult
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.pools import Pools
from sparksql.gateway.spark.scala import option
from sparksql.gateway.spark.shapes import Dataset, JvmSession, LogicalPlan
from sparksql.gateway.sql import policy as rules
from sparksql.gateway.sql.classifier import Classified, Classifier, Statement
from sparksql.gateway.sql.conditions import Condition
from sparksql.gateway.sql.errors import PlacedError, StatementError, operation_error, refusal
from sparksql.gateway.sql.identifiers import with_names
from sparksql.gateway.sql.kinds import Effect
from sparksql.gateway.sql.local_queries import is_local, with_rows_of_driver
from sparksql.gateway.sql.parameters import ParameterBinder
from sparksql.gateway.sql.state_calls import state_calls
from sparksql.gateway.streaming import analysis, refusals
from sparksql.gateway.streaming.kafka.ddl import table_definition
from sparksql.gateway.streaming.preview import Start
from sparksql.gateway.streaming.query import Streams
from sparksql.gateway.streaming.state.comparison import is_run
from sparksql.gateway.streaming.state_tables.call import read_call
from sparksql.gateway.streaming.state_tables.reader import SavepointStates
from sparksql.gateway.windowing.calls import opened
from sparksql.wire.control import ErrorReason, StatementWrite, StreamOptions, SubmitRequest
from sparksql.wire.driver import SqlPolicy

# What Spark says of a STREAM that is executed as a batch, and of every streaming plan that it refuses.
STREAM_REFUSED = "_LEGACY_ERROR_TEMP_3102"
_NO_STREAM = (
    "spec.streaming.startFrom: the query reads no STREAM, so it has no state to go on from; leave startFrom out"
)

_NO_BATCH = "a STREAM has no end, so its rows are no state: write FROM t, without STREAM"


class SparkExecutor:
    """Reads and runs statements in Spark. One for the whole process."""

    def __init__(
        self, driver: SparkDriver, policy: SqlPolicy, store: ResultStore, files: HadoopFiles, root: str
    ) -> None:
        self._driver = driver
        self._policy = policy
        self._store = store
        self._files = files
        self._classifier = Classifier(driver.jvm, driver.base, policy, checks_again=True)
        self._streams = Streams(driver, files)
        self._states = SavepointStates(driver, files)
        self.pools = Pools(driver)
        self.jobs = SparkJobs(driver, self._streams)
        self._keeper = ResultKeeper(driver, store, files, root)
        unbounded = UnboundedQueries(driver, files, self._keeper, store, root)
        self._effects = Effects(driver, self._streams, unbounded, files, self._keeper)
        self.changes = SessionChanges(driver)

    @property
    def driver(self) -> SparkDriver:
        """Returns the Spark that statements run in."""
        return self._driver

    def classify(self, request: SubmitRequest) -> Classified:
        """Reads a manifest's text, in the base session. Raises StatementError for what will not run."""
        rules.statement_conf(request.conf, self._policy)
        self._driver.activate(self._driver.base)  # the parser follows the settings of the thread's session
        try:
            is_dry = request.validate_against is not None or request.dry_run is not None
            mode = StatementMode.EXECUTE if is_dry else request.mode  # a streaming text, which may be a script
            classified = self._classifier.classify(request.sql, request.parameters, mode)
            check_script(classified, request)
            return replace(classified, read_only=True, exclusive=False) if is_dry else classified
        finally:
            self._driver.deactivate()

    def run(self, operation: Operation) -> StoredResult:
        """Runs a manifest's statements, in the base session if they change it. Raises StatementError, or OperationCancelledError.

        A streaming script keeps its changes of the session to itself.
        """
        exclusive = operation.classified.exclusive and operation.request.streaming is None
        earlier = EarlierResults(self._store, ResultReader(self._files))
        result = self.run_in(
            operation, lambda: self._driver.base if exclusive else self._driver.clone(), earlier=earlier
        )
        return replace(result, earlier=earlier.kept)

    def run_in(
        self,
        operation: Operation,
        session_of: Callable[[], Any],
        use: Callable[[Scope, Dataset], StoredResult] | None = None,
        earlier: EarlierResults | None = None,
    ) -> StoredResult:
        """Runs all statements in the session that `session_of` gives, and returns the last result.

        `earlier` takes the results before that. A query that is looked at is given to `use`, if there is one. Raises
        StatementError, or OperationCancelledError.
        """
        request = operation.request
        try:
            self.jobs.enter(operation.group, f"{request.namespace}/{request.name}", operation.user)
            self.pools.enter(operation.group, request.priority)
            operation.check()
            session = session_of()
            self._driver.activate(session)
            with self._settings(session, rules.statement_conf(request.conf, self._policy)):
                return self._run_all(Scope(operation, session, Collector(self._driver.jvm, session), use), earlier)
        except (StatementError, OperationCancelledError):
            raise
        except Exception as exception:
            fragment = operation.classified.statements[0].fragment
            raise StatementError(operation_error(exception, fragment, operation.request.sql)) from exception
        finally:
            self.jobs.leave(operation.group)
            self.pools.leave(operation.group)
            self._driver.deactivate()

    def _run_all(self, scope: Scope, earlier: EarlierResults | None) -> StoredResult:
        kept, is_answer = EMPTY, False
        writes: list[StatementWrite] = []
        statements = scope.operation.classified.statements
        try:
            for index, statement in enumerate(statements, start=1):
                scope.operation.check()
                scope.operation.at_statement(index)
                with self._noted(scope, statement):
                    result = self._run_one(scope, statement)
                if result.rows_written is not None or statement.kind.dml:
                    writes.append(_write(index, statement, result))
                if result.columns or index == 1:
                    if earlier is not None and is_answer:
                        earlier.add(kept)
                    self._store.discard(kept)
                    # The row that Spark gives for a SET is an echo: no user waits for it.
                    kept, is_answer = result, statement.kind.effect is not Effect.SESSION
        except BaseException:
            self._store.discard(kept)
            raise
        last = writes[-1].rows_written if writes else None
        return replace(kept, rows_written=last, writes=tuple(writes) if len(statements) > 1 else ())

    def _noted(self, scope: Scope, statement: Statement) -> AbstractContextManager[None]:
        """Notes what the statement changes, if it is one of a manifest that runs in the base session."""
        if scope.session is not self._driver.base:
            return nullcontext()
        return self.changes.of(scope.operation.request, statement)

    def _run_one(self, scope: Scope, statement: Statement) -> StoredResult:
        operation = scope.operation
        try:
            return self._execute(scope, statement)
        except OperationCancelledError:
            raise
        except StatementError as refused:
            if (
                runs_stream(operation.request)
                or statement.reads_stream
                or refused.error.condition == Condition.INVALID_STREAMING_STATEMENT.label
            ):
                refused.error = refusals.completed(refused.error, statement.fragment, operation.request.sql)
            refused.error = operation_error(refused, statement.fragment, operation.request.sql)
            raise
        except Exception as exception:
            error = operation_error(exception, statement.fragment, operation.request.sql)
            is_batch = operation.request.mode is StatementMode.EXECUTE and not operation.is_stream(statement)
            if error.condition == STREAM_REFUSED and is_batch:
                bare = needs_streaming(operation).error
                error = refusals.completed(bare, statement.fragment, operation.request.sql)
            elif runs_stream(operation.request):
                error = refusals.completed(error, statement.fragment, operation.request.sql)
            raise StatementError(error) from exception
        finally:
            operation.release()

    def _execute(self, scope: Scope, statement: Statement) -> StoredResult:
        operation, session = scope.operation, scope.session
        binder = ParameterBinder(self._driver.jvm, session)
        parameters = [p for p in operation.request.parameters if p.name in statement.names]
        plan = binder.parse(statement.fragment.parsed_text, binder.literals(parameters))
        plan = with_names(self._driver.jvm, session, plan)
        Classifier(self._driver.jvm, session, self._policy, checks_again=True).check(plan, statement.fragment.text)
        if (
            statement.windows and not statement.kind.dynamic
        ):  # what analysis executes, Spark itself refuses for its calls
            plan = opened(self._driver.jvm, plan)
        if statement.states:
            plan = self._states.read(session, plan, operation.request)
        check_resources(self._driver.jvm, session, plan, self._files)
        masker = operation.classified.masker
        if operation.request.validate_against is not None:
            return self._compare(scope, statement, plan, operation.request.validate_against)
        if operation.request.dry_run is not None:
            return self._dry_run(scope, statement, plan, operation.request.dry_run)
        if operation.request.mode in (StatementMode.VALIDATE, StatementMode.EXPLAIN):
            self._effects.check_write(scope, statement, plan)
        if operation.request.mode is not StatementMode.EXECUTE and "STREAM" in statement.fragment.text.upper():
            plan = self._streams.prepared(session, plan)
        if statement.kind.type == "CREATE TABLE":
            plan = table_definition(self._driver, session, plan)
        with_tables = partial(analysis.used, self._driver, session, statement.fragment.text)
        match operation.request.mode:
            case StatementMode.VALIDATE:
                operation.started()
                _, result = with_tables(plan, lambda bound: validate(self._driver, session, bound))
                return masked(result, masker)
            case StatementMode.EXPLAIN:
                operation.started()
                _, result = with_tables(plan, lambda bound: explain(self._driver, session, bound, masker))
                return result
            case StatementMode.PREVIEW:
                operation.started()
                query = preview_query(self._driver.jvm, plan)
                if scope.use is None and is_local(self._driver.jvm, query):
                    query = with_rows_of_driver(self._driver.jvm, query)
                _, frame = with_tables(query, lambda bound: self._driver.of_rows(session, bound))
                if scope.use is not None:
                    return self._used(scope, frame)
                start = self._start_of(scope)
                if not frame.isStreaming():
                    if start is not None:
                        raise refusal(ErrorReason.INVALID_SPEC, _NO_STREAM)
                    return self._keeper.keep(scope, frame)
                with self._streams.running(operation.group):
                    return self._keeper.keep_stream(scope, statement, frame, start)
            case StatementMode.EXECUTE:
                return self._effects.execute(scope, statement, plan)

    def savepoints_in(self, statement: Statement) -> frozenset[str]:
        """Returns the names of the savepoints that a statement without parameters reads. Raises StatementError."""
        if not statement.states:
            return frozenset()
        self._driver.activate(self._driver.base)
        try:
            plan = self._driver.base.sessionState().sqlParser().parsePlan(statement.fragment.parsed_text)
            return frozenset(read_call(node).savepoint for node in state_calls(plan))
        except PlacedError as placed:
            raise StatementError(operation_error(placed, statement.fragment, statement.fragment.text)) from placed
        finally:
            self._driver.deactivate()

    def _used(self, scope: Scope, frame: Dataset) -> StoredResult:
        assert scope.use is not None
        if frame.isStreaming():
            raise refusal(ErrorReason.INVALID_SPEC, _NO_BATCH)
        return scope.use(scope, frame)

    def _start_of(self, scope: Scope) -> Start | None:
        """What a preview goes on from."""
        options = scope.operation.request.preview_from
        if options is None:
            return None
        return Start(options, partial(self._streams.restored, scope.operation, scope.session))

    def _compare(self, scope: Scope, statement: Statement, plan: LogicalPlan, against: StreamOptions) -> StoredResult:
        scope.operation.started()
        if statement is scope.operation.classified.statements[-1]:
            return self._streams.compare(scope.operation, scope.session, plan, against)
        return self._effects.execute(scope, statement, plan) if is_run(scope.session, statement, plan) else EMPTY

    def _dry_run(self, scope: Scope, statement: Statement, plan: LogicalPlan, options: StreamOptions) -> StoredResult:
        """Validates or explains the query that a text with spec.streaming would run; of a script the last statement."""
        operation, session = scope.operation, scope.session
        operation.started()
        if statement is not operation.classified.statements[-1]:
            return self._before_last(scope, statement, plan)
        planned = self._streams.dry_run(operation, session, plan, options)
        if operation.request.mode is StatementMode.EXPLAIN:
            return explain_stream(self._driver, session, planned, operation.classified.masker)
        return EMPTY

    def _before_last(self, scope: Scope, statement: Statement, plan: LogicalPlan) -> StoredResult:
        """Does what a statement before the last one changes in the copy of the session, which is thrown away."""
        if is_run(scope.session, statement, plan):
            self._effects.execute(scope, statement, plan)
        elif statement.kind.query:
            analysis.used(
                self._driver,
                scope.session,
                statement.fragment.text,
                plan,
                lambda bound: self._driver.analyse(scope.session, bound),
            )
        return EMPTY

    def remove_temporary(self, target: str) -> None:
        """Removes the committer's folder of a table (a qualified URI) that the caller has written and still holds."""
        remove_temporary(target, self._files)

    @contextmanager
    def _settings(self, session: JvmSession, settings: dict[str, str]) -> Iterator[None]:
        """Sets a statement's settings. In the base session they are undone, unless the statement itself changed them."""
        if not settings:
            yield
            return
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


def _write(index: int, statement: Statement, result: StoredResult) -> StatementWrite:
    return StatementWrite(statement_index=index, statement_type=statement.kind.type, rows_written=result.rows_written)
