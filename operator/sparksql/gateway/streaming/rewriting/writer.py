"""Writes the state of one aggregation anew, and reads it again to see that it is what it should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan
from sparksql.gateway.streaming.rewriting import spark_state
from sparksql.gateway.streaming.rewriting.spark_state import Aggregation
from sparksql.gateway.streaming.state.rewriting import OperatorRewriting
from sparksql.gateway.windowing.marks import alias

_CHECKSUM = ("count(*)", "CAST(sum(CAST(xxhash64(*) AS DECIMAL(38, 0))) AS STRING)")


class RewritingError(Exception):
    """A state that was not written anew, or not as it should be; the message says why."""


@dataclass(frozen=True)
class OperatorState:
    """The new state of one aggregation: `columns` are its keys, then its values, over the rows of `state`."""

    state: LogicalPlan
    columns: tuple[Any, ...]
    keys: int


class StateWriter:
    """Writes states in a session that has the settings of the old one. All calls block."""

    def __init__(self, driver: SparkDriver, session: JvmSession) -> None:
        self._driver = driver
        self._session = session

    def planned(self, checkpoint: str, batch: int, to: Aggregation, how: OperatorRewriting) -> OperatorState:
        """Returns the new state of an aggregation, of that which `checkpoint` has after `batch`. Nothing is run for it.

        Raises RewritingError when that is not the state that it is said to be.
        """
        jvm = self._driver.jvm
        state = spark_state.read_state(self._driver, self._session, checkpoint, to.operator_id, batch)
        keys, values = spark_state.columns_by_place(jvm, state)
        names = elements(to.save.child().output())
        of_keys, of_values = names[: len(keys)], names[len(keys) :]
        expected = [name for columns in how.before for name in columns]
        if _types(values) != expected or _types(keys) != _types(elements(to.save.keyExpressions())):
            raise RewritingError("the state in the checkpoint has other columns than its description")
        starts = [sum(map(len, how.before[:place])) for place in range(len(how.before))]
        new: list[Any] = []
        for place, source in enumerate(how.sources):
            if source is None:
                new += spark_state.initial_values(jvm, to.functions[place])
            else:
                new += values[starts[source] : starts[source] + len(how.before[source])]
        columns = [
            alias(jvm, value, str(name.name()), like=name)
            for value, name in zip([*keys, *new], [*of_keys, *of_values], strict=True)
        ]
        return OperatorState(state, tuple(columns), len(keys))

    def write(self, to: Aggregation, state: OperatorState, folder: str) -> None:
        """Writes a state as version 1 below `folder`. Raises what Spark raises."""
        rows = spark_state.partitioned(self._driver, self._session, state.columns, state.keys, state.state)
        spark_state.write_state(self._driver, self._session, to.form, rows, folder)

    def verify(self, to: Aggregation, state: OperatorState, checkpoint: str, batch: int) -> None:
        """Compares the state of a new checkpoint, as Spark reads it from its files, with what it was made of.

        Raises RewritingError when they differ.
        """
        jvm = self._driver.jvm
        written = spark_state.read_state(self._driver, self._session, checkpoint, to.operator_id, batch)
        keys, values = spark_state.columns_by_place(jvm, written)
        found = checksum(self._driver, self._session, [*keys, *values], written)
        expected = checksum(self._driver, self._session, state.columns, state.state)
        if found != expected:
            raise RewritingError(
                f"the state that was written does not have the values of the old one: {found[0]} groups of {expected[0]}"
            )


def checksum(driver: SparkDriver, session: JvmSession, columns: Sequence[Any], child: LogicalPlan) -> tuple[int, str]:
    """Returns the number of rows of a projection, and a sum of their hashes."""
    jvm = driver.jvm
    named = jvm.PythonUtils.toSeq([alias(jvm, column, f"c{place}") for place, column in enumerate(columns)])
    project = jvm.org.apache.spark.sql.catalyst.plans.logical.Project(named, child)
    row = driver.of_rows(session, project).selectExpr(jvm.PythonUtils.toSeq(list(_CHECKSUM))).head()
    return int(row.getLong(0)), str(row.get(1))


def _types(columns: list[Any]) -> list[str]:
    return [str(column.dataType().catalogString()) for column in columns]
