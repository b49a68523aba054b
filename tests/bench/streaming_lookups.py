"""What a join of a stream with a table costs a batch, form beside form in one gateway. With one in PostgreSQL: the plain join, which
reads the whole table, a lookup of the batch's keys, and a lookup that keeps what it has read. With one of Iceberg, of which there
are three versions: the plain join with the newest one, and that with the version of each row's time.

Usage: python -m tests.bench.streaming_lookups [ROUNDS] [TABLE_ROWS]. All forms read the same file table, a file of 1,000 rows a batch, until it is
read up, and take turns. Keys are those of a tenth of the table's rows, drawn evenly. A batch's time is that from one commit to the
next, as the file system has it, without the first two. The database is on the same machine: over a network all is slower, and the
whole table the most.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import tempfile
from pathlib import Path

from sparksql.api.execution import Lookup, TriggerMode
from sparksql.wire.control import OperationState, StreamOptions
from tests.bench.latency.common import machine
from tests.gateway.client import GatewayClient, connect
from tests.support.default_class import class_path
from tests.support.postgres import PASSWORD, USER, Postgres, running_postgres
from tests.support.process import running

BATCHES = 12
BATCH_ROWS = 1000
CONF = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}
CATALOG = "spark.sql.catalog.lake"
FORMS: dict[str, tuple[str, tuple[Lookup, ...]]] = {
    "join": ("customers AS c", ()),
    "lookup": ("customers AS c", (Lookup(table="c"),)),
    "lookup, ttl": ("customers AS c", (Lookup(table="c", ttl_seconds=600),)),
    "Iceberg, join": ("lake.d.customers AS c", ()),
    "Iceberg, AS OF": ("lake.d.customers FOR SYSTEM_TIME AS OF orders.at AS c", ()),
}
VERSIONS = 3


async def _made(client: GatewayClient, database: Postgres, rows: int) -> None:
    database.execute(
        "CREATE TABLE customers (id bigint PRIMARY KEY, name text, country text, credit numeric(12,2));"
        f"INSERT INTO customers SELECT n, 'customer ' || n, 'de', n / 4.0 FROM generate_series(0, {rows - 1}) n; ANALYZE customers"
    )
    await client.ok(
        f"CREATE TABLE customers USING jdbc OPTIONS (url '{database.url}', dbtable 'customers', user '{USER}', "
        f"password '{PASSWORD}', driver 'org.postgresql.Driver')"
    )
    await client.ok(
        "CREATE TABLE lake.d.customers (id BIGINT, name STRING, country STRING, credit DECIMAL(12,2)) USING iceberg"
    )
    for version in range(VERSIONS):
        await client.ok(
            f"INSERT OVERWRITE lake.d.customers SELECT id, 'customer {version} ' || id, 'de', CAST(id / 4.0 AS DECIMAL(12,2)) FROM range({rows})"
        )
    await client.ok(
        "CREATE TABLE times USING parquet AS SELECT CAST(row_number() OVER (ORDER BY committed_at) AS INT) - 1 AS version, committed_at AS at "
        "FROM lake.d.customers.snapshots"
    )
    await client.ok("CREATE TABLE orders (o BIGINT, customer BIGINT, at TIMESTAMP) USING parquet")
    for batch in range(BATCHES):
        first = batch * BATCH_ROWS
        await client.ok(
            f"INSERT INTO orders SELECT /*+ COALESCE(1) */ id, pmod(hash(id), {rows // 10}), at "
            f"FROM range({first}, {first + BATCH_ROWS}) JOIN times ON pmod(id, {VERSIONS}) = version"
        )


async def _run(client: GatewayClient, form: str, turn: str, folder: Path) -> list[float]:
    """Returns the milliseconds of each batch but the first two."""
    await client.ok(f"CREATE TABLE {turn} (o BIGINT, name STRING, country STRING, credit DECIMAL(12,2)) USING parquet")
    checkpoint, (table, lookups) = folder / turn, FORMS[form]
    options = StreamOptions(
        checkpoint=checkpoint.as_uri(),
        trigger=TriggerMode.AVAILABLE_NOW,
        max_files_per_trigger=1,
        lookups=lookups,
    )
    sql = f"INSERT INTO {turn} SELECT o, c.name, c.country, c.credit FROM STREAM orders JOIN {table} ON customer = c.id"
    view = await client.end(await client.put(sql, streaming=options), 600)
    if view.state is not OperationState.FINISHED:
        raise SystemExit(f"{form} ended as {view.error}")
    [(count,)] = await client.rows(f"SELECT count(*) FROM {turn}")
    assert count == BATCHES * BATCH_ROWS, count
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    moments = [file.stat().st_mtime for file in commits]
    return [(after - before) * 1000 for before, after in itertools.pairwise(moments[1:])]


async def measure(rounds: int, rows: int) -> None:
    """Prints what a batch of each form takes. Each runs once before, so that all are compiled."""
    with tempfile.TemporaryDirectory() as name, running_postgres() as database:
        folder = Path(name)
        lake = {
            CATALOG: "org.apache.iceberg.spark.SparkCatalog",
            f"{CATALOG}.type": "hadoop",
            f"{CATALOG}.warehouse": str(folder / "lake"),
        }
        with class_path(folder), running(folder, optimised=True, spark_conf={**CONF, **lake}, heap_mib=2048) as process:
            async with connect(process) as client:
                await client.until_started()
                await _made(client, database, rows)
                found: dict[str, list[float]] = {form: [] for form in FORMS}
                for number in range(rounds + 1):
                    for place, form in enumerate(FORMS):
                        millis = await _run(client, form, f"t{number}_{place}", folder / "checkpoints")
                        if number:
                            found[form] += millis
    print(f"\n{'form':16}{'ms a batch, median':>20}{'range':>18}")
    for form, millis in found.items():
        print(f"{form:16}{statistics.median(millis):>20,.0f}{f'{min(millis):,.0f} to {max(millis):,.0f}':>18}")


def main() -> None:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(description="A stream joined with a table in PostgreSQL, form beside form.")
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    parser.add_argument("rows", nargs="?", type=int, default=100_000)
    arguments = parser.parse_args()
    print(f"{machine()}; a table of {arguments.rows:,} rows, batches of {BATCH_ROWS:,}")
    asyncio.run(measure(arguments.rounds, arguments.rows))


if __name__ == "__main__":
    main()
