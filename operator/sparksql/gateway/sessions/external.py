"""Statements that Spark itself executes for a client (Spark Connect), in the same queue, count and limits as all others.

Such a statement takes its turn and its slot here; its frontend forwards the request when told to start, and tells when Spark has
really ended it. Until then it holds its slot, and a cancel or timeout is passed to the frontend.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Protocol

from sparksql.gateway.execution.executor import SparkExecutor
from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.results.store import EMPTY, StoredResult
from sparksql.gateway.sql.classifier import Classified, Statement
from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.sql.kinds import Effect, Kind
from sparksql.gateway.sql.script import Fragment
from sparksql.wire.control import OperationError, Progress, SubmitRequest


class ExternalExecution(Protocol):
    """Executes a frontend's statement outside the gateway. `start` and `stop` are called on the event loop."""

    def targets(self) -> frozenset[str]:
        """Returns qualified URIs of what the statement must hold alone. Called in its own thread. Raises StatementError."""

    def start(self) -> None:
        """Forwards the statement: it is its turn."""

    def stop(self, reason: str) -> None:
        """Ends the statement; also called for one that was never started."""


class ExternalOperation:
    """The executor of one such statement."""

    def __init__(self, work: ExternalExecution, statement_type: str, executor: SparkExecutor, *, local: bool) -> None:
        self._work = work
        self._local = local
        self._type = statement_type
        self._executor = executor
        self._loop = asyncio.get_running_loop()
        self._done: Future[OperationError | None] = Future()

    def done(self, error: OperationError | None) -> None:
        """Tells that Spark has ended the statement; further calls change nothing."""
        if not self._done.done():
            self._done.set_result(error)

    def classify(self, request: SubmitRequest) -> Classified:
        """Returns one statement of the type that the frontend has told."""
        kind = Kind(self._type, Effect.WRITE)
        return Classified((Statement(Fragment("", 0), kind),), read_only=False, exclusive=False, local=self._local)

    def run(self, operation: Operation) -> StoredResult:
        """Holds what the statement writes, has it forwarded, and waits for its end.

        Raises StatementError, or OperationCancelledError.
        """
        operation.check()
        targets = self._work.targets()
        try:
            if targets:
                operation.acquire(targets)
            operation.started()
            self._loop.call_soon_threadsafe(self._work.start)
            error = self._done.result()
            for target in targets:
                self._executor.remove_temporary(target)
        finally:
            operation.release()
        if error is not None:
            operation.check()
            raise StatementError(error)
        return EMPTY

    @property
    def jobs(self) -> ExternalOperation:
        """Returns itself: the frontend stops what it has started."""
        return self

    def stop(self, group: str, reason: str) -> None:
        """Asks the frontend, on the event loop, to end the statement."""
        self._loop.call_soon_threadsafe(self._work.stop, reason)

    def stop_jobs(self, group: str, reason: str) -> None:
        """Does nothing: its jobs are in a group of Connect's own, which the frontend interrupts."""

    def is_quiet(self, group: str) -> bool:
        """Returns whether the frontend has told the statement's end."""
        return self._done.done()

    def progress(self, group: str) -> Progress:
        """Returns no counts: Connect tells its own clients."""
        return Progress()
