"""The reconcile loop: workers that take keys from the queue and decide, by outcome alone, when each is looked at again.

Level-triggered: a reconcile is told which object, never what happened to it. Two workers never hold the same key.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Protocol, assert_never

from sparksql.engine.errors import Transient, Waiting
from sparksql.engine.key import Key, log_extra
from sparksql.engine.queue import QueueClosed, WorkQueue

logger = logging.getLogger(__name__)

Reconcile = Callable[[Key], Awaitable[float | None]]


class Result(StrEnum):
    """Names how one reconcile ended; the label `result` of the metrics."""

    SUCCESS = "success"
    WAITING = "waiting"
    TRANSIENT = "transient"
    ERROR = "error"


class Observer(Protocol):
    """Receives every finished reconcile: its kind, how it ended and how long it took in seconds."""

    def reconciled(self, kind: str, result: Result, seconds: float) -> None:
        """Takes in a reconcile of an object of `kind` that took `seconds`."""


class ReconcileLoop:
    """Runs `workers` reconciles at a time. A reconcile returns the seconds after which to look again, or None.

    | outcome | next look |
    |---|---|
    | returns | after the seconds returned, if any; the backoff ends |
    | Waiting | after the seconds it names; the backoff ends |
    | Transient | after the key's backoff, and not before the seconds that it asks for, at most 60 s |
    | any other exception | after the key's backoff |
    """

    def __init__(
        self,
        queue: WorkQueue,
        reconcilers: Mapping[str, Reconcile],
        *,
        workers: int,
        observer: Observer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._reconcilers = reconcilers
        self._workers = workers
        self._observer = observer
        self._clock = clock

    async def run(self) -> None:
        """Works until the queue is closed, then lets running reconciles end; when cancelled, cancels them as well."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"reconcile-{number}")

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueClosed:
                return
            try:
                await self._process(key)
            finally:
                self._queue.done(key)
            # One that had nothing to wait for has not let anything else run: watches, probes, the lease.
            await asyncio.sleep(0)

    async def _process(self, key: Key) -> None:
        started = self._clock()
        after: float | None = None
        at_least = 0.0
        try:
            after = await self._reconcilers[key.kind](key)
            result = Result.SUCCESS
        except Waiting as waiting:
            after = waiting.after
            result = Result.WAITING
        except Transient as transient:
            result, at_least = Result.TRANSIENT, transient.at_least
            logger.warning("reconcile failed, will retry", extra=log_extra(key, error=str(transient)))
        except Exception as error:
            result = Result.ERROR
            _log_defect(key, error)
        self._schedule(key, result, after, at_least)
        self._observer.reconciled(key.kind, result, self._clock() - started)

    def _schedule(self, key: Key, result: Result, after: float | None, at_least: float) -> None:
        match result:
            case Result.SUCCESS | Result.WAITING:
                self._queue.forget(key)
                if after is not None:
                    self._queue.add_after(key, after)
            case Result.TRANSIENT | Result.ERROR:
                self._queue.add_rate_limited(key, at_least)
            case _:
                assert_never(result)


def _log_defect(key: Key, error: Exception) -> None:
    """An unexpected error's own text may quote what it was given, SQL included: it is logged at debug level only."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    fields = log_extra(key, error=type(error).__name__, stack=frames)
    logger.error("reconcile failed unexpectedly, will retry", extra=fields)
    logger.debug("unexpected error", exc_info=error, extra=log_extra(key))
