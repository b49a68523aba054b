"""Spark's scheduler pools: one for each statement, so that tasks of one go on beside those of another.

With `spark.scheduler.mode: FAIR` the pools share the executors by weight. Inside the one pool that Spark has by itself jobs go
first in, first out: a short query would wait behind all tasks of a long one. A statement's pool is made before its first job,
since Spark gives a pool that it makes itself the weight 1, and is gone after the statement's end, since each offer of an
executor sorts all of them. Which of them a free place is offered to first is said by `Turns`, in images/session/java: Spark's own
order lets one wait for another's end where one task runs at a time.

The classes are Spark's internal ones, those of 4.1. All calls block.
"""

from __future__ import annotations

import threading
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import scala_object
from sparksql.gateway.spark.shapes import JvmSession

POOL_KEY = "spark.scheduler.pool"
_PREFIX = "sparksql-"
_MAX_STEPS = 3
_BASE_WEIGHT = 2**_MAX_STEPS


def weight_of(priority: int) -> int:
    """Returns the weight of a pool.

    Each step of priority doubles the share, up to eight times that of priority 0 and down to an eighth of it: whatever
    priorities people choose, no statement is starved.
    """
    steps = max(-_MAX_STEPS, min(_MAX_STEPS, priority))
    return int(_BASE_WEIGHT * 2**steps)


class Pools:
    """Makes and removes scheduler pools. Safe to use from several threads."""

    def __init__(self, driver: SparkDriver) -> None:
        self._scheduling = driver.jvm.dev.sparksql.scheduling
        self._context = driver.context._jsc.sc()
        self._root = self._context.taskScheduler().rootPool()
        self._queue = self._root.schedulableQueue()
        modes = scala_object(driver.jvm.org.apache.spark.scheduler, "SchedulingMode")
        self._fifo, self._fair = modes.FIFO(), modes.FAIR()
        self._shares = str(self._root.schedulingMode().toString()) == "FAIR"
        self._turns = self._scheduling.Turns.of(self._root) if self._shares else None
        self._lock = threading.Lock()
        self._open: dict[str, Any] = {}

    def enter(self, name: str, priority: int) -> None:
        """Makes a pool, and the one of the jobs that this thread starts and of the threads that it makes."""
        if self._shares:
            self._make(name, weight_of(priority), self._fifo)
            self._context.setLocalProperty(POOL_KEY, name)

    def leave(self, name: str) -> None:
        """Takes this thread out of its pool and removes that."""
        if self._shares:
            self._context.setLocalProperty(POOL_KEY, None)
            self.remove(name)

    def give(self, name: str, session: JvmSession) -> None:
        """Makes a pool for all that a JVM session runs in threads of Spark's own; its jobs share it equally.

        Spark takes each setting of a session over into the properties of its jobs.
        """
        if self._shares:
            self._make(name, weight_of(0), self._fair)
            session.sessionState().conf().setConfString(POOL_KEY, name)

    def remove(self, name: str) -> None:
        """Removes a pool, and pools that Spark has made for jobs which came after their statement's end."""
        with self._lock:
            made = self._open.pop(name, None)
            if made is not None:
                self._root.removeSchedulable(made)
            if int(self._queue.size()) > len(self._open) + 1:  # and Spark's default
                self._remove_late()

    def _make(self, name: str, weight: int, mode: Any) -> None:
        with self._lock:
            pool = self._scheduling.StatementPool(name, mode, weight, self._turns)
            self._root.addSchedulable(pool)
            self._open[name] = pool

    def _remove_late(self) -> None:
        for pool in list(self._queue.toArray()):
            name = str(pool.name())
            if name.startswith(_PREFIX) and name not in self._open and pool.schedulableQueue().isEmpty():
                self._root.removeSchedulable(pool)


def pool_of_session(handle: str) -> str:
    """Returns the pool's name of a client's session."""
    return f"{_PREFIX}session-{handle}"
