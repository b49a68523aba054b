"""Runs the queries that give the state of a savepoint: as statements of the session, in its queue and with its policy."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from sparksql.api.execution import StatementMode
from sparksql.gateway.execution.executor import SparkExecutor
from sparksql.gateway.execution.scope import Scope
from sparksql.gateway.operations.manager import OperationManager
from sparksql.gateway.operations.operation import Jobs, Operation, StopRequest
from sparksql.gateway.operations.register import OperationRegister
from sparksql.gateway.results.store import EMPTY, StoredResult
from sparksql.gateway.spark.shapes import Dataset
from sparksql.gateway.sql.classifier import Classified
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.checkpoints.savepoint import (
    CopyCancelledError,
    Manifest,
    RefusedQueryError,
    SavepointError,
)
from sparksql.gateway.streaming.state_tables.maker import StateMaker
from sparksql.wire.control import ErrorReason, OperationError, OperationState, OperationView, SubmitRequest
from sparksql.wire.savepoints import SavepointRequest, StateQuery


@dataclass
class _Attempt:
    """The executor of one query, which has no rows for a client. `made` or `failure` is there once it has run."""

    executor: SparkExecutor
    maker: StateMaker
    request: SavepointRequest
    query: StateQuery
    reads: frozenset[str] = frozenset()
    made: Manifest | None = None
    failure: SavepointError | None = None

    @property
    def jobs(self) -> Jobs:
        """Returns Spark's jobs."""
        return self.executor.jobs

    def classify(self, request: SubmitRequest) -> Classified:
        """Reads the text. Raises StatementError for what is no query."""
        classified = self.executor.classify(request.model_copy(update={"mode": StatementMode.EXECUTE}))
        statement, *more = classified.statements
        if more or not statement.kind.query:
            raise refusal(
                ErrorReason.INVALID_SPEC, f"spec.sql: one query gives the state, not {classified.statement_type}"
            )
        self.reads = self.executor.savepoints_in(statement)
        return replace(classified, local=False)

    def run(self, operation: Operation) -> StoredResult:
        """Runs the query and makes the savepoint. Raises StatementError, or OperationCancelledError."""
        return self.executor.run_in(operation, self.executor.driver.clone, self._keep)

    def _keep(self, scope: Scope, frame: Dataset) -> StoredResult:
        try:
            self.made = self.maker.make(scope.operation, scope.session, frame, self.request, self.query, self.reads)
        except SavepointError as failed:
            self.failure = failed
            raise refusal(ErrorReason.SQL_ERROR, str(failed)) from failed
        return EMPTY


class SavepointQueries:
    """Makes savepoints of queries. Belongs to the event loop."""

    def __init__(
        self, executor: SparkExecutor, maker: StateMaker, operations: OperationManager, register: OperationRegister
    ) -> None:
        self._executor = executor
        self._maker = maker
        self._operations = operations
        self._register = register

    async def make(self, attempt_id: str, request: SavepointRequest, query: StateQuery) -> Manifest:
        """Makes a savepoint, under the id of its attempt. Raises SavepointError, or CopyCancelledError."""
        attempt = _Attempt(self._executor, self._maker, request, query)
        submitted = SubmitRequest(
            boot_id=request.boot_id,
            namespace=request.namespace,
            name=request.name,
            sql=query.sql,
            mode=StatementMode.PREVIEW,
            savepoints=query.savepoints,
        )
        ended: asyncio.Future[OperationView] = asyncio.get_running_loop().create_future()
        self._operations.begin(attempt_id, submitted, attempt)
        self._register.watch(attempt_id, ended.set_result)
        view = await ended
        if view.state is OperationState.FINISHED and attempt.made is not None:
            return attempt.made
        if view.state is not OperationState.ERROR or view.error is None:
            raise CopyCancelledError
        raise attempt.failure or _failure(view.error)

    def cancel(self, attempt_id: str) -> None:
        """Has an attempt end soon."""
        self._operations.cancel(attempt_id, StopRequest(OperationState.CANCELED, "the savepoint was given up"))


def _failure(error: OperationError) -> SavepointError:
    """What Spark has no condition for, as that storage is away, need not come again."""
    if error.reason is ErrorReason.SQL_ERROR and error.condition is None:
        return SavepointError(error.message)
    return RefusedQueryError(error.message, error.reason)
