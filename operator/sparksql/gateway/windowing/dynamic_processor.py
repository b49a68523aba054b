"""What Spark's Python workers run of CUMULATE with GAP: the window of a key, pane by pane, with a row at each step.

Executors get this module by value, for they need not have this package: it imports nothing of it. Nothing here asks for the time
of day: what is due the watermark tells, so a replay gives the rows of the live run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

ADD, LEAST, GREATEST, DISTINCT = "add", "least", "greatest", "distinct"
PANE, FIRST, LAST = "__curve_pane", "__curve_first", "__curve_last"  # of a pane: its start, its first and last event
START, END = "__curve_start", "__curve_end"  # of a row: the window's start and the step that it is of; all microseconds
_EXACT = Context(prec=76)  # the sum of two DECIMAL(38, s) is exact in it
_MILLI = 1000  # microseconds


@dataclass
class Window:
    """A key's window: times in microseconds, the last step that has its row, and the aggregates so far."""

    start: int
    last: int
    emitted: int
    totals: list[Any]


class Curves(StatefulProcessor):  # type: ignore[misc] # pyspark has no types here
    """Makes the rows of windows that last from a key's first event until it has been silent for `gap`.

    Rows come once for each key and pane, when the watermark has passed the pane's end. `parts` are the names of a pane's
    aggregates and how those of several panes become one; DISTINCT has the pane's values as texts. `state` is the schema of a
    `Window`.
    """

    def __init__(
        self, step: int, gap: int, keys: tuple[str, ...], parts: tuple[tuple[str, str], ...], state: StructType
    ) -> None:
        self._step = step
        self._gap = gap
        self._keys = keys
        self._parts = parts
        self._state = state

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Takes the state of one task."""
        self._handle = handle
        self._window = handle.getValueState("window", self._state)
        self._seen: Any = None
        if any(merge == DISTINCT for _, merge in self._parts):
            self._seen = handle.getMapState("seen", "place INT, value STRING", "seen BOOLEAN")
        self._row = Row(*self._keys, START, END, *(name for name, _ in self._parts))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Yields the rows of a key up to the watermark, when panes have come."""
        window = self._kept()
        if window is not None:
            self._handle.deleteTimer(self._timer(window))
        for pane in sorted(rows, key=lambda each: each[PANE]):
            if window is not None and pane[FIRST] - window.last >= self._gap:
                yield from self._flat(key, window, pane[PANE])
                self._forget()
                window = None
            if window is None:
                window = Window(pane[PANE], pane[LAST], pane[PANE], [None] * len(self._parts))
            yield from self._flat(key, window, pane[PANE])
            self._add(window, pane)
            yield self._emitted(key, window)  # an event always has the row of its step
        if window is not None:
            yield from self._up_to(key, window, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Yields the rows of a key up to the watermark, when no pane has come for it."""
        window = self._kept()
        if window is not None:
            yield from self._up_to(key, window, timerValues)

    def close(self) -> None:
        """Keeps nothing."""

    def _up_to(self, key: Any, window: Window, timer_values: Any) -> Iterator[Row]:
        """The steps that the watermark has passed; then the window is over, or waits for its next step.

        The step behind the last row of a silent key is waited for, too: an event before the gap's end may be in it.
        """
        watermark = timer_values.getCurrentWatermarkInMs() * _MILLI
        yield from self._flat(key, window, watermark)
        if window.emitted + self._step <= watermark:
            self._forget()
        else:
            self._handle.registerTimer(self._timer(window))
            self._window.update((window.start, window.last, window.emitted, *window.totals))

    def _flat(self, key: Any, window: Window, until: int) -> Iterator[Row]:
        """Steps up to `until` at which the key has not been silent for too long."""
        while window.emitted + self._step <= until and window.emitted + self._step < window.last + self._gap:
            yield self._emitted(key, window)

    def _emitted(self, key: Any, window: Window) -> Row:
        window.emitted += self._step
        return self._row(*key, window.start, window.emitted, *window.totals)

    def _timer(self, window: Window) -> int:
        """When the next step is due, in milliseconds, as watermarks are."""
        return -(-(window.emitted + self._step) // _MILLI)

    def _add(self, window: Window, pane: Any) -> None:
        window.last = pane[LAST]
        for place, (name, merge) in enumerate(self._parts):
            part = self._unseen(place, pane[name]) if merge == DISTINCT else pane[name]
            window.totals[place] = merged(merge, window.totals[place], part)

    def _unseen(self, place: int, values: list[str]) -> int:
        """How many of a pane's values the window has not had; they are kept."""
        new = [value for value in values if not self._seen.containsKey((place, value))]
        for value in new:
            self._seen.updateValue((place, value), (True,))
        return len(new)

    def _kept(self) -> Window | None:
        found = self._window.get()
        if found is None:
            return None
        start, last, emitted, *totals = found
        return Window(start, last, emitted, totals)

    def _forget(self) -> None:
        self._window.clear()
        if self._seen is not None:
            self._seen.clear()


def merged(merge: str, total: Any, part: Any) -> Any:
    """Returns an aggregate of all panes so far from that of those before and that of the next; NULL is passed over."""
    if total is None or part is None:
        return part if total is None else total
    if merge == LEAST:
        return min(total, part, key=_order)
    if merge == GREATEST:
        return max(total, part, key=_order)
    return _EXACT.add(total, part) if isinstance(part, Decimal) else total + part


def _order(value: Any) -> tuple[bool, Any]:
    """NaN is greater than any other number, and equal to itself."""
    is_nan = value != value
    return is_nan, 0 if is_nan else value
