"""Threads for blocking calls beside the event loop: for work in the JVM, for pages of results, and for reading texts.

Each has threads of its own, so that a submission never waits for a page of a result.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sparksql.gateway.sql.readers import Readers

log = logging.getLogger(__name__)

T = TypeVar("T")


class ThreadPools:
    """Runs blocking calls in pools. Belongs to the event loop; `readers` reads texts that may have to be given up."""

    def __init__(self) -> None:
        self.readers = Readers()
        self._work_pool = ThreadPoolExecutor(8, thread_name_prefix="work")
        # Each thread's heap keeps the size of the largest page that it has made, so pages have few threads.
        self._page_pool = ThreadPoolExecutor(2, thread_name_prefix="page")

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Runs a blocking call and returns what it returns, or raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._work_pool, function, *arguments)

    async def read_text(self, read: Callable[..., T], *arguments: object) -> T:
        """Runs a call that reads a text. Raises what it raises, and StatementError when it takes too long."""
        return await self.readers.read(str(uuid.uuid4()), read, *arguments)

    async def read_page(self, read: Callable[..., T], *arguments: object) -> T:
        """Runs a call that reads rows of a result."""
        return await asyncio.get_running_loop().run_in_executor(self._page_pool, read, *arguments)

    async def guarded(self, call: Callable[..., T], *arguments: object) -> T | None:
        """Runs a call that will be repeated when it fails; returns None then."""
        try:
            return await self.run(call, *arguments)
        except Exception as exception:
            log.warning("a call that will be repeated has failed: %s", type(exception).__name__)
            return None
