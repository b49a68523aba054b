"""The columns that an aggregate function is kept in, in the order in which Spark's state has them."""

from __future__ import annotations

from sparksql.gateway.spark.scala import elements
from sparksql.gateway.spark.shapes import Expression


def buffer_types(function: Expression) -> tuple[str, ...]:
    """Returns the types of the columns that an aggregate function is kept in: of an average a sum and a count."""
    return tuple(str(column.dataType().catalogString()) for column in elements(function.aggBufferAttributes()))
