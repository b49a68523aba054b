"""A stream writes tables of any format, as they were made."""

from __future__ import annotations

import pytest

from tests.support.thorough import thorough_but

from ..streams import Streams

FORMATS = ["parquet", "orc", "json", "csv OPTIONS ('header' = 'true')"]


@pytest.mark.parametrize("format_", thorough_but(FORMATS[3:], FORMATS))
async def test_tables_of_files_of_any_format_are_written(streams: Streams, format_: str) -> None:
    await streams.ok(f"CREATE TABLE $.dst (id INT, name STRING) USING {format_}")
    for number in (3, 4):
        await streams.drained("INSERT INTO $.dst SELECT id, name FROM STREAM $.src")
        await streams.ok(f"INSERT INTO $.src VALUES ({number}, 'x', NULL)")
    assert await streams.rows("SELECT * FROM $.dst ORDER BY id") == [(1, "a"), (2, "b"), (3, "x")]


async def test_partitioned_table_of_another_format(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.dst (name STRING, id INT) USING orc PARTITIONED BY (id)")
    await streams.drained("INSERT INTO $.dst SELECT name, id FROM STREAM $.src")
    assert await streams.rows("SELECT name, id FROM $.dst ORDER BY id") == [("a", 1), ("b", 2)]
