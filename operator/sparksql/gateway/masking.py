"""Hides secret parameter values in everything that is shown: messages, fragments, column names, previews, plans, logs.

Spark writes the literals of a statement into all of these. A value is hidden as it was given and as Spark may print it:
escaped like a SQL or JSON string, and in the form its declared type gives it (a DATE '2026-1-5' is printed 2026-01-05).
Invariant: no masked text contains any of the values.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable

MASK = "***"
LINGER_SECONDS = 60.0


class Masker:
    """Replaces a fixed set of values in any text. Longer values go first, so that none hides only a part of another."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values for form in _forms(value)}
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._values = tuple(ordered)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def also(self, values: Iterable[str]) -> Masker:
        """A masker of these values as well."""
        return Masker([*self._values, *values])

    def mask(self, text: str) -> str:
        if self._pattern is None:
            return text
        # Cutting a value out may join its neighbours to another one, so cut until none is left. The mask itself may hold
        # a value (one that is a run of `*`): then nothing but an empty text is safe from it.
        if self._pattern.search(MASK):
            return self._cut(text)
        while self._pattern.search(text):
            text = self._pattern.sub(MASK, text)
        return text

    def _cut(self, text: str) -> str:
        assert self._pattern is not None
        while self._pattern.search(text):
            text = self._pattern.sub("", text)
        return text

    def mask_optional(self, text: str | None) -> str | None:
        return None if text is None else self.mask(text)


def _forms(value: str) -> set[str]:
    if not value:
        return set()
    sql_escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    json_escaped = json.dumps(value)[1:-1]
    json_unicode = json.dumps(value, ensure_ascii=False)[1:-1]
    return {value, sql_escaped, value.replace("'", "''"), json_escaped, json_unicode}


class LogMask:
    """The values of all statements that run or have just ended, for the JVM's log. Safe to use from any thread.

    Lines come through a pipe and some are written after the statement's end (a task that dies), so its values stay for
    LINGER_SECONDS of `clock`, a monotonic one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._maskers: dict[str, Masker] = {}
        self._retired: dict[str, float] = {}

    def add(self, operation_id: str, masker: Masker) -> None:
        if masker:
            with self._lock:
                self._maskers[operation_id] = masker

    def retire(self, operation_id: str) -> None:
        """The statement has ended."""
        with self._lock:
            if operation_id in self._maskers:
                self._retired[operation_id] = self._clock() + LINGER_SECONDS

    def mask(self, line: bytes) -> bytes:
        with self._lock:
            now = self._clock()
            for operation_id in [key for key, until in self._retired.items() if until <= now]:
                del self._retired[operation_id], self._maskers[operation_id]
            maskers = list(self._maskers.values())
        if not maskers:
            return line
        text = line.decode(errors="replace")
        for masker in maskers:
            text = masker.mask(text)
        return text.encode()
