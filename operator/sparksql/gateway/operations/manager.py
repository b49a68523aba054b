"""Takes operations from submission to their end: the asynchronous half of the gateway, without Spark in it.

A statement comes with the executor that reads and runs it, and waits in the queue of its session (see `scheduler`).

Invariants: an id runs at most once; a view is Pending until its statement may really begin, Running from then on; an ended
operation has no thread and no Spark job left; whether it was cancelled is decided by who asked, never guessed from an error;
a statement that has succeeded before it noticed a cancel is Finished, because its effect is there.

All state belongs to the event loop. Statements run in threads of their own, which post what they tell to the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from datetime import datetime
from typing import Any, TypeVar

from sparksql.api.execution import StatementMode
from sparksql.gateway.operations.cancellation import Canceller
from sparksql.gateway.operations.operation import (
    ClientOrigin,
    ExecutionResult,
    Executor,
    ExplainedError,
    Operation,
    OperationCancelledError,
    StopRequest,
)
from sparksql.gateway.operations.reading import OrderedReader
from sparksql.gateway.operations.register import OperationRegister
from sparksql.gateway.operations.scheduler import OPERATOR_QUEUE, Scheduler, Step
from sparksql.gateway.operations.summaries import Summaries
from sparksql.gateway.operations.thread_pools import ThreadPools
from sparksql.gateway.operations.threads import Workers
from sparksql.gateway.results.store import ResultReader, ResultStore, StoredResult
from sparksql.gateway.results.unbounded import UnboundedResult
from sparksql.gateway.sql.classifier import Classified
from sparksql.gateway.sql.errors import StatementError, masked
from sparksql.gateway.sql.masking import LogMask
from sparksql.gateway.sql.parameters import secrets_of
from sparksql.gateway.sql.readers import ReadAbandonedError
from sparksql.wire.control import (
    ErrorReason,
    OperationError,
    OperationState,
    OperationView,
    Progress,
    ResultSummary,
    SubmitRequest,
)

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0  # the operator gives a request twice as long
POLL_SECONDS = 0.5  # between two looks at what runs
PREVIEW_SECONDS = 60  # time limit of a preview that names none
CLOSE_SECONDS = 15.0  # after the drain deadline, for statements that are being stopped

T = TypeVar("T")


class OperationManager:
    """Takes statements, runs them in slots and threads, and ends them.

    `clock` gives UTC times; `slots` statements run at a time.
    """

    def __init__(
        self,
        *,
        executor: Executor,
        register: OperationRegister,
        store: ResultStore,
        reader: ResultReader,
        log_mask: LogMask,
        clock: Callable[[], datetime],
        slots: int,
        workers: Workers,
        threads: ThreadPools,
        max_preview_rows: int,
    ) -> None:
        self._executor = executor
        self._register = register
        self._store = store
        self._log_mask = log_mask
        self._clock = clock
        self._summaries = Summaries(store, reader, threads, max_preview_rows)
        self._scheduler = Scheduler(slots)
        self.workers = workers
        self._threads = threads
        self._canceller = Canceller(threads.guarded)
        self._texts = OrderedReader(threads.readers)
        self._operations: dict[str, Operation] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.last_activity = clock()

    def record_activity(self) -> None:
        """Notes that somebody uses the session now."""
        self.last_activity = self._clock()

    async def submit(self, operation_id: str, request: SubmitRequest) -> OperationView:
        """Reads the text of an operation, queues it, and returns the operation's view.

        Returns what is known for an id that was seen before. A text that takes longer than ANSWER_SECONDS to be read is
        read on; the view is then the one of that moment.
        """
        self.record_activity()
        reading = self._reading.get(operation_id)
        if reading is None and self._register.get(operation_id) is None:
            reading = self.begin(operation_id, request, self._executor)
        if reading is not None:
            await asyncio.wait({reading}, timeout=ANSWER_SECONDS)  # a client that hangs up does not stop it half-way
        return self._register.view(operation_id)

    def begin(
        self, operation_id: str, request: SubmitRequest, executor: Executor, origin: ClientOrigin | None = None
    ) -> asyncio.Task[None]:
        """Registers a new operation and begins to read its text; the task ends when it is queued or refused."""
        self.record_activity()
        self._register.create(operation_id, *(() if origin is None else (origin.protocol, origin.queue, origin.user)))
        reading = asyncio.create_task(self._read(operation_id, request, executor, origin))
        self._reading[operation_id] = reading
        reading.add_done_callback(lambda _: self._reading.pop(operation_id, None))
        if origin is not None and origin.queue_seconds > 0:
            asyncio.get_running_loop().call_later(origin.queue_seconds, self._waited, operation_id, origin)
        return reading

    def is_being_read(self, operation_id: str) -> bool:
        """Returns whether the text of an operation is being read."""
        return operation_id in self._reading

    def unbounded(self, operation_id: str) -> UnboundedResult | None:
        """Returns the rows of a query without end while it runs, None for any other operation."""
        operation = self._operations.get(operation_id)
        return None if operation is None or operation.stop_request is not None else operation.unbounded

    def forget(self, operation_id: str) -> None:
        """Drops all that is known of a client's operation that has ended, its result included."""
        self._register.forget(operation_id)
        dropped = self._store.drop(operation_id)
        if dropped is not None:
            self._spawn(self._discard(dropped))

    def cancel(self, operation_id: str, stop_request: StopRequest) -> OperationView:
        """Begins to stop an operation, or leaves a tombstone for one that never came."""
        self.record_activity()
        view = self._register.get(operation_id)
        if view is None:
            return self._register.tombstone(operation_id, stop_request.state)
        if view.state.is_terminal:
            return view
        operation = self._operations.get(operation_id)
        if operation is None or not operation.admitted:  # being read, or queued
            self._texts.give_up(operation_id)
            self._forget(operation_id)
            return self._register.end(operation_id, stop_request.state, stop_request.error())
        if operation.stop_request is None and not operation.returned.is_set():
            operation.cancel(stop_request)
            operation.stopping = self._spawn(self._canceller.stop(operation, stop_request))
        return view

    async def close(self, drain_seconds: float) -> None:
        """Stops streams, lets the rest run to its end for so long, then ends what is left as Closed."""
        closed = StopRequest(OperationState.CLOSED, "the session was closed")
        for view in self._register.live():
            if view.streaming:
                self.cancel(view.operation_id, closed)
        await self._until_idle(drain_seconds)
        for view in self._register.live():
            self.cancel(view.operation_id, closed)
        await self._until_idle(CLOSE_SECONDS)

    async def watch(self) -> None:
        """Polls progress while someone runs, and removes expired results; ends only by being cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for operation in list(self._operations.values()):
                if self._is_running(operation):
                    self._progressed(
                        operation, await self._threads.guarded(operation.executor.jobs.progress, operation.group)
                    )
                    await self._show(operation)
            await self._canceller.look_after()
            for operation_id in await self._threads.guarded(self._store.expire) or ():
                self._register.forget_preview(operation_id)

    async def _read(
        self, operation_id: str, request: SubmitRequest, executor: Executor, origin: ClientOrigin | None
    ) -> None:
        secrets = secrets_of(request.parameters)
        self._log_mask.add(operation_id, secrets)
        refusal: OperationError | None = None
        classified: Classified | None = None
        try:
            queue = None if origin is None else origin.queue
            classified = await self._texts.classify(operation_id, request, executor, queue)
        except ReadAbandonedError:  # it has ended meanwhile
            pass
        except StatementError as refused:
            refusal = masked(refused.error, secrets)
        except Exception as exception:
            log.error(  # the exception's text may hold the statement's
                "a statement could not be read: %s", type(exception).__name__, extra={"operation_id": operation_id}
            )
            refusal = OperationError(message="the gateway could not read the statement")
        if classified is None:
            await self._canceller.until_answered(executor.jobs, operation_id)
        view = self._register.get(operation_id)
        if view is None or view.state.is_terminal:  # cancelled, and maybe closed, while it was being read
            self._log_mask.retire(operation_id)
            return
        if classified is None:
            self._forget(operation_id)
            self._register.end(operation_id, OperationState.ERROR, refusal)
            return
        self._log_mask.add(operation_id, classified.masker)
        self._operations[operation_id] = Operation(self, operation_id, request, classified, executor, origin)
        streaming = request.streaming is not None
        self._register.update(
            operation_id,
            statement_type=classified.statement_type,
            read_only=classified.read_only,
            streaming=streaming,
        )
        if streaming or request.validate_against is not None:  # it takes no slot and excludes nobody
            self._apply(self._scheduler.submit_unbound(operation_id))
            return
        queue, serial = (OPERATOR_QUEUE, False) if origin is None else (origin.queue, origin.serial)
        exclusive = serial or classified.exclusive
        self._apply(self._scheduler.submit(operation_id, exclusive=exclusive, queue=queue, local=classified.local))

    def _waited(self, operation_id: str, origin: ClientOrigin) -> None:
        """The time that a client's statement may wait is over."""
        operation, view = self._operations.get(operation_id), self._register.get(operation_id)
        if view is None or view.state is not OperationState.PENDING or (operation is not None and operation.admitted):
            return
        message = f"the statement has waited for its turn longer than {origin.queue_seconds:g} s"
        self.cancel(operation_id, StopRequest(OperationState.TIMED_OUT, message, ErrorReason.QUEUE_TIMEOUT))

    def _apply(self, step: Step) -> None:
        for operation_id in step.resumed:
            self._operations[operation_id].grant()
        for operation_id in step.admitted:
            operation = self._operations[operation_id]
            operation.admitted = True
            self._spawn(self._run_to_completion(operation))

    async def _run_to_completion(self, operation: Operation) -> None:
        """From admission to the end: runs the thread, then tells how it ended once nothing of it is left."""
        loop = asyncio.get_running_loop()

        def work() -> bool:
            reusable: Future[bool] = Future()
            execution_result = self._run(operation)
            loop.call_soon_threadsafe(self._returned, operation, execution_result, reusable)
            return reusable.result()

        if operation.request.streaming is None and operation.request.validate_against is None:
            self.workers.submit(work)
        else:  # it may run for months, and would keep a thread from statements that end; or a query is to be upgraded
            self.workers.detach(work)
        await operation.returned.wait()
        if operation.execution_result.result is None:
            await self._canceller.until_quiet(operation)
        await self._finish(operation)

    def _run(self, operation: Operation) -> ExecutionResult:
        """In the operation's thread."""
        try:
            return ExecutionResult(result=operation.executor.run(operation))
        except OperationCancelledError:
            return ExecutionResult()
        except ExplainedError as explained:
            asked = operation.request.validate_against is not None
            return ExecutionResult(explained.result if asked else None, explained.error)
        except StatementError as failed:
            return ExecutionResult(error=failed.error)
        except Exception as exception:
            log.error(
                "a statement ended in a fault of the gateway: %s",
                type(exception).__name__,
                extra={"operation_id": operation.operation_id},
            )
            return ExecutionResult(error=OperationError(message=f"the gateway failed: {type(exception).__name__}"))

    def _returned(self, operation: Operation, execution_result: ExecutionResult, reusable: Future[bool]) -> None:
        if operation.is_left:
            self._canceller.came_back()
            reusable.set_result(False)
            if execution_result.result is not None:
                self._spawn(self._discard(execution_result.result))
            return
        operation.execution_result = execution_result
        operation.returned.set()
        # From here on nobody interrupts the thread; before, an interrupt may be under way.
        reusable.set_result(operation.stop_request is None and execution_result.result is not None)
        if operation.timer is not None:
            operation.timer.cancel()

    async def _finish(self, operation: Operation) -> None:
        operation_id, stop_request = operation.operation_id, operation.stop_request
        state, error = OperationState.ERROR, operation.execution_result.error
        result: ResultSummary | None = None
        if operation.execution_result.result is not None:
            state = OperationState.FINISHED if error is None else OperationState.ERROR
            result = await self._summaries.kept(operation, operation.execution_result.result)
        elif stop_request is not None:
            state, error = stop_request.state, stop_request.error()
        if error is not None:
            error = masked(error, operation.classified.masker)
        counts = await self._threads.guarded(operation.executor.jobs.progress, operation.group) or Progress()
        self._register.end(operation_id, state, error, result=result, progress=operation.with_position(counts))
        self.record_activity()
        self._forget(operation_id)

    def on_started(self, operation: Operation) -> None:
        """Marks an operation as Running, and starts its time."""
        self._register.start(operation.operation_id)
        if operation.stream is not None:
            self._register.update(operation.operation_id, progress=operation.with_position(Progress()))
        if operation.stop_request is not None:
            return
        seconds = operation.request.execution_seconds
        if operation.request.mode is StatementMode.PREVIEW:
            seconds = seconds or PREVIEW_SECONDS
        if seconds > 0:
            stop_request = StopRequest(OperationState.TIMED_OUT, f"the statement ran longer than {seconds:g} s")
            operation.timer = asyncio.get_running_loop().call_later(seconds, self._overran, operation, stop_request)

    def _overran(self, operation: Operation, stop_request: StopRequest) -> None:
        """The time of a statement is over. One that ends by itself then has a little more to do so."""
        if operation.grace_seconds > 0:
            call_later = asyncio.get_running_loop().call_later
            operation.timer = call_later(operation.grace_seconds, self.cancel, operation.operation_id, stop_request)
        else:
            self.cancel(operation.operation_id, stop_request)

    def on_statement(self, operation: Operation, index: int) -> None:
        """Notes which statement of a script is next, from 1."""
        operation.statement_index = index

    def on_acquire(self, operation: Operation, targets: frozenset[str]) -> None:
        """Asks for targets that an operation is to write, and grants them in its turn."""
        if operation.stop_request is None:
            self._apply(self._scheduler.lock(operation.operation_id, targets))

    def on_release(self, operation: Operation) -> None:
        """Gives the targets of an operation back."""
        self._apply(self._scheduler.unlock(operation.operation_id))

    def on_unbounded(self, operation: Operation) -> None:
        """Lets others have the slot and the turn of a query without end, and tells its client that there are rows to take."""
        self._register.update(operation.operation_id, streaming=True)
        self._apply(self._scheduler.unbind(operation.operation_id))
        if operation.origin is not None and operation.origin.on_rows is not None:
            operation.origin.on_rows()

    def _progressed(self, operation: Operation, progress: Progress | None) -> None:
        if progress is not None and self._is_running(operation):
            self._register.update(operation.operation_id, progress=operation.with_position(progress))

    async def _show(self, operation: Operation) -> None:
        """The rows that a running statement has given so far, if there are new ones."""
        shown = await self._summaries.so_far(operation)
        if shown is not None and self._is_running(operation):
            self._register.update(operation.operation_id, result=shown)

    def _is_running(self, operation: Operation) -> bool:
        view = self._register.get(operation.operation_id)
        return view is not None and view.state is OperationState.RUNNING and not operation.returned.is_set()

    def _forget(self, operation_id: str) -> None:
        """Nothing of this operation waits or runs any more."""
        self._operations.pop(operation_id, None)
        self._log_mask.retire(operation_id)
        self._apply(self._scheduler.leave(operation_id))

    async def _until_idle(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._register.live() and (left := deadline - loop.time()) > 0:
            await asyncio.wait(
                self._tasks | set(self._reading.values()), timeout=left, return_when=asyncio.FIRST_COMPLETED
            )

    async def _discard(self, result: StoredResult) -> None:
        await self._threads.guarded(self._store.discard, result)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
