"""Texts that mean the same and texts that do not, and what the driver reads of them without running a query."""

from __future__ import annotations

import datetime
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.streaming import analysis
from sparksql.gateway.streaming.state.describe import describe
from sparksql.gateway.streaming.state.description import Description

from ..local_spark import run

COLUMNS = "id INT, country STRING, amount INT, price DECIMAL(6,2), rate FLOAT, ts TIMESTAMP, j STRING"
WATERMARK = "WATERMARK ts DELAY OF INTERVAL 10 SECONDS"
SRC, OTHER = f"STREAM src {WATERMARK}", f"STREAM other {WATERMARK}"
LEGACY = {"spark.sql.ansi.enabled": "false"}


def keyed(key: str) -> str:
    return f"SELECT {key}, count(*), sum(amount) FROM {SRC} GROUP BY {key}, window(ts, '1 minute')"


def valued(value: str) -> str:
    return f"SELECT country, {value} FROM {SRC} GROUP BY country, window(ts, '1 minute')"


def having(condition: str) -> str:
    return f"SELECT country, count(*) AS n FROM {SRC} GROUP BY country, window(ts, '1 minute') HAVING {condition}"


def above(condition: str, join: str = "") -> str:
    grouped = f"SELECT country, window, count(*) AS n FROM {SRC} GROUP BY country, window(ts, '1 minute')"
    return f"SELECT country, n FROM ({grouped}) g {join} WHERE {condition}"


def with_table(table: str, kind: str = "LEFT JOIN", columns: str = "d.region") -> str:
    return (
        f"SELECT {columns}, count(*) FROM {SRC} s {kind} ({table}) d ON s.country = d.code "
        f"GROUP BY {columns}, window(ts, '1 minute')"
    )


def joined(left: str, right: str, more: str = "") -> str:
    return (
        f"SELECT l.id, r.id FROM (SELECT * FROM {SRC} WHERE {left}) l JOIN (SELECT * FROM {SRC} WHERE {right}) r "
        f"ON l.country = r.country AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 30 SECONDS {more}"
    )


def counted(source: str, condition: str) -> str:
    return f"SELECT country, count(*) FROM {source} WHERE {condition} GROUP BY country, window(ts, '1 minute')"


def either(left: str, right: str, source: str = SRC) -> str:
    return f"{counted(SRC, left)} UNION ALL {counted(source, right)}"


def regrouped(condition: str) -> str:
    grouped = f"SELECT country, window, count(*) AS n FROM {SRC} GROUP BY country, window(ts, '1 minute')"
    return f"SELECT count(*) FROM ({grouped}) WHERE {condition} GROUP BY window(window, '5 minutes')"


RANGE = "SELECT string(id) AS code, string(id) AS region FROM range({})"
RUNNING = (
    "SELECT code, region FROM (SELECT *, sum(length(code)) OVER (ORDER BY length(region) {} BETWEEN 1 PRECEDING "
    "AND CURRENT ROW) AS q FROM dim) WHERE q > 1"
)
PIVOT = "SELECT * FROM (SELECT code, region FROM dim) PIVOT (max(region) AS r FOR code IN ({}))"

TODAY = f"DATE'{datetime.datetime.now(datetime.UTC).date()}'"

# Old text, new text, settings of the new one's session.
DIFFERENT: dict[str, tuple[str, str] | tuple[str, str, dict[str, str]]] = {
    "schema of from_json": (keyed("from_json(j, 'a INT')"), keyed("from_json(j, 'b INT')")),
    "type in from_json": (keyed("from_json(j, 'a INT').a > 1"), keyed("from_json(j, 'a STRING').a > 1")),
    "schema of from_csv": (keyed("from_csv(j, 'a INT, b INT').b"), keyed("from_csv(j, 'b INT, a INT').b")),
    "schema of from_xml": (keyed("from_xml(j, 'a INT')"), keyed("from_xml(j, 'b INT')")),
    "options of from_json": (
        keyed("from_json(j, 'a INT').a"),
        keyed("from_json(j, 'a INT', map('allowComments', 'true')).a"),
    ),
    "LIKE ANY": (keyed("country LIKE ANY ('a%', 'b%')"), keyed("country LIKE ANY ('a%', 'c%')")),
    "LIKE ALL": (keyed("country LIKE ALL ('a%', 'b%')"), keyed("country LIKE ALL ('a%', 'c%')")),
    "frame of a window": (with_table(RUNNING.format("ROWS")), with_table(RUNNING.format("RANGE"))),
    "values of PIVOT": tuple(
        with_table(PIVOT.format(values), columns="d.de").replace("d.code", "d.fr")
        for values in ("'x' AS de, 'y' AS fr", "'y' AS de, 'x' AS fr")
    ),
    "CAST and TRY_CAST": (keyed("CAST(j AS INT)"), keyed("TRY_CAST(j AS INT)")),
    "+ and try_add": (keyed("amount + id"), keyed("try_add(amount, id)")),
    "another nesting of +": (keyed("amount + id + id"), keyed("amount + (id + id)")),
    "arguments of a lambda": (
        keyed("transform(array(amount), (x, i) -> x - i)"),
        keyed("transform(array(amount), (x, i) -> i - x)"),
    ),
    "a literal of another type": (valued("sum(amount + 1)"), valued("sum(amount + 1L)")),
    "a literal of today's date": (keyed(f"date(ts) = {TODAY}"), keyed("date(ts) = current_date()")),
    "a literal of today's date beside the current time": (
        keyed(f"date(ts) = {TODAY} AND ts < current_timestamp()"),
        keyed("date(ts) = current_date() AND ts < current_timestamp()"),
    ),
    "a literal in another zone": (
        keyed("ts > TIMESTAMP'2026-01-01 00:00:00'"),
        keyed("ts > TIMESTAMP'2026-01-01 00:00:00'"),
        {"spark.sql.session.timeZone": "Asia/Tokyo"},
    ),
    **{
        f"the setting {name}": (text, text, {name: value})
        for name, value, text in (
            ("spark.sql.legacy.timeParserPolicy", "LEGACY", keyed("date_format(ts, 'D')")),
            ("spark.sql.legacy.castComplexTypesToString.enabled", "true", keyed("CAST(array(amount) AS STRING)")),
            ("spark.sql.mapKeyDedupPolicy", "LAST_WIN", keyed("map_from_arrays(array(id, amount), array(1, 2))[1]")),
            ("spark.sql.jsonGenerator.ignoreNullFields", "false", keyed("to_json(named_struct('a', amount))")),
            ("spark.sql.ansi.enabled", "false", keyed("amount + id")),
            ("spark.sql.caseSensitive", "true", keyed("country")),
            ("spark.sql.of.a.later.version", "true", keyed("country")),
        )
    },
    "branches of a UNION swapped": (either("amount > 1", "amount < 1"), either("amount < 1", "amount > 1")),
    "a filter of a source that is read twice": (either("amount > 1", "id > 1"), either("amount > 2", "id > 1")),
    "a filter between two operators with state": (regrouped("n > 1"), regrouped("n > 2")),
    "sides of a self-join swapped": (joined("amount > 1", "amount < 1"), joined("amount < 1", "amount > 1")),
    "a filter on a key above the groups": (above("country <> 'de'"), above("true")),
    "HAVING with a key": (having("count(*) > 1"), having("count(*) > 1 AND country <> 'de'")),
    "a table that filters the groups": (above("country IN (SELECT code FROM dim)"), above("true")),
    "a filter of a table that filters the groups": (
        above("country IN (SELECT code FROM dim)"),
        above("country IN (SELECT code FROM dim WHERE region = 'a')"),
    ),
    "a key in the condition of a join above the groups": (
        above("true", "JOIN dim ON g.country = dim.code"),
        above("true", "JOIN dim ON g.country = dim.code AND g.country <> 'de'"),
    ),
    "a filter of an outer join's table": tuple(
        with_table(f"SELECT * FROM dim WHERE region > '{each}'") for each in "ab"
    ),
    "a filter below an aggregated table": tuple(
        with_table(f"SELECT code, max(region) AS region FROM dim WHERE region > '{each}' GROUP BY code", "JOIN")
        for each in "ab"
    ),
    "order below a LIMIT": tuple(
        with_table(f"SELECT * FROM dim ORDER BY {each} LIMIT 3", "JOIN") for each in ("code", "region")
    ),
    "LIMIT of a table": tuple(with_table(f"SELECT * FROM dim ORDER BY code LIMIT {each}") for each in (3, 4)),
    "rows of range()": (with_table(RANGE.format(3), "JOIN"), with_table(RANGE.format(5), "JOIN")),
    "rows in the text": tuple(with_table(f"SELECT * FROM VALUES ('a', '{each}') AS t (code, region)") for each in "bc"),
    "which of two uses of one table a column is of": tuple(
        f"SELECT {each}.region, count(*) FROM {SRC} s JOIN dim d ON s.country = d.code JOIN dim e ON s.j = e.code "
        f"GROUP BY {each}.region, window(ts, '1 minute')"
        for each in "de"
    ),
    "a FILTER's condition": tuple(valued(f"sum(amount) FILTER (WHERE id > {each})") for each in (1, 2)),
    "DISTINCT": (valued("sum(amount)"), valued("sum(DISTINCT amount)")),
    "the accuracy of a sketch": (valued("approx_count_distinct(id)"), valued("approx_count_distinct(id, 0.2)")),
    "a percentile": (valued("percentile(amount, 0.5)"), valued("percentile(amount, 0.9)")),
    "order of join keys": tuple(
        f"SELECT l.id FROM {SRC} l JOIN {OTHER} r ON {each}"
        for each in ("l.country = r.country AND l.j = r.j", "l.j = r.j AND l.country = r.country")
    ),
}
SAME: dict[str, tuple[str, str]] = {
    "avg and mean": (valued("avg(amount)"), valued("mean(amount)")),
    "stddev and std": (valued("stddev(amount)"), valued("std(amount)")),
    "BETWEEN": (keyed("amount BETWEEN 1 AND 3"), keyed("amount >= 1 AND amount <= 3")),
    "BETWEEN of an expression": (keyed("amount + id BETWEEN 1 AND 3"), keyed("3 >= id + amount AND amount + id >= 1")),
    "IF and CASE": (keyed("IF(amount > 1, 1, 2)"), keyed("CASE WHEN 1 < amount THEN 1 ELSE 2 END")),
    "IF with NULL and CASE": (valued("sum(IF(id > 1, amount, NULL))"), valued("sum(CASE WHEN id > 1 THEN amount END)")),
    "FILTER and CASE": (valued("sum(amount) FILTER (WHERE id > 1)"), valued("sum(CASE WHEN 1 < id THEN amount END)")),
    "FILTER and IF of a count": (valued("count(amount) FILTER (WHERE id > 1)"), valued("count(IF(id > 1, amount, NULL))")),
    "order of IN": (keyed("amount IN (1, 2)"), keyed("amount IN (2, 1, 1)")),
    "order of +": (keyed("amount + id"), keyed("id + amount")),
    "order of =": (keyed("amount = id"), keyed("id = amount")),
    "order of AND": (keyed("amount > 1 AND id > 2"), keyed("id > 2 AND amount > 1")),
    "spelling of an interval": (keyed("ts + INTERVAL '60' SECOND"), keyed("ts + INTERVAL '1' MINUTE")),
    "spelling of a window": (keyed("country"), keyed("country").replace("1 minute", "60 seconds")),
    "names in a lambda": (
        keyed("transform(array(amount), x -> x + 1)"),
        keyed("transform(array(amount), y -> y + 1)"),
    ),
    "a random number": (keyed("rand() >= 0"), keyed("rand() >= 0")),
    "the current date": (keyed("current_date() = date(ts)"), keyed("current_date() = date(ts)")),
    "the current time": (keyed("current_timestamp() > ts"), keyed("current_timestamp() > ts")),
    "the current time of day": (keyed("current_time() >= TIME'00:00:00'"), keyed("current_time() >= TIME'00:00:00'")),
    "a filter above the source": (either("amount > 1", "id > 1", OTHER), either("amount > 2", "id < 1", OTHER)),
    "a filter of one side": (
        f"SELECT l.id FROM {SRC} l JOIN {OTHER} r ON l.country = r.country WHERE l.amount > 1",
        f"SELECT l.id FROM {SRC} l JOIN {OTHER} r ON l.country = r.country WHERE l.amount > 2",
    ),
    "a filter of an inner join's table": tuple(
        with_table(f"SELECT * FROM dim WHERE region > '{each}'", "JOIN") for each in "ab"
    ),
    "HAVING of a value": (having("count(*) > 1"), having("count(*) > 2")),
    "HAVING of a value beside one of a key": (
        having("country <> 'de' AND count(*) > 1"),
        having("country <> 'de' AND count(*) > 2"),
    ),
    "a table joined to the groups": tuple(above("true", f"JOIN {each} d ON g.country = d.code") for each in ("dim", "dim2")),
    "subqueries and aliases": (
        keyed("country"),
        f"WITH w AS (SELECT id AS i, country AS c, amount + 0 * 0 AS a, amount, ts FROM {SRC}) "
        "SELECT c, n, m FROM (SELECT c, count(1) AS n, sum(w.amount) AS m FROM w GROUP BY c, window(ts, '1 minute'))",
    ),
    "a view of the same query": (keyed("country"), keyed("country").replace(SRC, "viewed")),
}  # fmt: skip
# What a recomputation gives where that is not the new text over all rows: those of the first part, by their ids, pass the old filter.
LAST_OF_FIRST = 6


def _by_part(before: str, after: str, id_: str = "id") -> str:
    return f"IF({id_} <= {LAST_OF_FIRST}, {before}, {after})"


REGIONS = "region > '{}'"
RECOMPUTED = {
    "a filter above the source": either(_by_part("amount > 1", "amount > 2"), _by_part("id > 1", "id < 1"), OTHER),
    "a filter of one side": f"SELECT l.id FROM {SRC} l JOIN {OTHER} r ON l.country = r.country "
    f"WHERE {_by_part('l.amount > 1', 'l.amount > 2', 'l.id')}",
    "a filter of an inner join's table": f"SELECT d.region, count(*) FROM {SRC} s JOIN dim d ON s.country = d.code "
    f"WHERE {_by_part(REGIONS.format('a'), REGIONS.format('b'))} GROUP BY d.region, window(ts, '1 minute')",
    "a view of the same query": keyed("country"),
}
# Settings that may change under any text.
HARMLESS = {
    **{
        "spark.sql.shuffle.partitions": "7",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "true",
    },
    **{
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.catalog.lake.token": "x",
        "spark.sql.ansi.enabled": "true",
    },
    **{"spark.sql.parquet.compression.codec": "zstd", "spark.sql.streaming.noDataMicroBatches.enabled": "false"},
    **{"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.files.maxPartitionBytes": "1m", "my.own": "x"},
}
RETYPED = {
    "hash": ("amount INT", "amount BIGINT", keyed("hash(amount) % 3")),
    "text": ("rate FLOAT", "rate DOUBLE", keyed("CAST(rate AS STRING)")),
    "decimal": ("price DECIMAL(6,2)", "price DECIMAL(7,3)", valued("sum(price)")),
    "average": ("price DECIMAL(6,2)", "price DECIMAL(7,3)", valued("avg(price)")),
    "percentile": ("amount INT", "amount BIGINT", valued("percentile(amount, 0.5)")),
    "sketch": ("amount INT", "amount BIGINT", valued("approx_count_distinct(amount)")),
}


def make_tables(driver: SparkDriver) -> None:
    streams = [f"CREATE TABLE {name} ({COLUMNS}) USING parquet" for name in ("src", "other")]
    view = f"CREATE VIEW viewed AS SELECT ts, amount, country FROM {SRC}"
    dims = [f"CREATE TABLE {name} (code STRING, region STRING) USING parquet" for name in ("dim", "dim2")]
    run(driver, driver.base, *streams, *dims, view)


def described(driver: SparkDriver, sql: str, text: str, conf: dict[str, str] | None = None) -> Description:
    session: Any = driver.clone()
    for key, value in (conf or {}).items():
        session.conf().set(key, value)
    driver.activate(session)
    frame = driver.of_rows(
        session, analysis.prepared(driver, session, session.sessionState().sqlParser().parsePlan(sql))
    )
    found = describe(
        driver,
        session,
        frame.queryExecution().analyzed(),
        text=text,
        output_mode="append",
        mask=lambda told: told,
        qualified=lambda path: path,
    )
    assert not found.is_text_only, sql
    return Description.from_json(found.to_json())
