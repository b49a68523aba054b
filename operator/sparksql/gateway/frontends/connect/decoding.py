"""Threads in which requests are read: with a stack that protobuf's recursion fits in.

protobuf reads nested messages recursively and ends at 65,535 levels; in a thread with the usual stack a request of 100 KiB that
is nested so deeply would end the whole process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

STACK_BYTES = 128 << 20  # 64 MiB are enough; only what is touched takes memory
THREADS = 2

T = TypeVar("T")


class Decoder:
    """Runs blocking functions in such threads, beside the event loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="connect-read")
        begun = threading.Barrier(THREADS + 1)
        previous = threading.stack_size(STACK_BYTES)
        try:
            for _ in range(THREADS):
                self._pool.submit(begun.wait)
            begun.wait()
        finally:
            threading.stack_size(previous)

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Runs a blocking call in a thread whose stack is deep enough; returns what it returns, or raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def close(self) -> None:
        """Ends the threads, as soon as each has done its work."""
        self._pool.shutdown(wait=False, cancel_futures=True)
