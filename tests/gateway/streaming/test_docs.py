"""The streams that docs show run as they are written, and give what the same query gives as a batch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparksql.wire.savepoints import SavepointPlace
from tests.support.thorough import thorough_but

from ..streams import Streams

PAGE = Path(__file__).parents[3] / "docs" / "windows.md"
SAVEPOINTS = PAGE.with_name("savepoints.md")
STREAMS = re.findall(r"^```sql\n(INSERT INTO (\w+)\n.*?)\n```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
TARGETS = {
    "visits_of_the_last_hour": "begin TIMESTAMP, end TIMESTAMP, n BIGINT",
    "visitors_since_midnight": "begin TIMESTAMP, end TIMESTAMP, page STRING, n BIGINT",
    "visits_of_pages": "begin TIMESTAMP, page STRING, n BIGINT",
    "visits_in_one_go": "begin TIMESTAMP, end TIMESTAMP, visitor STRING, n BIGINT",
    "last_visits": "begin TIMESTAMP, visitor STRING, page STRING, ts TIMESTAMP",
    "live_pages": "page STRING, begin TIMESTAMP, end TIMESTAMP, n BIGINT, visitors BIGINT",
    "orders_and_visits": "begin TIMESTAMP, visits BIGINT, orders BIGINT",
    "best_items": "begin TIMESTAMP, end TIMESTAMP, item STRING, sales BIGINT, buyers BIGINT, of_host BIGINT",
}
# A HOP, and a join of two TUMBLEs; test_windows.py and test_window_calls.py run what the others are made of.
OF_EACH_CALL = {"visits_of_the_last_hour", "orders_and_visits"}
VISITS = (
    "('a', 'ann', '2026-01-01 07:10:00'), ('a', 'ann', '2026-01-01 07:20:00'), ('b', 'bob', '2026-01-01 07:50:00'), "
    "('b', 'ann', '2026-01-01 08:05:00'), ('a', 'bob', '2026-01-01 23:59:00'), ('a', 'cy', '2026-01-02 00:00:00')"
)
ORDERS = (
    "('x', 'eve', 'ann', 5, '2026-01-01 07:59:00'), ('y', 'eve', 'bob', 7, '2026-01-01 07:00:00'), "
    "('x', 'eve', 'bob', 5, '2026-01-01 12:00:00'), ('z', 'dan', 'ann', 1, '2026-01-01 12:30:00')"
)


def test_every_stream_of_the_page_is_here() -> None:
    assert [target for _, target in STREAMS] == list(TARGETS)


async def write(streams: Streams, visits: str, orders: str) -> None:
    await streams.ok(
        f"INSERT INTO $.visits SELECT col1, col2, CAST(col3 AS TIMESTAMP) FROM VALUES {visits}",
        f"INSERT INTO $.orders SELECT col1, col2, col3, col4, CAST(col5 AS TIMESTAMP) FROM VALUES {orders}",
    )


@pytest.mark.parametrize(
    ("sql", "target"),
    thorough_but([each for each in STREAMS if each[1] in OF_EACH_CALL], STREAMS),
    ids=[target for _, target in STREAMS],
)
async def test_a_stream_shown_in_the_docs_writes_what_a_batch_gives(streams: Streams, sql: str, target: str) -> None:
    columns = TARGETS[target]
    await streams.ok(
        "CREATE TABLE $.visits (page STRING, visitor STRING, ts TIMESTAMP) USING parquet",
        "CREATE TABLE $.orders (item STRING, host STRING, buyer STRING, price INT, ts TIMESTAMP) USING parquet",
        f"CREATE TABLE $.{target} ({columns}) USING parquet",
    )
    await write(streams, VISITS, ORDERS)
    query = re.sub(r"FROM STREAM (\w+) WATERMARK ts DELAY OF INTERVAL 10 MINUTES", r"FROM $.\1", sql.partition("\n")[2])
    assert "STREAM" not in query
    expected = await streams.rows(query)
    assert expected
    # Rows of later days close all windows before; the last batch is there to write what the one before has closed.
    for later in ("2026-01-20", "2026-01-21", "2026-01-22"):
        await streams.drained(f"USE $; {sql}", conf={"spark.sql.shuffle.partitions": "1"})
        await write(streams, f"('z', 'zoe', '{later} 00:00:00')", f"('q', 'fay', 'gus', 1, '{later} 00:00:00')")
    found = await streams.rows(f"SELECT * FROM $.{target} WHERE begin < '2026-01-10'")
    assert sorted(found, key=str) == sorted(expected, key=str)


async def test_a_savepoint_is_read_as_the_docs_show(streams: Streams) -> None:
    sql, *reads = re.findall(r"^```sql\n(.*?)\n```$", SAVEPOINTS.read_text(), re.MULTILINE | re.DOTALL)
    await streams.ok(
        "CREATE TABLE $.orders (item STRING, price DOUBLE, ts TIMESTAMP) USING parquet",
        "CREATE TABLE $.sales (item STRING, begin TIMESTAMP, orders BIGINT, mean DOUBLE) USING parquet",
        "INSERT INTO $.orders SELECT concat('i', id % 3), id, timestamp_seconds(id * 60) FROM range(80)",
    )
    await streams.drained(f"USE $; {sql}", "c", conf={"spark.sql.shuffle.partitions": "1"})
    location = await streams.saved("before-release")
    taken = SavepointPlace(name="before-release", phase="Completed", location=location)
    by_name, every = [await streams.client.rows(read, savepoints=(taken,)) for read in reads]
    query = re.sub(r"STREAM orders WATERMARK ts DELAY OF INTERVAL 10 MINUTES", "$.orders", sql.partition("\n")[2])
    expected = await streams.rows(f"SELECT * FROM ({query}) WHERE begin > '1970-01-01 00:30:00'")
    assert sorted(by_name, key=str) == sorted(expected, key=str) and by_name
    assert every == [("aggregate", len(expected))]
    manifest = streams.folder / "before-release" / "manifest.json"
    manifest.with_name(".manifest.json.crc").unlink()
    manifest.write_text(re.sub(r'"spark_version": "[^"]*"', '"spark_version": "9.0.1"', manifest.read_text()))
    refused = await streams.client.run(reads[1], savepoints=(taken,))
    assert refused.error is not None and "was written by Spark 9.0.1" in refused.error.message, refused
