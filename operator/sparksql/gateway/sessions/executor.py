"""Runs one statement of a client in the client's own Spark session.

Reading, policy, writing to path-based tables, results and cancelling are those of every statement (`execution`); what is
different: the session is the client's and keeps what the statement changes, all rows are kept, and Flink's dialect is heard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparksql.api.execution import StatementMode
from sparksql.gateway.execution.executor import SparkExecutor
from sparksql.gateway.operations.operation import Jobs, Operation
from sparksql.gateway.results.store import EMPTY, ResultStore, StoredResult
from sparksql.gateway.sessions import flink_dialect
from sparksql.gateway.sessions.quota import Quota
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import option, simple_name
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan
from sparksql.gateway.sql import policy as rules
from sparksql.gateway.sql.classifier import Classified, Classifier, Statement
from sparksql.gateway.sql.errors import StatementError, operation_error, refusal
from sparksql.gateway.sql.kinds import Kind, kind_of
from sparksql.gateway.sql.script import Fragment
from sparksql.wire.control import ErrorReason, SubmitRequest
from sparksql.wire.driver import SqlPolicy

_SETTINGS = frozenset({"SET", "RESET"})  # kinds of statements that change settings


@dataclass(frozen=True)
class ClientContext:
    """Holds what a client's statements run with.

    `session` is its JVM session. `property_set` notes a SET, and with None a RESET; `settings_reset` a RESET of all of Spark's.
    """

    driver: SparkDriver
    policy: SqlPolicy
    store: ResultStore
    executor: SparkExecutor
    quota: Quota
    handle: str
    session: JvmSession
    property_set: Callable[[str, str | None], None]
    settings_reset: Callable[[], None]


class ClientExecutor:
    """The executor of one statement. `classified` is there once its text has been read."""

    def __init__(self, client: ClientContext, operation_id: str) -> None:
        self._client = client
        self._operation_id = operation_id
        self._command: flink_dialect.Command = flink_dialect.SparkSql("")
        self.classified: Classified | None = None

    @property
    def jobs(self) -> Jobs:
        """Returns Spark's jobs."""
        return self._client.executor.jobs

    @property
    def is_query(self) -> bool:
        """Returns whether it is a query in the clients' sense: one SELECT, VALUES, TABLE or WITH."""
        kinds = self._kinds()
        shows = isinstance(self._command, flink_dialect.SparkSql) and self._command.shows
        return len(kinds) == 1 and kinds[0].query and not shows

    @property
    def is_insert(self) -> bool:
        """Returns whether the text is one statement that writes rows."""
        kinds = self._kinds()
        return len(kinds) == 1 and kinds[0].dml

    def classify(self, request: SubmitRequest) -> Classified:
        """Reads a client's text: Spark SQL, or a command of Flink's dialect. Raises StatementError for what will not run."""
        client = self._client
        rules.statement_conf(request.conf, client.policy)
        self._command = flink_dialect.interpret(request.sql)
        match self._command:
            case flink_dialect.SparkSql(text):
                classifier = Classifier(
                    client.driver.jvm, client.session, client.policy, checks_again=True, may_change_reading=True
                )
                client.driver.activate(client.session)  # the parser follows the settings of the thread's session
                try:
                    self.classified = classifier.classify(text, request.parameters, StatementMode.EXECUTE)
                finally:
                    client.driver.deactivate()
            case flink_dialect.SetProperty(key) | flink_dialect.ResetProperty(key):
                if key.startswith(flink_dialect.SPARK_KEY):
                    value = self._command.value if isinstance(self._command, flink_dialect.SetProperty) else None
                    rules.check_key(key, client.policy, value)
                kind = kind_of("SetCommand" if isinstance(self._command, flink_dialect.SetProperty) else "ResetCommand")
                self.classified = Classified(
                    (Statement(Fragment(request.sql, 0), kind),), read_only=False, exclusive=True, local=True
                )
        return self.classified

    def run(self, operation: Operation) -> StoredResult:
        """Runs the text in the client's session and keeps its rows within the quota.

        Raises StatementError, or OperationCancelledError.
        """
        client = self._client
        match self._command:
            case flink_dialect.SparkSql():
                result = self._run_sql(operation)
            case flink_dialect.SetProperty(key, value):
                operation.started()
                self._configure(operation, key, value)
                return EMPTY
            case flink_dialect.ResetProperty(key):
                operation.started()
                self._configure(operation, key, None)
                return EMPTY
        if not client.quota.take(client.handle, self._operation_id, result.bytes):
            client.store.discard(result)
            message = f"the result has {result.bytes} bytes, more than this session or driver can store beside its other results; close finished operations, or select less"
            raise refusal(ErrorReason.RESULT_TOO_LARGE, message)
        return result

    def _run_sql(self, operation: Operation) -> StoredResult:
        """Runs Spark SQL. What its SET and RESET changed are properties of the session, as those of Flink's dialect."""
        client = self._client
        result = client.executor.run_in(operation, lambda: client.session)
        for statement in () if self.classified is None else self.classified.statements:
            if statement.kind.type in _SETTINGS:
                parser = client.session.sessionState().sqlParser()
                self._note_setting(parser.parsePlan(statement.fragment.text))
        return result

    def _note_setting(self, plan: LogicalPlan) -> None:
        """Notes what a SET of a key, or a RESET of one or of all, has changed."""
        match simple_name(plan):
            case "SetCommand" if (pair := option(plan.kv())) is not None and pair._2().isDefined():
                self._client.property_set(str(pair._1()), str(pair._2().get()))
            case "ResetCommand" if (key := option(plan.config())) is not None:
                self._client.property_set(str(key), None)
            case "ResetCommand":
                self._client.settings_reset()
            case _:
                pass

    def _kinds(self) -> tuple[Kind, ...]:
        return () if self.classified is None else tuple(statement.kind for statement in self.classified.statements)

    def _configure(self, operation: Operation, key: str, value: str | None) -> None:
        """Sets a property, or takes it back. Raises StatementError for what Spark refuses."""
        conf = self._client.session.conf()
        if key.startswith(flink_dialect.SPARK_KEY):
            try:
                conf.unset(key) if value is None else conf.set(key, value)
            except Exception as exception:
                sql = operation.request.sql
                raise StatementError(operation_error(exception, Fragment(sql, 0), sql)) from exception
        self._client.property_set(key, value)


def open_session(driver: SparkDriver, policy: SqlPolicy, properties: Mapping[str, str], *, share_views: bool) -> Any:
    """Makes a new JVM session for a client with its `spark.*` properties set.

    Raises StatementError for a property that is not allowed.
    """
    own = {key: value for key, value in properties.items() if key.startswith(flink_dialect.SPARK_KEY)}
    settings = rules.session_conf(own, policy)
    session = driver.clone() if share_views else driver.clone_without_views()
    for key, value in settings.items():
        session.conf().set(key, value)
    return session
