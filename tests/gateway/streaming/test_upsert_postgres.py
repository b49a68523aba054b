"""Upserts into tables of a real PostgreSQL: by key, each batch once wherever the driver died, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparksql.api.execution import OutputMode, Upsert
from sparksql.wire.control import OperationView
from tests.support.default_class import class_path
from tests.support.postgres import PASSWORD, USER, Postgres, running_postgres
from tests.support.process import GatewayProcess, running

from ..streams import Streams
from .test_upsert_crash import forget

UPSERT = Upsert(keys=("ID", "part"), order_by="v", delete_when="op = 'd'")
CATALOG = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
INSERT = "INSERT INTO $.{} SELECT * FROM STREAM $.changes"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        server.execute('CREATE SCHEMA "The Shop"')
        yield server


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[GatewayProcess]:
    """With the database as the catalog `pg`."""
    folder = tmp_path_factory.mktemp("database")
    options = {"": CATALOG, ".url": postgres.url, ".user": USER, ".password": PASSWORD}
    conf = {f"spark.sql.catalog.pg{key}": value for key, value in options.items()}
    with class_path(folder), running(folder, spark_conf=conf) as started:
        yield started


@pytest.fixture
async def shop(streams: Streams, postgres: Postgres) -> Streams:
    """A stream of changes, and the database's table `dst`."""
    postgres.execute(
        'DROP TABLE IF EXISTS "The Shop".dst; CREATE TABLE "The Shop".dst (id bigint, part text, v int, at timestamptz, '
        "price numeric(10,2), PRIMARY KEY (part, id))"
    )
    await streams.ok(
        "CREATE TABLE $.changes (id INT, part STRING, v INT, at TIMESTAMP, price DOUBLE, op STRING) USING parquet"
    )
    await streams.ok(_using(postgres, "dst", '"The Shop".dst'))
    return streams


def _using(postgres: Postgres, name: str, table: str) -> str:
    return (
        f"CREATE TABLE $.{name} USING jdbc OPTIONS ('url' = '{postgres.url}', 'dbtable' = '{table}', "
        f"'user' = '{USER}', 'password' = '{PASSWORD}')"
    )


async def put(shop: Streams, *changes: tuple[int, int | None, str]) -> None:
    values = ", ".join(
        f"({key}, 'it''s', {'NULL' if v is None else v}, TIMESTAMP '2026-01-01 00:00:00Z', 1.5, '{op}')"
        for key, v, op in changes
    )
    await shop.ok(f"INSERT INTO $.changes VALUES {values}")


async def run(shop: Streams, upsert: Upsert = UPSERT, table: str = "dst") -> OperationView:
    return await shop.run(INSERT.format(table), upsert=upsert, output_mode=OutputMode.UPDATE)


async def merged(
    shop: Streams, postgres: Postgres, *changes: tuple[int, int | None, str]
) -> list[tuple[str | None, ...]]:
    if changes:
        await put(shop, *changes)
    view = await run(shop)
    assert view.error is None, view
    return rows(postgres)


def rows(postgres: Postgres) -> list[tuple[str | None, ...]]:
    return postgres.execute('SELECT id, v FROM "The Shop".dst ORDER BY id')


def tables(postgres: Postgres) -> list[tuple[str | None, ...]]:
    return postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'The Shop' ORDER BY 1")


async def test_changes_are_merged_into_a_database_each_batch_once(shop: Streams, postgres: Postgres) -> None:
    first = await merged(shop, postgres, (1, 1, "u"), (1, 3, "u"), (2, 2, "u"), (3, None, "u"), (4, 1, "d"))
    assert first == [("1", "3"), ("2", "2"), ("3", None)]
    [row] = postgres.execute("""SELECT part, at AT TIME ZONE 'UTC', price FROM "The Shop".dst WHERE id = 1""")
    assert row == ("it's", "2026-01-01 00:00:00", "1.50")
    # Older and without an order: no change; as old: the later one; newer: the row, or none.
    changes = (1, 2, "d"), (2, None, "d"), (2, 2, "d"), (3, 0, "u"), (5, 1, "u")
    assert await merged(shop, postgres, *changes) == [("1", "3"), ("3", "0"), ("5", "1")]
    # The batch is in the database, its checkpoint is not: it is not brought in again.
    forget(shop.folder / "c" / "commits", 1)
    postgres.execute('UPDATE "The Shop".dst SET v = 7 WHERE id = 5; UPDATE "The Shop".dst SET v = -1 WHERE id = 3')
    assert await merged(shop, postgres) == [("1", "3"), ("3", "-1"), ("5", "7")]
    assert tables(postgres) == [("dst",), ("sparksql_batches",)]


async def test_a_table_of_a_database_catalog_takes_upserts(shop: Streams, postgres: Postgres) -> None:
    await put(shop, (1, 1, "u"), (2, 1, "d"))
    insert = "INSERT INTO pg.`The Shop`.dst SELECT * FROM STREAM $.changes"
    await shop.drained(insert, upsert=UPSERT, output_mode=OutputMode.UPDATE)
    assert rows(postgres) == [("1", "1")]


async def test_a_batch_that_fails_in_the_database_leaves_nothing_behind(shop: Streams, postgres: Postgres) -> None:
    await merged(shop, postgres, (1, 1, "u"), (2, 1, "u"))
    postgres.execute('ALTER TABLE "The Shop".dst ADD CONSTRAINT small CHECK (v < 100)')
    await put(shop, (1, 2, "d"), (2, 100, "u"))
    failed = await run(shop)
    assert failed.error is not None and "small" in failed.error.message, failed
    assert rows(postgres) == [("1", "1"), ("2", "1")]
    assert len(tables(postgres)) == 3  # the stage, which the next start takes away
    postgres.execute('ALTER TABLE "The Shop".dst DROP CONSTRAINT small')
    assert await merged(shop, postgres) == [("2", "100")]
    assert tables(postgres) == [("dst",), ("sparksql_batches",)]


async def test_a_target_that_the_database_cannot_upsert_is_refused(shop: Streams, postgres: Postgres) -> None:
    postgres.execute(
        'DROP TABLE IF EXISTS "The Shop".loose; CREATE TABLE "The Shop".loose (id int UNIQUE, v int NOT NULL)'
    )
    await shop.ok(
        _using(postgres, "loose", '"The Shop".loose'),
        _using(postgres, "query", '(SELECT id, v FROM "The Shop".dst) q'),
    )
    await put(shop, (1, 1, "u"))
    for table, changed, says in (
        ("dst", {"order_by": "v + 1"}, "must be a column of the target"),
        ("dst", {"order_by": "part"}, "a number, a date or a timestamp"),
        ("dst", {"keys": ("id",)}, "no unique index of exactly these columns"),
        ("dst", {"deleted_retention_seconds": 60}, "for tables of Iceberg and Delta"),
        ("loose", {"keys": ("id",)}, "column id of"),
        ("query", {"keys": ("id",)}, "not a query"),
    ):
        view = await run(shop, UPSERT.model_copy(update=changed), table)
        assert view.error is not None and says in view.error.message, (table, changed, view.error)
    assert rows(postgres) == []
