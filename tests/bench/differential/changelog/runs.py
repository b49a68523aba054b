"""Runs queries over changelogs in a Spark of this process, and keeps what an upsert would have in its target after each batch.

The changes are files, one a batch and table, which are decoded as the records of a topic are.
"""

from __future__ import annotations

import json
import os
import uuid
from collections import Counter
from collections.abc import Sequence
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

from .histories import COLUMNS, DIM
from .queries import ChangelogQuery

_LATEST = ", _offset BIGINT, _op STRING"
Rows = list[tuple[Any, ...]]


class ChangelogRun:
    """One query over topics of an encoding, in a folder of its own. `after` has the rows of the target after each batch."""

    def __init__(self, driver: SparkDriver, session: Any, folder: Path, encoding: str, query: ChangelogQuery) -> None:
        self.after: list[Rows] = []
        self._driver = driver
        self._session = session
        self._folder = folder
        self._query = query
        self._target: dict[Any, tuple[Any, dict[str, Any]]] = {}
        self._files: Counter[str] = Counter()
        driver.activate(session)
        for name, columns in COLUMNS.items():
            self._make(name, columns, encoding)
        rows = ", ".join(f"({'NULL' if factor is None else factor}, '{label}')" for factor, label in DIM)
        self._frame(f"SELECT * FROM VALUES {rows} AS t(factor, label)").createOrReplaceTempView("dim")

    def write(self, table: str, lines: Sequence[str]) -> None:
        """Adds a batch of changes to a topic."""
        number = self._files[table]
        self._files[table] += 1
        path = self._folder / table / f"{number:05d}.json"
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        os.utime(path, (10**9 + number, 10**9 + number))

    def planned(self) -> Any:
        """Returns the Dataset of the query. Raises what refuses it."""
        query = self._query
        self._driver.activate(self._session)
        mode = "complete" if query.output_mode == "whole" else query.output_mode
        frame, _ = taken_back(self._driver, self._session, self._frame(query.text), mode, self._upsert())
        frame = for_stream(self._driver, self._session, frame, mode)
        analysed = frame.queryExecution().analyzed()
        check_supported(self._driver, self._session, analysed, mode, Fragment(query.text, 0), query.text)
        return frame

    def run(self) -> None:
        """Runs the query until it has read all changes that are there, from where it was."""
        frame, jvm = self.planned(), self._driver.jvm
        ensure_callback_server_started(self._driver.context._gateway)
        mode = "complete" if self._query.output_mode == "whole" else self._query.output_mode
        checkpoint = str(self._folder / "checkpoint")
        writer = frame.writeStream().outputMode(mode).option("checkpointLocation", checkpoint)
        helper = jvm.org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper
        helper.callForeachBatch(writer, _Batches(self))
        with start_allowed(self._session, frame.queryExecution().analyzed()):
            query = writer.trigger(jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()).start()
        query.awaitTermination()

    def batch(self, frame: Any) -> None:
        """Brings one batch into the target: as a MERGE does it, as the whole result, or as rows to insert and delete."""
        upsert = self._upsert()
        if upsert is None:
            rows = [_plain(json.loads(text, parse_float=Decimal)) for text in frame.toJSON().collectAsList()]
            names = [str(name) for name in frame.columns()]
            self._as_given([tuple(row.get(name) for name in names) for row in rows])
            return
        columns = tuple(str(name) for name in frame.columns() if not str(name).startswith("__"))
        for text in prepared(self._driver.jvm, upsert, columns, upsert.keys, frame).toJSON().collectAsList():
            told = _plain(json.loads(text, parse_float=Decimal))
            row = {name: told.get(f"__sparksql_{name}") for name in columns}
            key = tuple(row[name] for name in upsert.keys)
            if upsert.order_by and key in self._target and told["__sparksql_order"] < self._target[key][0]:
                continue
            self._target.pop(key, None)
            if not told["__sparksql_delete"]:
                self._target[key] = (told.get("__sparksql_order"), row)
        hidden = ("_offset", "_op") if upsert.order_by else ()
        self.after.append([tuple(v for n, v in row.items() if n not in hidden) for _, row in self._target.values()])

    def _as_given(self, rows: Rows) -> None:
        if self._query.output_mode == "whole":
            self.after.append(rows)
            return
        there = Counter(self.after[-1] if self.after else [])
        for kind, *row in rows:
            there[tuple(row)] += 1 if kind in ("+I", "+U") else -1
        assert min(there.values(), default=0) >= 0, f"a row goes that is not there: {there}"
        self.after.append(list(there.elements()))

    def _upsert(self) -> Upsert | None:
        if self._query.shape == "latest":
            return Upsert(keys=self._query.keys, order_by="_offset", delete_when="_op = 'd'")
        return Upsert(keys=self._query.keys) if self._query.keys else None

    def _make(self, name: str, columns: str, encoding: str) -> None:
        folder = self._folder / name
        folder.mkdir(parents=True)
        jvm, types = self._driver.jvm, self._driver.jvm.org.apache.spark.sql.types.StructType
        schema = types.fromDDL("value STRING, partition INT, offset BIGINT")
        reader = self._session.readStream().schema(schema).option("maxFilesPerTrigger", "1").format("json")
        records = reader.load(str(folder)).withColumn("topic", jvm.org.apache.spark.sql.functions.lit(name))
        options = {"value.format": encoding, "key.columns": "id"}
        more = _LATEST
        if self._query.shape != "latest":
            options["changelog.rows"] = "all"
            more = "".join(f", {added} {kind}" for added, kind in CHANGELOG_COLUMNS.items())
        table = KafkaTable(name, columns_of(types.fromDDL(columns + more)), options)
        decoded(jvm, self._session, table, records).createOrReplaceTempView(name)

    def _frame(self, text: str) -> Any:
        return self._driver.of_rows(self._session, self._session.sessionState().sqlParser().parsePlan(text))


class _Batches:
    """Called by the JVM with each batch."""

    def __init__(self, run: ChangelogRun) -> None:
        self._run = run

    def call(self, frame: Any, _: int) -> None:
        self._run.batch(frame)

    class Java:
        """The interface of the JVM, as py4j looks for it."""

        implements: ClassVar = ["org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction"]


def place(folder: Path) -> Path:
    """Returns a folder of its own below one."""
    return folder / uuid.uuid4().hex


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return row
