"""Threads in which requests are read: a large one takes seconds, in which the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

THREADS = 2

T = TypeVar("T")


class Decoder:
    """Runs blocking functions in such threads, beside the event loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="connect-read")

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Runs a blocking call in a thread; returns what it returns, or raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def close(self) -> None:
        """Ends the threads, as soon as each has done its work."""
        self._pool.shutdown(wait=False, cancel_futures=True)
