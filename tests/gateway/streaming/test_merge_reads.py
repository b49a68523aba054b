"""A batch of an upsert is computed once, however often the statements that write it read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparksql.api.execution import Upsert
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.streaming.upsert.merge import MergeWriter
from sparksql.gateway.streaming.upsert.target import upsert_target
from tests.support.default_class import image_connectors

from ..connectors import conf, iceberg_catalog
from ..local_spark import local_spark, run

ROWS, PARTITIONS, KEYS = 120, 4, 12


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    folder = tmp_path_factory.mktemp("spark")
    settings = {**conf(folder), **iceberg_catalog("lake", folder), "spark.sql.shuffle.partitions": "3"}
    with local_spark(folder, image_connectors(), **settings) as started:
        run(started, started.base, "CREATE SCHEMA lake.merged")
        yield started


@pytest.mark.parametrize("deleted", [None, 3600])
@pytest.mark.parametrize("merge", ["copy-on-write", "merge-on-read"])
def test_batch_of_a_merge_is_computed_once_and_released(driver: SparkDriver, merge: str, deleted: int | None) -> None:
    name = f"lake.merged.{merge.replace('-', '_')}_{deleted or 0}"
    session = driver.clone()
    run(
        driver,
        session,
        f"CREATE TABLE {name} (k BIGINT, n BIGINT) USING iceberg PARTITIONED BY (bucket(3, k)) "
        f"TBLPROPERTIES ('write.merge.mode' = '{merge}')",
        f"INSERT INTO {name} SELECT id, 0 FROM range(20)",
    )
    python = SparkSession(driver.context, session)
    reads = driver.context.accumulator(0)

    def seen(number: int) -> tuple[int, int]:
        reads.add(1)
        return number % KEYS, number

    source: Any = driver.context.parallelize(range(ROWS), PARTITIONS).map(seen)
    changes = python.createDataFrame(source, "k BIGINT, v BIGINT").groupBy("k").agg({"v": "max"}).toDF("k", "n")
    with_deletes = {"order_by": "n", "delete_when": "n < 110", "deleted_retention_seconds": deleted} if deleted else {}
    target = upsert_target(name, session.table(name).logicalPlan())
    writer = MergeWriter(driver, Upsert(keys=("k",), **with_deletes), target)
    driver.context.setLocalProperty("sql.streaming.queryId", "q")
    driver.activate(session)
    before = driver.context._jsc.getPersistentRDDs().size()
    writer.write(changes._jdf, 0)
    assert reads.value == ROWS
    assert driver.context._jsc.getPersistentRDDs().size() == before
    kept = {row.k: row.n for row in python.table(name).collect()}
    newest = {key: max(range(key, ROWS, KEYS)) for key in range(KEYS)}
    merged = {key: newest.get(key, 0) for key in range(20)}
    assert kept == {key: n for key, n in merged.items() if deleted is None or key >= KEYS or n >= 110}
