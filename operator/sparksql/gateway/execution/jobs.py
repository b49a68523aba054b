"""Spark's jobs of operations, by job group: how far they are, and how they are stopped."""

from __future__ import annotations

from typing import Any

from sparksql.gateway.execution.progress import has_running_job, read_progress
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.streaming.query import Streams
from sparksql.wire.control import Progress


class SparkJobs:
    """Stops and counts the jobs of any group, and interrupts the thread that a group has entered. One for the whole process.

    All calls block.
    """

    def __init__(self, driver: SparkDriver, streams: Streams) -> None:
        self._driver = driver
        self._streams = streams
        self._threads: dict[str, Any] = {}
        self._owned: set[str] = set()  # groups whose thread is a user's

    def enter(self, group: str, description: str, user: str | None) -> None:
        """Makes `group` the one of all jobs that the calling thread starts, and that thread the one to be interrupted.

        `user` is what `current_user()` gives in this thread; without one that is the user of the process, as ever.
        """
        self._threads[group] = self._driver.jvm.java.lang.Thread.currentThread()
        # Interrupting tasks as well frees the executors at once: a join or a sort looks at the kill flag late.
        self._driver.context.setJobGroup(group, description, True)
        if user is not None:
            self._owned.add(group)
            self._current_user().set(user)

    def leave(self, group: str) -> None:
        """Ends that: the thread will not be interrupted any more, and is nobody's."""
        self._threads.pop(group, None)
        if group in self._owned:
            self._owned.discard(group)
            self._current_user().remove()

    def _current_user(self) -> Any:
        """Spark's thread-local, which its optimizer looks into for `current_user()`."""
        return self._driver.jvm.org.apache.spark.sql.catalyst.CurrentUserContext.CURRENT_USER()

    def stop(self, group: str, reason: str) -> None:
        """Does the first round of stopping: cancels the group's jobs and those that it may still submit.

        The group's thread is interrupted as well, unless a stream runs in it, since it may be planning. One round is
        not enough: a stage that was being submitted meanwhile runs on, so `stop_jobs` must follow.
        """
        self._driver.context._jsc.sc().cancelJobGroupAndFutureJobs(group, reason)
        thread = self._threads.get(group)
        if thread is not None and not self._streams.runs(group):
            thread.interrupt()

    def stop_jobs(self, group: str, reason: str) -> None:
        """Cancels the jobs of the group that the scheduler knows by now."""
        self._driver.context._jsc.sc().cancelJobGroup(group, reason)

    def is_quiet(self, group: str) -> bool:
        """Returns whether no job of the group runs."""
        return not has_running_job(self._driver.context, group)

    def progress(self, group: str) -> Progress:
        """Returns the counts of the group's jobs, stages and tasks."""
        return read_progress(self._driver.context, group)
