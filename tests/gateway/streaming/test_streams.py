"""Streaming statements in a real Spark: what runs, what is written, how it stops and goes on, what is refused."""

from __future__ import annotations

import pytest

from sparksql.api.execution import OutputMode, TriggerMode
from sparksql.wire.control import ErrorReason, OperationState
from tests.support.process import GatewayProcess
from tests.support.thorough import thorough_but

from ..listed import PARKED, listed
from ..streams import Streams


async def test_available_now_reads_up_what_is_there_and_ends(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.dst (id INT, name STRING) USING parquet")
    view = await streams.drained("INSERT INTO $.dst SELECT id, name FROM STREAM $.src")
    assert (view.statement_type, view.streaming, view.read_only) == ("INSERT", True, False)
    assert view.progress is not None and view.progress.stream is not None
    assert view.progress.stream.committed_batch_id == 0
    assert view.progress.stream.query_id and view.progress.stream.run_id
    assert await streams.rows("SELECT * FROM $.dst ORDER BY id") == [(1, "a"), (2, "b")]
    await streams.ok("INSERT INTO $.src VALUES (3, 'c', NULL)")
    again = await streams.drained("INSERT INTO $.dst SELECT id, name FROM STREAM $.src")
    assert again.progress is not None and again.progress.stream is not None
    assert again.progress.stream.query_id == view.progress.stream.query_id
    assert again.progress.stream.run_id != view.progress.stream.run_id
    assert again.progress.stream.committed_batch_id == 1
    assert await streams.rows("SELECT id FROM $.dst ORDER BY id") == [(1,), (2,), (3,)]


# By name: a text, and the row that it writes.
PLACED = {
    "by_position": ("INSERT INTO $.@ SELECT name, id, ts FROM STREAM $.src WHERE id = 1", ("a", 1)),
    "column_list": ("INSERT INTO $.@ (b, a) SELECT id, name FROM STREAM $.src WHERE id = 1", ("a", 1)),
    "defaults": ("INSERT INTO $.@ (b) SELECT id FROM STREAM $.src WHERE id = 1", ("none", 1)),
    "by_name": ("INSERT INTO $.@ BY NAME SELECT id AS b, ts AS c, name AS a FROM STREAM $.src WHERE id = 1", ("a", 1)),
    "in_with": ("WITH x AS (SELECT * FROM STREAM $.src) INSERT INTO $.@ SELECT name, id, ts FROM x WHERE id = 1", ("a", 1)),
    "joined": ("INSERT INTO $.@ SELECT s.name, t.id, s.ts FROM STREAM $.src s JOIN $.src t USING (id) WHERE id = 1", ("a", 1)),
    "script": (
        "CREATE TEMP VIEW v AS SELECT * FROM STREAM $.src; INSERT INTO $.@ SELECT name, id, ts FROM v WHERE id = 1",
        ("a", 1),
    ),
}  # fmt: skip


async def test_columns_come_where_the_text_says(streams: Streams) -> None:
    for name, (insert, expected) in PLACED.items():
        await streams.ok(f"CREATE TABLE $.{name} (a STRING DEFAULT 'none', b BIGINT, c TIMESTAMP) USING parquet")
        view = await streams.drained(insert.replace("@", name), name)
        assert await streams.rows(f"SELECT a, b FROM $.{name}") == [expected], name
        assert view.progress is not None and view.progress.statement_count == insert.count(";") + 1, name


SPECS = ["", "PARTITION (p = 'z', q) ", "PARTITION (p, q) "]


@pytest.mark.parametrize("spec", thorough_but(SPECS[1:], SPECS), ids=["none", "static", "dynamic"])
async def test_a_stream_writes_into_the_partitions_of_its_target(streams: Streams, spec: str) -> None:
    await streams.ok("CREATE TABLE $.dst (a BIGINT, p STRING, q INT) USING parquet PARTITIONED BY (p, q)")
    columns = "id, id" if "'z'" in spec else "id, name, id"
    await streams.drained(f"INSERT INTO $.dst {spec}SELECT {columns} FROM STREAM $.src")
    values = ("z", "z") if "'z'" in spec else ("a", "b")
    assert await streams.rows("SELECT a, p, q FROM $.dst ORDER BY a") == [(1, values[0], 1), (2, values[1], 2)]
    files = await streams.rows(
        "SELECT DISTINCT regexp_extract(input_file_name(), 'p=[a-z]/q=[0-9]', 0) AS f FROM $.dst ORDER BY f"
    )
    assert files == [(f"p={values[0]}/q=1",), (f"p={values[1]}/q=2",)]


REFUSED = (
    ("INSERT INTO $.dst SELECT id, name FROM $.src", ErrorReason.INVALID_SPEC, "reads no STREAM"),
    ("SELECT * FROM STREAM $.src", ErrorReason.INVALID_SPEC, "must be one INSERT INTO"),
    ("CREATE TABLE $.made AS SELECT id FROM STREAM $.src", ErrorReason.INVALID_SPEC, "create the table first"),
    ("INSERT OVERWRITE $.dst SELECT id, name FROM STREAM $.src", ErrorReason.INVALID_SPEC, "outputMode Complete"),
    ("INSERT INTO $.dst REPLACE WHERE id = 1 SELECT id, name FROM STREAM $.src", ErrorReason.INVALID_SPEC, "REPLACE WHERE"),
    ("INSERT INTO $.dst SELECT id FROM STREAM $.src", ErrorReason.SQL_ERROR, "not enough data columns"),
    ("INSERT INTO $.dst SELECT id, name, ts FROM STREAM $.src", ErrorReason.SQL_ERROR, "too many data columns"),
    ("INSERT INTO $.dst SELECT name, name FROM STREAM $.src", ErrorReason.SQL_ERROR, "Cannot safely cast"),
    ("INSERT INTO $.nowhere SELECT id, name FROM STREAM $.src", ErrorReason.SQL_ERROR, "nowhere"),
    ("INSERT INTO $.dst SELECT id, name FROM STREAM $.nowhere", ErrorReason.SQL_ERROR, "nowhere"),
    ("INSERT INTO $.aview SELECT id, name FROM STREAM $.src", ErrorReason.INVALID_SPEC, "is a view"),
    ("INSERT INTO $.dst SELECT CAST(count(*) AS INT), name FROM STREAM $.src GROUP BY name", ErrorReason.SQL_ERROR, "WATERMARK"),
)  # fmt: skip


async def test_an_invalid_streaming_statement_is_refused_and_writes_nothing(streams: Streams) -> None:
    await streams.ok(
        "CREATE TABLE $.dst (id INT, name STRING) USING parquet", "CREATE VIEW $.aview AS SELECT id, name FROM $.src"
    )
    for number, (insert, reason, says) in enumerate(REFUSED):
        view = await streams.run(insert, f"c{number}")
        assert view.state is OperationState.ERROR, (insert, view)
        assert view.error is not None
        assert (view.error.reason, says in view.error.message) == (reason, True), (insert, view.error)
        assert view.progress is not None and view.progress.stream is None
        assert not (streams.folder / f"c{number}" / "commits").exists()
    assert await streams.rows("SELECT * FROM $.dst") == []


async def test_a_stream_of_a_path_is_refused_in_streaming_and_batch_statements(
    streams: Streams, gateway: GatewayProcess
) -> None:
    await streams.ok("CREATE TABLE $.dst (id INT, name STRING) USING parquet")
    path = f"parquet.`{gateway.folder}/warehouse/{streams.database}.db/src`"
    streamed = f"INSERT INTO $.dst SELECT id, name FROM STREAM {path}"
    for view in (
        await streams.run(streamed),
        await streams.run(f"INSERT INTO $.dst SELECT s.id, s.name FROM STREAM $.src s JOIN STREAM {path} p USING (id)"),
        await streams.client.run(streamed.replace("$", streams.database)),
        await streams.client.run(f"SELECT * FROM STREAM {path}"),
    ):
        assert view.state is OperationState.ERROR
        assert view.error is not None
        assert "as a batch" in view.error.message, view.error
        assert view.error.reason is ErrorReason.INVALID_SPEC
    assert await streams.rows("SELECT * FROM $.dst") == []


async def test_stream_options_in_sql_cannot_move_the_checkpoint(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.dst (id INT) USING parquet")
    elsewhere = streams.folder / "elsewhere"
    given = f"'CheckpointLocation' = '{elsewhere.as_uri()}', 'path' = '{elsewhere.as_uri()}'"
    await streams.drained(f"INSERT INTO $.dst WITH ({given}) SELECT id FROM STREAM $.src")
    assert not elsewhere.exists()
    assert (streams.folder / "c" / "commits" / "0").exists()
    assert len(await streams.rows("SELECT * FROM $.dst")) == 2


@listed("setting", "target: another table of files (`InvalidSpec`)", PARKED)
async def test_hazards_of_file_tables_are_refused_before_anything_is_written(streams: Streams) -> None:
    insert = "INSERT INTO $.dst SELECT id, name FROM STREAM $.src"
    await streams.ok("CREATE TABLE $.dst (id INT, name STRING) USING parquet")
    await streams.drained(insert)
    fresh = await streams.run(insert, "another")
    assert fresh.error is not None and "checkpoint is new" in fresh.error.message
    await streams.ok("CREATE TABLE $.dst2 (id INT, name STRING) USING parquet")
    moved = await streams.run(insert.replace("dst", "dst2"))
    assert moved.error is not None and "is another one" in moved.error.message
    await streams.ok("INSERT INTO $.dst2 VALUES (9, 'batch')")
    hiding = await streams.run(insert.replace("dst", "dst2"), "third")
    assert hiding.error is not None and "no stream has written" in hiding.error.message
    assert await streams.rows("SELECT id FROM $.dst ORDER BY id") == [(1,), (2,)]
    assert await streams.rows("SELECT id FROM $.dst2") == [(9,)]
    batch = await streams.client.run(f"INSERT INTO {streams.database}.dst VALUES (9, 'batch')")
    assert batch.error is not None and "stream" in batch.error.message


async def test_stop_and_go_on_neither_loses_nor_doubles_a_row(streams: Streams) -> None:
    await streams.ok(
        "CREATE TABLE $.ticks USING rate OPTIONS (rowsPerSecond '50', numPartitions '2')",
        "CREATE TABLE $.dst (value BIGINT) USING parquet",
    )
    insert = "INSERT INTO $.dst SELECT value FROM STREAM $.ticks"
    query_ids = set()
    for _ in range(2):
        view = await streams.endless(insert)
        assert view.progress is not None and view.progress.stream is not None
        query_ids.add(view.progress.stream.query_id)
        before = view.progress.stream.committed_batch_id or 0
        seen = await streams.committed(view, before + 2)
        assert seen.state is OperationState.RUNNING, seen
        assert seen.progress is not None and seen.progress.stream is not None
        assert seen.progress.stream.last_progress_time is not None
        ended = await streams.stop(view)
        assert ended.state is OperationState.CANCELED
    assert len(query_ids) == 1
    [(count, distinct, least, most)] = await streams.rows(
        "SELECT count(*), count(DISTINCT value), min(value), max(value) FROM $.dst"
    )
    assert (count, least) == (distinct, 0)
    assert count == most + 1 > 0


async def test_stream_of_windows_writes_closed_windows_and_reports_its_watermark(streams: Streams) -> None:
    await streams.ok(
        "CREATE TABLE $.dst (name STRING, n BIGINT, until TIMESTAMP) USING parquet",
        "INSERT INTO $.src VALUES (3, 'late', TIMESTAMP '2026-01-01 01:00:00')",
    )
    insert = (
        "INSERT INTO $.dst SELECT name, count(*), window.end FROM STREAM $.src "
        "WATERMARK ts DELAY OF INTERVAL 10 SECONDS GROUP BY name, window(ts, '1 minute')"
    )
    view = await streams.drained(insert, conf={"spark.sql.shuffle.partitions": "2"})
    assert await streams.rows("SELECT name, n FROM $.dst ORDER BY name") == [("a", 1), ("b", 1)]
    stream = view.progress.stream if view.progress else None
    assert stream is not None
    assert (stream.state_rows, stream.watermark) == (1, "2026-01-01T00:59:50.000Z")
    assert stream.state_bytes
    not_yet = await streams.run(insert.replace("dst", "src"), "complete", output_mode=OutputMode.COMPLETE)
    assert not_yet.state is OperationState.ERROR


async def test_streams_take_no_slot_and_exclude_nobody(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.ticks USING rate OPTIONS (rowsPerSecond '5')")
    running = []
    for number in range(5):  # more than the statements that may run at a time
        await streams.ok(f"CREATE TABLE $.dst{number} (value BIGINT) USING parquet")
        insert = f"INSERT INTO $.dst{number} SELECT value FROM STREAM $.ticks"
        running.append(await streams.put(insert, f"c{number}", trigger=TriggerMode.INTERVAL, interval_millis=1000))
    views = [await streams.client.until_state(view.operation_id, OperationState.RUNNING) for view in running]
    assert [view.state for view in views] == [OperationState.RUNNING] * 5
    assert (await streams.client.info()).streams == 5
    await streams.client.ok("SET my.key = alone")
    assert await streams.rows("SELECT 1") == [(1,)]
    for view in views:
        assert (await streams.stop(view)).state is OperationState.CANCELED
    assert (await streams.client.info()).streams == 0
    await streams.client.ok("RESET my.key")


async def test_a_batch_that_fails_with_words_of_spark_has_begun_all_the_same(streams: Streams) -> None:
    """Rows may raise any text, also the one by which Spark describes a query that never ran."""
    await streams.ok("CREATE TABLE $.dst (id BIGINT) USING parquet")
    text = "if(id >= 0, CAST(raise_error('Current State: INITIALIZING') AS BIGINT), id)"
    view = await streams.run(f"INSERT INTO $.dst SELECT {text} FROM STREAM $.src")
    assert view.state is OperationState.ERROR and view.error is not None, view
    assert view.error.condition == "USER_RAISED_EXCEPTION"
    assert view.progress is not None and view.progress.stream is not None and view.start_time is not None


async def test_a_resumed_stream_that_fails_says_why_and_keeps_its_rows(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.dst (id BIGINT) USING parquet")
    insert = "INSERT INTO $.dst SELECT 10 DIV (id - 3) FROM STREAM $.src"
    await streams.drained(insert)
    await streams.ok("INSERT INTO $.src VALUES (3, 'zero', NULL)")
    failed = await streams.run(insert)
    assert failed.state is OperationState.ERROR
    assert failed.error is not None
    assert (failed.error.condition, failed.error.reason) == ("DIVIDE_BY_ZERO", ErrorReason.SQL_ERROR)
    assert failed.start_time is not None
    assert failed.progress is not None and failed.progress.stream is not None
    assert len(await streams.rows("SELECT * FROM $.dst")) == 2


async def test_a_query_that_cannot_begin_was_never_running(streams: Streams) -> None:
    """Its sources are made ready in the query's own thread, after the start."""
    await streams.ok("CREATE TABLE $.dst (value BIGINT) USING parquet")
    await streams.ok("CREATE TABLE $.ticks USING rate OPTIONS (rowsPerSecond '1')")
    (streams.folder / "c").write_text("a file where the folder of the checkpoint belongs")
    failed = await streams.run("INSERT INTO $.dst SELECT value FROM STREAM $.ticks")
    assert (failed.state, failed.start_time) == (OperationState.ERROR, None), failed
    assert failed.progress is not None and failed.progress.stream is None
    assert await streams.rows("SELECT * FROM $.dst") == []


async def test_a_limit_of_files_makes_several_batches(streams: Streams) -> None:
    await streams.ok(
        "CREATE TABLE $.dst (id INT) USING parquet",
        "INSERT INTO $.src SELECT id, 'x', NULL FROM range(3, 6, 1, 3)",
    )
    view = await streams.drained(
        "WITH s AS (SELECT id FROM STREAM $.src) INSERT INTO $.dst SELECT * FROM s", max_files_per_trigger=1
    )
    assert view.progress is not None and view.progress.stream is not None
    [(files,)] = await streams.rows("SELECT count(DISTINCT f) FROM (SELECT input_file_name() AS f FROM $.src)")
    assert view.progress.stream.committed_batch_id == files - 1 > 2
    assert len(await streams.rows("SELECT * FROM $.dst")) == 5
