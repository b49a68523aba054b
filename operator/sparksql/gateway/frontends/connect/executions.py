"""Statements that Connect executes: their turn, where their streams are, and when they have really ended.

A statement waits here for its turn before Spark sees it; its client's stream is quiet meanwhile. A stream that breaks does not
end a statement: the client comes back for it. Invariants: each admitted statement is told to the service as ended exactly
once, whatever became of its streams (Connect is asked every POLL_SECONDS which executions it still runs); a statement that
nobody waits for any more is not begun; one that is being stopped is interrupted again until Spark has let go of it.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import grpc
from pyspark.errors import AnalysisException, ParseException

from sparksql.gateway.frontends.connect.backend import Backend, ExecutionKey, ExecutionState, SessionKey
from sparksql.gateway.frontends.connect.errors import ConnectError, refused_by_service
from sparksql.gateway.sessions.model import ClientError
from sparksql.gateway.sessions.service import SessionService
from sparksql.gateway.sql.errors import StatementError, operation_error
from sparksql.gateway.sql.script import Fragment
from sparksql.wire.control import OperationError

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
MISSING_POLLS = 3  # an execution that was forwarded a moment ago may not be in Spark's list yet
STOP_ROUND_SECONDS = 0.2
STOP_ALL_SECONDS = 10.0
AFTER_ROUNDS = 5  # jobs that Spark submits after the thread of a statement has gone
MAX_WAITING_BYTES = 96 << 20  # the largest message fits
START_SECONDS = 30.0  # for Spark to list what was forwarded to it, when that is to be stopped
RETURN_SECONDS = 30.0  # how long a client may stay away from a statement that waits
GONE = "its client went away"
UNREAD = "Spark ended the statement, and its client did not read the result"

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """A request to execute, ready to be forwarded, and one that gives its results to another stream.

    `targets` tells in a thread which path-based tables it writes; `local` that it needs no executor.
    """

    key: ExecutionKey
    request: bytes
    reattach: bytes
    tags: frozenset[str]
    reattachable: bool
    targets: Callable[[], frozenset[str]] = frozenset
    local: bool = False


class Execution:
    """Represents one admitted statement."""

    def __init__(self, executions: Executions, asked: Asked, handle: str) -> None:
        self.asked = replace(asked, request=b"")
        self.request = asked.request  # until it is forwarded
        self.handle = handle
        self.operation = ""
        self.turn = asyncio.Event()  # it may be forwarded, or will never be
        self.forwarded = False
        self.begun = asyncio.Event()  # Spark has answered, or its stream is gone
        self.ended = False
        self.stop_reason: str | None = None
        self.streams = 0
        self.missing = 0
        self.left: asyncio.TimerHandle | None = None
        self._executions = executions

    def targets(self) -> frozenset[str]:
        """Returns what the statement must hold alone before it starts, as qualified URIs.

        Called in the statement's own thread. Raises StatementError.
        """
        try:
            return self.asked.targets()
        except (AnalysisException, ParseException):
            return frozenset()  # Spark tells the client the same, and more, when it is given the request
        except Exception as exception:
            raise StatementError(operation_error(exception, Fragment("", 0), "")) from exception

    def start(self) -> None:
        """Tells the client's stream that it is the statement's turn."""
        if self.streams == 0:
            self._executions.end(self, OperationError(message=GONE))
        self.turn.set()

    def stop(self, reason: str) -> None:
        """Stops the statement, because somebody or a limit wants it."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self._executions.stop(self, reason)
        self.turn.set()

    def take_request(self) -> bytes:
        """Returns the request, to be forwarded now, and drops it."""
        self.forwarded = True
        request, self.request = self.request, b""
        return request

    @property
    def may_begin(self) -> bool:
        """Returns whether Spark may have the statement without listing it yet."""
        return self.streams > 0 and not self.begun.is_set()

    def attach(self) -> None:
        """Counts a stream of the client's that waits for the statement."""
        self.streams += 1
        if self.left is not None:
            self.left.cancel()
            self.left = None

    def detach(self) -> None:
        """Counts such a stream as gone."""
        self.streams -= 1
        if self.streams > 0 or self.ended:
            return
        if not self.asked.reattachable:
            self._executions.cancel(self)
        elif not self.forwarded:
            self.left = asyncio.get_running_loop().call_later(RETURN_SECONDS, self._executions.cancel, self)


class Executions:
    """Follows executions of Connect as operations of the gateway."""

    def __init__(self, service: SessionService, backend: Backend, pool: ThreadPoolExecutor) -> None:
        self._service = service
        self._backend = backend
        self._pool = pool
        self._live: dict[ExecutionKey, Execution] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def find(self, key: ExecutionKey) -> Execution | None:
        """Returns the statement of this name, if it has not ended."""
        return self._live.get(key)

    def admit(self, asked: Asked, handle: str, statement_type: str) -> Execution:
        """Queues a statement. Raises ConnectError."""
        waiting = sum(len(execution.request) for execution in self._live.values())
        if waiting + len(asked.request) > MAX_WAITING_BYTES:
            message = f"requests of {waiting} bytes wait for their turn already; try again later"
            raise ConnectError(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
        execution = Execution(self, asked, handle)
        try:
            execution.operation = self._service.admit(handle, statement_type, execution, local=asked.local)
        except ClientError as error:
            raise refused_by_service(error) from None
        self._live[asked.key] = execution
        return execution

    def of_session(self, session: SessionKey) -> list[Execution]:
        """Returns the statements of a session that have not ended."""
        return [execution for key, execution in self._live.items() if key.session == session]

    async def stop_all(self, session: SessionKey, reason: str) -> None:
        """Stops a session's statements and waits until they have ended, at most STOP_ALL_SECONDS."""
        for execution in self.of_session(session):
            execution.stop(reason)
        deadline = asyncio.get_running_loop().time() + STOP_ALL_SECONDS
        while self.of_session(session) and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110  they end one by one
            await asyncio.sleep(STOP_ROUND_SECONDS / 4)

    def cancel(self, execution: Execution) -> None:
        """Cancels a statement that the client does not want any more."""
        with contextlib.suppress(ClientError):
            self._service.cancel(execution.handle, execution.operation)

    async def interrupt(self, session: SessionKey, is_meant: Callable[[str, frozenset[str]], bool]) -> set[str]:
        """Cancels what is meant of a session, by operation id and tags: what waits and what Spark runs. Returns their ids.

        Spark's own Interrupt is not used: it spoils an execution that it has listed and not started, see `Backend`.
        """
        meant = [e for e in self.of_session(session) if is_meant(e.asked.key.operation_id, e.asked.tags)]
        for execution in meant:
            self.cancel(execution)
        loop = asyncio.get_running_loop()
        running = await loop.run_in_executor(self._pool, self._backend.interrupt_meant, session, is_meant)
        return {execution.asked.key.operation_id for execution in meant} | set(running)

    def end(self, execution: Execution, error: OperationError | None) -> None:
        """Tells that Spark has ended a statement, or never began it. Further calls change nothing."""
        if execution.ended:
            return
        execution.ended = True
        if self._live.get(execution.asked.key) is execution:
            del self._live[execution.asked.key]
        if execution.left is not None:
            execution.left.cancel()
        self._service.outside_done(execution.operation, error)
        self._spawn(self._clear(execution, failed=error is not None))

    def stop(self, execution: Execution, reason: str) -> None:
        """Begins to stop a statement that is asked to end."""
        if execution.forwarded and not execution.ended:
            self._spawn(self._interrupt(execution, reason))
        else:
            self.end(execution, OperationError(message=reason))

    async def watch(self) -> None:
        """Notices executions that have ended without a stream to tell; ends only by being cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            forwarded = [execution for execution in self._live.values() if execution.forwarded]
            states = await self._guarded(self._backend.states) if forwarded else None
            if states is None:
                continue
            for execution in forwarded:
                self._observe(execution, states.get(execution.asked.key))

    def _observe(self, execution: Execution, state: ExecutionState | None) -> None:
        """What Connect says of a statement; a stream that is there tells an error better, so it is given the time."""
        match state:
            case ExecutionState.PENDING | ExecutionState.RUNNING:
                execution.missing = 0
            case ExecutionState.FINISHED:
                self.end(execution, None)
            # Spark lists it once it has begun it, which may take seconds; until then its stream tells what becomes of it.
            case None if execution.may_begin:
                pass
            case ExecutionState.FAILED | None:
                execution.missing += 1
                if execution.missing >= MISSING_POLLS:
                    self.end(execution, OperationError(message=execution.stop_reason or UNREAD))

    async def close(self) -> None:
        """Ends all that is done beside the requests."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _interrupt(self, execution: Execution, reason: str) -> None:
        """One round is not enough: what is just being submitted is not there yet to be cancelled."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + START_SECONDS
        while True:
            still_there = await self._guarded(self._backend.interrupt, execution.asked.key, reason)
            if still_there is False and not (execution.may_begin and clock() < deadline):
                break
            await asyncio.sleep(STOP_ROUND_SECONDS)
        self.end(execution, OperationError(message=reason))

    async def _clear(self, execution: Execution, *, failed: bool) -> None:
        """After the end: jobs that come late, and the service's record, which holds no result."""
        if failed and execution.forwarded:
            for _ in range(AFTER_ROUNDS):
                await self._guarded(self._backend.interrupt, execution.asked.key, "the statement has ended")
                await asyncio.sleep(STOP_ROUND_SECONDS)
        with contextlib.suppress(ClientError):
            view = await self._service.wait(execution.handle, execution.operation, 60.0)
            if view.status.is_terminal:
                self._service.close_operation(execution.handle, execution.operation)

    async def _guarded(self, call: Any, *arguments: object) -> Any:
        """A call that will be repeated when it fails; None then."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)
        except Exception as exception:
            log.warning("a call that will be repeated has failed: %s", type(exception).__name__)
            return None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
