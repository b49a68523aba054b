"""Curves of keys that fall silent, as Python computes them, event by event and step by step: no panes, no running sums."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from .window_events import BASE, Event, floor

END_EVENT = Event(BASE + timedelta(days=1), "end", 0, 0, 0)  # closes all windows of the others
Row = tuple[str | None, datetime, datetime, int, int, int]


@dataclass(frozen=True)
class Shape:
    """What the windows of a statement are: their step and how long a key may be silent."""

    step: timedelta
    gap: timedelta

    @property
    def arguments(self) -> str:
        """Returns the arguments of CUMULATE."""
        seconds = (f"INTERVAL '{each.total_seconds():g}' SECOND" for each in (self.step, self.gap))
        return "STEP => {}, GAP => {}".format(*seconds)


def silent_events(seed: int, per_window: int = 14, windows: int = 3) -> list[Event]:
    """Returns events of several keys by their times; each falls silent, some for about five minutes, some for longer."""
    draw = random.Random(seed)
    made = []
    for key in "abcd":
        seconds = draw.uniform(0, 200)
        for _ in range(windows):
            for _ in range(draw.randint(1, per_window)):
                time = BASE + timedelta(seconds=round(seconds, 3))
                made.append(Event(time, key, draw.randint(1, 9), draw.randint(1, 5), draw.randint(-50, 50)))
                seconds += draw.expovariate(1 / 40)
            seconds += draw.choice((240, 290, 310, 420, 900))
    return sorted(made, key=lambda event: (str(event.ts), event.k))


def cut(events: Iterable[Event], seed: int, disorder: float = 25, ends: float = 0.02) -> list[list[Event]]:
    """Returns events in batches of random sizes as they come: out of order, none later than `disorder` seconds.

    `ends` is how often one is the last of a batch.
    """
    draw = random.Random(seed)
    coming = sorted(events, key=lambda event: (event.ts or BASE) + timedelta(seconds=draw.uniform(0, disorder)))
    batches: list[list[Event]] = [[]]
    for event in coming:
        if batches[-1] and draw.random() < ends:
            batches.append([])
        batches[-1].append(event)
    return [*batches, [END_EVENT]]


def curves(events: Iterable[Event], shape: Shape) -> Iterator[Row]:
    """Yields key, start, end, count, sum of v and distinct uids of each point."""
    by_key: dict[str, list[Event]] = {}
    for event in sorted(events, key=lambda event: str(event.ts)):
        by_key.setdefault(event.k, []).append(event)
    for key, mine in by_key.items():
        for window in _windows(mine, shape.gap):
            for start, end, so_far in _points(window, shape):
                yield key, start, end, len(so_far), sum(each.v for each in so_far), len({each.uid for each in so_far})


def _windows(events: list[Event], gap: timedelta) -> Iterator[list[Event]]:
    window: list[Event] = []
    for event in events:
        if window and _time(event) - _time(window[-1]) >= gap:
            yield window
            window = []
        window.append(event)
    if window:
        yield window


def _points(window: list[Event], shape: Shape) -> Iterator[tuple[datetime, datetime, list[Event]]]:
    start = floor(_time(window[0]), shape.step)
    end = start + shape.step
    while True:
        so_far = [event for event in window if _time(event) < end]
        is_silent = end - _time(so_far[-1]) >= shape.gap
        has_event = _time(so_far[-1]) >= end - shape.step
        if is_silent and not has_event:
            return
        yield start, end, so_far
        end += shape.step


def _time(event: Event) -> datetime:
    assert event.ts is not None
    return event.ts
