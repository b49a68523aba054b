"""Threads in which texts are read, and given up when that takes too long or nobody wants to know any more.

Nothing stops Spark's parser. A thread that is given up goes on to the next step of reading, where it ends; its statement has
ended before, and others are read in its place. While too many go on so, no text is read.

All but `check_wanted` belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sparksql.gateway.sql.errors import refusal
from sparksql.wire.control import ErrorReason

READ_SECONDS = (
    20.0  # the slowest text within the bounds that was measured, 5,000 LATERAL VIEWs, took 12 s (see `text_bounds`)
)
AT_ONCE = 2
MOST_GIVEN_UP = 4

T = TypeVar("T")

_thread = threading.local()


class ReadAbandonedError(Exception):
    """Nobody waits for this text any more."""


def check_wanted() -> None:
    """Raises ReadAbandonedError in a thread that reads and was given up.

    Called between two steps of reading. Threads that do not read are never given up.
    """
    given_up: threading.Event | None = getattr(_thread, "given_up", None)
    if given_up is not None and given_up.is_set():
        raise ReadAbandonedError


class Readers:
    """Reads texts in threads, at most as long as they may take. Belongs to the event loop."""

    def __init__(self, seconds: float = READ_SECONDS) -> None:
        self._seconds = seconds
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._pool = ThreadPoolExecutor(AT_ONCE + MOST_GIVEN_UP, thread_name_prefix="read")
        self._given_up: set[asyncio.Future[Any]] = set()
        self._leaving: dict[str, asyncio.Event] = {}

    async def read(self, key: str, function: Callable[..., T], *arguments: object) -> T:
        """Returns what `function` returns, or raises what it raises.

        Raises StatementError when it takes too long, ReadAbandonedError after `give_up`.
        """
        leaving = self._leaving[key] = asyncio.Event()
        try:
            async with self._turns:
                return await self._in_thread(leaving, function, *arguments)
        finally:
            del self._leaving[key]

    def give_up(self, key: str) -> None:
        """Gives up a text that nobody waits for any more; unknown ones change nothing."""
        if key in self._leaving:
            self._leaving[key].set()

    async def _in_thread(self, leaving: asyncio.Event, function: Callable[..., T], *arguments: object) -> T:
        if leaving.is_set():
            raise ReadAbandonedError
        if len(self._given_up) >= MOST_GIVEN_UP:
            message = f"the driver still reads {MOST_GIVEN_UP} texts that were given up; try again later"
            raise refusal(ErrorReason.LIMIT_EXCEEDED, message)
        given_up = threading.Event()

        def work() -> T:
            _thread.given_up = given_up
            return function(*arguments)

        reading = asyncio.get_running_loop().run_in_executor(self._pool, work)
        left = asyncio.create_task(leaving.wait())
        try:
            waited: set[asyncio.Future[Any]] = {reading, left}
            await asyncio.wait(waited, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            if not reading.done():
                given_up.set()
                self._given_up.add(reading)
                reading.add_done_callback(self._ended)
        if reading.done():
            return reading.result()
        if leaving.is_set():
            raise ReadAbandonedError
        message = f"the text was not read within {self._seconds:g} s; divide it into several statements"
        raise refusal(ErrorReason.LIMIT_EXCEEDED, message)

    def _ended(self, reading: asyncio.Future[Any]) -> None:
        self._given_up.discard(reading)
        if not reading.cancelled():
            reading.exception()  # nobody asks for it any more
