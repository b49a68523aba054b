"""Reads the texts of submitted statements, those of one queue one after the other, so that they keep their order."""

from __future__ import annotations

import asyncio

from sparksql.gateway.operations.operation import Executor
from sparksql.gateway.sql.classifier import Classified
from sparksql.gateway.sql.readers import Readers
from sparksql.wire.control import SubmitRequest


class OrderedReader:
    """Classifies texts in threads that can be given up. Belongs to the event loop."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._last_of_queue: dict[str, asyncio.Task[None]] = {}

    async def classify(
        self, operation_id: str, request: SubmitRequest, executor: Executor, queue: str | None
    ) -> Classified:
        """Reads a text after those that came before it in its `queue`; None has no order.

        Must be called in a task of the text's own. Raises StatementError for what will not run, ReadAbandonedError
        after `give_up`.
        """
        if queue is not None:
            await self._wait_for_previous(queue)
        return await self._readers.read(operation_id, executor.classify, request)

    def give_up(self, operation_id: str) -> None:
        """Lets go of a text whose operation has ended; unknown ones change nothing."""
        self._readers.give_up(operation_id)

    async def _wait_for_previous(self, queue: str) -> None:
        current = asyncio.current_task()
        assert current is not None
        previous = self._last_of_queue.get(queue)
        self._last_of_queue[queue] = current
        current.add_done_callback(lambda _: self._forget(queue, current))
        if previous is not None:
            await asyncio.wait({previous})

    def _forget(self, queue: str, task: asyncio.Task[None]) -> None:
        if self._last_of_queue.get(queue) is task:
            del self._last_of_queue[queue]
