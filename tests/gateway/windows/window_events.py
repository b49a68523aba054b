"""Events of a test, in Python and in a table that a stream reads batch by batch; and windows as Python computes them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..streams import Streams

BASE = datetime(2026, 1, 5)
END = datetime(2026, 1, 5, 12)  # windows that end before are over when the last event has come
EPOCH = datetime(1970, 1, 1)
STREAM = "(SELECT * FROM STREAM $.{} WITH ('maxFilesPerTrigger' = '1') WATERMARK ts DELAY OF INTERVAL 30 SECONDS)"


@dataclass(frozen=True)
class Event:
    """One row of a table of events."""

    ts: datetime | None
    k: str
    uid: int
    item: int
    v: int


def events(seed: int, batches: int = 3, per_batch: int = 100) -> list[list[Event]]:
    """Returns events in the order in which they come, some out of order, none later than the watermark, some without a time."""
    draw = random.Random(seed)
    made = []
    for batch in range(batches):
        rows = []
        for _ in range(per_batch):
            late = 20 if draw.random() < 0.1 else 0
            seconds = batch * 300 + round(draw.uniform(0, 310), 3) - late
            ts = None if draw.random() < 0.02 else BASE + timedelta(seconds=seconds)
            rows.append(Event(ts, draw.choice("abc"), draw.randint(1, 25), draw.randint(1, 12), draw.randint(1, 100)))
        made.append(rows)
    return [*made, [Event(BASE + timedelta(days=1), "a", 0, 3, 99)]]


async def store(streams: Streams, table: str, batches: Iterable[Iterable[Event]], kind: str = "TIMESTAMP") -> None:
    """Makes a table of one file a batch, whose order is that of their coming."""
    await streams.ok(f"CREATE TABLE $.{table} (ts {kind}, k STRING, uid INT, item INT, v INT) USING parquet")
    for rows in batches:
        await append(streams, table, rows, kind)


async def append(streams: Streams, table: str, rows: Iterable[Event], kind: str = "TIMESTAMP") -> None:
    """Adds a file to a table of events."""
    values = ", ".join(_values(row, kind) for row in rows)
    await streams.ok(f"INSERT INTO $.{table} SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")


def _values(row: Event, kind: str) -> str:
    ts = "NULL" if row.ts is None else f"{kind}'{row.ts.isoformat(' ')}'"
    return f"({ts}, '{row.k}', {row.uid}, {row.item}, {row.v})"


def floor(time: datetime, size: timedelta, offset: timedelta = timedelta()) -> datetime:
    """Returns the start of the window of a length that a time is in."""
    return time - (time - EPOCH - offset) % size


def tumble(time: datetime, size: timedelta, offset: timedelta = timedelta()) -> Iterator[tuple[datetime, datetime]]:
    """Yields start and end of the window that a time is in."""
    start = floor(time, size, offset)
    yield start, start + size


def hop(
    time: datetime, slide: timedelta, size: timedelta, offset: timedelta = timedelta()
) -> Iterator[tuple[datetime, datetime]]:
    """Yields start and end of each window that a time is in, by trying all starts."""
    start = floor(time, slide, offset)
    while start + size > time:
        yield start, start + size
        start -= slide


def cumulate(
    time: datetime, step: timedelta, size: timedelta, offset: timedelta = timedelta()
) -> Iterator[tuple[datetime, datetime]]:
    """Yields start and end of each window that a time is in, by trying all ends."""
    start = floor(time, size, offset)
    end = start + step
    while end <= start + size:
        if end > time:
            yield start, end
        end += step


def over(rows: list[tuple[Any, ...]], columns: list[str]) -> list[tuple[Any, ...]]:
    """Returns rows of windows that are over, in one order."""
    at = columns.index("window_end")
    return sorted((row for row in rows if str(row[at]) < str(END)), key=repr)
