"""Streaming statements on the cluster: checkpoints in the object store, drivers and executors as pods."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.names import dedicated_session_name
from tests.e2e.streams import QUICK, SECONDS, assert_each_once, count_up, resume, stop, stream, wait_batch
from tests.support.harness import DEFAULT_CLASS, Space, condition, phase

ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(scope="module")
def ticks(main: Space) -> Space:
    """A session `main` with a source `ticks`."""
    count_up(main)
    return main


@pytest.mark.thorough
def test_changes_are_merged_by_key(ticks: Space) -> None:
    assert phase(ticks.run("CREATE TABLE changes (id INT, name STRING, at INT, op STRING) USING parquet")) == "Finished"
    assert phase(ticks.run("CREATE TABLE people (id INT, name STRING, at INT) USING iceberg")) == "Finished"

    def change(rows: str) -> None:
        assert phase(ticks.run(f"INSERT INTO changes VALUES {rows}")) == "Finished"

    change("(1, 'a', 1, 'u'), (1, 'b', 2, 'u'), (2, 'x', 1, 'u'), (3, 'never', 1, 'd')")
    upsert = {"keys": ["id"], "orderBy": "at", "deleteWhen": "op = 'd'"}
    streaming = {"trigger": {"mode": "AvailableNow"}, "outputMode": "Update", "upsert": upsert}
    name = ticks.statement("INSERT INTO people SELECT * FROM STREAM changes", streaming=streaming)
    ended = ticks.cluster.wait_finished(ticks.name, name, SECONDS)
    assert phase(ended) == "Finished", ended["status"]
    query = "SELECT * FROM people ORDER BY id"
    assert ticks.rows(query) == [["1", "b", "2"], ["2", "x", "1"]]
    change("(1, 'late', 1, 'u'), (2, 'x', 2, 'd'), (4, 'new', 1, 'u')")
    other = ticks.statement("INSERT INTO people SELECT * FROM STREAM changes", streaming=streaming, name="again")
    assert phase(ticks.cluster.wait_finished(ticks.name, other, SECONDS)) == "Finished"
    assert ticks.rows(query) == [["1", "b", "2"], ["4", "new", "1"]]


@pytest.mark.thorough
@pytest.mark.parametrize("provider", ["", ROCKS_DB], ids=["hdfs", "rocksdb"])
def test_windows_equal_the_batch_after_a_killed_driver(ticks: Space, provider: str) -> None:
    table = "windows_rocks" if provider else "windows_hdfs"
    assert phase(ticks.run(f"CREATE TABLE {table} (key BIGINT, n BIGINT, until TIMESTAMP) USING iceberg")) == "Finished"
    insert = (
        f"INSERT INTO {table} SELECT value % 3, count(*), window.end FROM STREAM ticks "
        "WATERMARK timestamp DELAY OF INTERVAL 1 SECOND GROUP BY value % 3, window(timestamp, '2 seconds')"
    )
    conf = {"spark.sql.shuffle.partitions": "2"}
    if provider:
        conf["spark.sql.streaming.stateStore.providerClass"] = provider
    name = ticks.statement(insert, conf=conf, streaming={"restart": {"backoffSeconds": 1}})
    wait_batch(ticks, name)
    ticks.crash_driver()
    seen = wait_batch(ticks, name, more=3)
    assert stream(seen)["stateRows"] > 0
    assert stream(seen)["watermark"]
    ticks.cancel(name)
    assert phase(ticks.cluster.wait_finished(ticks.name, name)) == "Canceled"
    # Every window but those at the edges has all the rows that its two seconds had: 40, in three keys.
    rows = ticks.rows(f"SELECT until, sum(n), count(*) FROM {table} GROUP BY until ORDER BY until")
    assert len(rows) > 1
    assert {tuple(row[1:]) for row in rows[1:]} == {("40", "3")}


def test_a_statement_that_depends_on_a_stream_runs_after_its_first_batch(ticks: Space) -> None:
    assert phase(ticks.run("CREATE TABLE copied (value BIGINT) USING parquet")) == "Finished"
    name = ticks.statement("INSERT INTO copied SELECT value FROM STREAM ticks", name="feeder", streaming=QUICK)
    ended = ticks.run("SELECT count(*) >= 0 FROM copied", dependsOn=[{"name": name}])
    assert phase(ended) == "Finished", ended["status"]
    assert stream(ticks.get(name))["committedBatchId"] >= 0
    ticks.cluster.delete("SqlStatement", ticks.name, name)
    ticks.cluster.wait_gone("SqlStatement", ticks.name, name, seconds=60)
    ticks.cluster.wait(
        "SqlSession", ticks.name, "main",
        lambda s: (s or {})["status"].get("statements", {}).get("running", 0) == 0, "without a stream", 60,
    )  # fmt: skip


@pytest.fixture(scope="module")
def never(ticks: Space) -> Space:
    """With a table `never` into which no row comes, and one of files, `there`."""
    made = ticks.run(
        "CREATE TABLE never (value BIGINT) USING parquet; CREATE TABLE there USING parquet AS SELECT 1L AS id"
    )
    assert phase(made) == "Finished", made["status"]
    return ticks


@pytest.mark.parametrize(
    ("sql", "streaming", "says"),
    [
        ("INSERT INTO never SELECT id AS value FROM range(3)", {}, "the query reads no STREAM: write FROM STREAM <table>"),
        ("INSERT INTO never SELECT value FROM STREAM ticks", None, "it needs spec.streaming"),
        ("INSERT INTO never SELECT id AS value FROM STREAM parquet.`{there}`", {}, "it streams tables and views, not paths"),
        ("INSERT OVERWRITE never SELECT value FROM STREAM ticks", {}, "INSERT OVERWRITE cannot read a STREAM"),
        ("INSERT INTO never SELECT value FROM STREAM ticks", {"trigger": {"mode": "RealTime"}}, "mode: RealTime needs spec.streaming.outputMode: Update"),
        ("INSERT INTO never SELECT value FROM STREAM ticks", {"upsert": {"keys": ["value"]}}, "does not support MERGE; create it USING iceberg or delta"),
    ],
)  # fmt: skip
def test_an_invalid_streaming_statement_says_why_and_writes_nothing(
    never: Space, sql: str, streaming: dict[str, Any] | None, says: str
) -> None:
    default = never.cluster.get("SqlSessionClass", "", DEFAULT_CLASS)
    assert default is not None
    there = f"{default['spec']['storage']['warehouse']}/{never.database}.db/there"
    ended = never.run(sql.format(there=there), **({} if streaming is None else {"streaming": streaming}))
    assert phase(ended) == "Error", ended["status"]
    assert says in condition(ended, "Ready", "message")  # type: ignore[operator]
    assert never.rows("SELECT * FROM never") == []


@pytest.mark.thorough
def test_a_stopped_stream_gives_its_dedicated_session_back(ticks: Space) -> None:
    assert phase(ticks.run("CREATE TABLE own_target (value BIGINT) USING iceberg")) == "Finished"
    database = ticks.database
    insert = f"INSERT INTO {database}.own_target SELECT value FROM STREAM {database}.ticks"
    name = ticks.statement(insert, name="own", session={}, streaming=QUICK)
    wait_batch(ticks, name)
    session = dedicated_session_name(name, ticks.get(name)["metadata"]["uid"])
    stopped = stop(ticks, name)
    assert condition(stopped, "Ready") == "True"
    ticks.cluster.wait_gone("SqlSession", ticks.name, session)
    resume(ticks, name)
    wait_batch(ticks, name)
    ticks.cancel(name)
    assert phase(ticks.cluster.wait_finished(ticks.name, name)) == "Canceled"
    assert_each_once(ticks, "own_target")
