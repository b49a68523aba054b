"""How many rows a stream has written since its run began: what its sink counts, exact over several batches and runs."""

from __future__ import annotations

import pytest

from sparksql.api.execution import OutputMode, Upsert
from sparksql.wire.control import OperationView
from tests.support.process import GatewayProcess

from ..streams import Streams
from .test_upsert_crash import TABLES

CHANGES = "INSERT INTO $.changes SELECT /*+ COALESCE(1) */ * FROM VALUES "


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


@pytest.fixture
async def changes(streams: Streams) -> Streams:
    await streams.ok("CREATE TABLE $.changes (id INT, v INT) USING parquet")
    return streams


def counts(view: OperationView) -> tuple[int | None, int | None]:
    """The rows that the progress tells of, and those of the result."""
    assert view.error is None, view
    assert view.progress is not None and view.progress.stream is not None and view.result is not None, view
    return view.progress.stream.rows_written, view.result.rows_written


async def test_stream_into_iceberg_counts_the_rows_of_all_batches_of_its_run(changes: Streams) -> None:
    table = TABLES["iceberg"]
    await changes.ok(f"CREATE TABLE {table} (id INT, v INT) USING iceberg")
    for values in ("(1, 1), (2, 2)", "(3, 3)", "(4, 4), (5, 5), (6, 6)"):
        await changes.ok(CHANGES + values)
    insert = f"INSERT INTO {table} SELECT * FROM STREAM $.changes"
    assert counts(await changes.run(insert, max_files_per_trigger=1)) == (6, 6)
    await changes.ok(CHANGES + "(7, 7)")
    assert counts(await changes.run(insert, max_files_per_trigger=1)) == (1, 1)
    assert await changes.rows(f"SELECT count(*) FROM {table}") == [(7,)]


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
async def test_stream_that_merges_counts_inserted_updated_and_deleted_rows(changes: Streams, format_: str) -> None:
    table = TABLES[format_]
    await changes.ok(
        f"CREATE TABLE {table} (id INT, v INT) USING {format_}",
        f"INSERT INTO {table} VALUES (1, 0), (2, 0), (9, 0)",
        CHANGES + "(1, 1), (2, -1), (3, 3), (4, -1)",
    )
    upsert = Upsert(keys=("id",), delete_when="v < 0")
    insert = f"INSERT INTO {table} SELECT * FROM STREAM $.changes"
    view = await changes.run(insert, upsert=upsert, output_mode=OutputMode.UPDATE)
    assert counts(view) == (3, 3)
    assert await changes.rows(f"SELECT * FROM {table} ORDER BY id") == [(1, 1), (3, 3), (9, 0)]


async def test_stream_into_files_whose_sink_does_not_count_has_no_count(changes: Streams) -> None:
    await changes.ok("CREATE TABLE $.files (id INT, v INT) USING parquet", CHANGES + "(1, 1), (2, 2)")
    view = await changes.run("INSERT INTO $.files SELECT * FROM STREAM $.changes")
    assert counts(view) == (None, None)
    assert await changes.rows("SELECT count(*) FROM $.files") == [(2,)]
