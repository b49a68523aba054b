"""The lag of streams whose sources report none: rows of Iceberg that wait, and files of other tables."""

from __future__ import annotations

import pytest

from tests.support.process import GatewayProcess

from ..streams import Streams

MINUTE = 60_000  # between triggers: the first batch is the only one of a test
ROWS, PARTS = 10, 3


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


async def test_iceberg_source_has_the_rows_that_wait_as_its_lag(streams: Streams) -> None:
    await streams.ok(
        "CREATE TABLE lake.$.src (id BIGINT) USING iceberg", "CREATE TABLE lake.$.dst (id BIGINT) USING iceberg"
    )
    for part in range(PARTS):
        await streams.ok(
            f"INSERT INTO lake.$.src SELECT /*+ COALESCE(1) */ id FROM range({part * ROWS}, {part * ROWS + ROWS})"
        )
    one_file = "WITH ('streaming-max-files-per-micro-batch' = '1')"
    view = await streams.endless(
        f"INSERT INTO lake.$.dst SELECT id FROM STREAM lake.$.src {one_file}", interval_millis=MINUTE
    )
    seen = (await streams.committed(view, 0)).progress
    assert seen is not None and seen.stream is not None
    assert seen.stream.lag == (PARTS - 1) * ROWS, seen
    stopped = (await streams.stop(view)).progress
    assert stopped is not None and stopped.stream is not None and stopped.stream.lag == (PARTS - 1) * ROWS


async def test_table_of_files_has_the_files_that_wait_as_its_lag(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.parts (id BIGINT) USING parquet", "CREATE TABLE $.whole (id BIGINT) USING parquet")
    for part in range(PARTS):
        await streams.ok(
            f"INSERT INTO $.parts SELECT /*+ COALESCE(1) */ id FROM range({part * ROWS}, {part * ROWS + ROWS})"
        )
    view = await streams.endless(
        "INSERT INTO $.whole SELECT id FROM STREAM $.parts WITH ('maxFilesPerTrigger' = '1')", interval_millis=MINUTE
    )
    seen = (await streams.committed(view, 0)).progress
    assert seen is not None and seen.stream is not None
    assert seen.stream.lag == PARTS - 1, seen
    await streams.stop(view)
