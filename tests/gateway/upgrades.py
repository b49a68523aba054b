"""Changes of a streaming text, as the tests try them and `docs/upgrades.md` lists them.

Every text runs on the rows of `part` 1, a changed one goes on with those of `part` 2. `$` is the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
_WATERMARK = "WATERMARK ts DELAY OF INTERVAL 10 SECONDS"
_CLOSED = "window.end <= TIMESTAMP '2026-01-01 00:09:00'"


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
class Case:
    """A change of the text `base` (by its name in BASES)."""

    name: str
    base: str
    text: str
    outcome: Parked | Accepted
    options: Mapping[str, Any] = field(default_factory=dict)


def _windows(
    keys: str = "country",
    values: str = "count(*), sum(amount)",
    columns: str = "a, n, m, until",
    window: str = "window(ts, '1 minute')",
    where: str = "amount > 1",
    having: str = "",
    source: str = f"STREAM $.src {_WATERMARK}",
) -> str:
    return (
        f"INSERT INTO $.windows ({columns}) SELECT {keys}, {values}, window.end FROM {source} "
        f"WHERE {where} GROUP BY {keys}, {window}{having}"
    )


def _windows_of(
    where: str = "amount > 1", having: str = "true", first: str = "country", second: str = "CAST(NULL AS STRING)"
) -> str:
    return (
        f"SELECT {first}, {second}, count(*), sum(amount), window.end FROM $.src WHERE {where} "
        f"GROUP BY country, window(ts, '1 minute') HAVING {_CLOSED} AND ({having})"
    )


def _join(
    kind: str = "JOIN",
    on: str = "l.country = r.country AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 30 SECONDS",
    select: str = "l.city, r.city, l.amount, r.price, l.ts",
    left: str = "src",
    right: str = "other",
    where: str = "l.amount > 1",
) -> str:
    return (
        f"INSERT INTO $.joined (a, b, n, m, until) SELECT {select} FROM STREAM $.{left} {_WATERMARK} AS l "
        f"{kind} STREAM $.{right} {_WATERMARK} AS r ON {on} WHERE {where}"
    )


def _joined(where: str, select: str = "l.city, r.city, l.amount, r.price, l.ts") -> str:
    return (
        f"SELECT {select} FROM $.src l JOIN $.other r ON l.country = r.country "
        f"AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 30 SECONDS WHERE {where}"
    )


def _distinct(columns: str = "country, city, ts", where: str = "true") -> str:
    return (
        f"INSERT INTO $.distincts (a, b, until) SELECT DISTINCT {columns} FROM STREAM $.src {_WATERMARK} WHERE {where}"
    )


def _regions(dim: str = "dim", on: str = "s.country = d.code", kind: str = "JOIN") -> str:
    return (
        f"INSERT INTO $.regions (a, n, until) SELECT d.region, count(*), window.end FROM STREAM $.src {_WATERMARK} AS s "
        f"{kind} $.{dim} d ON {on} GROUP BY d.region, window(ts, '1 minute')"
    )


def _sessions(gap: str) -> str:
    return (
        f"INSERT INTO $.sessions (a, n, until) SELECT country, count(*), session_window.end FROM STREAM $.src {_WATERMARK} "
        f"GROUP BY country, session_window(ts, '{gap}')"
    )


BASES: Mapping[str, str] = {
    "plain": "INSERT INTO $.plain (a, n) SELECT country, amount FROM STREAM $.src WHERE amount > 1",
    "windows": _windows(),
    "distincts": _distinct(),
    "joined": _join(),
    "enriched": "INSERT INTO $.enriched (a, b) SELECT s.city, d.region FROM STREAM $.src s JOIN $.dim d ON s.country = d.code",
    "regions": _regions(),
    "unions": "INSERT INTO $.unions (a, b) SELECT city, 'src' FROM STREAM $.src UNION ALL SELECT city, 'other' FROM STREAM $.other",
    "limits": "INSERT INTO $.limits (a) SELECT city FROM STREAM $.src LIMIT 8",
    "sessions": _sessions("20 seconds"),
}
_PLAIN = "SELECT country, CAST(NULL AS STRING), {m}, CAST(NULL AS BIGINT), CAST(NULL AS TIMESTAMP) FROM $.src"
_NULLS = "CAST(NULL AS BIGINT), CAST(NULL AS BIGINT)"

CASES: tuple[Case, ...] = (
    # Nothing that means anything
    Case(
        "layout, comments, names of subqueries",
        "windows",
        "-- totals\nINSERT INTO $.windows (a, n, m, until)\n  SELECT k, n, m, w.end FROM (SELECT country AS k, COUNT(1) AS n, SUM(amount) m, window AS w\n"
        f"  FROM STREAM $.src {_WATERMARK} AS x WHERE x.amount > 1 GROUP BY x.country, window(x.ts, '60 seconds')) AS y",
        Accepted(_windows_of()),
    ),
    Case(
        "a column has another alias",
        "windows",
        _windows(keys="country").replace("count(*), sum(amount)", "count(*) AS rows, sum(amount) AS total", 1),
        Accepted(_windows_of()),
    ),
    Case(
        "columns listed in another order, with their aggregates",
        "windows",
        f"INSERT INTO $.windows (m, n, until, a) SELECT sum(amount), count(*), window.end, country FROM STREAM $.src {_WATERMARK} "
        "WHERE amount > 1 GROUP BY country, window(ts, '1 minute')",
        Accepted(_windows_of()),
    ),
    # Stateless
    Case(
        "stateless: filter changed",
        "plain",
        "INSERT INTO $.plain (a, n) SELECT country, amount FROM STREAM $.src WHERE amount > 6",
        Accepted(f"{_PLAIN.format(m='amount')} WHERE amount > IF(part = 1, 1, 6)"),
    ),
    Case(
        "stateless: output column added",
        "plain",
        "INSERT INTO $.plain (a, n, m) SELECT country, amount, price FROM STREAM $.src WHERE amount > 1",
        Accepted(
            "SELECT country, CAST(NULL AS STRING), amount, IF(part = 1, NULL, price), CAST(NULL AS TIMESTAMP) FROM $.src WHERE amount > 1"
        ),
    ),
    Case(
        "stateless: output column computed in another way",
        "plain",
        "INSERT INTO $.plain (a, n) SELECT country, amount * 10 FROM STREAM $.src WHERE amount > 1",
        Accepted(f"{_PLAIN.format(m='IF(part = 1, amount, amount * 10)')} WHERE amount > 1"),
    ),
    Case(
        "stateless: source table changed",
        "plain",
        "INSERT INTO $.plain (a, n) SELECT country, amount FROM STREAM $.other WHERE amount > 1",
        Parked("source src was parquet"),
    ),
    Case(
        "stateless: source added",
        "plain",
        "INSERT INTO $.plain (a, n) SELECT country, amount FROM STREAM $.src UNION ALL SELECT country, amount FROM STREAM $.other",
        Parked("source other was added"),
    ),
    Case(
        "stateless becomes stateful",
        "plain",
        _windows().replace("$.windows", "$.plain"),
        Parked("aggregate was added (by country"),
    ),
    Case(
        "stateless: DISTINCT added",
        "plain",
        f"INSERT INTO $.plain (a, n, until) SELECT DISTINCT country, amount, ts FROM STREAM $.src {_WATERMARK}",
        Parked("aggregate was added (by country, amount, ts)"),
    ),
    Case(
        "stateless: table of a stream-static join changed",
        "enriched",
        "INSERT INTO $.enriched (a, b) SELECT s.city, d.region FROM STREAM $.src s JOIN $.dim2 d ON s.country = d.code",
        Accepted(
            f"SELECT s.city, IF(part = 1, d.region, e.region), {_NULLS}, CAST(NULL AS TIMESTAMP) FROM $.src s JOIN $.dim d "
            "ON s.country = d.code JOIN $.dim2 e ON s.country = e.code"
        ),
    ),
    Case(
        "stateless: sources of a UNION reordered",
        "unions",
        "INSERT INTO $.unions (a, b) SELECT city, 'other' FROM STREAM $.other UNION ALL SELECT city, 'src' FROM STREAM $.src",
        Parked("sources were src, other in this order, are other, src"),
    ),
    # Aggregations
    Case(
        "aggregation: filter changed",
        "windows",
        _windows(where="amount > 5"),
        Accepted(_windows_of(where="amount > IF(part = 1, 1, 5)")),
    ),
    Case(
        "aggregation: filter on another column added",
        "windows",
        _windows(where="amount > 1 AND city <> 'paris'"),
        Accepted(_windows_of(where="amount > 1 AND (part = 1 OR city <> 'paris')")),
    ),
    Case(
        "aggregation: HAVING changed",
        "windows",
        _windows(having=" HAVING count(*) > 2"),
        Accepted(_windows_of(having="count(*) > IF(window.end <= TIMESTAMP '2026-01-01 00:01:00', 0, 2)")),
    ),
    Case(
        "aggregation: HAVING with another aggregate",
        "windows",
        _windows(having=" HAVING max(price) > 2"),
        Parked("aggregate: column max(price) was added (max(price))"),
    ),
    Case(
        "aggregation: output column added from a key",
        "windows",
        _windows(columns="a, b, n, m, until", values="upper(country), count(*), sum(amount)"),
        Accepted(
            _windows_of(second="IF(window.end <= TIMESTAMP '2026-01-01 00:01:00', NULL, upper(country))"),
        ),
    ),
    Case(
        "aggregation: count becomes sum",
        "windows",
        _windows(values="sum(price), sum(amount)"),
        Parked("aggregate: column n was count(1), is sum(price)"),
    ),
    Case(
        "aggregation: sum of another column",
        "windows",
        _windows(values="count(*), sum(price)"),
        Parked("aggregate: column m was sum(amount), is sum(price)"),
    ),
    Case(
        "aggregation: sum of another expression",
        "windows",
        _windows(values="count(*), sum(amount * 2)"),
        Parked("aggregate: column m was sum(amount), is sum((2 * amount))"),
    ),
    Case(
        "aggregation: FILTER of an aggregate added",
        "windows",
        _windows(values="count(*), sum(amount) FILTER (WHERE price > 1)"),
        Parked("aggregate: column m was sum(amount), is sum(amount) FILTER (WHERE (price > 1))"),
    ),
    Case(
        "aggregation: key is another column of the same type",
        "windows",
        _windows(keys="city"),
        Parked("aggregate: key column a was country, is city"),
    ),
    Case(
        "aggregation: key is another column under the old name",
        "windows",
        f"INSERT INTO $.windows (a, n, m, until) SELECT country, count(*), sum(amount), window.end FROM (SELECT city AS country, amount, ts "
        f"FROM STREAM $.src {_WATERMARK}) GROUP BY country, window(ts, '1 minute')",
        Parked("aggregate: key column a was country, is city"),
    ),
    Case(
        "aggregation: key added",
        "windows",
        _windows(keys="country, city", columns="a, b, n, m, until"),
        Parked("aggregate: key column b was added (city)"),
    ),
    Case(
        "aggregation: key removed",
        "windows",
        f"INSERT INTO $.windows (n, m, until) SELECT count(*), sum(amount), window.end FROM STREAM $.src {_WATERMARK} "
        "WHERE amount > 1 GROUP BY window(ts, '1 minute')",
        Parked("aggregate: key column a was removed (country)"),
    ),
    Case(
        "aggregation: keys swapped",
        "windows",
        f"INSERT INTO $.windows (a, n, m, until) SELECT country, count(*), sum(amount), window.end FROM STREAM $.src {_WATERMARK} "
        "WHERE amount > 1 GROUP BY window(ts, '1 minute'), country",
        Parked("aggregate: key columns a, window were country, window(ts, 60s, 60s, 0s) in this order, are window"),
    ),
    Case(
        "aggregation: aggregate added",
        "windows",
        _windows(columns="a, n, m, b, until", values="count(*), sum(amount), CAST(max(price) AS STRING)"),
        Parked("aggregate: column b was added (max(price))"),
    ),
    Case(
        "aggregation: aggregate removed",
        "windows",
        _windows(columns="a, n, until", values="count(*)"),
        Parked("aggregate: column m was removed (sum(amount))"),
    ),
    Case(
        "aggregation: aggregates swapped",
        "windows",
        _windows(values="sum(amount), count(*)"),
        Parked("aggregate: columns n, m were count(1), sum(amount) in this order, are sum(amount), count(1)"),
    ),
    Case(
        "aggregation removed",
        "windows",
        "INSERT INTO $.windows (a, n, until) SELECT country, amount, ts FROM STREAM $.src",
        Parked("aggregate was removed (by country"),
    ),
    Case(
        "aggregation: source table changed",
        "windows",
        _windows(source=f"STREAM $.other {_WATERMARK}"),
        Parked("source src was parquet"),
    ),
    Case(
        "aggregation: DISTINCT added above",
        "windows",
        _windows().replace("SELECT", "SELECT DISTINCT"),
        Parked("aggregate 2 was added"),
    ),
    # Windows and watermarks
    Case(
        "window: other size",
        "windows",
        _windows(window="window(ts, '2 minutes')"),
        Parked("aggregate: key column window was window(ts, 60s, 60s, 0s), is window(ts, 120s, 120s, 0s)"),
    ),
    Case(
        "window: slide added",
        "windows",
        _windows(window="window(ts, '1 minute', '30 seconds')"),
        Parked("aggregate: key column window was window(ts, 60s, 60s, 0s), is window(ts, 60s, 30s, 0s)"),
    ),
    Case(
        "window: other start",
        "windows",
        _windows(window="window(ts, '1 minute', '1 minute', '5 seconds')"),
        Parked("is window(ts, 60s, 60s, 5s)"),
    ),
    Case(
        "session window: other gap",
        "sessions",
        _sessions("30 seconds"),
        Parked("aggregate: key column session_window was"),
    ),
    Case(
        "watermark: longer delay",
        "windows",
        _windows(source="STREAM $.src WATERMARK ts DELAY OF INTERVAL 50 SECONDS"),
        Accepted(_windows_of()),
    ),
    Case(
        "watermark: shorter delay",
        "windows",
        _windows(source="STREAM $.src WATERMARK ts DELAY OF INTERVAL 1 SECOND"),
        Accepted(_windows_of()),
    ),
    Case(
        "watermark: other column",
        "windows",
        _windows(source="STREAM $.src WATERMARK seen DELAY OF INTERVAL 10 SECONDS", window="window(seen, '1 minute')"),
        Parked("watermark was ts, is seen"),
    ),
    # DISTINCT, LIMIT
    Case(
        "distinct: filter changed",
        "distincts",
        _distinct(where="amount > 4"),
        Accepted(
            f"SELECT DISTINCT country, city, {_NULLS}, ts FROM $.src WHERE amount < 50 AND (part = 1 OR amount > 4)"
        ),
    ),
    Case(
        "distinct: other column",
        "distincts",
        _distinct(columns="city, country, ts"),
        Parked("aggregate: key columns a, b, until were country, city, ts in this order, are city, country, ts"),
    ),
    Case(
        "distinct: column added",
        "distincts",
        _distinct(columns="country, city, ts, amount").replace("(a, b, until)", "(a, b, until, n)"),
        Parked("aggregate: key column"),
    ),
    Case(
        "limit: other number",
        "limits",
        "INSERT INTO $.limits (a) SELECT city FROM STREAM $.src LIMIT 9",
        Parked("limit: limit was 8, is 9"),
    ),
    # Joins of streams
    Case(
        "join of streams: filter of one side changed",
        "joined",
        _join(where="l.amount > 5"),
        Accepted(_joined("l.amount > IF(l.part = 1, 1, 5)")),
    ),
    Case(
        "join of streams: output column computed in another way",
        "joined",
        _join(select="upper(l.city), r.city, l.amount, r.price, l.ts"),
        Accepted(
            _joined(
                "l.amount > 1",
                select="IF(l.part = 1 AND r.part = 1, l.city, upper(l.city)), r.city, l.amount, r.price, l.ts",
            )
        ),
    ),
    Case(
        "join of streams: other key",
        "joined",
        _join(on="l.city = r.city AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 30 SECONDS"),
        Parked("join of streams: key column country was src.country = other.country, is src.city = other.city"),
    ),
    Case(
        "join of streams: another type",
        "joined",
        _join(kind="LEFT JOIN"),
        Parked("join of streams: type was Inner, is LeftOuter"),
    ),
    Case(
        "join of streams: outer join that a filter makes inner",
        "joined",
        _join(kind="LEFT JOIN", where="l.amount > 1 AND r.amount > 0"),
        Accepted(_joined("l.amount > 1")),
    ),
    Case(
        "join of streams: other time range",
        "joined",
        _join(on="l.country = r.country AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 60 SECONDS"),
        Parked("join of streams: condition was"),
    ),
    Case(
        "join of streams: sides swapped",
        "joined",
        _join(left="other", right="src"),
        Parked("sources were src, other in this order, are other, src"),
    ),
    Case(
        "join of streams: output of another column",
        "joined",
        _join(select="l.country, r.city, l.amount, r.price, l.ts"),
        Parked("join of streams: column left city was removed (src.city)"),
    ),
    # Stream-static joins below an aggregation
    Case(
        "aggregation over a stream-static join: other table",
        "regions",
        _regions(dim="dim2"),
        Parked("aggregate: key column a was"),
    ),
    Case(
        "aggregation over a stream-static join: other key",
        "regions",
        _regions(on="s.city = d.code"),
        Parked("aggregate: its input was"),
    ),
    # Settings
    Case(
        "setting: other trigger and limit of a batch",
        "windows",
        _windows(),
        Accepted(_windows_of()),
        {"max_files_per_trigger": 1},
    ),
    Case("nothing changed", "joined", _join(), Accepted(_joined("l.amount > 1"))),
    Case(
        "nothing changed in a query with session windows",
        "sessions",
        _sessions("20 seconds"),
        Accepted(
            "SELECT country, CAST(NULL AS STRING), count(*), CAST(NULL AS BIGINT), session_window.end FROM $.src "
            "GROUP BY country, session_window(ts, '20 seconds') HAVING session_window.end <= TIMESTAMP '2026-01-01 00:09:00'"
        ),
    ),
)
