"""Streaming texts that are changed by the tests, their tables, and what becomes of a change.

Every text runs on the rows of `part` 1, a changed one goes on with those of `part` 2. `$` is the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparksql.api.execution import OutputMode, Upsert

COLUMNS = "id INT, part INT, country STRING, city STRING, amount INT, price INT, ts TIMESTAMP, seen TIMESTAMP"
TARGET = "a STRING, b STRING, n BIGINT, m BIGINT, until TIMESTAMP"
# The first part leaves the window of 00:01 open, with rows in it; the last row of the second one closes what is before 00:09.
_ROWS = (
    (1, 1, "de", "berlin", 3, 10, "00:00:10"),
    (2, 1, "de", "bonn", 1, 20, "00:00:20"),
    (3, 1, "fr", "paris", 5, 30, "00:00:30"),
    (4, 1, "de", "berlin", 7, 40, "00:01:05"),
    (5, 1, "fr", "lyon", 2, 50, "00:01:15"),
    (6, 1, "de", "bonn", 4, 60, "00:01:20"),
    (7, 2, "de", "berlin", 6, 70, "00:01:25"),
    (8, 2, "fr", "paris", 8, 80, "00:01:35"),
    (9, 2, "fr", "lyon", 3, 90, "00:02:10"),
    (10, 2, "de", "bonn", 9, 15, "00:02:20"),
    (11, 2, "it", "rome", 50, 25, "00:10:00"),
)
WATERMARK = "WATERMARK ts DELAY OF INTERVAL 10 SECONDS"
FIRST_CLOSED = "window.end <= TIMESTAMP '2026-01-01 00:01:00'"  # by the first part
CLOSED = "window.end <= TIMESTAMP '2026-01-01 00:09:00'"


def rows(part: int) -> str:
    """The rows of a part, as SQL. `seen` is a second later than `ts`."""
    values = (
        f"({', '.join(map(repr, row[:-1]))}, TIMESTAMP '2026-01-01 {row[-1]}', TIMESTAMP '2026-01-01 {row[-1]}.5')"
        for row in _ROWS
        if row[1] == part
    )
    return f"VALUES {', '.join(values)}"


@dataclass(frozen=True)
class Parked:
    """The message has these words."""

    words: str


@dataclass(frozen=True)
class Accepted:
    """The target holds in the end what `query` gives, a batch over all rows."""

    query: str


@dataclass(frozen=True)
class Rewritten:
    """The state is rewritten for the text: where it is not, the message has these words; what is written is what `query` gives."""

    words: str
    query: str


@dataclass(frozen=True)
class Case:
    """A change of the text `base` (by its name in BASES), of its `options` or of its session's `conf`. The name says what changes:
    what it is of, and after a colon what becomes of that. With `other_target` the changed text writes into a table that is new."""

    name: str
    base: str
    text: str
    outcome: Parked | Accepted | Rewritten
    options: Mapping[str, Any] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    other_target: bool = False


def windows(
    keys: str = "country",
    values: str = "count(*), sum(amount)",
    columns: str = "a, n, m, until",
    window: str = "window(ts, '1 minute')",
    where: str = "amount > 1",
    having: str = "",
    source: str = f"STREAM $.src {WATERMARK}",
) -> str:
    return (
        f"INSERT INTO $.windows ({columns}) SELECT {keys}, {values}, window.end FROM {source} "
        f"WHERE {where} GROUP BY {keys}, {window}{having}"
    )


def windows_of(
    where: str = "amount > 1", having: str = "true", first: str = "country", second: str = "CAST(NULL AS STRING)"
) -> str:
    return (
        f"SELECT {first}, {second}, count(*), sum(amount), window.end FROM $.src WHERE {where} "
        f"GROUP BY country, window(ts, '1 minute') HAVING {CLOSED} AND ({having})"
    )


def join(
    kind: str = "JOIN",
    on: str = "l.country = r.country AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 30 SECONDS",
    select: str = "l.city, r.city, l.amount, r.price, l.ts",
    left: str = "src",
    right: str = "other",
    where: str = "l.amount > 1",
) -> str:
    return (
        f"INSERT INTO $.joined (a, b, n, m, until) SELECT {select} FROM STREAM $.{left} {WATERMARK} AS l "
        f"{kind} STREAM $.{right} {WATERMARK} AS r ON {on} WHERE {where}"
    )


def joined(where: str, select: str = "l.city, r.city, l.amount, r.price, l.ts") -> str:
    return (
        f"SELECT {select} FROM $.src l JOIN $.other r ON l.country = r.country "
        f"AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 30 SECONDS WHERE {where}"
    )


def distinct(columns: str = "country, city, ts", where: str = "true") -> str:
    return (
        f"INSERT INTO $.distincts (a, b, until) SELECT DISTINCT {columns} FROM STREAM $.src {WATERMARK} WHERE {where}"
    )


def regions(dim: str = "dim", on: str = "s.country = d.code", kind: str = "JOIN") -> str:
    return (
        f"INSERT INTO $.regions (a, n, until) SELECT d.region, count(*), window.end FROM STREAM $.src {WATERMARK} AS s "
        f"{kind} $.{dim} d ON {on} GROUP BY d.region, window(ts, '1 minute')"
    )


def spellings(key: str, value: str) -> str:
    return (
        f"INSERT INTO $.spellings (a, n, until) SELECT {key}, CAST({value} AS BIGINT), window.end FROM STREAM $.src {WATERMARK} "
        f"GROUP BY {key}, window(ts, '1 minute')"
    )


def upserts(target: str = "upserts", value: str = "sum(amount)") -> str:
    return (
        f"INSERT INTO $.{target} SELECT country AS a, CAST(NULL AS STRING) AS b, count(*) AS n, {value} AS m, window.end AS until "
        f"FROM STREAM $.src {WATERMARK} WHERE amount > 1 GROUP BY country, window(ts, '1 minute')"
    )


def merged() -> str:
    return (
        "INSERT INTO $.merged SELECT country AS a, city AS b, amount AS n, price AS m, ts AS until FROM STREAM $.src "
        "WHERE amount > 1"
    )


def branches(first: str, second: str) -> str:
    counted = f"SELECT country, count(*), window.end FROM STREAM $.src {WATERMARK} WHERE {{}} GROUP BY country, window(ts, '1 minute')"
    return f"INSERT INTO $.branches (a, n, until) {counted.format(first)} UNION ALL {counted.format(second)}"


def sessions(gap: str) -> str:
    return (
        f"INSERT INTO $.sessions (a, n, until) SELECT country, count(*), session_window.end FROM STREAM $.src {WATERMARK} "
        f"GROUP BY country, session_window(ts, '{gap}')"
    )


BASES: Mapping[str, str] = {
    "plain": "INSERT INTO $.plain (a, n) SELECT country, amount FROM STREAM $.src WHERE amount > 1",
    "windows": windows(),
    "distincts": distinct(),
    "joined": join(),
    "enriched": "INSERT INTO $.enriched (a, b) SELECT s.city, d.region FROM STREAM $.src s JOIN $.dim d ON s.country = d.code",
    "regions": regions(),
    "unions": "INSERT INTO $.unions (a, b) SELECT city, 'src' FROM STREAM $.src UNION ALL SELECT city, 'other' FROM STREAM $.other",
    "limits": "INSERT INTO $.limits (a) SELECT city FROM STREAM $.src LIMIT 8",
    "sessions": sessions("20 seconds"),
    "spellings": spellings("IF(amount BETWEEN 2 AND 5, 'some', 'more')", "avg(price + amount)"),
    "branches": branches("amount > 3", "amount <= 3"),
    "upserts": upserts(),
    "appended": upserts("appended"),
    "merged": merged(),
}
_KEYED = Upsert(keys=("a", "b", "n", "m", "until"))
KEYED_GROUPS = Upsert(keys=("a", "until"))
# How a base text is run, where that is not by the defaults; the tables of these are Delta's.
BASE_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "upserts": {"output_mode": OutputMode.UPDATE, "upsert": KEYED_GROUPS},
    "appended": {"output_mode": OutputMode.APPEND},
    "merged": {"output_mode": OutputMode.APPEND, "upsert": _KEYED},
}
PLAIN = "SELECT country, CAST(NULL AS STRING), {m}, CAST(NULL AS BIGINT), CAST(NULL AS TIMESTAMP) FROM $.src"
NULLS = "CAST(NULL AS BIGINT), CAST(NULL AS BIGINT)"
