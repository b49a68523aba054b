"""Trigger mode RealTime: from Kafka to Kafka it runs, and what Spark cannot run so is refused before anything is written."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from sparksql.api.execution import OutputMode, TriggerMode, Upsert
from sparksql.gateway.spark.jvm import CLASS_PATH_FILE_ENV
from sparksql.wire.control import ErrorReason, OperationState, OperationView
from tests.support.java_classes import class_path
from tests.support.maven import jars
from tests.support.process import GatewayProcess, running

from ..streams import Streams
from .kafka_broker import Broker

ASYNC = "'asyncProgressTrackingEnabled' = 'true'"
SECONDS = 120.0
REAL_TIME: dict[str, Any] = {
    "trigger": TriggerMode.REAL_TIME,
    "interval_millis": 5000,
    "output_mode": OutputMode.UPDATE,
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With the connectors of the session's image, and cores for two queries of one partition each."""
    folder = tmp_path_factory.mktemp("gateway")
    file = folder / "classpath"
    connectors = jars("images/session/jars/pom.xml", "-Dspark.line=4.1")
    file.write_text(class_path(connectors))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CLASS_PATH_FILE_ENV, str(file))
        with running(folder, spark_conf={"spark.master": "local[4]"}) as started:
            yield started


@pytest.fixture
async def topics(streams: Streams, broker: Broker) -> Streams:
    """Tables $.come and $.go, each over a topic of its own."""
    for name in ("come", "go"):
        topic = f"{name}-{uuid.uuid4().hex[:12]}"
        await streams.ok(
            f"CREATE TABLE $.{name} USING kafka OPTIONS ('kafka.bootstrap.servers' = '{broker.address}', "
            f"'subscribe' = '{topic}', 'startingOffsets' = 'earliest')",
            f"INSERT INTO $.{name} (value) VALUES ('first')",
        )
    return streams


async def values(topics: Streams) -> list[str]:
    return [str(row[0]) for row in await topics.rows("SELECT CAST(value AS STRING) AS v FROM $.go ORDER BY v")]


async def until_there(topics: Streams, query: OperationView, wanted: list[str]) -> None:
    deadline = asyncio.get_running_loop().time() + SECONDS
    while (found := await values(topics)) != wanted:
        seen = await topics.client.get(query.operation_id)
        in_time = asyncio.get_running_loop().time() < deadline
        assert in_time and not seen.state.is_terminal, f"{found} {seen}\n{topics.client.gateway.log_tail(3000)}"
        await asyncio.sleep(0.1)


async def test_rows_go_from_kafka_to_kafka_before_their_batch_ends(topics: Streams) -> None:
    """A batch of an hour does not end in this test: what arrives was passed on within it."""
    await topics.ok(
        "CREATE TABLE $.names (v STRING, n STRING) USING parquet", "INSERT INTO $.names VALUES ('b', 'joined')"
    )
    view = await topics.put(
        "INSERT INTO $.go (value) SELECT coalesce(n, upper(CAST(value AS STRING))) FROM STREAM $.come "
        "LEFT JOIN $.names ON v = CAST(value AS STRING)",
        **{**REAL_TIME, "interval_millis": 3_600_000},
    )
    await until_there(topics, view, ["FIRST", "first"])
    await topics.ok("INSERT INTO $.come (value) VALUES ('a'), ('b')")
    await until_there(topics, view, ["A", "FIRST", "first", "joined"])
    seen = await topics.client.get(view.operation_id)
    assert seen.state is OperationState.RUNNING and seen.progress is not None and seen.progress.stream is not None
    assert seen.progress.stream.committed_batch_id is None
    await topics.stop(view)


@pytest.mark.thorough
async def test_a_stopped_real_time_stream_goes_on_from_its_checkpoint(topics: Streams) -> None:
    insert = "INSERT INTO $.go (value) SELECT CAST(value AS STRING) || '!' FROM STREAM $.come"
    await topics.committed(view := await topics.put(insert, **REAL_TIME), 0)
    await topics.stop(view)
    await topics.ok("INSERT INTO $.come (value) VALUES ('second')")
    again = await topics.put(insert, **REAL_TIME)
    await until_there(topics, again, ["first", "first!", "second!"])
    await topics.stop(again)


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "target": (
        "INSERT INTO $.dst SELECT CAST(value AS STRING) FROM STREAM $.come",
        {},
        "target is no table USING kafka",
    ),
    "source": ("INSERT INTO $.go (value) SELECT name FROM STREAM $.src", {}, "reads Kafka alone"),
    "output mode": (
        "INSERT INTO $.go (value) SELECT value FROM STREAM $.come",
        {"output_mode": OutputMode.APPEND},
        "outputMode: Update",
    ),
    "aggregation": (
        "INSERT INTO $.go (value) SELECT CAST(count(*) AS STRING) FROM STREAM $.come GROUP BY key",
        {},
        "keeps no state",
    ),
    "stream with stream": (
        "INSERT INTO $.go (value) SELECT a.value FROM STREAM $.come a JOIN STREAM $.go b ON a.value = b.value",
        {},
        "keeps no state",
    ),
    "upsert": (
        "INSERT INTO $.dst SELECT CAST(value AS STRING) AS v FROM STREAM $.come",
        {"upsert": Upsert(keys=("v",))},
        "cannot merge",
    ),
}


async def test_a_stream_that_spark_cannot_run_in_real_time_is_refused(topics: Streams) -> None:
    await topics.ok("CREATE TABLE $.dst (v STRING) USING parquet")
    for name, (sql, fields, says) in REFUSED.items():
        view = await topics.run(sql, **{**REAL_TIME, **fields})
        assert view.state is OperationState.ERROR and view.error is not None, (name, view)
        assert (view.error.reason, says in view.error.message) == (ErrorReason.INVALID_SPEC, True), (name, view.error)
        assert not (topics.folder / "c").exists(), name


@pytest.mark.thorough
async def test_a_stream_with_async_progress_writes_every_batch_down_and_goes_on_without_it(topics: Streams) -> None:
    option = f"WITH ({ASYNC})"
    text = "INSERT INTO $.go {} SELECT upper(CAST(value AS STRING)) AS value FROM STREAM $.come"
    come = ["FIRST", "first"]  # the first record of each topic
    for attempt, given in enumerate((option, option, "")):
        view = await topics.endless(text.format(given), interval_millis=50)
        await until_there(topics, view, come)
        for number in range(4):
            value = f"{attempt}{number}"
            await topics.ok(f"INSERT INTO $.come (value) VALUES ('{value}')")
            come = sorted([*come, value])
            await until_there(topics, view, come)  # twice it would not be equal, nor after the next start
        assert (await topics.stop(view)).state is OperationState.CANCELED
        logs = [
            sorted(int(file.name) for file in (topics.folder / "c" / log).iterdir() if file.name.isdigit())
            for log in ("offsets", "commits")
        ]
        assert logs == [list(range(len(logs[0])))] * 2, "a savepoint wants the offsets of two batches in a row"


async def test_async_progress_is_refused_where_rows_would_be_twice_in_a_table(topics: Streams) -> None:
    for table, own, given in (("of_text", "", f"WITH ({ASYNC})"), ("of_table", f"OPTIONS ({ASYNC})", "")):
        await topics.ok(f"CREATE TABLE $.{table} (value STRING) USING parquet {own}")
        insert = f"INSERT INTO $.{table} {given} SELECT CAST(value AS STRING) AS value FROM STREAM $.come"
        view = await topics.run(insert)
        assert view.state is OperationState.ERROR and view.error is not None, (table, view)
        assert view.error.reason is ErrorReason.INVALID_SPEC and "requires a table USING kafka" in view.error.message, (
            table
        )
