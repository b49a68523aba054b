"""The work queue: which objects are due to be looked at, each at most once at a time.

Invariants
- A key waits at most once, at the earliest time anybody asked for.
- A key that is being processed is not handed out again before `done`; one added meanwhile is handed out after it.
- An added key is never lost: it is waiting, or it is being processed and was added before that began.

Not thread-safe: everything is called from the one event loop.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import time
from collections import deque
from collections.abc import Callable

from sparksql.domain.backoff import exponential
from sparksql.engine.key import Key

FIRST_BACKOFF_SECONDS = 0.05
MOST_BACKOFF_SECONDS = 60.0
_COMPACT_ABOVE = 1024  # heap entries; below this, entries that were overtaken cost nothing worth a rebuild


class QueueClosed(Exception):
    """The queue was closed: no more keys are handed out."""


class WorkQueue:
    """De-duplicating delay queue of keys. `clock` is monotonic, in seconds; `rng` gives the jitter of the backoff."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, rng: random.Random | None = None) -> None:
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - spreads retries, guards nothing
        self._due: dict[Key, float] = {}
        # An entry counts only while `_due` still holds its time: overtaken ones are skipped when they surface.
        self._heap: list[tuple[float, int, Key]] = []
        self._order = itertools.count()
        self._processing: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def depth(self) -> int:
        """Number of keys that are due and not being processed."""
        now = self._clock()
        return sum(due <= now and key not in self._processing for key, due in self._due.items())

    @property
    def oldest_age_seconds(self) -> float:
        """Returns how long the key that waits longest has been due, be it held back by its own processing; 0 if none is."""
        now = self._clock()
        return max(0.0, now - min(self._due.values(), default=now))

    def add(self, key: Key) -> None:
        """Makes the key due now."""
        self.add_after(key, 0.0)

    def add_after(self, key: Key, seconds: float) -> None:
        """Makes the key due after `seconds`, unless it already is due earlier."""
        if self._closed:
            return
        due = self._clock() + max(0.0, seconds)
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        if key not in self._processing:
            self._push(key, due)
            self._wake()

    def add_rate_limited(self, key: Key, at_least: float = 0.0) -> None:
        """Makes the key due after a backoff: 0.05 s doubled each time until `forget`, at most 60 s; up to half less.

        Not before `at_least` seconds, of which 60 are heeded; up to half more, for many keys are told the same.
        """
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = exponential(failures, FIRST_BACKOFF_SECONDS, MOST_BACKOFF_SECONDS)
        told = min(at_least, MOST_BACKOFF_SECONDS)
        self.add_after(key, max(delay * self._rng.uniform(0.5, 1.0), told * self._rng.uniform(1.0, 1.5)))

    def forget(self, key: Key) -> None:
        """Ends the key's backoff; the next failure starts from the beginning."""
        self._failures.pop(key, None)

    async def get(self) -> Key:
        """The key that has been due longest, as soon as there is one. Each needs its `done`. Raises QueueClosed."""
        while (key := self.get_nowait()) is None:
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            self._wake()
            try:
                await getter
            except asyncio.CancelledError:
                if getter in self._getters:
                    self._getters.remove(getter)
                else:
                    self._wake()  # this getter had been chosen: another one must take its turn
                raise
        return key

    def get_nowait(self) -> Key | None:
        """As `get`, but None at once when no key is due."""
        if self._closed:
            raise QueueClosed
        if (due := self._next_due()) is None or due > self._clock():
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        self._processing.add(key)
        self._wake()
        return key

    def done(self, key: Key) -> None:
        """Ends the processing of a key that `get` handed out."""
        self._processing.remove(key)
        if (due := self._due.get(key)) is not None:
            self._push(key, due)
            self._wake()

    def close(self) -> None:
        """Hands out nothing any more: waiting getters get QueueClosed, later additions are dropped."""
        self._closed = True
        self._cancel_timer()
        while self._getters:
            self._release_getter()

    def _push(self, key: Key, due: float) -> None:
        if len(self._heap) > _COMPACT_ABOVE and len(self._heap) > 2 * len(self._due):
            self._heap = [entry for entry in self._heap if self._is_current(entry)]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (due, next(self._order), key))

    def _is_current(self, entry: tuple[float, int, Key]) -> bool:
        due, _, key = entry
        return self._due.get(key) == due and key not in self._processing

    def _next_due(self) -> float | None:
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _wake(self) -> None:
        """Lets one getter go when a key is due, or sets the one timer for the next that will be."""
        self._cancel_timer()
        if not self._getters or (due := self._next_due()) is None:
            return
        delay = due - self._clock()
        if delay <= 0:
            self._release_getter()
        else:
            self._timer = self._getters[0].get_loop().call_later(delay, self._wake)

    def _release_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():  # done before its turn means cancelled
                getter.set_result(None)
                return

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
