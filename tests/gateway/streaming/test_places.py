"""Refusals of the gateway's own: each has a condition, an SQLSTATE and the place in the submitted text."""

from __future__ import annotations

import pytest

from sparksql.wire.control import OperationError, OperationState

from ..client import GatewayClient
from ..streams import Streams

STREAM = "FROM STREAM $.src"
# The text up to the mark `^` is what comes before the place.
STREAMS = {
    f"INSERT INTO $.two ^SELECT id {STREAM}": ("INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS", "21S01"),
    f"INSERT INTO $.two\n  ^SELECT id, name, ts {STREAM}": (
        "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS",
        "21S01",
    ),
    f"INSERT INTO $.two (id) ^SELECT id, name {STREAM}": (
        "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS",
        "21S01",
    ),
    f"CREATE TEMPORARY VIEW v AS SELECT 1;\n^INSERT OVERWRITE $.two SELECT id, name {STREAM}": (
        "INVALID_STREAMING_STATEMENT",
        "42000",
    ),
    f"^CREATE TABLE $.made AS SELECT id {STREAM}": ("INVALID_STREAMING_STATEMENT", "42000"),
    "^INSERT INTO $.two SELECT id, name FROM $.src": ("INVALID_STREAMING_STATEMENT", "42000"),
    f"^SELECT id {STREAM}": ("INVALID_STREAMING_STATEMENT", "42000"),
    f"SELECT 1;\n ^SET spark.jars = x; INSERT INTO $.two SELECT id, name {STREAM}": ("STATEMENT_NOT_ALLOWED", "42501"),
}
BATCHES = {
    "SELECT 1;\n  ^SET spark.jars = x": ("STATEMENT_NOT_ALLOWED", "42501"),
    "SELECT 1; ^ADD JAR '/tmp/x.jar'": ("STATEMENT_NOT_ALLOWED", "42501"),
    "BEGIN\n  SELECT 1;\n  ^ADD JAR '/tmp/x.jar';\nEND": ("STATEMENT_NOT_ALLOWED", "42501"),
    "SELECT 1;\n^EXECUTE IMMEDIATE 'BEGIN ADD JAR \"/tmp/x.jar\"; END'": ("STATEMENT_NOT_ALLOWED", "42501"),
    "SELECT 1; ^SELECT TRANSFORM (id) USING 'cat' AS (id) FROM range(3)": ("STATEMENT_NOT_ALLOWED", "42501"),
    "SELECT 1;\nINSERT INTO $.two SELECT id, name FROM ^STREAM $.src": ("INVALID_STREAMING_STATEMENT", "42000"),
    "SELECT 1; SELECT * FROM ^TUMBLE(TABLE $.src, DESCRIPTOR(ts))": ("INVALID_STATEMENT", "42000"),
    "SELECT 1;\n ^EXECUTE IMMEDIATE concat('SELECT ', '1')": ("STATEMENT_NOT_ALLOWED", "42501"),
}


@pytest.fixture
async def two(streams: Streams) -> Streams:
    await streams.ok("CREATE TABLE $.two (id INT, name STRING) USING parquet")
    return streams


def assert_placed(error: OperationError | None, marked: str, expected: tuple[str, str], shift: int) -> None:
    before = marked.partition("^")[0]
    line = before.count("\n") + 1
    last = before.rpartition("\n")[2]
    position = len(last) + 1 + shift * last.count("$.")
    assert error is not None
    assert (error.condition, error.sql_state) == expected, error
    assert (error.line, error.position) == (line, position), error


@pytest.mark.parametrize("marked", STREAMS)
async def test_refused_stream_names_condition_state_and_place(two: Streams, marked: str) -> None:
    view = await two.run(marked.replace("^", ""))
    assert view.state is OperationState.ERROR, view
    assert_placed(view.error, marked, STREAMS[marked], len(two.database) - 1)


@pytest.mark.parametrize("marked", BATCHES)
async def test_refused_batch_names_condition_state_and_place(client: GatewayClient, two: Streams, marked: str) -> None:
    view = await client.run(marked.replace("^", "").replace("$", two.database))
    assert view.state is OperationState.ERROR, view
    assert_placed(view.error, marked, BATCHES[marked], len(two.database) - 1)


VIEWED = {
    "SELECT id FROM $.streamed": ("in the view", "spec.streaming, or read a table in place of the view"),
    "INSERT INTO $.two SELECT id, name FROM $.streamed": (
        "in the view",
        "spec.streaming, or read a table in place of the view",
    ),
    "CREATE TABLE $.made AS SELECT id FROM $.streamed": ("as the view", "create the table first"),
}


@pytest.mark.parametrize("sql", VIEWED)
async def test_batch_that_reads_a_stream_in_a_view_is_refused_with_the_view_and_a_remedy(
    client: GatewayClient, two: Streams, sql: str
) -> None:
    where, remedy = VIEWED[sql]
    await two.ok("CREATE VIEW $.streamed AS SELECT * FROM STREAM $.src")
    view = await client.run(sql.replace("$", two.database))
    assert view.error is not None
    assert f"{where} spark_catalog.{two.database}.streamed" in view.error.message, view.error
    assert remedy in view.error.message, view.error
    assert (view.error.line, view.error.position) == (1, 1)
