"""What the readers share. It runs in the environments of the clients, so it needs nothing but Python."""

from __future__ import annotations

import json
import time


class Reading:
    """Rows of one result over time: from the submission, and from when its first row could be had."""

    def __init__(self, seconds: float) -> None:
        self._started = time.monotonic()
        self._seconds = seconds
        self._ready = self._started
        self._ended = self._started
        self.rows = 0
        self._firsts = 0

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self._ready > self._seconds

    def ready(self) -> None:
        self._ready = time.monotonic()

    def page(self, rows: int, first: int) -> None:
        """Counts rows that are values of the language; `first` is the first row's number, which shows that none is lost."""
        if rows and first != self.rows:
            raise SystemExit(f"row {self.rows} was expected, {first} came")
        self.rows += rows
        self._ended = time.monotonic()

    def show(self, *, is_complete: bool) -> None:
        print(
            json.dumps(
                {
                    "rows": self.rows,
                    "complete": is_complete,
                    "ready_seconds": round(self._ready - self._started, 2),
                    "read_seconds": round(self._ended - self._ready, 2),
                }
            )
        )
