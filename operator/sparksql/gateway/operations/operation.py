"""One operation of one statement, between the event loop that owns it and the thread that runs it.

The thread calls `check`, `started`, `at_statement`, `acquire` and `release`; they post to the loop. Everything else is the
loop's. Invariant: after `cancel`, `check` and `acquire` raise OperationCancelledError, so nothing new is started.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Protocol

from sparksql.gateway.results.store import StoredResult
from sparksql.gateway.results.unbounded import UnboundedResult
from sparksql.gateway.sql.classifier import Classified, Statement
from sparksql.gateway.sql.conditions import condition_for, own_error
from sparksql.gateway.sql.errors import StatementError
from sparksql.wire.control import (
    AnyClientProtocol,
    ErrorReason,
    OperationError,
    OperationState,
    Progress,
    StreamProgress,
    SubmitRequest,
)


class OperationCancelledError(Exception):
    """The operation was cancelled between two steps."""


class ExplainedError(StatementError):
    """An end in an error that rows tell more of, for whom asked for them."""

    def __init__(self, error: OperationError, result: StoredResult) -> None:
        super().__init__(error)
        self.result = result


@dataclass(frozen=True)
class ClientOrigin:
    """Tells of a statement that came from a client.

    `protocol` is how it came, `queue` that of its session, in which it always runs alone if `serial`. It may wait
    `queue_seconds` for its turn, 0 meaning for ever. `on_rows` is called on the loop once rows of a query without end can be
    taken; it is None for a client that takes whole results only. `user` is who it is, as the front says.
    """

    protocol: AnyClientProtocol
    queue: str
    serial: bool
    queue_seconds: float = 0.0
    on_rows: Callable[[], None] | None = None
    user: str | None = None


@dataclass(frozen=True)
class StopRequest:
    """Tells why an operation is being stopped: the state to end in, and what people are told."""

    state: OperationState
    reason: str = ""
    timeout: ErrorReason = ErrorReason.EXECUTION_TIMEOUT

    def error(self) -> OperationError | None:
        """Returns the error of an operation that ends this way: only a timeout has one."""
        if self.state is not OperationState.TIMED_OUT:
            return None
        return own_error(condition_for(self.timeout), self.reason or "the statement exceeded its time limit")


@dataclass(frozen=True)
class ExecutionResult:
    """Tells how a thread came back: with a result, with an error, or with neither because it was cancelled.

    Both are there for an error that rows tell more of.
    """

    result: StoredResult | None = None
    error: OperationError | None = None


class Listener(Protocol):
    """Hears on the event loop what an operation's thread tells."""

    def on_started(self, operation: Operation) -> None:
        """Hears that the statement really begins."""

    def on_statement(self, operation: Operation, index: int) -> None:
        """Hears which statement of a script is next, from 1."""

    def on_acquire(self, operation: Operation, targets: frozenset[str]) -> None:
        """Hears that the thread waits until it alone may write these targets."""

    def on_release(self, operation: Operation) -> None:
        """Hears that the thread has written them."""

    def on_unbounded(self, operation: Operation) -> None:
        """Hears that the statement is a query without end, whose rows can be taken from now on."""


class Jobs(Protocol):
    """Stops and counts what runs under a job group. All calls block."""

    def stop(self, group: str, reason: str) -> None:
        """Does the first round of stopping, after which `stop_jobs` must follow."""

    def stop_jobs(self, group: str, reason: str) -> None:
        """Cancels the jobs that are known by now."""

    def is_quiet(self, group: str) -> bool:
        """Returns whether no job of the group runs."""

    def progress(self, group: str) -> Progress:
        """Returns the counts of the group's jobs, stages and tasks."""


class Executor(Protocol):
    """Reads a statement and runs it: a manifest's in the base session or a clone, a client's in its own session.

    `classify` and `run` block, and raise StatementError; `run` also OperationCancelledError. `jobs` are those that `run` starts.
    """

    @property
    def jobs(self) -> Jobs:
        """Returns the jobs that `run` starts, to be stopped and counted from other threads."""

    def classify(self, request: SubmitRequest) -> Classified:
        """Reads a text. Raises StatementError for what will not run."""

    def run(self, operation: Operation) -> StoredResult:
        """Runs the statements of an operation in the calling thread. Raises StatementError, or OperationCancelledError."""


class Operation:
    """Carries one operation between the loop and its thread. Made on the loop when its statement is queued."""

    def __init__(
        self,
        listener: Listener,
        operation_id: str,
        request: SubmitRequest,
        classified: Classified,
        executor: Executor,
        origin: ClientOrigin | None = None,
    ) -> None:
        self.operation_id = operation_id
        self.executor = executor
        self.group = f"sparksql-{operation_id}"
        self.request = request
        self.classified = classified
        self.origin = origin
        self.stop_request: StopRequest | None = None
        self.admitted = False
        self.returned = asyncio.Event()
        self.is_left = False  # to itself: what its thread still brings is of no interest
        self.execution_result = ExecutionResult()
        self.timer: asyncio.TimerHandle | None = None
        self.stopping: asyncio.Task[None] | None = None
        self.statement_index = 1
        self.stream: StreamProgress | None = None  # set by the thread once its streaming query looks for data
        self.so_far: StoredResult | None = (
            None  # set by the thread: the first rows of a result that still comes, in memory
        )
        self.unbounded: UnboundedResult | None = None  # set by the thread: rows that come without end
        self.grace_seconds = (
            0.0  # set by the thread when it will end by itself once its time is over: how late that may be
        )
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._permit: Future[None] | None = None
        self._running = False
        self._holds = False

    @property
    def user(self) -> str | None:
        """Returns whose statement it is, as the front says; None for a manifest's and for who has the session's token."""
        return None if self.origin is None else self.origin.user

    def is_stream(self, statement: Statement) -> bool:
        """Returns whether a statement of this operation is the one that runs as a stream: the last, with spec.streaming."""
        return self.request.streaming is not None and statement is self.classified.statements[-1]

    def may_follow(self, statement: Statement) -> bool:
        """Returns whether a statement's rows may come without end: the last one of a client that takes them as they come."""
        is_last = statement is self.classified.statements[-1]
        return is_last and self.origin is not None and self.origin.on_rows is not None

    def with_position(self, counts: Progress) -> Progress:
        """Returns counts of jobs together with the place in the script, and what a streaming query reports."""
        place = {"statement_index": self.statement_index, "statement_count": len(self.classified.statements)}
        return counts.model_copy(update={**place, "stream": self.stream})

    def check(self) -> None:
        """Raises OperationCancelledError once the operation is being stopped."""
        if self._cancelled.is_set():
            raise OperationCancelledError

    def started(self) -> None:
        """Tells, once, that the statement really begins now."""
        if not self._running:
            self._running = True
            self._loop.call_soon_threadsafe(self._listener.on_started, self)

    def follow(self, rows: UnboundedResult) -> None:
        """Tells that rows come from now on, without end."""
        self.unbounded = rows
        self._loop.call_soon_threadsafe(self._listener.on_unbounded, self)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Returns the loop that owns the operation."""
        return self._loop

    def at_statement(self, index: int) -> None:
        """Tells which statement of the script is next, from 1."""
        self._loop.call_soon_threadsafe(self._listener.on_statement, self, index)

    def acquire(self, targets: frozenset[str]) -> None:
        """Waits until this operation alone may write these targets. Raises OperationCancelledError."""
        permit: Future[None] = Future()
        with self._lock:
            self._permit = permit
        self.check()
        self._loop.call_soon_threadsafe(self._listener.on_acquire, self, targets)
        try:
            permit.result()
        except CancelledError:
            raise OperationCancelledError from None
        self._holds = True

    def release(self) -> None:
        """Gives the targets back, if there are any."""
        if self._holds:
            self._holds = False
            self._loop.call_soon_threadsafe(self._listener.on_release, self)

    def grant(self) -> None:
        """Lets the thread go on: the targets are this operation's. Called on the loop."""
        with self._lock:
            permit, self._permit = self._permit, None
        if permit is not None and not permit.done():
            permit.set_result(None)

    def leave(self) -> None:
        """Leaves the thread to itself: the operation counts as returned. Called on the loop."""
        self.is_left = True
        self.returned.set()

    def cancel(self, stop_request: StopRequest) -> None:
        """Stops the operation: nothing new is started from here on. Called on the loop."""
        self.stop_request = stop_request
        self._cancelled.set()
        with self._lock:
            permit, self._permit = self._permit, None
        if permit is not None:
            permit.cancel()
