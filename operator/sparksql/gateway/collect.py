"""Brings the rows of a Spark result to Python as Arrow, and writes to Parquet what is too large for that.

Two ways, by the number of rows asked for. Up to COLLECT_ROWS they are collected: with a limit of one row more than kept, so
that `truncated` is known, and Spark runs only as many tasks as it needs. Beyond, executors write Parquet themselves: each
partition at most that many rows, in order of partition, so that a sorted result stays sorted, and the driver holds none of
it. A collected result with wide rows is written too. Types that Arrow or Parquet cannot carry become text first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from sparksql.gateway.scala import option, scala_object, simple_name
from sparksql.wire.control import Column

COLLECT_ROWS = 10_000
INLINE_BYTES = 1 << 20  # larger results go to files
BATCH_ROWS = 1_000
ROW_GROUP_BYTES = 4 << 20  # what one page may have to decode
_LOCAL_PLANS = frozenset({"CommandResult", "LocalRelation"})
_AS_TEXT = ("interval", "variant", "geometry", "geography", "time(", "void")
# Confs of the session that writes a result: files are read back by Arrow, which wants neither INT96 nor old calendars.
SPILL_CONF = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.parquet.fieldId.write.enabled": "false",
}


@dataclass(frozen=True)
class Shape:
    """Columns of a result as Spark names them, and which of them (by position) must become text."""

    columns: tuple[Column, ...]
    as_text: tuple[int, ...]
    time_zone: str


@dataclass(frozen=True)
class Collected:
    """Rows in memory. `table` is None when they are larger than INLINE_BYTES; then `frame` holds them in the JVM."""

    table: pa.Table | None
    frame: Any
    row_count: int


class Collector:
    """Reads results of one session (a JVM SparkSession)."""

    def __init__(self, jvm: Any, session: Any) -> None:
        self._jvm = jvm
        self._session = session

    def shape(self, frame: Any) -> Shape:
        """Columns of a JVM Dataset."""
        schema = _struct(frame.schema())
        return Shape(
            columns=_columns(schema),
            as_text=tuple(index for index, field in enumerate(schema.fields) if _needs_text(field.dataType)),
            time_zone=str(self._session.sessionState().conf().sessionLocalTimeZone()),
        )

    def columns(self, schema: Any) -> tuple[Column, ...]:
        """Columns of a JVM StructType."""
        return _columns(_struct(schema))

    def presentable(self, frame: Any, shape: Shape) -> Any:
        """The same rows with columns `c0, c1, ...` whose types Arrow and Parquet can carry."""
        names = [f"c{index}" for index in range(len(shape.columns))]
        renamed = frame.toDF(self._jvm.PythonUtils.toSeq(names))
        if not shape.as_text:
            return renamed
        expressions = [
            _text_expression(name, shape.columns[index].type) if index in shape.as_text else name
            for index, name in enumerate(names)
        ]
        return renamed.selectExpr(self._jvm.PythonUtils.toSeq(expressions))

    def collect(self, frame: Any, limit: int) -> Collected:
        """At most `limit` rows of a Dataset, which decides itself how little of it must run."""
        local = self._local_rows(frame, limit)
        count = int(local.logicalPlan().data().size())
        batches: list[bytes] = []
        size = 0
        iterator = scala_object(
            self._jvm.org.apache.spark.sql.execution.arrow, "ArrowConverters"
        ).toBatchWithSchemaIterator(
            local.logicalPlan().data().iterator(), local.schema(), BATCH_ROWS, INLINE_BYTES, "UTC", False, False
        )
        while iterator.hasNext():
            batches.append(iterator.next())
            size += len(batches[-1])
            if size > INLINE_BYTES:
                return Collected(None, local, count)
        tables = [pa.ipc.open_stream(batch).read_all() for batch in batches]
        table = pa.concat_tables(tables) if tables else pa.table({})
        return Collected(table, local, count)

    def limited_per_partition(self, frame: Any, limit: int) -> Any:
        """The Dataset with at most `limit` rows in each partition, for writing."""
        catalyst = self._jvm.org.apache.spark.sql.catalyst
        plan = catalyst.plans.logical.LocalLimit(
            catalyst.expressions.Literal.create(limit, self._jvm.org.apache.spark.sql.types.DataTypes.IntegerType),
            frame.logicalPlan(),
        )
        return self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._session, plan)

    def write(self, frame: Any, path: str) -> None:
        """Writes a Dataset as Parquet from a clone, so that the session's own settings stay as they are."""
        clone = self._session.cloneSession()
        for key, value in SPILL_CONF.items():
            clone.conf().set(key, value)
        clone.conf().set("parquet.block.size", str(ROW_GROUP_BYTES))
        dataset = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(clone, frame.logicalPlan())
        dataset.write().mode("overwrite").option("compression", "zstd").parquet(path)

    def is_local(self, frame: Any) -> bool:
        """Whether the rows are in the driver already, as those of commands are."""
        return simple_name(frame.logicalPlan()) in _LOCAL_PLANS

    def _local_rows(self, frame: Any, limit: int) -> Any:
        """A Dataset over a LocalRelation with the collected rows."""
        plan = frame.logicalPlan()
        schema = frame.schema()
        if simple_name(plan) == "CommandResult":
            rows = plan.rows().take(limit)
            return self._relation(plan.output(), rows)
        known = option(plan.maxRows())
        target = frame if known is not None and int(known) <= limit else frame.limit(limit)
        physical = target.queryExecution().executedPlan()
        if simple_name(physical) == "LocalTableScanExec":  # all of it was computed by the optimiser: no job needed
            return self._relation(physical.output(), physical.rows().take(limit))
        return self._session.createDataFrame(target.collectAsList(), schema)

    def _relation(self, output: Any, rows: Any) -> Any:
        relation = self._jvm.org.apache.spark.sql.catalyst.plans.logical.LocalRelation(
            output, rows, False, self._jvm.scala.Option.empty()
        )
        return self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._session, relation)


def _struct(schema: Any) -> StructType:
    return StructType.fromJson(json.loads(schema.json()))


def _columns(schema: StructType) -> tuple[Column, ...]:
    return tuple(Column(name=field.name, type=field.dataType.simpleString()) for field in schema.fields)


def _needs_text(data_type: DataType) -> bool:
    shown = data_type.simpleString()
    return any(name in shown for name in _AS_TEXT) or _has_equal_field_names(data_type)


def _has_equal_field_names(data_type: DataType) -> bool:
    match data_type.jsonValue():
        case dict() as value:
            return _equal_names(value)
        case _:
            return False


def _equal_names(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    names = [str(field["name"]).lower() for field in value.get("fields", ())]
    nested = [*(field["type"] for field in value.get("fields", ())), *(value.get(k) for k in _NESTED_KEYS)]
    return len(set(names)) != len(names) or any(_equal_names(item) for item in nested)


_NESTED_KEYS = ("elementType", "keyType", "valueType")


def _text_expression(name: str, type_name: str) -> str:
    return f"to_json({name}) AS {name}" if type_name == "variant" else f"CAST({name} AS STRING) AS {name}"
