"""A checkpoint in an object store, by conditional requests against Spark's own renames; and what an upsert's look for its batch costs.

Usage: python -m tests.bench.streaming_store [BATCHES]. One Spark in local mode and one S3 server on this machine. A stateful query over a
file table, a file a batch, alternately with each way and a new checkpoint, warm; medians of what Spark reports for a batch. Then the
times of a look at the `.snapshots` of an Iceberg table with SNAPSHOTS snapshots, and at a table whose commit looks.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sparksql.api.execution import Upsert
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.streaming.checkpoints.conditional import MANAGER, MANAGER_KEY
from sparksql.gateway.streaming.commit_once import SINK_KEYS, guarded
from sparksql.gateway.streaming.upsert.merge import MergeWriter
from sparksql.gateway.streaming.upsert.target import upsert_target
from tests.bench.latency.common import machine
from tests.gateway.connectors import conf
from tests.gateway.local_spark import local_spark, run
from tests.support.default_class import image_connectors
from tests.support.object_store import ROOT, object_store

TURNS = 3  # of each way, after one to warm up
SNAPSHOTS = 100
LOOKS = 20
STEPS = ("walCommit", "addBatch", "commitOffsets", "triggerExecution")


def main(batches: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            object_store(folder) as store,
            local_spark(folder, image_connectors(), **store.conf, **conf(folder)) as driver,
        ):
            print(machine())
            _compare_stores(driver, folder, batches)
            _time_looks(driver)


def _compare_stores(driver: SparkDriver, folder: Path, batches: int) -> None:
    session = driver.base.cloneSession()
    run(driver, session, f"CREATE TABLE words (w STRING) USING parquet LOCATION '{folder}/words'")
    for number in range(batches):
        run(
            driver,
            session,
            f"INSERT INTO words SELECT /*+ COALESCE(1) */ concat('w', id % 100) FROM range({number}, {number + 1000})",
        )
    found: dict[str, dict[str, list[int]]] = {way: {step: [] for step in STEPS} for way in ("renames", "conditional")}
    for turn in range(TURNS + 1):
        for way, steps in found.items():
            for durations in _turn(driver, f"{ROOT}/{way}-{turn}", way == "conditional"):
                for step in STEPS if turn else ():
                    steps[step].append(int(durations[step]))
    for way, steps in found.items():
        print(
            way,
            {
                step: f"{statistics.median(values):g} ms ({min(values)} to {max(values)})"
                for step, values in steps.items()
            },
        )


def _turn(driver: SparkDriver, checkpoint: str, is_conditional: bool) -> Iterator[dict[str, Any]]:
    """What Spark reports of the batches of a query from its start, without the first one."""
    session = driver.base.cloneSession()
    if is_conditional:
        session.conf().set(MANAGER_KEY, MANAGER)
    stream = session.sql("SELECT w, count(*) AS n FROM STREAM words WITH ('maxFilesPerTrigger' = '1') GROUP BY w")
    writer = stream.writeStream().outputMode("update").format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(driver.jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()).start()
    query.awaitTermination()
    for report in list(query.recentProgress())[1:]:
        durations: dict[str, Any] = json.loads(report.json())["durationMs"]
        if "addBatch" in durations:
            yield durations


def _look(driver: SparkDriver, session: Any) -> bool:
    table = guarded(driver.jvm, session.table("lake.d.looked").logicalPlan(), ("sparksql.query", "sparksql.batch"))
    return table is not None and table.has_batch("q", SNAPSHOTS)


def _time_looks(driver: SparkDriver) -> None:
    session = driver.base.cloneSession()
    run(driver, session, "CREATE TABLE lake.d.looked (id INT) USING iceberg")
    table = session.table("lake.d.looked").logicalPlan()
    appends = guarded(driver.jvm, table, SINK_KEYS)
    assert appends is not None
    for number in range(SNAPSHOTS):
        appends.table.table().newFastAppend().set("sparksql.query", "q").set("sparksql.batch", str(number)).commit()
    writer = MergeWriter(driver, Upsert(keys=("id",)), upsert_target("lake.d.looked", table))
    looks: dict[str, Callable[[], object]] = {
        "a look at .snapshots": lambda: writer._has_batch(session, None, "q", SNAPSHOTS),
        "a look at the guarded table": lambda: _look(driver, session),
    }
    for name, look in looks.items():
        times = []
        for _ in range(LOOKS + 5):
            began = time.perf_counter()
            look()
            times.append(1000 * (time.perf_counter() - began))
        print(f"{name}: {statistics.median(times[5:]):.1f} ms ({min(times[5:]):.1f} to {max(times[5:]):.1f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
