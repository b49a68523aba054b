"""Stops a streaming query, until its thread has ended: between two batches if one ends soon, else in the middle of one.

Spark's own stop cancels the query's jobs once, interrupts its thread once and waits for it, by default for ever. What the thread
calls may keep an interrupt to itself (a read of the storage that is taken for failed), and go on with jobs that nobody cancels.
So each round is bounded, and another one follows.
"""

from __future__ import annotations

import logging
import time

from py4j.protocol import Py4JJavaError

from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import JvmSession, StreamingQuery

# How long a stop waits for the batch that runs; after that the batch is cut off, and runs again when the query goes on.
BATCH_END_SECONDS = 8.0
# Spark's setting for how long one round waits for the thread. A query has that of its session at its start.
ROUND = ("spark.sql.streaming.stopTimeout", "5s")
_POLL_SECONDS = 0.02
_FRAMES = 40  # of the thread's stack in the log: enough to reach Spark's own code

log = logging.getLogger(__name__)


def bound_rounds(session: JvmSession) -> None:
    """Bounds the rounds of stopping in a session, before a query is started there that `stop` will stop."""
    session.conf().set(*ROUND)


def stop(query: StreamingQuery, *, at_once: bool) -> None:
    """Stops a query whose session has bounded rounds. Where one batch follows the other: right after the report of one."""
    if not at_once:
        _wait_for_batch(query)
    rounds = 1
    while (place := _stop_once(query)) is not None:
        if rounds & (rounds - 1) == 0:  # the first, second, fourth, ...
            log.warning("a query has not stopped after %d rounds; its thread is at %s", rounds, place)
        rounds += 1


def _wait_for_batch(query: StreamingQuery) -> None:
    deadline, reported = time.monotonic() + BATCH_END_SECONDS, _reported(query)
    while query.isActive() and query.status().isTriggerActive() and time.monotonic() < deadline:
        if _reported(query) != reported:
            return
        time.sleep(_POLL_SECONDS)


def _stop_once(query: StreamingQuery) -> str | None:
    """One round. Where the query's thread is if it lives on, None once it has ended."""
    try:
        query.stop()
    except Py4JJavaError as error:
        late = error.java_exception
        if simple_name(late) != "TimeoutException":
            raise
        return " < ".join(str(frame) for frame in late.getCause().getStackTrace()[:_FRAMES])
    return None


def _reported(query: StreamingQuery) -> int | None:
    """The last batch that the query has reported, after its commit."""
    progress = query.lastProgress()
    return None if progress is None else int(progress.batchId())
