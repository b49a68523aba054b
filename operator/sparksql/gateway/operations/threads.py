"""Threads that run statements: at least `minimum` are kept, at most `maximum` live, idle ones beyond the minimum end in time.

FLIP-91's worker pool. A thread is used again only after work that says so: an interrupt that came late must never hit the
next statement, so a thread whose statement was stopped or failed ends.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Work = Callable[[], bool]  # returns whether its thread may be used again


class Workers:
    """Runs blocking calls in threads that come and go with the work.

    `on_exit` is called last in every thread that ends. Safe to use from several threads.
    """

    def __init__(self, minimum: int, maximum: int, keepalive_seconds: float, on_exit: Callable[[], None]) -> None:
        self._minimum = minimum
        self._maximum = max(1, maximum)
        self._keepalive = keepalive_seconds
        self._on_exit = on_exit
        self._waiting: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._started = 0

    @property
    def threads(self) -> int:
        """Returns the number of threads that live."""
        return self._threads

    @property
    def busy(self) -> int:
        """Returns the number of threads that run work."""
        return self._threads - self._idle

    def submit(self, work: Work) -> None:
        """Runs `work` in a thread of the pool as soon as there is one."""
        with self._lock:
            if self._idle > self._waiting.qsize() or self._threads >= self._maximum:
                self._waiting.put(work)
                return
            self._threads += 1
            self._started += 1
            name = f"worker-{self._started}"
        threading.Thread(target=self._live, args=(work,), name=name, daemon=True).start()

    def detach(self, work: Work) -> None:
        """Runs `work` in a thread of its own, which does not count and ends with it."""

        def live() -> None:
            try:
                work()
            finally:
                self._on_exit()

        threading.Thread(target=live, name="detached", daemon=True).start()

    def _live(self, work: Work | None) -> None:
        try:
            while work is not None and work():
                work = self._next()
        finally:
            self._on_exit()
            self._leave()

    def _next(self) -> Work | None:
        """The next work; None when this thread has been idle for too long."""
        with self._lock:
            self._idle += 1
        while True:
            try:
                work = self._waiting.get(timeout=self._keepalive or None)
            except queue.Empty:
                with self._lock:
                    if self._threads > self._minimum and self._waiting.empty():
                        self._idle -= 1
                        return None
                continue
            with self._lock:
                self._idle -= 1
            return work

    def _leave(self) -> None:
        """A thread has ended; work that came meanwhile gets a new one."""
        with self._lock:
            self._threads -= 1
            stranded = not self._waiting.empty() and self._idle == 0
        if stranded:
            try:
                work = self._waiting.get_nowait()
            except queue.Empty:
                return
            self.submit(work)
