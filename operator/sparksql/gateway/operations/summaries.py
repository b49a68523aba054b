"""What an operation's view shows of its result: the first rows, once they are kept or while they still come."""

from __future__ import annotations

import logging

from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.operations.thread_pools import ThreadPools
from sparksql.gateway.results.store import ResultReader, ResultStore, StoredResult
from sparksql.wire.control import ResultSummary

log = logging.getLogger(__name__)

_UNREAD = "the stored rows could not be read when the statement ended: read them with kubectl sparksql results"


class Summaries:
    """Keeps results and summarises them, with at most `max_preview_rows` rows. Belongs to the event loop."""

    def __init__(self, store: ResultStore, reader: ResultReader, threads: ThreadPools, max_preview_rows: int) -> None:
        self._store = store
        self._reader = reader
        self._threads = threads
        self._max_preview_rows = max_preview_rows

    async def kept(self, operation: Operation, result: StoredResult) -> ResultSummary:
        """Keeps the result of an operation that has ended, and returns its summary, with an error if its rows cannot be read."""
        expires = self._store.keep(operation.operation_id, result, operation.request.result.retention_seconds)
        rows, masker = self._rows(operation), operation.classified.masker
        try:
            return await self._threads.read_page(self._reader.summary, result, rows, masker, expires)
        except Exception as exception:  # the statement has succeeded; its result may be readable later
            log.warning(
                "a preview could not be read: %s",
                type(exception).__name__,
                extra={"operation_id": operation.operation_id},
            )
            summary = self._reader.summary(result, 0, masker, expires)
            return summary.model_copy(update={"preview_error": f"{_UNREAD} ({type(exception).__name__})"})

    async def so_far(self, operation: Operation) -> ResultSummary | None:
        """Returns the summary of the rows that a running statement has given, None if there are no new ones."""
        so_far, operation.so_far = operation.so_far, None
        if so_far is None:
            return None
        summary: ResultSummary | None = await self._threads.guarded(
            self._reader.summary, so_far, self._rows(operation), operation.classified.masker
        )
        return summary

    def _rows(self, operation: Operation) -> int:
        return min(operation.request.result.preview_rows, self._max_preview_rows)
