"""Takes operations from submission to their end: the asynchronous half of the gateway, without Spark in it.

Invariants: an id runs at most once; a view is Pending until its statement may really begin, Running from then on; an ended
operation has no thread and no Spark job left; whether it was cancelled is decided by who asked, never guessed from an error;
a statement that has succeeded before it noticed a cancel is Finished, because its effect is there.

All state belongs to the event loop. Statements run in threads of their own, which post what they tell to the loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

from sparksql.gateway.attempt import Attempt, Cancelled, Ending, Outcome, Runner
from sparksql.gateway.classify import Classified
from sparksql.gateway.errors import StatementError, masked
from sparksql.gateway.masking import LogMask
from sparksql.gateway.modes import PREVIEW_SECONDS
from sparksql.gateway.operations import OperationRegister
from sparksql.gateway.parameters import secrets_of
from sparksql.gateway.progress import POLL_SECONDS
from sparksql.gateway.results import ResultReader, ResultStore, StoredResult
from sparksql.gateway.scheduler import Scheduler, Step
from sparksql.wire.control import (
    Mode,
    OperationError,
    OperationState,
    OperationView,
    Progress,
    ResultSummary,
    SubmitRequest,
)

log = logging.getLogger(__name__)

STOP_ROUND_SECONDS = 0.1
STOP_WARNING_SECONDS = 30.0
QUIET_ROUNDS = 3
DEPARTED_SECONDS = 60.0  # how long jobs may still appear in the group of a statement that has ended
CLOSE_SECONDS = 15.0  # after the drain deadline, for statements that are being stopped

T = TypeVar("T")


class Engine:
    """See the module. `clock` gives UTC times; `slots` statements run at a time."""

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
        self._attempts: dict[str, Attempt] = {}
        self._reading: dict[str, asyncio.Task[OperationView]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._departed: dict[str, float] = {}
        # Reading texts has threads of its own, so that a submission never waits for a page of a result.
        self._parse_pool = ThreadPoolExecutor(2, thread_name_prefix="parse")
        self._work_pool = ThreadPoolExecutor(8, thread_name_prefix="work")
        # Each thread's heap keeps the size of the largest page that it has made, so pages have few threads.
        self._page_pool = ThreadPoolExecutor(2, thread_name_prefix="page")
        self.last_activity = clock()

    def touch(self) -> None:
        """Somebody uses the session now."""
        self.last_activity = self._clock()

    async def submit(self, operation_id: str, request: SubmitRequest) -> OperationView:
        """Reads the text and queues it; answers what is known for an id that was seen before."""
        self.touch()
        if operation_id in self._reading:
            return await asyncio.shield(self._reading[operation_id])
        known = self._register.get(operation_id)
        if known is not None:
            return known
        self._register.create(operation_id)
        reading = asyncio.create_task(self._read(operation_id, request))
        self._reading[operation_id] = reading
        reading.add_done_callback(lambda _: self._reading.pop(operation_id, None))
        return await asyncio.shield(reading)  # a client that hangs up must not stop it half-way

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
            self._forget(operation_id)
            return self._register.end(operation_id, ending.state, ending.error())
        if attempt.ending is None and not attempt.returned.is_set():
            attempt.cancel(ending)
            attempt.stopping = self._spawn(self._stop(attempt, ending))
        return view

    async def close(self, drain_seconds: float) -> None:
        """Lets what is there run to its end for so long, then ends the rest as Closed."""
        await self._until_idle(drain_seconds)
        for view in self._register.live():
            self.cancel(view.operation_id, Ending(OperationState.CLOSED, "the session was closed"))
        await self._until_idle(CLOSE_SECONDS)

    async def watch(self) -> None:
        """Polls progress while someone runs, and removes expired results; ends only by being cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for attempt in list(self._attempts.values()):
                if self._is_running(attempt):
                    self._progressed(attempt, await self._guarded(self._runner.progress, attempt.group))
            await self._look_after()
            for operation_id in await self._guarded(self._store.expire) or ():
                self._register.forget_preview(operation_id)

    async def in_pool(self, function: Callable[..., T], *arguments: object) -> T:
        """Runs a blocking call beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._work_pool, function, *arguments)

    async def read_page(self, read: Callable[..., T], *arguments: object) -> T:
        """Runs a read of a result beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._page_pool, read, *arguments)

    async def _read(self, operation_id: str, request: SubmitRequest) -> OperationView:
        secrets = secrets_of(request.parameters)
        self._log_mask.add(operation_id, secrets)
        refusal: OperationError | None = None
        classified: Classified | None = None
        try:
            loop = asyncio.get_running_loop()
            classified = await loop.run_in_executor(self._parse_pool, self._runner.classify, request)
        except StatementError as refused:
            refusal = masked(refused.error, secrets)
        except Exception as exception:
            log.error(  # the exception's text may hold the statement's
                "a statement could not be read: %s", type(exception).__name__, extra={"operation_id": operation_id}
            )
            refusal = OperationError(message="the gateway could not read the statement")
        view = self._register.view(operation_id)
        if view.state.is_terminal:  # cancelled while it was being read
            return view
        if classified is None:
            self._forget(operation_id)
            return self._register.end(operation_id, OperationState.ERROR, refusal)
        self._log_mask.add(operation_id, classified.masker)
        self._attempts[operation_id] = Attempt(self, operation_id, request, classified)
        self._register.update(operation_id, statement_type=classified.statement_type, read_only=classified.read_only)
        log.info("statement accepted", extra={"operation_id": operation_id})
        self._perform(self._scheduler.submit(operation_id, exclusive=classified.exclusive))
        return self._register.view(operation_id)

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

        def work() -> None:
            outcome = self._run(attempt)
            loop.call_soon_threadsafe(self._returned, attempt, outcome)

        threading.Thread(target=work, name=attempt.group, daemon=True).start()
        await attempt.returned.wait()
        if attempt.outcome.result is None:
            await self._until_quiet(attempt)
        await self._finish(attempt)

    def _run(self, attempt: Attempt) -> Outcome:
        """In the attempt's thread."""
        try:
            return Outcome(result=self._runner.run(attempt))
        except Cancelled:
            return Outcome()
        except StatementError as failed:
            return Outcome(error=failed.error)
        except Exception as exception:
            log.error(
                "a statement ended in a fault of the gateway: %s",
                type(exception).__name__,
                extra={"operation_id": attempt.operation_id},
            )
            return Outcome(error=OperationError(message=f"the gateway failed: {type(exception).__name__}"))
        finally:
            self._runner.release_thread()

    def _returned(self, attempt: Attempt, outcome: Outcome) -> None:
        attempt.outcome = outcome
        attempt.returned.set()
        if attempt.timer is not None:
            attempt.timer.cancel()

    async def _stop(self, attempt: Attempt, ending: Ending) -> None:
        """Stops jobs and thread, and again what appears meanwhile, until the thread has returned.

        A thread that computes a plan without ever waiting notices only when it is done; its jobs are dead already.
        """
        reason = ending.reason or str(ending.state)
        await self._guarded(self._runner.stop, attempt.group, reason)
        loop = asyncio.get_running_loop()
        began, warned = loop.time(), False
        while not await self._has_returned(attempt):
            # Without a look at the tracker: it lags, and a job that it does not show yet would live until the next round.
            await self._guarded(self._runner.stop_jobs, attempt.group, reason)
            if not warned and loop.time() - began > STOP_WARNING_SECONDS:
                warned = True
                log.warning("a statement does not stop", extra={"operation_id": attempt.operation_id})
        # The scheduler handles this one after every submission that the thread has made.
        await self._guarded(self._runner.stop_jobs, attempt.group, reason)

    async def _has_returned(self, attempt: Attempt) -> bool:
        try:
            await asyncio.wait_for(attempt.returned.wait(), STOP_ROUND_SECONDS)
        except TimeoutError:
            return False
        return True

    async def _until_quiet(self, attempt: Attempt) -> None:
        """After a thread came back without success: no job of its group may live on.

        Spark submits the stages of a shuffle from threads of its own, which may do so after the statement's thread is gone,
        so a cancelled group must stay quiet for a while, and is looked after for longer (`_look_after`).
        """
        if attempt.stopping is not None:
            await attempt.stopping
        self._departed[attempt.group] = asyncio.get_running_loop().time() + DEPARTED_SECONDS
        quiet_rounds = 0
        while quiet_rounds < (1 if attempt.ending is None else QUIET_ROUNDS):
            quiet = await self._guarded(self._runner.is_quiet, attempt.group)
            quiet_rounds = quiet_rounds + 1 if quiet else 0
            if not quiet or attempt.ending is not None:
                await self._guarded(self._runner.stop_jobs, attempt.group, "the statement has ended")
                await asyncio.sleep(STOP_ROUND_SECONDS)

    async def _look_after(self) -> None:
        """Cancels jobs that appear in groups whose statement has ended without success."""
        now = asyncio.get_running_loop().time()
        for group, until in list(self._departed.items()):
            if now > until:
                del self._departed[group]
            elif not await self._guarded(self._runner.is_quiet, group):
                await self._guarded(self._runner.stop_jobs, group, "the statement has ended")

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
            state, error = OperationState.FINISHED, None
            result = await self._summary(attempt, outcome.result)
        elif ending is not None:
            state, error = ending.state, ending.error()
        if error is not None:
            error = masked(error, attempt.classified.masker)
        counts = await self._guarded(self._runner.progress, attempt.group) or Progress()
        self._register.end(operation_id, state, error, result=result, progress=_with_position(counts, attempt))
        log.info("statement ended as %s", state, extra={"operation_id": operation_id})
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
        log.info("statement runs", extra={"operation_id": attempt.operation_id})
        if attempt.ending is not None:
            return
        seconds = attempt.request.execution_seconds
        if attempt.request.mode is Mode.PREVIEW:
            seconds = seconds or PREVIEW_SECONDS
        if seconds > 0:
            ending = Ending(OperationState.TIMED_OUT, f"the statement ran longer than {seconds} s")
            attempt.timer = asyncio.get_running_loop().call_later(seconds, self.cancel, attempt.operation_id, ending)

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

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _with_position(counts: Progress, attempt: Attempt) -> Progress:
    """Counts together with the place in the script."""
    place = {"statement_index": attempt.statement_index, "statement_count": len(attempt.classified.statements)}
    return counts.model_copy(update=place)
