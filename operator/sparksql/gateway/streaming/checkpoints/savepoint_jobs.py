"""Attempts to make savepoints: which copies run, and how those ended that were asked for in the life of this process.

Belongs to the event loop; the copies run in threads of their own. Views are kept as long as the process: an attempt's id is
never used again, and the operator may ask late.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from sparksql.gateway.sql.errors import MAX_MESSAGE_CHARS, clean_message
from sparksql.gateway.streaming.checkpoints.savepoint import (
    CopyCancelledError,
    InvalidLocationError,
    Manifest,
    Owner,
    RefusedQueryError,
    SavepointError,
    Savepoints,
)
from sparksql.wire.savepoints import SavepointRequest, SavepointState, SavepointView, StateQuery

GIVEN_UP = "the copy was given up"
AT_A_TIME = 2  # copies; each reads and writes several files at a time

log = logging.getLogger(__name__)


class Queries(Protocol):
    """Makes savepoints whose state a query gives. Belongs to the event loop."""

    async def make(self, attempt_id: str, request: SavepointRequest, query: StateQuery) -> Manifest:
        """Makes one. Raises SavepointError, or CopyCancelledError."""

    def cancel(self, attempt_id: str) -> None:
        """Has one that is being made end soon."""


class SavepointAttempts:
    """Begins, ends and remembers attempts to make savepoints.

    `release_thread` is called last in a thread that has used the JVM; `queries` make those whose state a query gives.
    """

    def __init__(
        self, savepoints: Savepoints, boot_id: str, release_thread: Callable[[], None], queries: Queries
    ) -> None:
        self._savepoints = savepoints
        self._queries = queries
        self._boot_id = boot_id
        self._release_thread = release_thread
        self._views: dict[str, SavepointView] = {}
        self._cancels: dict[str, threading.Event] = {}
        self._of_queries: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pool = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="savepoints")

    @property
    def running(self) -> int:
        """Returns the number of attempts that have not ended."""
        return len(self._cancels)

    def get(self, attempt_id: str) -> SavepointView | None:
        """Returns the view of an attempt, None for an unknown id."""
        return self._views.get(attempt_id)

    def begin(self, attempt_id: str, request: SavepointRequest) -> SavepointView:
        """Starts the copy, unless the id is known."""
        known = self._views.get(attempt_id)
        if known is not None:
            return known
        view = SavepointView(attempt_id=attempt_id, boot_id=self._boot_id, state=SavepointState.RUNNING)
        self._views[attempt_id] = view
        self._cancels[attempt_id] = threading.Event()
        task = asyncio.create_task(self._see_through(attempt_id, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return view

    def cancel(self, attempt_id: str) -> SavepointView:
        """Has the copy given up soon; it then ends as Failed, or as Completed if it was done before.

        An unknown id is known as Failed from then on, so that a request for it which comes late copies nothing.
        """
        cancelled = self._cancels.get(attempt_id)
        if cancelled is not None:
            cancelled.set()
            if attempt_id in self._of_queries:
                self._queries.cancel(attempt_id)
        failed = SavepointState.FAILED
        tombstone = SavepointView(attempt_id=attempt_id, boot_id=self._boot_id, state=failed, message=GIVEN_UP)
        return self._views.setdefault(attempt_id, tombstone)

    async def _see_through(self, attempt_id: str, request: SavepointRequest) -> None:
        changes: dict[str, object]
        try:
            changes = _completed(await self._made(attempt_id, request))
        except CopyCancelledError:
            changes = {"state": SavepointState.FAILED, "message": GIVEN_UP}
        except SavepointError as refused:
            changes = {
                "state": SavepointState.FAILED,
                "message": str(refused),
                "location_invalid": isinstance(refused, InvalidLocationError),
                "refusal": refused.reason if isinstance(refused, RefusedQueryError) else None,
            }
        except Exception as failed:
            log.warning("a savepoint could not be made: %s", type(failed).__name__)
            message = clean_message(str(failed))[:MAX_MESSAGE_CHARS] or type(failed).__name__
            changes = {"state": SavepointState.FAILED, "message": message}
        del self._cancels[attempt_id]
        self._of_queries.discard(attempt_id)
        self._views[attempt_id] = self._views[attempt_id].model_copy(update=changes)

    async def _made(self, attempt_id: str, request: SavepointRequest) -> Manifest:
        if request.query is not None:
            if self._cancels[attempt_id].is_set():
                raise CopyCancelledError
            self._of_queries.add(attempt_id)
            return await self._queries.make(attempt_id, request, request.query)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._take, request, self._cancels[attempt_id])

    def _take(self, request: SavepointRequest, cancelled: threading.Event) -> Manifest:
        owner = Owner(request.uid, request.namespace, request.name)
        try:
            if request.checkpoint is None:
                return self._savepoints.inspect(request.target)
            return self._savepoints.take(
                request.checkpoint, request.target, owner, sql_hash=request.sql_hash, is_cancelled=cancelled.is_set
            )
        finally:
            self._release_thread()


def _completed(manifest: Manifest) -> dict[str, object]:
    return {
        "state": SavepointState.COMPLETED,
        "batch_id": manifest.batch_id,
        "query_id": manifest.query_id,
        "spark_version": manifest.spark_version,
        "size_bytes": manifest.size_bytes,
        "file_count": len(manifest.files),
        "sql_hash": manifest.sql_hash,
    }
