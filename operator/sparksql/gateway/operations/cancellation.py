"""Ends what a statement has started in Spark, until nothing of it is left.

One round is not enough. A stage that is being submitted while its group is cancelled runs on, a thread that computes a plan
notices nothing until it is done, and Spark submits the stages of a shuffle from threads of its own, which may do so after the
statement's thread has returned. So jobs are cancelled again until the thread has returned, a group must stay quiet for a
while after that, and is looked after for longer.

Spark's analysis and optimiser look at no interrupt. The thread of a statement that only reads is left to itself after a while:
whatever it still does has no effect, jobs that it would start are cancelled, and what it brings is thrown away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from sparksql.gateway.operations.operation import Jobs, Operation, StopRequest

log = logging.getLogger(__name__)

STOP_ROUND_SECONDS = 0.1
STOP_WARNING_SECONDS = 30.0
LEAVE_SECONDS = 30.0
MOST_LEFT = 4  # more would fill the driver; they keep their slots until they return
QUIET_ROUNDS = 3
DEPARTED_SECONDS = 60.0  # how long jobs may still appear in the group of a statement that has ended

Guarded = Callable[..., Awaitable[Any]]


class Canceller:
    """Stops attempts, and waits until what they ran is quiet.

    `guarded` runs a blocking call beside the loop and answers None when it fails.
    """

    def __init__(self, guarded: Guarded) -> None:
        self._guarded = guarded
        self._departed: dict[str, tuple[Jobs, float]] = {}
        self._left = 0

    async def stop(self, operation: Operation, stop_request: StopRequest) -> None:
        """Stops jobs and thread, and again what appears meanwhile, until the thread has returned."""
        reason, jobs = stop_request.reason or str(stop_request.state), operation.executor.jobs
        await self._guarded(jobs.stop, operation.group, reason)
        loop = asyncio.get_running_loop()
        began, warned = loop.time(), False
        while not await _has_returned(operation):
            # Without a look at the tracker: it lags, and a job that it does not show yet would live until the next round.
            await self._guarded(jobs.stop_jobs, operation.group, reason)
            if not warned and loop.time() - began > STOP_WARNING_SECONDS:
                warned = True
                log.warning("a statement does not stop", extra={"operation_id": operation.operation_id})
            if loop.time() - began > LEAVE_SECONDS and _has_no_effect(operation) and self._left < MOST_LEFT:
                self._left += 1
                operation.leave()
        # The scheduler handles this one after every submission that the thread has made.
        await self._guarded(jobs.stop_jobs, operation.group, reason)

    def came_back(self) -> None:
        """Tells that the thread of a statement that was left to itself has ended."""
        self._left -= 1

    async def until_quiet(self, operation: Operation) -> None:
        """Waits, after a thread came back without success, until no job of its group lives on."""
        if operation.stopping is not None:
            await operation.stopping
        jobs = operation.executor.jobs
        self._departed[operation.group] = jobs, asyncio.get_running_loop().time() + DEPARTED_SECONDS
        quiet_rounds = 0
        while quiet_rounds < (1 if operation.stop_request is None else QUIET_ROUNDS):
            quiet = await self._guarded(jobs.is_quiet, operation.group)
            quiet_rounds = quiet_rounds + 1 if quiet else 0
            if not quiet or operation.stop_request is not None:
                await self._guarded(jobs.stop_jobs, operation.group, "the statement has ended")
                await asyncio.sleep(STOP_ROUND_SECONDS)

    async def until_answered(self, jobs: Jobs, group: str) -> None:
        """Waits, before a text is refused, until the JVM answers.

        What failed because the JVM is gone is not told, since the process ends with it and the next driver takes the
        statement.
        """
        while True:
            if await self._guarded(jobs.is_quiet, group) is not None:
                return
            await asyncio.sleep(STOP_ROUND_SECONDS)

    async def look_after(self) -> None:
        """Cancels jobs that appear in groups whose statement has ended without success."""
        now = asyncio.get_running_loop().time()
        for group, (jobs, until) in list(self._departed.items()):
            if now > until:
                del self._departed[group]
            elif not await self._guarded(jobs.is_quiet, group):
                await self._guarded(jobs.stop_jobs, group, "the statement has ended")


def _has_no_effect(operation: Operation) -> bool:
    return operation.classified.read_only and operation.request.streaming is None


async def _has_returned(operation: Operation) -> bool:
    try:
        await asyncio.wait_for(operation.returned.wait(), STOP_ROUND_SECONDS)
    except TimeoutError:
        return False
    return True
