"""Brings the rows of a Spark result to Python as Arrow, and writes to files what is too large for that.

Up to COLLECT_ROWS rows are collected: with a limit of one row more than kept, so that `truncated` is known, and Spark runs
only as many tasks as it needs. If more are wanted and there are more, executors write files themselves: each partition at
most that many rows, in order of partition, so that a sorted result stays sorted, and the driver holds none of it; what was
shuffled for the first rows is not shuffled again. A collected result with wide rows is written too. Types that Arrow cannot
carry become text first.

What executors write are Arrow record batches, as values of the only column of Parquet files. That is what pages are made of,
so a cell is encoded once: half the time of one Parquet column for each of the result's, to write and to read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from sparksql.gateway.results.batches import read_schema, read_table
from sparksql.gateway.results.types import is_carried, type_text
from sparksql.gateway.spark.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark.shapes import Dataset, Jvm, JvmSession
from sparksql.wire.control import Column

COLLECT_ROWS = 10_000
INLINE_BYTES = 1 << 20  # larger results go to files
BATCH_ROWS = 1_000
# A written batch: so many rows, or fewer where those collected first are so wide that it would hold more bytes than that.
WRITTEN_ROWS = 2_000
WRITTEN_BYTES = 1 << 20
GROUP_BYTES = 4 << 20  # of a row group, which is read at once
_LOCAL_PLANS = frozenset({"CommandResult", "LocalRelation"})
# Confs of the session that writes a result. The size of a row group is looked at after each batch, not after each hundred.
SPILL_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.parquet.fieldId.write.enabled": "false",
    "parquet.enable.dictionary": "false",
    "parquet.block.size": str(GROUP_BYTES),
    "parquet.block.size.row.check.min": "1",
    "parquet.block.size.row.check.max": "1",
    "parquet.page.size.row.check.min": "1",
    "parquet.page.size.row.check.max": "1",
}


@dataclass(frozen=True)
class ResultShape:
    """Columns of a result as Spark names them, and which of them (by position) must become text."""

    columns: tuple[Column, ...]
    as_text: tuple[int, ...]
    time_zone: str


@dataclass(frozen=True)
class Collected:
    """Rows in memory. `table` is None when they are larger than was asked for; a Dataset over them can be had in any case.

    `row_bytes` is about what a row takes."""

    table: pa.Table | None
    as_frame: Callable[[], Dataset]
    row_count: int
    row_bytes: int


@dataclass(frozen=True)
class _LocalRows:
    """Rows that the driver holds, as a Scala sequence of Spark's internal rows."""

    rows: Any = field(repr=False)
    as_frame: Callable[[], Dataset]


@dataclass(frozen=True)
class Written:
    """Tells how the files of a result are read.

    Their values are record batches of `schema`, all but a file's last of `batch_rows` rows.
    """

    schema: pa.Schema
    batch_rows: int


class Collector:
    """Reads results of one session (a JVM SparkSession)."""

    def __init__(self, jvm: Jvm, session: JvmSession) -> None:
        self._jvm = jvm
        self._session = session
        self._arrow = scala_object(jvm.org.apache.spark.sql.execution.arrow, "ArrowConverters")
        self._times = scala_object(jvm.org.apache.spark.sql.catalyst.util, "DateTimeUtils")
        self._zones: dict[str, str] = {}
        self._internal_rows = jvm.dev.sparksql.results.InternalRows  # of the session image

    def shape(self, frame: Dataset) -> ResultShape:
        """Returns the columns of a JVM Dataset."""
        columns, types = self._described(frame.schema())
        return ResultShape(
            columns=columns,
            as_text=tuple(index for index, type_ in enumerate(types) if not is_carried(type_)),
            time_zone=self._zone(str(self._session.sessionState().conf().sessionLocalTimeZone())),
        )

    def _zone(self, name: str) -> str:
        """The zone by its name in the zone database, or its offset: Spark takes more spellings (PST, GMT+8) than Arrow."""
        if name not in self._zones:
            shown = str(self._times.getZoneId(name).normalized().getId())
            self._zones[name] = "UTC" if shown == "Z" else shown
        return self._zones[name]

    def columns(self, schema: Any) -> tuple[Column, ...]:
        """Returns the columns of a JVM StructType."""
        columns, _ = self._described(schema)
        return columns

    def presentable(self, frame: Dataset, shape: ResultShape) -> Any:
        """Returns the same rows with columns `c0, c1, ...` whose types Arrow and Parquet can carry."""
        names = [f"c{index}" for index in range(len(shape.columns))]
        renamed = frame.toDF(self._jvm.PythonUtils.toSeq(names))
        if not shape.as_text:
            return renamed
        expressions = [
            _text_expression(name, shape.columns[index].type) if index in shape.as_text else name
            for index, name in enumerate(names)
        ]
        return renamed.selectExpr(self._jvm.PythonUtils.toSeq(expressions))

    def collect(self, frame: Dataset, limit: int, most_bytes: int = INLINE_BYTES) -> Collected:
        """Collects at most `limit` rows of a Dataset, which decides itself how little of it must run."""
        schema = frame.schema()
        local = self._local_rows(frame, schema, limit)
        count = int(local.rows.size())
        batches: list[bytes] = []
        size = rows = 0
        iterator = self._arrow.toBatchWithSchemaIterator(
            local.rows.iterator(), schema, BATCH_ROWS, INLINE_BYTES, "UTC", False, False
        )
        while iterator.hasNext():
            batches.append(iterator.next())
            size += len(batches[-1])
            rows += int(iterator.rowCountInLastBatch())
            if size > most_bytes:
                return Collected(None, local.as_frame, count, size // rows)
        tables = [read_table(batch) for batch in batches]
        table = pa.concat_tables(tables) if tables else self._arrow_schema(schema).empty_table()
        return Collected(table, local.as_frame, count, size // max(1, rows))

    def limited_per_partition(self, frame: Dataset, limit: int) -> Any:
        """Returns the Dataset with at most `limit` rows in each partition, for writing."""
        catalyst = self._jvm.org.apache.spark.sql.catalyst
        plan = catalyst.plans.logical.LocalLimit(
            catalyst.expressions.Literal.create(limit, self._jvm.org.apache.spark.sql.types.DataTypes.IntegerType),
            frame.logicalPlan(),
        )
        return self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._session, plan)

    def write(self, frame: Dataset, path: str, row_bytes: int) -> Written:
        """Writes a Dataset from a clone, so that the session's own settings stay as they are."""
        batch_rows = max(1, min(WRITTEN_ROWS, WRITTEN_BYTES // max(1, row_bytes)))
        clone = self._session.cloneSession()
        conf = clone.sessionState().conf()
        for key, value in {**SPILL_CONF, "spark.sql.execution.arrow.maxRecordsPerBatch": str(batch_rows)}.items():
            conf.setConfString(key, value)
        dataset = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(clone, frame.logicalPlan())
        batches = clone.createDataset(dataset.toArrowBatchRdd(), self._jvm.org.apache.spark.sql.Encoders.BINARY())
        batches.write().mode("overwrite").option("compression", "zstd").parquet(path)
        return Written(self._arrow_schema(dataset.schema()), batch_rows)

    def is_small(self, frame: Dataset) -> bool:
        """Returns whether there are surely not too many rows to be collected: a command's answer, or a query with a LIMIT."""
        plan = frame.logicalPlan()
        if simple_name(plan) in _LOCAL_PLANS:
            return True
        known = option(plan.maxRows())
        return known is not None and int(known) <= COLLECT_ROWS

    def over_its_rows(self, frame: Dataset) -> Any:
        """Returns the Dataset as one over the RDD of its rows, so that all reads of it share its shuffles."""
        return self._session.internalCreateDataFrame(frame.queryExecution().toRdd(), frame.schema().asNullable(), False)

    def _arrow_schema(self, schema: Any) -> pa.Schema:
        """What Arrow makes of a JVM StructType."""
        return read_schema(self._arrow.createEmptyArrowBatch(schema, "UTC", False, False))

    def _described(self, schema: Any) -> tuple[tuple[Column, ...], list[DataType]]:
        """The columns of a JVM StructType, and their types as Python has them, where an indeterminate collation is none."""
        types = self._jvm.org.apache.spark.sql.util.SchemaUtils
        is_indeterminate = types.hasIndeterminateCollation(schema)  # Spark makes no JSON of one
        readable = types.replaceCollatedStringWithString(schema) if is_indeterminate else schema
        fields = StructType.fromJson(json.loads(readable.json())).fields
        names = (
            [str(field.dataType().catalogString()) for field in elements(schema)]
            if is_indeterminate
            else [type_text(field.dataType) for field in fields]
        )
        columns = tuple(Column(name=field.name, type=name) for field, name in zip(fields, names, strict=True))
        return columns, [field.dataType for field in fields]

    def _local_rows(self, frame: Dataset, schema: Any, limit: int) -> _LocalRows:
        plan = frame.logicalPlan()
        if simple_name(plan) == "CommandResult":
            return self._held(plan.rows().take(limit), schema)
        known = option(plan.maxRows())
        target = frame if known is not None and int(known) <= limit else frame.limit(limit)
        physical = target.queryExecution().executedPlan()
        if simple_name(physical) == "LocalTableScanExec":  # all of it was computed by the optimiser: no job needed
            return self._held(physical.rows().take(limit), schema)
        return self._held(self._internal_rows.collect(target), schema)

    def _held(self, rows: Any, schema: Any) -> _LocalRows:
        return _LocalRows(rows, lambda: self._internal_rows.frame(self._session, schema, rows))


def _text_expression(name: str, type_name: str) -> str:
    return f"to_json({name}) AS {name}" if type_name == "variant" else f"CAST({name} AS STRING) AS {name}"
