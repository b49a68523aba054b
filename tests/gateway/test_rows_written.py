"""How many rows a write has changed, by real Spark: of files, of Hive's tables and of Iceberg's, by each kind of statement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from sparksql.wire.control import OperationView
from tests.support.default_class import class_path
from tests.support.process import GatewayProcess, running

from .client import GatewayClient, connect
from .iceberg_session import iceberg_session


@pytest.fixture(scope="module")
def lakehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    with class_path(folder), running(folder, spark_conf=iceberg_session(folder.name)) as started:
        yield started


@pytest.fixture
async def client(lakehouse: GatewayProcess) -> AsyncIterator[GatewayClient]:
    async with connect(lakehouse) as connected:
        await connected.until_started()
        yield connected


def _count(view: OperationView) -> int | None:
    assert view.result is not None
    return view.result.rows_written


_FORMATS = ("USING parquet", "STORED AS TEXTFILE", "USING iceberg")


@pytest.mark.parametrize("form", _FORMATS)
async def test_inserts_and_ctas_count_their_rows(client: GatewayClient, form: str) -> None:
    name = f"t_{form.split()[-1].lower()}"
    assert _count(await client.ok(f"CREATE TABLE {name} {form} AS SELECT id FROM range(7)")) == 7
    assert _count(await client.ok(f"INSERT INTO {name} SELECT id FROM range(4)")) == 4
    assert _count(await client.ok(f"INSERT INTO {name} SELECT id FROM range(9) DISTRIBUTE BY id")) == 9
    assert _count(await client.ok(f"INSERT INTO {name} SELECT id FROM range(9) WHERE id > 100")) == 0
    assert _count(await client.ok(f"INSERT OVERWRITE {name} SELECT id FROM range(3)")) == 3
    assert await client.rows(f"SELECT count(*) FROM {name}") == [(3,)]


async def test_writes_of_partitions_and_several_tables_count_all_rows(client: GatewayClient) -> None:
    made = (
        "CREATE TABLE parts USING parquet PARTITIONED BY (p) AS SELECT id, id % 3 AS p FROM range(10) DISTRIBUTE BY p"
    )
    assert _count(await client.ok(made)) == 10
    assert _count(await client.ok("INSERT INTO parts PARTITION (p) SELECT id, id % 3 FROM range(5)")) == 5
    for name in ("left_half", "right_half"):
        await client.ok(f"CREATE TABLE {name} (id BIGINT) USING parquet")
    both = (
        "FROM (SELECT id FROM range(6)) INSERT INTO left_half SELECT id WHERE id < 2 INSERT INTO right_half SELECT id"
    )
    assert _count(await client.ok(both)) == 2 + 6


async def test_changes_of_an_iceberg_table_count_what_is_known(client: GatewayClient) -> None:
    """Copy-on-write: an UPDATE writes whole files again, and Spark does not count what has changed in them."""
    assert (
        _count(await client.ok("CREATE OR REPLACE TABLE cow USING iceberg AS SELECT id, 'a' AS s FROM range(10)")) == 10
    )
    assert _count(await client.ok("DELETE FROM cow WHERE id IN (1, 3)")) == 2
    assert _count(await client.ok("UPDATE cow SET s = 'b' WHERE id < 3")) is None
    merge = (
        "MERGE INTO cow t USING (SELECT id FROM range(5, 13)) u ON t.id = u.id WHEN MATCHED AND t.id = 5 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET s = 'm' WHEN NOT MATCHED THEN INSERT (id, s) VALUES (u.id, 'n')"
    )
    assert _count(await client.ok(merge)) == 8
    adds = "MERGE INTO cow t USING (SELECT 99 AS id) u ON t.id = u.id WHEN NOT MATCHED THEN INSERT (id, s) VALUES (u.id, 'x')"
    assert _count(await client.ok(adds)) == 1
    assert _count(await client.ok("DELETE FROM cow")) is None


async def test_changes_of_an_iceberg_table_by_position_count_their_rows(client: GatewayClient) -> None:
    modes = ", ".join(f"'write.{name}.mode' = 'merge-on-read'" for name in ("delete", "update", "merge"))
    await client.ok(f"CREATE TABLE mor (id BIGINT, s STRING) USING iceberg TBLPROPERTIES ({modes})")
    await client.ok("INSERT INTO mor SELECT id, 'a' FROM range(10)")
    assert _count(await client.ok("DELETE FROM mor WHERE id IN (1, 3)")) == 2
    assert _count(await client.ok("UPDATE mor SET s = 'b' WHERE id < 3")) == 2
    merge = (
        "MERGE INTO mor t USING (SELECT id FROM range(5, 13)) u ON t.id = u.id WHEN MATCHED AND t.id = 5 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET s = 'm' WHEN NOT MATCHED THEN INSERT (id, s) VALUES (u.id, 'n')"
    )
    assert _count(await client.ok(merge)) == 8


async def test_a_script_has_the_count_of_its_last_write(client: GatewayClient) -> None:
    await client.ok("CREATE TABLE one (id BIGINT) USING parquet; CREATE TABLE two (id BIGINT) USING iceberg")
    script = (
        "INSERT INTO one SELECT id FROM range(3); INSERT INTO two SELECT id FROM range(5); SELECT count(*) FROM one"
    )
    view = await client.ok(script)
    assert view.result is not None and (view.result.preview, view.result.rows_written) == ((("3",),), 5)
    assert _count(await client.ok("INSERT INTO one VALUES (1); DELETE FROM two")) is None


async def test_execute_immediate_counts_the_rows_of_its_statement(client: GatewayClient) -> None:
    await client.ok("CREATE TABLE later (id BIGINT) USING parquet")
    assert _count(await client.ok("EXECUTE IMMEDIATE 'INSERT INTO later SELECT id FROM range(6)'")) == 6
    assert (
        _count(await client.ok("EXECUTE IMMEDIATE 'CREATE TABLE of_text USING iceberg AS SELECT id FROM later'")) == 6
    )
    assert _count(await client.ok("EXECUTE IMMEDIATE 'SELECT * FROM later'")) is None


@pytest.mark.parametrize(
    "text", ["SELECT 1", "SHOW TABLES", "CREATE TABLE none (a INT) USING parquet", "SET spark.sql.ansi.enabled=true"]
)
async def test_statement_without_a_write_has_no_count(client: GatewayClient, text: str) -> None:
    assert _count(await client.ok(text)) is None


async def test_concurrent_ctas_have_each_its_own_count(client: GatewayClient) -> None:
    made = [client.ok(f"CREATE TABLE c{rows} USING parquet AS SELECT id FROM range({rows})") for rows in (11, 13, 17)]
    assert [_count(view) for view in await asyncio.gather(*made)] == [11, 13, 17]


async def test_script_counts_the_rows_of_each_of_its_writes(client: GatewayClient) -> None:
    view = await client.ok(
        "CREATE TABLE of_script (id BIGINT) USING parquet; INSERT INTO of_script SELECT id FROM range(7); "
        "SELECT count(*) FROM of_script; INSERT INTO of_script SELECT id FROM range(2); SELECT 1"
    )
    assert view.result is not None
    found = [(write.statement_index, write.statement_type, write.rows_written) for write in view.result.writes or ()]
    assert found == [(2, "INSERT", 7), (4, "INSERT", 2)]
    assert view.result.rows_written == 2


async def test_single_write_has_no_list_of_writes(client: GatewayClient) -> None:
    view = await client.ok("CREATE TABLE alone USING parquet AS SELECT id FROM range(7)")
    assert view.result is not None
    assert (view.result.rows_written, view.result.writes) == (7, None)
