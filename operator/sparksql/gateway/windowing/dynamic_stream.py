"""CUMULATE with GAP in a stream: one row for each key and pane goes through Spark's `transformWithState`, in Python.

Its state must be in RocksDB: no other store has the columns that timers and maps are kept in (Spark 4.1).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasUdfUtils
from pyspark.sql.types import LongType, StructField, StructType, _parse_datatype_json_string
from pyspark.sql.udf import _wrap_function
from pyspark.util import PythonEvalType

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import Dataset, JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.windowing import dynamic_processor
from sparksql.gateway.windowing.dynamic_processor import END, START, Curves
from sparksql.gateway.windowing.dynamic_totals import Part
from sparksql.wire.control import ErrorReason

OPERATOR = "TransformWithStateInPySpark"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_MODE, _TIME = "append", "eventTime"

cloudpickle.register_pickle_by_value(dynamic_processor)  # executors need not have this package


def curves(driver: SparkDriver, panes: Dataset, step: int, gap: int, keys: Sequence[str], parts: Sequence[Part]) -> Any:
    """Returns the rows of windows: the keys, START, END, and what the parts have become, under their names."""
    fields = {field.name: field for field in _schema(panes)}
    merged = [StructField(part.name, _parse_datatype_json_string(part.type.json())) for part in parts]
    times = [StructField(name, LongType()) for name in ("start", "last", "emitted")]
    processor = Curves(
        step, gap, tuple(keys), tuple((part.name, part.merge) for part in parts), StructType([*times, *merged])
    )
    rows = StructType(
        [*(fields[key] for key in keys), *(StructField(name, LongType()) for name in (START, END)), *merged]
    )
    lengths = (timedelta(microseconds=each) for each in (step, gap))
    # What tells a state from others: the aggregates are told where panes are made. This is the first version of what `Curves`
    # keeps; another one needs another name, so that a state of this one is not read as its own.
    name = "CUMULATE, STEP {} GAP {}".format(*lengths)
    return _with_state(driver, panes, name, processor, keys, rows)


def settings_of_state(plan: LogicalPlan) -> dict[str, str]:
    """Returns the settings that the state of an analysed plan cannot do without."""
    return {STATE_STORE: ROCKS_DB} if any(simple_name(node) == OPERATOR for node in nodes(plan)) else {}


def ready_state_store(session: JvmSession, plan: LogicalPlan) -> None:
    """Sees that the state of a statement's own session is kept in RocksDB if its plan needs that.

    Raises StatementError if the session has been given another store.
    """
    if not settings_of_state(plan):
        return
    conf = session.sessionState().conf()
    if not conf.contains(STATE_STORE):
        session.conf().set(STATE_STORE, ROCKS_DB)
    elif str(conf.getConfString(STATE_STORE)) != ROCKS_DB:
        message = f"CUMULATE with GAP keeps its state in RocksDB: set {STATE_STORE} to {ROCKS_DB}, or leave it unset"
        raise refusal(ErrorReason.INVALID_SPEC, message)


def _with_state(
    driver: SparkDriver, panes: Dataset, name: str, processor: Curves, keys: Sequence[str], rows: StructType
) -> Any:
    """What `DataFrame.transformWithState` does, over a Dataset of the JVM. `name` tells the function from others."""
    jvm, to_seq = driver.jvm, driver.jvm.PythonUtils.toSeq
    function = _wrap_function(
        driver.context, TransformWithStateInPandasUdfUtils(processor, _TIME).transformWithStateUDF, rows
    )
    schema = jvm.org.apache.spark.sql.types.DataType.fromJson(rows.json())
    kind = PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF
    udf = jvm.org.apache.spark.sql.execution.python.UserDefinedPythonFunction(name, function, schema, kind, True)
    columns = [panes.col(str(column)) for column in panes.columns()]
    grouped = panes.groupBy(keys[0], to_seq(list(keys[1:])))
    return grouped.transformWithStateInPySpark(udf.apply(to_seq(columns)), schema, _MODE, _TIME, None, "")


def _schema(frame: Dataset) -> StructType:
    return StructType.fromJson(json.loads(str(frame.schema().json())))
