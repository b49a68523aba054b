"""A query's columns in the order and the types of an INSERT's target.

The same resolver and store-assignment checks do it that Spark's analyzer applies to a batch INSERT.
"""

from __future__ import annotations

from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import span_of
from sparksql.gateway.spark.scala import elements, option, scala_object
from sparksql.gateway.spark.shapes import Dataset, Jvm, JvmSession
from sparksql.gateway.sql.conditions import Condition
from sparksql.gateway.sql.errors import PlacedError
from sparksql.gateway.windowing.calls import Span


def aligned(driver: SparkDriver, session: JvmSession, insert: Any, name: str, frame: Dataset, table: Any) -> Any:
    """Returns the Dataset `frame` of a parsed INSERT's query with the columns of the analysed plan `table`.

    Raises PlacedError.
    """
    analysis = driver.jvm.org.apache.spark.sql.catalyst.analysis
    plan = scala_object(analysis, "TableOutputResolver").resolveOutputColumns(
        name,
        table.output(),
        _named(driver.jvm, insert, frame, table).logicalPlan(),
        True,
        session.sessionState().conf(),
        _with_defaults(driver, analysis),
    )
    return driver.of_rows(session, plan)


def _with_defaults(driver: SparkDriver, analysis: Any) -> Any:
    """What has the resolver fill columns that the query lacks with their defaults: a flag in Spark 4.1, a mode in later ones."""
    if driver.version < (4, 2):
        return True
    return scala_object(analysis, "TableOutputResolver$DefaultValueFillMode").FILL()


def _named(jvm: Jvm, insert: Any, frame: Dataset, table: Any) -> Any:
    """The query with the target's column names: as the text lists them, by position, or as they are (BY NAME)."""
    columns = {str(column.name()): column for column in elements(table.output())}
    types = {name.lower(): column for name, column in columns.items()}
    fixed = {str(pair._1()): option(pair._2()) for pair in elements(insert.partitionSpec())}
    fixed = {name: value for name, value in fixed.items() if value is not None}
    for name in fixed:
        if name.lower() not in types:
            raise _no_column(name, span_of(insert))
    if not insert.byName():
        listed = [str(name) for name in elements(insert.userSpecifiedCols())]
        static = {name.lower() for name in fixed}
        names = listed or [name for name in columns if name.lower() not in static]
        check_count(names, [str(name) for name in frame.columns()], span_of(insert.query()) or span_of(insert))
        frame = frame.toDF(jvm.PythonUtils.toSeq(names))
    for name, value in fixed.items():
        literal = jvm.org.apache.spark.sql.functions.lit(str(value)).cast(types[name.lower()].dataType())
        frame = frame.withColumn(name, literal)
    return frame


def check_count(expected: list[str], given: list[str], span: Span | None) -> None:
    """Raises PlacedError, at the INSERT's query, when that gives more or fewer columns than the INSERT names."""
    if len(expected) == len(given):
        return
    is_short = len(given) < len(expected)
    condition = Condition.NOT_ENOUGH_COLUMNS if is_short else Condition.TOO_MANY_COLUMNS
    how = "not enough" if is_short else "too many"
    message = (
        f"Cannot write: {how} data columns: the target takes {', '.join(expected)}; the query gives {', '.join(given)}."
    )
    raise PlacedError(message, span, condition=condition)


def _no_column(name: str, span: Span | None) -> PlacedError:
    message = f"PARTITION names {name}, which is not a column of the target."
    return PlacedError(message, span, condition=Condition.NON_PARTITION_COLUMN)
