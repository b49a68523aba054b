"""What a checkpoint tells of its state: the operators that Spark has noted, the description beside them, the columns. Blocks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.scala import elements
from sparksql.gateway.spark.shapes import Jvm, JvmSession, LogicalPlan
from sparksql.gateway.streaming.state.description import Description, DescriptionError
from sparksql.gateway.streaming.state.description_file import NAME
from sparksql.gateway.streaming.state_tables.columns import Kept
from sparksql.gateway.streaming.state_tables.operators import SparkOperator

_VALUE = "ValueState"  # StateVariableType of Spark


def described(files: HadoopFiles, checkpoint: str) -> Description | None:
    """Returns the description of a checkpoint's state; None without one, or for one by a later version."""
    text = files.read_text(f"{checkpoint}/{NAME}")
    if text is None:
        return None
    try:
        return Description.from_json(text)
    except DescriptionError:
        return None


def noted_operators(jvm: Jvm, session: JvmSession, checkpoint: str) -> Sequence[SparkOperator]:
    """Returns the operators that Spark has noted, none for a query without state or of a Spark before 4.0."""
    columns = jvm.PythonUtils.toSeq(["operatorName", "operatorProperties"])
    rows = session.read().format("state-metadata").load(checkpoint).select("operatorId", columns).collectAsList()
    noted = [rows.get(place) for place in range(int(rows.size()))]
    found = {
        int(row.getLong(0)): SparkOperator(
            int(row.getLong(0)), str(row.getString(1)), None if row.isNullAt(2) else _variables(str(row.getString(2)))
        )
        for row in noted
    }
    return list(found.values())


def _variables(properties: str) -> tuple[str, ...]:
    """The variables of a function that have one value for each key; timers, lists and maps have several."""
    noted = json.loads(properties).get("stateVariables", ())
    return tuple(str(each["stateName"]) for each in noted if each["stateVariableType"] == _VALUE)


def kept_columns(state: LogicalPlan) -> tuple[Sequence[Kept], Sequence[Kept]]:
    """Returns the columns of the key and of the value of a state, by its plan, see `spark_state.read_state`."""
    structs = {str(column.name()): column.dataType() for column in elements(state.output())}
    return _kept(structs["key"]), _kept(structs["value"])


def _kept(struct: Any) -> list[Kept]:
    fields = [struct.apply(place) for place in range(int(struct.length()))]
    return [Kept(str(field.name()), str(field.dataType().catalogString())) for field in fields]
