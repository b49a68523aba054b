"""A stop ends a query, wherever its thread is: nothing that Spark or a call of ours does with an interrupt keeps it alive."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started

from sparksql.api.execution import OutputMode, Upsert
from sparksql.gateway.streaming import stopping
from sparksql.gateway.streaming.stopping import BATCH_END_SECONDS
from sparksql.wire.control import OperationState
from tests.support.process import GatewayProcess

from ..connectors import running_with_connectors
from ..local_spark import local_spark
from ..streams import Streams

STOP_SECONDS = 30.0
# Longer than a stop waits for the end of a batch; a task that is at it notices no interrupt.
BUSY = "aggregate(sequence(id, id + 22000), 0L, (a, x) -> a + aggregate(sequence(x, x + 22000), 0L, (b, y) -> b + y % 7)) > 0"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With connectors, and with code that computes as fast as that of the image's drivers: how long BUSY takes depends on it."""
    with running_with_connectors(tmp_path_factory.mktemp("gateway"), optimised=True) as started:
        yield started


class Stubborn:
    """A batch that keeps the first interrupt to itself."""

    def __init__(self, jvm: Any) -> None:
        self.thread = jvm.java.lang.Thread
        self.sleeps = 0

    def call(self, frame: Any, batch_id: int) -> None:
        self.sleeps = 1
        try:
            self.thread.sleep(600_000)
        except Py4JError:
            self.sleeps = 2
            self.thread.sleep(600_000)

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction"]


def test_a_query_thread_that_swallows_an_interrupt_is_interrupted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stopping, "ROUND", (stopping.ROUND[0], "1s"))
    with local_spark(tmp_path) as driver:
        session, stubborn = driver.clone(), Stubborn(driver.jvm)
        stopping.bound_rounds(session)
        ensure_callback_server_started(driver.context._gateway)
        writer = session.readStream().format("rate").load().writeStream()
        writer = writer.option("checkpointLocation", f"file://{tmp_path}/checkpoint")
        helper = driver.jvm.org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper
        helper.callForeachBatch(writer, stubborn)
        query = writer.start()
        deadline = time.monotonic() + 60
        while stubborn.sleeps == 0:
            assert query.isActive(), query.exception()
            assert time.monotonic() < deadline, query.status()
            assert not query.awaitTermination(50)
        with caplog.at_level(logging.WARNING, stopping.__name__):
            stopping.stop(query, at_once=True)
        assert not query.isActive()
        assert stubborn.sleeps == 2
    assert "has not stopped after 1 rounds; its thread is at java.base" in caplog.text
    assert "sleep" in caplog.text


@pytest.mark.thorough
async def test_an_upsert_is_cut_off_in_the_middle_of_a_batch(streams: Streams) -> None:
    """MERGE computed the batch in the thread of a subquery, and the stop waited for that thread for ever."""
    await streams.ok("CREATE TABLE lake.$.dst (id INT, name STRING) USING iceberg")
    upsert = {"output_mode": OutputMode.UPDATE, "upsert": Upsert(keys=("id",))}
    sql = f"INSERT INTO lake.$.dst SELECT id, name FROM STREAM $.src WHERE id < 100 OR {BUSY}"
    view = await streams.endless(sql, **upsert)
    await streams.committed(view, 0)
    await streams.ok("INSERT INTO $.src VALUES (101, 'c', NULL), (102, 'd', NULL)")
    planned = streams.folder / "c" / "offsets" / "1"
    await streams.client.until(view.operation_id, lambda _: planned.exists())
    ended = await asyncio.wait_for(streams.stop(view), BATCH_END_SECONDS + STOP_SECONDS)
    assert ended.state is OperationState.CANCELED, f"{ended}\n{streams.client.gateway.log_tail(3000)}"
    assert await streams.rows("SELECT id FROM lake.$.dst ORDER BY id") == [(1,), (2,)]


@pytest.mark.thorough
async def test_a_batch_without_rows_is_not_merged(streams: Streams) -> None:
    await streams.ok("CREATE TABLE lake.$.dst (id INT, name STRING) USING iceberg")
    upsert = {"output_mode": OutputMode.UPDATE, "upsert": Upsert(keys=("id",))}
    await streams.drained("INSERT INTO lake.$.dst SELECT id, name FROM STREAM $.src WHERE id > 100", **upsert)
    assert await streams.rows("SELECT * FROM lake.$.dst.snapshots") == []
    await streams.ok("INSERT INTO $.src VALUES (101, 'c', NULL)")
    await streams.drained("INSERT INTO lake.$.dst SELECT id, name FROM STREAM $.src WHERE id > 100", **upsert)
    assert await streams.rows("SELECT * FROM lake.$.dst") == [(101, "c")]
