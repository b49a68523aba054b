"""The rows that changed queries read: a first part before the change, a second one after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

COLUMNS = (
    "id INT, part INT, k INT, s STRING, v BIGINT, w BIGINT, d DECIMAL(6,2), e DECIMAL(6,2), b BOOLEAN, ts TIMESTAMP"
)
NAMES = tuple(each.split()[0] for each in COLUMNS.split(", "))
START = datetime(2026, 1, 1)
# Greater ids pass the filters of queries in append mode: Spark applies filters before it looks at the times of rows.
CLOSER = 90
# Rows of the first part: up to 100 s; the watermark of 10 s is at 90 s then. Those of the second begin at 91 s.
_ROWS: Mapping[str, tuple[tuple[Any, ...], ...]] = {
    "one": (
        (1, 1, 1, "a", 3, 50, "7.25", "100.50", True, 5),
        (2, 1, 1, "b", 4, 61, "2.50", "200.25", False, 12),
        (3, 1, 2, "a", 5, 70, None, "300.75", True, 31),
        (4, 1, None, None, 6, 83, "1.10", None, None, 33),
        (5, 1, 2, "c", None, 90, "9.99", "410.10", True, 47),
        (6, 1, 1, "a", 11, None, "3.30", "501.05", False, 58),
        (7, 1, 3, "b", 13, 110, "4.75", "620.40", True, 62),
        (8, 1, 3, None, 17, 127, "6.15", "733.35", None, 95),
        (9, 1, 1, "c", 19, 131, "8.05", "845.15", True, 98),
        (95, 1, 3, "c", 21, 141, "8.45", "945.25", False, 100),
        (11, 2, 1, "a", 23, 1000, "11.45", "1.15", False, 92),
        (12, 2, 2, "b", 29, 1103, "12.20", "2.95", True, 99),
        (13, 2, None, "c", 31, 1201, None, "3.45", True, 104),
        (14, 2, 2, None, None, 1307, "13.70", None, False, 118),
        (15, 2, 3, "a", 37, 1409, "14.65", "4.85", None, 131),
        (16, 2, 1, "b", 41, None, "15.35", "5.55", True, 140),
        (17, 2, 4, "c", 43, 1511, "16.90", "6.65", True, 163),
    ),
    "other": (
        (51, 1, 1, "a", 2000, 30001, "21.10", "31.25", True, 8),
        (52, 1, 2, "b", 2100, 30102, "22.35", None, False, 40),
        (53, 1, 3, "a", 2200, None, "23.40", "33.80", True, 75),
        (54, 1, None, "c", 2300, 30304, None, "34.05", None, 90),
        (61, 2, 1, "b", 2400, 30405, "25.55", "35.45", False, 96),
        (62, 2, 2, "a", None, 30506, "26.60", "36.15", True, 108),
        (63, 2, 1, None, 2600, 30607, "27.75", "37.95", True, 133),
    ),
}  # fmt: skip
_CLOSING = (91, 2, 9, "z", 0, 0, "0.00", "0.00", True, 4000)


@dataclass(frozen=True)
class Part:
    """The rows of a source and a part, without the one that closes all."""

    source: str
    number: int

    def values(self, *, closing: bool) -> str:
        """Returns the rows as SQL."""
        rows = [row for row in _ROWS[self.source] if row[1] == self.number]
        if closing and self.number == 2:
            rows = [*rows, _CLOSING]
        return f"VALUES {', '.join(map(_told, rows))}"


def rows_of(source: str) -> list[dict[str, Any]]:
    """Returns the rows of both parts as Python has them."""
    return [
        {
            **dict(zip(NAMES, row, strict=True)),
            "d": None if row[6] is None else Decimal(row[6]),
            "e": None if row[7] is None else Decimal(row[7]),
            "ts": row[9],
        }
        for row in _ROWS[source]
    ]


def time_of(seconds: int) -> str:
    """Returns a time as SQL has it."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


def _told(row: tuple[Any, ...]) -> str:
    values = ["NULL" if each is None else repr(each) for each in row[:9]]
    for place in (6, 7):
        values[place] = "NULL" if row[place] is None else row[place]
    return f"({', '.join(values)}, TIMESTAMP '{time_of(row[9])}')"
