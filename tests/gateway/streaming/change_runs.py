"""Runs a query over changes in a Spark of this process, batch by batch, and keeps a target by upsert.

The changes are files of Debezium's values, one file a batch, which are decoded as those of a topic are; the target is a table of
Iceberg.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started

from sparksql.api.execution import Upsert
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.classifier import Classifier
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.streaming.changes import taken_back
from sparksql.gateway.streaming.kafka.options import CHANGELOG_COLUMNS, KafkaTable, columns_of
from sparksql.gateway.streaming.kafka.values import _decoded
from sparksql.gateway.streaming.unsupported import check_supported, start_allowed
from sparksql.gateway.streaming.upsert import UpsertBatches, UpsertWriter, check_upsert, upsert_target
from sparksql.gateway.windowing.rewrite import for_stream

from ..local_spark import run

_PARTITIONS = 2


@dataclass
class Topic:
    """A topic of changes: its columns as DDL, and what has been written, by partition."""

    folder: Path
    columns: str
    key: tuple[str, ...]
    offsets: list[int] = field(default_factory=lambda: [0] * _PARTITIONS)
    files: int = 0

    def write(self, changes: Sequence[tuple[str, Any, Any]]) -> None:
        """Adds a batch of changes: an operation, the row before and the row after."""
        lines = []
        for op, before, after in changes:
            row = after if before is None else before
            partition = hash(tuple(row[name] for name in self.key)) % _PARTITIONS
            value = json.dumps({"before": before, "after": after, "op": op})
            lines.append(json.dumps({"value": value, "partition": partition, "offset": self.offsets[partition]}))
            self.offsets[partition] += 1
        path = self.folder / f"{self.files:05d}.json"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        os.utime(path, (10**9 + self.files, 10**9 + self.files))
        self.files += 1


class Changing:
    """Topics, a target and one query over them."""

    def __init__(self, driver: SparkDriver, folder: Path, name: str) -> None:
        self._driver = driver
        self._folder = folder / name
        self._name = name
        self.session = driver.clone()
        self.session.conf().set("spark.sql.shuffle.partitions", "2")
        driver.activate(self.session)

    def topic(self, name: str, columns: str, key: tuple[str, ...], declared: tuple[str, ...] | None = None) -> Topic:
        """Makes a topic, and a view `name` of its changes as a stream."""
        folder = self._folder / name
        folder.mkdir(parents=True)
        types = self._driver.jvm.org.apache.spark.sql.types.StructType
        schema = types.fromDDL("value STRING, partition INT, offset BIGINT")
        reader = self.session.readStream().schema(schema).option("maxFilesPerTrigger", "1").format("json")
        functions = self._driver.jvm.org.apache.spark.sql.functions
        records = reader.load(str(folder)).withColumn("topic", functions.lit(name))
        whole = types.fromDDL(columns + "".join(f", {name} {kind}" for name, kind in CHANGELOG_COLUMNS.items()))
        options = {
            "value.format": "debezium",
            "changelog.rows": "all",
            "changelog.key": ",".join(key if declared is None else declared),
        }
        table = KafkaTable(name, columns_of(whole), options)
        _decoded(self._driver.jvm, self.session, table, records).createOrReplaceTempView(name)
        return Topic(folder, columns, key)

    def table(self, columns: str) -> str:
        """Makes the target."""
        name = f"lake.db.{self._name}"
        run(self._driver, self.session, f"CREATE TABLE {name} ({columns}) USING iceberg")
        return name

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a batch query."""
        self._driver.activate(self.session)
        found = self.session.sql(text).toJSON().collectAsList()
        return [tuple(json.loads(each).items()) for each in found]

    def planned(self, text: str, output_mode: str = "update", upsert: Upsert | None = None) -> Any:
        """Returns the Dataset of a query that could start. Raises what refuses it."""
        self._driver.activate(self.session)
        plan = self.session.sessionState().sqlParser().parsePlan(text)
        frame = taken_back(self._driver, self.session, self._driver.of_rows(self.session, plan), output_mode, upsert)
        frame = for_stream(self._driver, self.session, frame, output_mode)
        analysed = frame.queryExecution().analyzed()
        check_supported(self._driver, self.session, analysed, output_mode, Fragment(text, 0), text)
        return frame

    def run(self, text: str, target: str, keys: tuple[str, ...], output_mode: str = "update") -> None:
        """Runs a query until it has read all changes that are there, from where it was."""
        options = Upsert(keys=keys)
        frame = self.planned(text, output_mode, options)
        table = upsert_target(target, self.session.table(target).logicalPlan())
        classifier = Classifier(self._driver.jvm, self.session, self._driver.policy)
        check_upsert(self._driver.jvm, classifier, self.session, options, table, frame)
        batches = UpsertBatches(UpsertWriter(self._driver, options, table), lambda: None)
        jvm = self._driver.jvm
        ensure_callback_server_started(self._driver.context._gateway)
        writer = (
            frame.writeStream().outputMode(output_mode).option("checkpointLocation", str(self._folder / "checkpoint"))
        )
        jvm.org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper.callForeachBatch(writer, batches)
        with start_allowed(self.session, frame.queryExecution().analyzed()):
            query = writer.trigger(jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()).start()
        try:
            query.awaitTermination()
        except Exception as failed:
            raise batches.error or failed from None
