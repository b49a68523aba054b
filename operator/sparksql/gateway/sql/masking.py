"""Hides secret parameter values in everything that is shown: messages, fragments, column names, previews, plans, logs.

Spark writes the literals of a statement into all of these. A value is hidden as it was given and as Spark may print it:
escaped like a SQL or JSON string, and in the form its declared type gives it (a DATE '2026-1-5' is printed 2026-01-05).
Spark also shortens what it prints (a plan's filters to 100 characters) and a log has one line at a time, so that parts and
lines of a value are hidden as well. Invariant: no masked text contains any of the values, a line of one that has
MIN_LINE_CHARS, or MIN_PART_CHARS of one in a row.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

MASK = "***"
LINGER_SECONDS = 60.0
MIN_PART_CHARS = 9  # shorter ones stand in many texts, and tell too little
MIN_LINE_CHARS = 4  # a line that is a brace tells nothing, and would spoil every text with a brace
_MAX_CUTS = 16  # each may join what lies around it to another value, as brackets within each other
_FACTOR = 0x9E3779B97F4A7C15  # odd, so that no product of it is lost in 64 bits

Span = tuple[int, int]


class Masker:
    """Replaces a fixed set of values, their lines and their parts in any text."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = tuple(sorted({form for value in values for form in _forms(value)}))
        lines = {line for value in self._values for line in _lines(value) if len(line) < MIN_PART_CHARS}
        by_length: dict[int, list[str]] = defaultdict(list)
        for text in lines.union(self._values):
            by_length[min(len(text), MIN_PART_CHARS)].append(text)
        self._parts = tuple(_Parts(texts, length) for length, texts in by_length.items())

    def __bool__(self) -> bool:
        return bool(self._values)

    def also(self, values: Iterable[str]) -> Masker:
        """Returns a masker of these values as well."""
        return Masker([*self._values, *values])

    def mask(self, text: str) -> str:
        """Returns a text with each value in it replaced by MASK."""
        # The mask itself may hold a value (one that is a run of `*`): then nothing but an empty text is safe from it.
        mask = MASK if next(self._spans(MASK), None) is None else ""
        # Cutting a value out may join its neighbours to another one, so cut until none is left. Of a text that is made to go on
        # and on nothing is shown.
        for _ in range(_MAX_CUTS):
            spans = _merged(self._spans(text))
            if not spans:
                return text
            text = _replaced(text, spans, mask)
        return mask

    def mask_optional(self, text: str | None) -> str | None:
        """Returns a masked text; None stays None."""
        return None if text is None else self.mask(text)

    def _spans(self, text: str) -> Iterator[Span]:
        for parts in self._parts:
            yield from parts.spans(text)


class _Parts:
    """The parts of one length of some values, as sorted hashes: a Secret holds up to 1 MiB, of which these take 8.

    How many they are hardly matters to the time of a look.
    """

    def __init__(self, values: Iterable[str], length: int) -> None:
        import numpy as np  # most statements have no secrets, and need not wait for it

        self._np = np
        self._length = length
        self._known = np.unique(np.concatenate([self._hashes(value) for value in values]))

    def spans(self, text: str) -> Iterator[Span]:
        """Where a text holds any of the parts. Two parts of one hash (1 in 2^64) would hide a harmless one."""
        if len(text) < self._length:
            return
        hashes = self._hashes(text)
        nearest = self._np.searchsorted(self._known, hashes).clip(max=len(self._known) - 1)
        for start in self._np.flatnonzero(self._known[nearest] == hashes).tolist():
            yield start, start + self._length

    def _hashes(self, text: str) -> Any:
        """Of each part of a text, by where it begins: an array of uint64."""
        np = self._np
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
        count = len(points) - self._length + 1
        hashes = np.zeros(count, dtype=np.uint64)
        for offset in range(self._length):
            hashes *= np.uint64(_FACTOR)
            hashes += points[offset : offset + count]
        return hashes


def _merged(spans: Iterable[Span]) -> list[Span]:
    """In order, those that touch each other as one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _replaced(text: str, spans: list[Span], mask: str) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces += text[done:start], mask
        done = end
    return "".join([*pieces, text[done:]])


def _forms(value: str) -> set[str]:
    if not value:
        return set()
    sql_escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    json_escaped = json.dumps(value)[1:-1]
    json_unicode = json.dumps(value, ensure_ascii=False)[1:-1]
    return {value, sql_escaped, value.replace("'", "''"), json_escaped, json_unicode}


def _lines(value: str) -> Iterator[str]:
    return (line for each in value.splitlines() if len(line := each.strip()) >= MIN_LINE_CHARS)


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
        """Hides the values of an operation's masker from now on, in place of those of the one before."""
        if masker:
            with self._lock:
                self._maskers[operation_id] = masker

    def retire(self, operation_id: str) -> None:
        """Tells that the statement has ended."""
        with self._lock:
            if operation_id in self._maskers:
                self._retired[operation_id] = self._clock() + LINGER_SECONDS

    def mask(self, line: bytes) -> bytes:
        """Returns a line of a log without the values of any operation."""
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
