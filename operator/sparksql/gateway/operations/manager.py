"""Takes operations from submission to their end: the asynchronous half of the gateway, without Spark in it.

A statement comes with the runner that reads and runs it, and waits in the queue of its session (see `scheduler`).

Invariants: an id runs at most once; a view is Pending until its statement may really begin, Running from then on; an ended
operation has no thread and no Spark job left; whether it was cancelled is decided by who asked, never guessed from an error;
a statement that has succeeded before it noticed a cancel is Finished, because its effect is there.

All state belongs to the event loop. Statements run in threads of their own, which post what they tell to the loop.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sparksql.gateway.operations.cancellation import Stopper
from sparksql.gateway.operations.operation import Attempt, Cancelled, Ending, ExplainedError, Outcome, Runner
from sparksql.gateway.operations.register import OperationRegister
from sparksql.gateway.operations.scheduler import OPERATOR_QUEUE, Scheduler, Step
from sparksql.gateway.operations.threads import Workers
from sparksql.gateway.results.store import ResultReader, ResultStore, StoredResult
from sparksql.gateway.sql.classifier import Classified
from sparksql.gateway.sql.errors import StatementError, masked
from sparksql.gateway.sql.masking import LogMask
from sparksql.gateway.sql.parameters import secrets_of
from sparksql.gateway.sql.readers import Readers, Unwanted
from sparksql.wire.control import (
    ClientProtocol,
    ErrorReason,
    Mode,
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


@dataclass(frozen=True)
class ClientOrigin:
    """Of a statement that came from a client: the protocol, the queue of its session, whether it always runs alone in it, and
    how many seconds it may wait for its turn (0: for ever)."""

    protocol: ClientProtocol
    queue: str
    serial: bool
    queue_seconds: float = 0.0


class Engine:
    """Takes statements, runs them in slots and threads, and ends them. `clock` gives UTC times; `slots` statements run at a time."""

    def __init__(
        self,
        *,
        runner: Runner,
        register: OperationRegister,
        store: ResultStore,
        reader: ResultReader,
        log_mask: LogMask,
        clock: Callable[[], datetime],
        slots: int,
        workers: Workers,
        max_preview_rows: int,
    ) -> None:
        self._runner = runner
        self._register = register
        self._store = store
        self._reader = reader
        self._log_mask = log_mask
        self._clock = clock
        self._max_preview_rows = max_preview_rows
        self._scheduler = Scheduler(slots)
        self.workers = workers
        self._stopper = Stopper(self._guarded)
        self._attempts: dict[str, Attempt] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_read: dict[str, asyncio.Task[None]] = {}
        # Reading texts has threads of its own, so that a submission never waits for a page of a result.
        self._readers = Readers()
        self._work_pool = ThreadPoolExecutor(8, thread_name_prefix="work")
        # Each thread's heap keeps the size of the largest page that it has made, so pages have few threads.
        self._page_pool = ThreadPoolExecutor(2, thread_name_prefix="page")
        self.last_activity = clock()

    def touch(self) -> None:
        """Somebody uses the session now."""
        self.last_activity = self._clock()

    async def submit(self, operation_id: str, request: SubmitRequest) -> OperationView:
        """Reads the text and queues it; answers what is known for an id that was seen before, and of a text that takes long
        to be read."""
        self.touch()
        reading = self._reading.get(operation_id)
        if reading is None and self._register.get(operation_id) is None:
            reading = self.begin(operation_id, request, self._runner)
        if reading is not None:
            await asyncio.wait({reading}, timeout=ANSWER_SECONDS)  # a client that hangs up does not stop it half-way
        return self._register.view(operation_id)

    def begin(
        self, operation_id: str, request: SubmitRequest, runner: Runner, origin: ClientOrigin | None = None
    ) -> asyncio.Task[None]:
        """Registers a new operation and begins to read its text; the task ends when it is queued or refused."""
        self.touch()
        self._register.create(operation_id, *(() if origin is None else (origin.protocol, origin.queue)))
        reading = asyncio.create_task(self._read(operation_id, request, runner, origin))
        self._reading[operation_id] = reading
        reading.add_done_callback(lambda _: self._reading.pop(operation_id, None))
        if origin is not None and origin.queue_seconds > 0:
            asyncio.get_running_loop().call_later(origin.queue_seconds, self._waited, operation_id, origin)
        return reading

    def is_being_read(self, operation_id: str) -> bool:
        return operation_id in self._reading

    def forget(self, operation_id: str) -> None:
        """Drops all that is known of a client's operation that has ended, its result included."""
        self._register.forget(operation_id)
        dropped = self._store.drop(operation_id)
        if dropped is not None:
            self._spawn(self._discard(dropped))

    def cancel(self, operation_id: str, ending: Ending) -> OperationView:
        """Begins to stop an operation, or leaves a tombstone for one that never came."""
        self.touch()
        view = self._register.get(operation_id)
        if view is None:
            return self._register.tombstone(operation_id, ending.state)
        if view.state.is_terminal:
            return view
        attempt = self._attempts.get(operation_id)
        if attempt is None or not attempt.admitted:  # being read, or queued
            self._readers.give_up(operation_id)
            self._forget(operation_id)
            return self._register.end(operation_id, ending.state, ending.error())
        if attempt.ending is None and not attempt.returned.is_set():
            attempt.cancel(ending)
            attempt.stopping = self._spawn(self._stopper.stop(attempt, ending))
        return view

    async def close(self, drain_seconds: float) -> None:
        """Stops streams, lets the rest run to its end for so long, then ends what is left as Closed."""
        closed = Ending(OperationState.CLOSED, "the session was closed")
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
            for attempt in list(self._attempts.values()):
                if self._is_running(attempt):
                    self._progressed(attempt, await self._guarded(attempt.runner.progress, attempt.group))
                    await self._show(attempt)
            await self._stopper.look_after()
            for operation_id in await self._guarded(self._store.expire) or ():
                self._register.forget_preview(operation_id)

    async def in_pool(self, function: Callable[..., T], *arguments: object) -> T:
        """Runs a blocking call beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._work_pool, function, *arguments)

    async def read_text(self, read: Callable[..., T], *arguments: object) -> T:
        """Runs a look at a text that may take long. Raises StatementError when it takes too long."""
        return await self._readers.read(str(uuid.uuid4()), read, *arguments)

    async def read_page(self, read: Callable[..., T], *arguments: object) -> T:
        """Runs a read of a result beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._page_pool, read, *arguments)

    async def _read(
        self, operation_id: str, request: SubmitRequest, runner: Runner, origin: ClientOrigin | None
    ) -> None:
        secrets = secrets_of(request.parameters)
        self._log_mask.add(operation_id, secrets)
        refusal: OperationError | None = None
        classified: Classified | None = None
        try:
            classified = await self._classify(operation_id, request, runner, origin)
        except Unwanted:  # it has ended meanwhile
            pass
        except StatementError as refused:
            refusal = masked(refused.error, secrets)
        except Exception as exception:
            log.error(  # the exception's text may hold the statement's
                "a statement could not be read: %s", type(exception).__name__, extra={"operation_id": operation_id}
            )
            refusal = OperationError(message="the gateway could not read the statement")
        if classified is None:
            await self._stopper.until_answered(runner, operation_id)
        view = self._register.get(operation_id)
        if view is None or view.state.is_terminal:  # cancelled, and maybe closed, while it was being read
            self._log_mask.retire(operation_id)
            return
        if classified is None:
            self._forget(operation_id)
            self._register.end(operation_id, OperationState.ERROR, refusal)
            return
        self._log_mask.add(operation_id, classified.masker)
        self._attempts[operation_id] = Attempt(self, operation_id, request, classified, runner)
        streaming = request.streaming is not None
        self._register.update(
            operation_id,
            statement_type=classified.statement_type,
            read_only=classified.read_only,
            streaming=streaming,
        )
        if streaming or request.validate_against is not None:  # it takes no slot and excludes nobody
            self._perform(self._scheduler.submit_unbound(operation_id))
            return
        queue, serial = (OPERATOR_QUEUE, False) if origin is None else (origin.queue, origin.serial)
        exclusive = serial or classified.exclusive
        self._perform(self._scheduler.submit(operation_id, exclusive=exclusive, queue=queue, local=classified.local))

    async def _classify(
        self, operation_id: str, request: SubmitRequest, runner: Runner, origin: ClientOrigin | None
    ) -> Classified:
        """Reads a text. Those of one client's session are read one after the other, so that they keep their order."""
        current = asyncio.current_task()
        assert current is not None
        if origin is not None:
            before = self._last_read.get(origin.queue)
            self._last_read[origin.queue] = current
            current.add_done_callback(lambda _: self._read_last(origin.queue, current))
            if before is not None:
                await asyncio.wait({before})
        return await self._readers.read(operation_id, runner.classify, request)

    def _read_last(self, queue: str, task: asyncio.Task[None]) -> None:
        if self._last_read.get(queue) is task:
            del self._last_read[queue]

    def _waited(self, operation_id: str, origin: ClientOrigin) -> None:
        """The time that a client's statement may wait is over."""
        attempt, view = self._attempts.get(operation_id), self._register.get(operation_id)
        if view is None or view.state is not OperationState.PENDING or (attempt is not None and attempt.admitted):
            return
        message = f"the statement has waited for its turn longer than {origin.queue_seconds:g} s"
        self.cancel(operation_id, Ending(OperationState.TIMED_OUT, message, ErrorReason.QUEUE_TIMEOUT))

    def _perform(self, step: Step) -> None:
        for operation_id in step.resumed:
            self._attempts[operation_id].grant()
        for operation_id in step.admitted:
            attempt = self._attempts[operation_id]
            attempt.admitted = True
            self._spawn(self._see_through(attempt))

    async def _see_through(self, attempt: Attempt) -> None:
        """From admission to the end: runs the thread, then tells how it ended once nothing of it is left."""
        loop = asyncio.get_running_loop()

        def work() -> bool:
            reusable: Future[bool] = Future()
            outcome = self._run(attempt)
            loop.call_soon_threadsafe(self._returned, attempt, outcome, reusable)
            return reusable.result()

        if attempt.request.streaming is None and attempt.request.validate_against is None:
            self.workers.submit(work)
        else:  # it may run for months, and would keep a thread from statements that end; or a query is to be upgraded
            self.workers.detach(work)
        await attempt.returned.wait()
        if attempt.outcome.result is None:
            await self._stopper.until_quiet(attempt)
        await self._finish(attempt)

    def _run(self, attempt: Attempt) -> Outcome:
        """In the attempt's thread."""
        try:
            return Outcome(result=attempt.runner.run(attempt))
        except Cancelled:
            return Outcome()
        except ExplainedError as explained:
            asked = attempt.request.validate_against is not None
            return Outcome(explained.result if asked else None, explained.error)
        except StatementError as failed:
            return Outcome(error=failed.error)
        except Exception as exception:
            log.error(
                "a statement ended in a fault of the gateway: %s",
                type(exception).__name__,
                extra={"operation_id": attempt.operation_id},
            )
            return Outcome(error=OperationError(message=f"the gateway failed: {type(exception).__name__}"))

    def _returned(self, attempt: Attempt, outcome: Outcome, reusable: Future[bool]) -> None:
        if attempt.is_left:
            self._stopper.came_back()
            reusable.set_result(False)
            if outcome.result is not None:
                self._spawn(self._discard(outcome.result))
            return
        attempt.outcome = outcome
        attempt.returned.set()
        # From here on nobody interrupts the thread; before, an interrupt may be under way.
        reusable.set_result(attempt.ending is None and outcome.result is not None)
        if attempt.timer is not None:
            attempt.timer.cancel()

    async def _guarded(self, call: Callable[..., T], *arguments: object) -> T | None:
        """A call that will be repeated when it fails; None then."""
        try:
            return await self.in_pool(call, *arguments)
        except Exception as exception:
            log.warning("a call that will be repeated has failed: %s", type(exception).__name__)
            return None

    async def _finish(self, attempt: Attempt) -> None:
        operation_id, outcome, ending = attempt.operation_id, attempt.outcome, attempt.ending
        state, error = OperationState.ERROR, outcome.error
        result: ResultSummary | None = None
        if outcome.result is not None:
            state = OperationState.FINISHED if error is None else OperationState.ERROR
            result = await self._summary(attempt, outcome.result)
        elif ending is not None:
            state, error = ending.state, ending.error()
        if error is not None:
            error = masked(error, attempt.classified.masker)
        counts = await self._guarded(attempt.runner.progress, attempt.group) or Progress()
        self._register.end(operation_id, state, error, result=result, progress=_with_position(counts, attempt))
        self.touch()
        self._forget(operation_id)

    async def _summary(self, attempt: Attempt, result: StoredResult) -> ResultSummary:
        wish = attempt.request.result
        preview_rows = min(wish.preview_rows, self._max_preview_rows)
        expires = self._store.keep(attempt.operation_id, result, wish.retention_seconds)
        masker = attempt.classified.masker
        try:
            return await self.read_page(self._reader.summary, result, preview_rows, masker, expires)
        except Exception as exception:  # the statement has succeeded; its result may be readable later
            log.warning(
                "a preview could not be read: %s",
                type(exception).__name__,
                extra={"operation_id": attempt.operation_id},
            )
            return self._reader.summary(result, 0, masker, expires)

    def on_started(self, attempt: Attempt) -> None:
        self._register.start(attempt.operation_id)
        if attempt.stream is not None:
            self._register.update(attempt.operation_id, progress=_with_position(Progress(), attempt))
        if attempt.ending is not None:
            return
        seconds = attempt.request.execution_seconds
        if attempt.request.mode is Mode.PREVIEW:
            seconds = seconds or PREVIEW_SECONDS
        if seconds > 0:
            ending = Ending(OperationState.TIMED_OUT, f"the statement ran longer than {seconds:g} s")
            attempt.timer = asyncio.get_running_loop().call_later(seconds, self._overran, attempt, ending)

    def _overran(self, attempt: Attempt, ending: Ending) -> None:
        """The time of a statement is over. One that ends by itself then has a little more to do so."""
        if attempt.grace_seconds > 0:
            call_later = asyncio.get_running_loop().call_later
            attempt.timer = call_later(attempt.grace_seconds, self.cancel, attempt.operation_id, ending)
        else:
            self.cancel(attempt.operation_id, ending)

    def on_statement(self, attempt: Attempt, index: int) -> None:
        attempt.statement_index = index

    def on_acquire(self, attempt: Attempt, targets: frozenset[str]) -> None:
        if attempt.ending is None:
            self._perform(self._scheduler.lock(attempt.operation_id, targets))

    def on_release(self, attempt: Attempt) -> None:
        self._perform(self._scheduler.unlock(attempt.operation_id))

    def _progressed(self, attempt: Attempt, progress: Progress | None) -> None:
        if progress is not None and self._is_running(attempt):
            self._register.update(attempt.operation_id, progress=_with_position(progress, attempt))

    async def _show(self, attempt: Attempt) -> None:
        """The rows that a running statement has given so far, if there are new ones."""
        so_far, attempt.so_far = attempt.so_far, None
        if so_far is None:
            return
        rows = min(attempt.request.result.preview_rows, self._max_preview_rows)
        shown = await self._guarded(self._reader.summary, so_far, rows, attempt.classified.masker)
        if shown is not None and self._is_running(attempt):
            self._register.update(attempt.operation_id, result=shown)

    def _is_running(self, attempt: Attempt) -> bool:
        view = self._register.get(attempt.operation_id)
        return view is not None and view.state is OperationState.RUNNING and not attempt.returned.is_set()

    def _forget(self, operation_id: str) -> None:
        """Nothing of this operation waits or runs any more."""
        self._attempts.pop(operation_id, None)
        self._log_mask.retire(operation_id)
        self._perform(self._scheduler.leave(operation_id))

    async def _until_idle(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._register.live() and (left := deadline - loop.time()) > 0:
            await asyncio.wait(
                self._tasks | set(self._reading.values()), timeout=left, return_when=asyncio.FIRST_COMPLETED
            )

    async def _discard(self, result: StoredResult) -> None:
        await self._guarded(self._store.discard, result)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _with_position(counts: Progress, attempt: Attempt) -> Progress:
    """Counts together with the place in the script and what a streaming query reports."""
    place = {"statement_index": attempt.statement_index, "statement_count": len(attempt.classified.statements)}
    return counts.model_copy(update={**place, "stream": attempt.stream})
