"""Lookup joins: a STREAM joined with a table in PostgreSQL, of which each batch reads the rows with its keys and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from sparksql.api.execution import Lookup, OutputMode, StatementMode, TriggerMode, Upsert
from sparksql.wire.control import ErrorReason, OperationState
from tests.support.default_class import class_path
from tests.support.postgres import PASSWORD, USER, Postgres, running_postgres
from tests.support.process import GatewayProcess, running
from tests.support.thorough import thorough_but

from ..connectors import iceberg_catalog
from ..streams import Streams
from .lookup_tables import COMPUTING_VIEWS, CONDITIONS, CUSTOMERS, ROWS, VIEWS


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with running_postgres(log_statement="all") as started:
        started.execute(CUSTOMERS)
        yield started


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, database: Postgres) -> Iterator[GatewayProcess]:
    """With Iceberg's catalog `lake`, and the database as the catalog `pg`."""
    folder = tmp_path_factory.mktemp("gateway")
    conf = {
        "spark.sql.catalog.pg": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "spark.sql.catalog.pg.url": database.url,
        "spark.sql.catalog.pg.driver": "org.postgresql.Driver",
        "spark.sql.catalog.pg.user": USER,
        "spark.sql.catalog.pg.password": PASSWORD,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        **iceberg_catalog("lake", folder),
    }
    with class_path(folder), running(folder, spark_conf=conf) as started:
        yield started


@pytest.fixture
async def orders(streams: Streams, database: Postgres) -> Streams:
    """A table $.orders to stream, and $.customers and $.keys in the database."""
    for table in ("customers", "keys"):
        await streams.ok(
            f"CREATE TABLE $.{table} USING jdbc OPTIONS (url '{database.url}', dbtable '{table}', user '{USER}', "
            f"password '{PASSWORD}', driver 'org.postgresql.Driver')"
        )
    await streams.ok(
        "CREATE TABLE $.orders (o INT, customer BIGINT, at TIMESTAMP) USING parquet",
        "CREATE TABLE $.joined (o INT, name STRING) USING parquet",
    )
    return streams


def selects(database: Postgres) -> list[str]:
    """Values of the keys of customers that were read so far, a text for each read; not the question whether they can be."""
    log = (database.folder / "log").read_text()
    return [each for each in re.findall(r'WHERE "id" IN .*\n.*Parameters: (.*)', log) if each != "$1 = NULL"]


def joins(source: str, hint: str) -> str:
    """A query of all CONDITIONS, with `source` before the name of the streamed table, and `hint` with @ for the other's alias."""
    parts = [
        f"SELECT {hint.replace('@', f'k{number}')} '{name}' AS name, s.row, k{number}.`select` AS found FROM {source} $.rows AS s "
        f"{'LEFT ' if name.isupper() else ''}JOIN $.keys AS k{number} ON {condition.replace('k.', f'k{number}.')}"
        for number, (name, condition) in enumerate(CONDITIONS.items())
    ]
    return " UNION ALL ".join(parts)


@pytest.mark.thorough
async def test_lookups_find_what_a_join_finds_for_each_type_of_key(orders: Streams) -> None:
    await orders.ok(
        f"CREATE TABLE $.rows USING parquet AS {ROWS}",
        "CREATE TABLE $.found (name STRING, row INT, found STRING) USING parquet",
    )
    await orders.drained(f"INSERT INTO $.found {joins('STREAM', '/*+ MINI_BATCH(@, rows(3)) */')}")
    found = await orders.rows("SELECT * FROM $.found ORDER BY ALL")
    assert found == await orders.rows(f"SELECT * FROM ({joins('', '')}) ORDER BY ALL")
    assert len({name for name, *_ in found}) == len(CONDITIONS)


async def test_a_lookup_reads_the_keys_of_a_batch_once_and_keeps_them_for_its_ttl(
    orders: Streams, database: Postgres
) -> None:
    await orders.ok("CREATE TABLE lake.$.seen (o INT, name STRING) USING iceberg")

    async def batch(values: str, hint: str, checkpoint: str = "kept", **fields: Any) -> list[tuple[Any, ...]]:
        await orders.ok(f"INSERT INTO $.orders SELECT /*+ COALESCE(1) */ *, NULL FROM VALUES {values}")
        await orders.drained(
            f"INSERT INTO lake.$.seen SELECT {hint} o, c.name FROM pg.public.customers AS c "
            "RIGHT JOIN STREAM $.orders ON customer = id",
            checkpoint,
            **fields,
        )
        return await orders.rows("SELECT * FROM lake.$.seen ORDER BY ALL")

    before, kept = len(selects(database)), "/*+ MINI_BATCH(pg.public.customers, ttl('1 hour')) */"
    assert await batch("(1, 7), (2, 8), (3, 7), (4, NULL), (5, 5000)", kept) == [
        (1, "c7"), (2, "c8"), (3, "c7"), (4, None), (5, None),
    ]  # fmt: skip
    assert [sorted(re.findall(r"'(\d+)'", each)) for each in selects(database)[before:]] == [["5000", "7", "8"]]
    database.execute("UPDATE customers SET name = 'new' WHERE id = 7")
    assert (await batch("(6, 7), (7, 9)", kept))[5:] == [(6, "c7"), (7, "c9")]
    assert [re.findall(r"'(\d+)'", each) for each in selects(database)[before + 1 :]] == [["9"]]
    merged = await batch("(8, 7)", "", "merges", upsert=Upsert(keys=("o",)), lookups=(Lookup(table="Customers"),))
    assert merged == [(1, "new"), (2, "c8"), (3, "new"), (4, None), (5, None), (6, "new"), (7, "c9"), (8, "new")]
    assert set(re.findall(r"'(\d+)'", str(selects(database)[before + 2 :]))) == {"5000", "7", "8", "9"}


@pytest.mark.thorough
async def test_the_state_of_an_aggregation_above_stays_when_a_join_becomes_a_lookup(orders: Streams) -> None:
    await orders.ok(
        "CREATE TABLE $.counts (country STRING, ends TIMESTAMP, n BIGINT) USING parquet",
        "INSERT INTO $.orders VALUES (1, 7, TIMESTAMP '2026-01-01 00:00:01'), (2, 8, TIMESTAMP '2026-01-01 00:00:02')",
    )
    counts = (
        "INSERT INTO $.counts SELECT$hint c.country, window.end, count(*) FROM (SELECT * FROM STREAM $.orders "
        "WATERMARK at DELAY OF INTERVAL 0 SECONDS) AS o JOIN $.customers AS c ON o.customer = c.id "
        "GROUP BY window(o.at, '1 minute'), c.country"
    )
    await orders.drained(counts.replace("$hint", ""))
    await orders.ok(
        "INSERT INTO $.orders VALUES (3, 9, TIMESTAMP '2026-01-01 00:00:03'), (4, 1, TIMESTAMP '2026-01-01 01:00:00')"
    )
    await orders.drained(counts.replace("$hint", " /*+ MINI_BATCH(c) */"))
    assert await orders.rows("SELECT * FROM $.counts") == [("de  ", "2026-01-01 00:01:00", 3)]


async def test_a_database_that_is_away_fails_the_batch_and_the_next_attempt_goes_on(
    orders: Streams, database: Postgres
) -> None:
    sql = "INSERT INTO $.joined SELECT /*+ MINI_BATCH(customers) */ o, name FROM STREAM $.orders JOIN $.customers ON customer = id"
    await orders.ok("INSERT INTO $.orders VALUES (0, 8, NULL)")
    running_query = await orders.endless(sql)
    await orders.committed(running_query, 0)
    database.stop()
    await orders.ok("INSERT INTO $.orders VALUES (1, 9, NULL)")
    failed = await orders.client.end(running_query)
    at_start = await orders.run(sql)
    database.start()
    for view, says in (
        (failed, "the database of the lookup table customers did not answer"),
        (at_start, "refused. Check"),
    ):
        assert view.state is OperationState.ERROR and view.error is not None
        assert view.error.reason is ErrorReason.SQL_ERROR and (view.error.sql_state or "").startswith("08"), view.error
        assert says in view.error.message and PASSWORD not in view.error.message
    await orders.drained(sql)
    assert await orders.rows("SELECT * FROM $.joined ORDER BY o") == [(0, "c8"), (1, "c9")]


REFUSED: dict[str, tuple[str, str]] = {
    "no such table": ("MINI_BATCH(clients)|JOIN $.customers AS c ON customer = c.id", "joins no STREAM with a table of that name"),
    "no database": ("MINI_BATCH(c)|JOIN $.joined AS c ON orders.o = c.o", "is no table in a database"),
    "no equality": ("MINI_BATCH(c)|JOIN $.customers AS c ON customer > c.id", "no equality of a column"),
    "computed key": ("MINI_BATCH(c)|JOIN $.customers AS c ON customer = c.id + 1", "is no column of the table"),
    "other type": ("MINI_BATCH(c)|JOIN $.customers AS c ON CAST(orders.o AS DECIMAL(9,2)) = c.id", "CAST(o.x AS INT)"),
    "narrowed": ("MINI_BATCH(c)|JOIN $.keys AS c ON orders.o = CAST(c.large AS INT)", "CAST(o.x AS BIGINT)"),
    "padded key": ("MINI_BATCH(c)|JOIN $.customers AS c ON concat('de', orders.o) = c.country", "is no column of the table"),
    "inexact key": ("MINI_BATCH(c)|JOIN $.keys AS c ON CAST(orders.o AS DOUBLE) = c.approximate", "is DOUBLE"),
    "enumeration": ("MINI_BATCH(c)|JOIN $.keys AS c ON CAST(orders.o AS STRING) = c.felt", "operator does not exist"),
    "kind of join": ("MINI_BATCH(c)|LEFT SEMI JOIN $.customers AS c ON customer = c.id", "its join is LeftSemi"),
    "left join": ("MINI_BATCH(c)|LEFT JOIN $.customers AS c ON customer = c.id AND c.credit > o", "no equality of columns"),
    "query": ("MINI_BATCH(c)|JOIN (SELECT * FROM $.customers WHERE id > 1) AS c ON customer = c.id", "as a query with Filter"),
    "computed column": (
        "MINI_BATCH(c)|JOIN (SELECT id, credit * 2 AS credit FROM $.customers) AS c ON customer = c.id",
        "whose column credit is computed",
    ),
    "twice": ("MINI_BATCH(c), MINI_BATCH(customers)|JOIN $.customers AS c ON customer = c.id", "is the same table"),
}  # fmt: skip


@pytest.mark.parametrize("of", VIEWS)
async def test_a_view_that_names_columns_of_a_table_is_looked_up_by_its_keys(
    orders: Streams, database: Postgres, of: str
) -> None:
    for view in VIEWS[of]:
        await orders.ok(f"CREATE {view}")
    await orders.ok("INSERT INTO $.orders VALUES (1, 9, NULL), (2, 5000, NULL), (3, 8, NULL)")
    sql = "SELECT o, called FROM {} $.orders LEFT JOIN $.v ON customer = customer_id"
    before = len(selects(database))
    lookup = (Lookup(table="v"),)
    await orders.drained(f"INSERT INTO $.joined {sql.format('STREAM')}", lookups=lookup)
    assert set(re.findall(r"'(\d+)'", str(selects(database)[before:]))) == {"8", "9", "5000"}
    found = await orders.rows("SELECT * FROM $.joined ORDER BY o")
    assert found == await orders.rows(f"{sql.format('')} ORDER BY o") and found[0][1] in ("c9", "de  ")


async def test_a_view_that_computes_is_refused_as_a_lookup_with_its_column_or_clause(orders: Streams) -> None:
    sql = "INSERT INTO $.joined SELECT /*+ MINI_BATCH(v) */ o, name FROM STREAM $.orders JOIN $.v ON customer = id"
    for number, (text, says) in enumerate(COMPUTING_VIEWS.items()):
        await orders.ok(f"CREATE OR REPLACE VIEW $.v AS {text}")
        view = await orders.run(sql, f"computing_{number}")
        message = view.error.message if view.error else ""
        assert "the lookup of v cannot be" in message and says in message, view


async def test_joins_that_cannot_be_looked_up_are_refused_with_the_name_of_the_table(orders: Streams) -> None:
    for case, (text, says) in REFUSED.items():
        hint, join = text.split("|")
        sql = f"INSERT INTO $.joined SELECT /*+ {hint} */ orders.o, NULL FROM STREAM $.orders {join}"
        view = await orders.run(sql, case.replace(" ", "_"))
        message = view.error.message if view.error else ""
        assert says in message and ("lookup" in message), f"{case}: {view}"
    view = await orders.run(
        "INSERT INTO $.joined SELECT o, name FROM STREAM $.orders JOIN $.customers ON customer = id",
        "real_time",
        trigger=TriggerMode.REAL_TIME, interval_millis=5000, output_mode=OutputMode.UPDATE, lookups=(Lookup(table="customers"),),
    )  # fmt: skip
    assert view.error is not None and "RealTime" in view.error.message


async def test_no_text_that_is_shown_has_the_password_of_a_lookup(orders: Streams, gateway: GatewayProcess) -> None:
    sql = "INSERT INTO $.joined SELECT /*+ MINI_BATCH(c) */ o, name FROM STREAM $.orders JOIN $.customers AS c ON customer = id"
    explained = await orders.rows(f"EXPLAIN EXTENDED {sql.replace('STREAM', '')}")
    assert "customers" in str(explained) and PASSWORD not in str(explained)
    assert PASSWORD not in (gateway.folder / "log").read_text(errors="replace")


VERSIONS = (
    "INSERT INTO lake.$.names VALUES (1, 'a1', DATE '2026-01-01'), (2, 'b1', NULL)",
    "UPDATE lake.$.names SET name = 'a2' WHERE id = 1",
    "DELETE FROM lake.$.names WHERE id = 2",
)
OF_TIME = "INSERT INTO $.joined SELECT {hint} s.o, c.name FROM STREAM $.orders AS s {join} lake.$.names FOR SYSTEM_TIME AS OF s.at AS c ON {on}"
NAMED = OF_TIME.format(hint="", join="LEFT JOIN", on="s.customer = c.id")


async def names_and_times(orders: Streams) -> list[str]:
    """A table of Iceberg with three versions, events before, at and after each, and the times of the versions."""
    await orders.ok("CREATE TABLE lake.$.names (id INT, name STRING, day DATE) USING iceberg", *VERSIONS)
    times = [str(row[0]) for row in await orders.rows("SELECT committed_at FROM lake.$.names.snapshots ORDER BY 1")]
    events = [
        f"({10 * version + key}, {key}, TIMESTAMP '{time}' + INTERVAL {shift} MILLISECONDS)"
        for version, time in enumerate(times)
        for key, shift in ((1, -1), (2, 0), (1, 0), (3, 0))
    ]
    later = f"(90, 1, TIMESTAMP '{times[-1]}' + INTERVAL 1 DAY), (91, 1, NULL), (92, NULL, TIMESTAMP '{times[-1]}')"
    await orders.ok(f"INSERT INTO $.orders VALUES {', '.join(events)}, {later}")
    return times


async def test_rows_are_joined_with_the_version_of_their_time(orders: Streams) -> None:
    await names_and_times(orders)
    expected = [
        (1, "a1"), (1, None), (2, "b1"), (3, None), (11, "a1"), (11, "a2"), (12, "b1"), (13, None), (21, "a2"), (21, "a2"),
        (22, None), (23, None), (90, "a2"), (91, None), (92, None),
    ]  # fmt: skip
    found = "SELECT * FROM $.joined ORDER BY o, name NULLS LAST"
    await orders.drained(NAMED)
    assert await orders.rows(found) == expected
    # A batch that is run again after later commits, in small reads: the rows of a checkpoint of its own.
    await orders.ok("TRUNCATE TABLE $.joined", "INSERT INTO lake.$.names VALUES (1, 'again', NULL)")
    small = OF_TIME.format(hint="/*+ MINI_BATCH(c, rows(2)) */", join="LEFT JOIN", on="s.customer = c.id AND 'x' = 'x'")
    inner = OF_TIME.format(hint="", join="JOIN", on="c.id = s.customer AND c.name > 'a1' AND s.o < 90")
    refused = await orders.run(small, "small")
    assert refused.error is not None and "LEFT JOIN has a condition that is no equality" in refused.error.message
    await orders.drained(small.replace(" AND 'x' = 'x'", ""), "again")
    assert [row for row in await orders.rows(found) if row[0] != 90] == [row for row in expected if row[0] != 90]
    await orders.ok("TRUNCATE TABLE $.joined")
    await orders.drained(inner, "inner")
    assert await orders.rows(found) == [row for row in expected if row[1] not in (None, "a1") and row[0] < 90]
    await orders.ok(
        "TRUNCATE TABLE $.joined",
        "CALL lake.system.expire_snapshots(table => '$.names', older_than => TIMESTAMP '2999-01-01', retain_last => 1)",
    )
    expired = await orders.run(NAMED, "expired")
    assert expired.error is not None and expired.error.condition == "LOOKUP_VERSION_EXPIRED", expired
    assert "the version of c at" in expired.error.message and "is expired" in expired.error.message


# Of a table whose deletes are files of their own: each commit, and the rows that there are after it.
MERGED_ON_READ = (
    ("INSERT INTO lake.$.names SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a1', NULL), (2, 'b1', NULL), (3, 'c1', NULL)", "a1 b1 c1 -"),
    ("UPDATE lake.$.names SET name = 'a2' WHERE id = 1", "a2 b1 c1 -"),
    ("DELETE FROM lake.$.names WHERE id = 2", "a2 - c1 -"),
    (
        "ALTER TABLE lake.$.names ADD PARTITION FIELD bucket(2, id)",
        "ALTER TABLE lake.$.names RENAME COLUMN name TO title",
        "ALTER TABLE lake.$.names RENAME COLUMN id TO code",
        "ALTER TABLE lake.$.names DROP COLUMN day",
        "ALTER TABLE lake.$.names ADD COLUMN name STRING",
        "INSERT INTO lake.$.names VALUES (4, 'd1', 'new')",
        "a2 - c1 d1/new",
    ),
    (
        "MERGE INTO lake.$.names USING (SELECT 3 AS code) m ON names.code = m.code WHEN MATCHED THEN UPDATE SET title = 'c2'",
        "a2 - c2 d1/new",
    ),
)  # fmt: skip


@pytest.mark.parametrize("version", thorough_but([3], [2, 3]))
async def test_rows_deleted_by_merge_on_read_and_renamed_columns_are_those_of_each_version(
    orders: Streams, version: int
) -> None:
    modes = ", ".join(f"'write.{each}.mode' = 'merge-on-read'" for each in ("delete", "update", "merge"))
    await orders.ok(
        f"CREATE TABLE lake.$.names (id INT, name STRING, day DATE) USING iceberg TBLPROPERTIES ('format-version' = '{version}', {modes})"
    )
    for *commit, _ in MERGED_ON_READ:
        await orders.ok(*commit)
    times = [row[0] for row in await orders.rows("SELECT committed_at FROM lake.$.names.snapshots ORDER BY 1")]
    assert len(times) == len(MERGED_ON_READ)
    events = [
        f"({10 * number + code}, {code}, TIMESTAMP '{time}')"
        for number, time in enumerate(times)
        for code in range(1, 5)
    ]
    await orders.ok(f"INSERT INTO $.orders VALUES {', '.join(events)}")
    named = NAMED.replace("c.name", "concat_ws('/', c.title, c.name)").replace("c.id", "c.code")
    await orders.drained(named)
    expected = [
        (10 * number + code, "" if name == "-" else name)
        for number, (*_, rows) in enumerate(MERGED_ON_READ)
        for code, name in enumerate(rows.split(), 1)
    ]
    assert await orders.rows("SELECT * FROM $.joined ORDER BY o") == expected


async def test_new_versions_are_seen_by_the_batches_of_a_query_that_runs(orders: Streams) -> None:
    await orders.ok("CREATE TABLE lake.$.names (id INT, name STRING, day DATE) USING iceberg", VERSIONS[0])
    query = await orders.endless(NAMED)
    for version, name in enumerate(("now", "then")):
        await orders.ok(
            f"UPDATE lake.$.names SET name = '{name}' WHERE id = 1",
            f"INSERT INTO $.orders VALUES ({version}, 1, now())",
        )
        await orders.committed(query, version)
    assert await orders.rows("SELECT * FROM $.joined ORDER BY o") == [(0, "now"), (1, "then")]


OF_TIMES_REFUSED = {
    "another table": ("FROM STREAM $.orders s JOIN $.customers FOR SYSTEM_TIME AS OF s.at AS c ON s.customer = c.id", "is no table of Iceberg"),
    "a number": ("FROM STREAM $.orders s JOIN lake.$.names FOR SYSTEM_TIME AS OF s.o AS c ON s.customer = c.id", "must be a TIMESTAMP"),
    "its own": ("FROM STREAM $.orders s JOIN lake.$.names FOR SYSTEM_TIME AS OF c.at AS c ON s.customer = c.id", "is not of the STREAM's side"),
    "alone": ("FROM STREAM $.orders s, LATERAL (SELECT * FROM lake.$.names TIMESTAMP AS OF s.at) c", "is for a table that the STREAM of an INSERT is joined with"),
    "USING": ("FROM STREAM $.orders s JOIN lake.$.names FOR SYSTEM_TIME AS OF s.at USING (at)", "with ON"),
    "on the left": ("FROM lake.$.names FOR SYSTEM_TIME AS OF s.at AS c JOIN STREAM $.orders s ON s.customer = c.id", "on the right of JOIN"),
    "FULL": ("FROM STREAM $.orders s FULL JOIN lake.$.names FOR SYSTEM_TIME AS OF s.at AS c ON s.customer = c.id", "its join is FullOuter"),
    "no key": ("FROM STREAM $.orders s JOIN lake.$.names FOR SYSTEM_TIME AS OF s.at AS c", "no equality of a column"),
    "no STREAM": (
        "FROM STREAM $.orders s JOIN (SELECT 1 AS one, t.at FROM $.times t JOIN lake.$.names FOR SYSTEM_TIME AS OF t.at AS c ON t.id = c.id) x "
        "ON s.o = x.one",
        "this query has one elsewhere",
    ),
    "ttl": ("FROM STREAM $.orders s JOIN lake.$.names FOR SYSTEM_TIME AS OF s.at AS c ON s.customer = c.id", "does not change, so that ttl"),
}  # fmt: skip


async def test_as_of_a_column_in_another_place_is_refused_with_what_to_write(orders: Streams) -> None:
    await orders.ok(
        "CREATE TABLE lake.$.names (id INT, name STRING, at TIMESTAMP) USING iceberg",
        "CREATE TABLE $.times (id INT, at TIMESTAMP) USING parquet",
    )
    for name, (query, says) in OF_TIMES_REFUSED.items():
        hint = "/*+ MINI_BATCH(c, ttl('1 minute')) */" if name == "ttl" else ""
        view = await orders.run(f"INSERT INTO $.joined SELECT {hint} s.o, 'x' {query}", name.replace(" ", "_"))
        assert view.error is not None and view.error.reason is ErrorReason.INVALID_SPEC, (name, view)
        assert says in view.error.message, (name, view.error.message)
    query = NAMED.partition("INTO $.joined ")[2]
    for sql, mode in (
        (query, StatementMode.EXPLAIN),
        (query, StatementMode.PREVIEW),
        (f"CREATE TEMPORARY VIEW v AS {query}", StatementMode.EXECUTE),
        (f"EXPLAIN {query}", StatementMode.EXECUTE),
    ):
        view = await orders.client.run(sql.replace("$", orders.database), mode=mode)
        assert view.error is not None and "AS OF a column is for" in view.error.message, (sql, view)
    view = await orders.client.run(query.replace("$", orders.database).replace("STREAM ", ""))
    assert view.error is not None and "cannot refer to any columns" in view.error.message, view
