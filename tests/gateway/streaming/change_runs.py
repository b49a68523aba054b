"""Runs a query over changes in a Spark of this process, and keeps what an upsert would have in its target after each batch.

The changes are files of Debezium's values, one file a batch, which are decoded as those of a topic are.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

from pyspark.java_gateway import ensure_callback_server_started

from sparksql.api.execution import Upsert
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.streaming.changes import taken_back
from sparksql.gateway.streaming.kafka.options import CHANGELOG_COLUMNS, KafkaTable, columns_of
from sparksql.gateway.streaming.kafka.values import decoded
from sparksql.gateway.streaming.unsupported import check_supported, start_allowed
from sparksql.gateway.streaming.upsert.batch import prepared
from sparksql.gateway.windowing.rewrite import for_stream

Row = Mapping[str, Any]
Change = tuple[str, Row | None, Row | None]  # operation, before, after
_PARTITIONS = 2


@dataclass
class Topic:
    """A topic of changes whose rows have the column `id` as their key."""

    folder: Path
    offsets: list[int] = field(default_factory=lambda: [0] * _PARTITIONS)
    files: int = 0

    def write(self, changes: Sequence[Change]) -> None:
        """Adds a batch of changes."""
        lines = []
        for op, before, after in changes:
            partition = (before or after or {"id": 0})["id"] % _PARTITIONS
            value = json.dumps({"before": before, "after": after, "op": op})
            lines.append(json.dumps({"value": value, "partition": partition, "offset": self.offsets[partition]}))
            self.offsets[partition] += 1
        path = self.folder / f"{self.files:05d}.json"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        os.utime(path, (10**9 + self.files, 10**9 + self.files))
        self.files += 1


class Changing:
    """Topics, and one query over them with its target. `after` has the rows of the target after each batch."""

    def __init__(self, driver: SparkDriver, folder: Path) -> None:
        self._driver = driver
        self._folder = folder
        self.after: list[list[tuple[Any, ...]]] = []
        self._session = driver.clone()
        driver.activate(self._session)

    def topic(self, name: str, columns: str, key: str = "id") -> Topic:
        """Makes a topic, and a view `name` of its changes as a stream."""
        folder = self._folder / name
        folder.mkdir(parents=True)
        jvm, types = self._driver.jvm, self._driver.jvm.org.apache.spark.sql.types.StructType
        schema = types.fromDDL("value STRING, partition INT, offset BIGINT")
        reader = self._session.readStream().schema(schema).option("maxFilesPerTrigger", "1").format("json")
        records = reader.load(str(folder)).withColumn("topic", jvm.org.apache.spark.sql.functions.lit(name))
        whole = types.fromDDL(columns + "".join(f", {added} {kind}" for added, kind in CHANGELOG_COLUMNS.items()))
        keys = {"key.columns": key} if key else {}
        table = KafkaTable(name, columns_of(whole), {"value.format": "debezium", "changelog.rows": "all", **keys})
        decoded(jvm, self._session, table, records).createOrReplaceTempView(name)
        return Topic(folder)

    def view(self, name: str, text: str) -> None:
        """Makes a temporary view of a query."""
        self._driver.activate(self._session)
        self._frame(text).createOrReplaceTempView(name)

    def taken_back(self, text: str, output_mode: str, upsert: Upsert | None) -> tuple[Any, Upsert | None]:
        """Returns the Dataset of a query that takes changes back, and the upsert with its keys. Raises what refuses it."""
        self._driver.activate(self._session)
        return taken_back(self._driver, self._session, self._frame(text), output_mode, upsert)

    def planned(self, text: str, output_mode: str, upsert: Upsert | None) -> Any:
        """Returns the Dataset of a query that could start. Raises what refuses it."""
        frame, _ = self.taken_back(text, output_mode, upsert)
        frame = for_stream(self._driver, self._session, frame, output_mode)
        analysed = frame.queryExecution().analyzed()
        check_supported(self._driver, self._session, analysed, output_mode, Fragment(text, 0), text)
        return frame

    def run(self, text: str, keys: tuple[str, ...], output_mode: str) -> None:
        """Runs a query until it has read all changes that are there, from where it was."""
        options = Upsert(keys=keys)
        frame = self.planned(text, output_mode, options)
        columns = tuple(str(name) for name in frame.columns() if not str(name).startswith("__"))
        jvm = self._driver.jvm
        batches = _Batches(lambda batch: prepared(jvm, options, columns, keys, batch), columns, keys, self.after)
        ensure_callback_server_started(self._driver.context._gateway)
        writer = (
            frame.writeStream().outputMode(output_mode).option("checkpointLocation", str(self._folder / "checkpoint"))
        )
        jvm.org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper.callForeachBatch(writer, batches)
        with start_allowed(self._session, frame.queryExecution().analyzed()):
            query = writer.trigger(jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()).start()
        query.awaitTermination()

    def whole(self, text: str) -> list[tuple[Any, ...]]:
        """Returns the whole result of a query over all changes that are there."""
        trigger = self._driver.jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()
        frame, name = self.planned(text, "complete", None), f"whole_{uuid.uuid4().hex}"
        with start_allowed(self._session, frame.queryExecution().analyzed()):
            query = frame.writeStream().format("memory").queryName(name).outputMode("complete").trigger(trigger).start()
        query.awaitTermination()
        rows = self._session.table(name).toJSON().collectAsList()
        return [tuple(json.loads(row, parse_float=Decimal).values()) for row in rows]

    def _frame(self, text: str) -> Any:
        return self._driver.of_rows(self._session, self._session.sessionState().sqlParser().parsePlan(text))


class _Batches:
    """Called by the JVM with each batch: a MERGE of what an upsert prepares, in Python."""

    def __init__(
        self,
        prepare: Callable[[Any], Any],
        columns: tuple[str, ...],
        keys: tuple[str, ...],
        after: list[list[tuple[Any, ...]]],
    ) -> None:
        self._prepare = prepare
        self._columns = columns
        self._keys = keys
        self._after = after

    def call(self, frame: Any, _: int) -> None:
        kept = {self._key(row): row for row in (self._after[-1] if self._after else [])}
        for text in self._prepare(frame).toJSON().collectAsList():
            told = json.loads(text, parse_float=Decimal)
            row = tuple(told.get(f"__sparksql_{name}") for name in self._columns)
            kept.pop(self._key(row), None)
            if not told["__sparksql_delete"]:
                kept[self._key(row)] = row
        self._after.append(list(kept.values()))

    def _key(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[self._columns.index(key)] for key in self._keys)

    class Java:
        """The interface of the JVM, as py4j looks for it."""

        implements: ClassVar = ["org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction"]
