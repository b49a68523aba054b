"""Changes of a streaming text, as the tests try them with a real state and `docs/upgrades.md` lists them."""

from __future__ import annotations

from .settings import SETTINGS
from .texts import (
    BASES,
    CLOSED,
    COLUMNS,
    FIRST_CLOSED,
    NULLS,
    PLAIN,
    TARGET,
    WATERMARK,
    Accepted,
    Case,
    Parked,
    Rewritten,
    branches,
    distinct,
    join,
    joined,
    regions,
    rows,
    sessions,
    spellings,
    windows,
    windows_of,
)

__all__ = ["BASES", "CASES", "COLUMNS", "TARGET", "Accepted", "Case", "Parked", "Rewritten", "rows"]

CASES: tuple[Case, ...] = (
    # Nothing that means anything
    Case(
        "layout, comments, names of subqueries",
        "windows",
        "-- totals\nINSERT INTO $.windows (a, n, m, until)\n  SELECT k, n, m, w.end FROM (SELECT country AS k, COUNT(1) AS n, SUM(amount) m, window AS w\n"
        f"  FROM STREAM $.src {WATERMARK} AS x WHERE x.amount > 1 GROUP BY x.country, window(x.ts, '60 seconds')) AS y",
        Accepted(windows_of()),
    ),
    Case(
        "a column has another alias",
        "windows",
        windows(keys="country").replace("count(*), sum(amount)", "count(*) AS rows, sum(amount) AS total", 1),
        Accepted(windows_of()),
    ),
    Case(
        "columns listed in another order, with their aggregates",
        "windows",
        f"INSERT INTO $.windows (m, n, until, a) SELECT sum(amount), count(*), window.end, country FROM STREAM $.src {WATERMARK} "
        "WHERE amount > 1 GROUP BY country, window(ts, '1 minute')",
        Accepted(windows_of()),
    ),
    # Stateless
    Case(
        "stateless: filter changed",
        "plain",
        "INSERT INTO $.plain (a, n) SELECT country, amount FROM STREAM $.src WHERE amount > 6",
        Accepted(f"{PLAIN.format(m='amount')} WHERE amount > IF(part = 1, 1, 6)"),
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
        Accepted(f"{PLAIN.format(m='IF(part = 1, amount, amount * 10)')} WHERE amount > 1"),
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
        windows().replace("$.windows", "$.plain"),
        Parked("aggregate was added (by country"),
    ),
    Case(
        "stateless: DISTINCT added",
        "plain",
        f"INSERT INTO $.plain (a, n, until) SELECT DISTINCT country, amount, ts FROM STREAM $.src {WATERMARK}",
        Parked("aggregate was added (by country, amount, ts)"),
    ),
    Case(
        "stateless: table of a stream-static join changed",
        "enriched",
        "INSERT INTO $.enriched (a, b) SELECT s.city, d.region FROM STREAM $.src s JOIN $.dim2 d ON s.country = d.code",
        Accepted(
            f"SELECT s.city, IF(part = 1, d.region, e.region), {NULLS}, CAST(NULL AS TIMESTAMP) FROM $.src s JOIN $.dim d "
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
        windows(where="amount > 5"),
        Accepted(windows_of(where="amount > IF(part = 1, 1, 5)")),
    ),
    Case(
        "aggregation: filter on another column added",
        "windows",
        windows(where="amount > 1 AND city <> 'paris'"),
        Accepted(windows_of(where="amount > 1 AND (part = 1 OR city <> 'paris')")),
    ),
    Case(
        "aggregation: HAVING changed",
        "windows",
        windows(having=" HAVING count(*) > 2"),
        Accepted(windows_of(having="count(*) > IF(window.end <= TIMESTAMP '2026-01-01 00:01:00', 0, 2)")),
    ),
    Case(
        "aggregation: HAVING with another aggregate",
        "windows",
        windows(having=" HAVING max(price) > 2"),
        Rewritten(
            "aggregate: column max(price) was added (max(price))",
            windows_of(having=f"{FIRST_CLOSED} OR max(price) FILTER (WHERE part = 2) > 2"),
        ),
    ),
    Case(
        "aggregation: output column added from a key",
        "windows",
        windows(columns="a, b, n, m, until", values="upper(country), count(*), sum(amount)"),
        Accepted(
            windows_of(second="IF(window.end <= TIMESTAMP '2026-01-01 00:01:00', NULL, upper(country))"),
        ),
    ),
    Case(
        "aggregation: HAVING with a key",
        "windows",
        windows(having=" HAVING country <> 'fr'"),
        Parked("aggregate: the condition on its groups was none, is Not((country = fr))"),
    ),
    Case(
        "aggregation: other spellings of the same",
        "spellings",
        spellings("CASE WHEN 2 <= amount AND amount <= 5 THEN 'some' ELSE 'more' END", "mean(amount + price)"),
        Accepted(
            "SELECT IF(amount BETWEEN 2 AND 5, 'some', 'more') AS k, CAST(NULL AS STRING), CAST(avg(price + amount) AS BIGINT), "
            f"CAST(NULL AS BIGINT), window.end FROM $.src GROUP BY 1, window(ts, '1 minute') HAVING {CLOSED}"
        ),
    ),
    Case(
        "aggregation: filters of two branches exchanged",
        "branches",
        branches("amount <= 3", "amount > 3"),
        Parked("aggregate 1: input: Filter conditions was (3 < amount), is (amount <= 3)"),
    ),
    Case(
        "aggregation: count becomes sum",
        "windows",
        windows(values="sum(price), sum(amount)"),
        Parked("aggregate: column n was count(1), is sum(price)"),
    ),
    Case(
        "aggregation: sum of another column",
        "windows",
        windows(values="count(*), sum(price)"),
        Parked("aggregate: column m was sum(amount), is sum(price)"),
    ),
    Case(
        "aggregation: sum of another expression",
        "windows",
        windows(values="count(*), sum(amount * 2)"),
        Parked("aggregate: column m was sum(amount), is sum((2 * amount))"),
    ),
    Case(
        "aggregation: FILTER of an aggregate added",
        "windows",
        windows(values="count(*), sum(amount) FILTER (WHERE price > 1)"),
        Parked("aggregate: column m was sum(amount), is sum(amount) FILTER (WHERE (price > 1))"),
    ),
    Case(
        "aggregation: key is another column of the same type",
        "windows",
        windows(keys="city"),
        Parked("aggregate: key column a was country, is city"),
    ),
    Case(
        "aggregation: key is another column under the old name",
        "windows",
        f"INSERT INTO $.windows (a, n, m, until) SELECT country, count(*), sum(amount), window.end FROM (SELECT city AS country, amount, ts "
        f"FROM STREAM $.src {WATERMARK}) GROUP BY country, window(ts, '1 minute')",
        Parked("aggregate: key column a was country, is city"),
    ),
    Case(
        "aggregation: key added",
        "windows",
        windows(keys="country, city", columns="a, b, n, m, until"),
        Parked("aggregate: key column b was added (city)"),
    ),
    Case(
        "aggregation: key removed",
        "windows",
        f"INSERT INTO $.windows (n, m, until) SELECT count(*), sum(amount), window.end FROM STREAM $.src {WATERMARK} "
        "WHERE amount > 1 GROUP BY window(ts, '1 minute')",
        Parked("aggregate: key column a was removed (country)"),
    ),
    Case(
        "aggregation: keys swapped",
        "windows",
        f"INSERT INTO $.windows (a, n, m, until) SELECT country, count(*), sum(amount), window.end FROM STREAM $.src {WATERMARK} "
        "WHERE amount > 1 GROUP BY window(ts, '1 minute'), country",
        Parked("aggregate: key columns a, window were country, window(ts, 60s, 60s, 0s) in this order, are window"),
    ),
    Case(
        "aggregation: aggregate added",
        "windows",
        windows(values="count(*), sum(amount) + coalesce(max(price), 0)"),
        Rewritten(
            "aggregate: column m was added (max(price))",
            windows_of().replace(
                "sum(amount)",
                f"sum(amount) + IF({FIRST_CLOSED}, 0, coalesce(max(price) FILTER (WHERE part = 2), 0))",
                1,
            ),
        ),
    ),
    Case(
        "aggregation: aggregate added before others, in the order of the target's columns",
        "windows",
        windows(columns="a, n, m, b, until", values="count(*), sum(amount), CAST(max(price) AS STRING)"),
        Parked("an aggregate is added before others, in the order of the target's columns: put it after them"),
    ),
    Case(
        "aggregation: aggregate removed",
        "windows",
        windows(columns="a, n, until", values="count(*)"),
        Rewritten(
            "aggregate: column m was removed (sum(amount))",
            windows_of().replace("sum(amount)", f"IF({FIRST_CLOSED}, sum(amount), NULL)", 1),
        ),
    ),
    Case(
        "aggregation: aggregates swapped",
        "windows",
        windows(values="sum(amount), count(*)"),
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
        windows(source=f"STREAM $.other {WATERMARK}"),
        Parked("source src was parquet"),
    ),
    Case(
        "aggregation: DISTINCT added above",
        "windows",
        windows().replace("SELECT", "SELECT DISTINCT"),
        Parked("aggregate 2 was added"),
    ),
    # Windows and watermarks
    Case(
        "window: other size",
        "windows",
        windows(window="window(ts, '2 minutes')"),
        Parked("aggregate: key column window was window(ts, 60s, 60s, 0s), is window(ts, 120s, 120s, 0s)"),
    ),
    Case(
        "window: slide added",
        "windows",
        windows(window="window(ts, '1 minute', '30 seconds')"),
        Parked("aggregate: key column window was window(ts, 60s, 60s, 0s), is window(ts, 60s, 30s, 0s)"),
    ),
    Case(
        "window: other start",
        "windows",
        windows(window="window(ts, '1 minute', '1 minute', '5 seconds')"),
        Parked("is window(ts, 60s, 60s, 5s)"),
    ),
    Case(
        "session window: other gap",
        "sessions",
        sessions("30 seconds"),
        Parked("aggregate: key column session_window was"),
    ),
    Case(
        "watermark: longer delay",
        "windows",
        windows(source="STREAM $.src WATERMARK ts DELAY OF INTERVAL 50 SECONDS"),
        Accepted(windows_of()),
    ),
    Case(
        "watermark: shorter delay",
        "windows",
        windows(source="STREAM $.src WATERMARK ts DELAY OF INTERVAL 1 SECOND"),
        Accepted(windows_of()),
    ),
    Case(
        "watermark: other column",
        "windows",
        windows(source="STREAM $.src WATERMARK seen DELAY OF INTERVAL 10 SECONDS", window="window(seen, '1 minute')"),
        Parked("watermark was ts, is seen"),
    ),
    # DISTINCT, LIMIT
    Case(
        "distinct: filter changed",
        "distincts",
        distinct(where="amount > 4"),
        Accepted(
            f"SELECT DISTINCT country, city, {NULLS}, ts FROM $.src WHERE amount < 50 AND (part = 1 OR amount > 4)"
        ),
    ),
    Case(
        "distinct: other column",
        "distincts",
        distinct(columns="city, country, ts"),
        Parked("aggregate: key columns a, b, until were country, city, ts in this order, are city, country, ts"),
    ),
    Case(
        "distinct: column added",
        "distincts",
        distinct(columns="country, city, ts, amount").replace("(a, b, until)", "(a, b, until, n)"),
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
        join(where="l.amount > 5"),
        Accepted(joined("l.amount > IF(l.part = 1, 1, 5)")),
    ),
    Case(
        "join of streams: output column computed in another way",
        "joined",
        join(select="upper(l.city), r.city, l.amount, r.price, l.ts"),
        Accepted(
            joined(
                "l.amount > 1",
                select="IF(l.part = 1 AND r.part = 1, l.city, upper(l.city)), r.city, l.amount, r.price, l.ts",
            )
        ),
    ),
    Case(
        "join of streams: other key",
        "joined",
        join(on="l.city = r.city AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 30 SECONDS"),
        Parked("join of streams: key column country was src.country = other.country, is src.city = other.city"),
    ),
    Case(
        "join of streams: another type",
        "joined",
        join(kind="LEFT JOIN"),
        Parked("join of streams: type was Inner, is LeftOuter"),
    ),
    Case(
        "join of streams: outer join that a filter makes inner",
        "joined",
        join(kind="LEFT JOIN", where="l.amount > 1 AND r.amount > 0"),
        Accepted(joined("l.amount > 1")),
    ),
    Case(
        "join of streams: other time range",
        "joined",
        join(on="l.country = r.country AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 60 SECONDS"),
        Parked("join of streams: condition was"),
    ),
    Case(
        "join of streams: sides swapped",
        "joined",
        join(left="other", right="src"),
        Parked("sources were src, other in this order, are other, src"),
    ),
    Case(
        "join of streams: output of another column",
        "joined",
        join(select="l.country, r.city, l.amount, r.price, l.ts"),
        Parked("join of streams: column left city was removed (src.city)"),
    ),
    # Stream-static joins below an aggregation
    Case(
        "aggregation over a stream-static join: other table",
        "regions",
        regions(dim="dim2"),
        Parked("aggregate: key column a was"),
    ),
    Case(
        "aggregation over a stream-static join: other key",
        "regions",
        regions(on="s.city = d.code"),
        Parked("aggregate: its input was"),
    ),
    Case("nothing changed", "joined", join(), Accepted(joined("l.amount > 1"))),
    Case(
        "nothing changed in a query with session windows",
        "sessions",
        sessions("20 seconds"),
        Accepted(
            "SELECT country, CAST(NULL AS STRING), count(*), CAST(NULL AS BIGINT), session_window.end FROM $.src "
            "GROUP BY country, session_window(ts, '20 seconds') HAVING session_window.end <= TIMESTAMP '2026-01-01 00:09:00'"
        ),
    ),
    *SETTINGS,
)
