"""Spark's types as Hive's clients name them.

The same choice as Spark's own Thrift server: nested types keep their kind and travel as text, TIMESTAMP_NTZ is a TIMESTAMP.
What Hive has no name for (intervals, VARIANT, TIME) is a STRING.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparksql.gateway.frontends.thrift.messages import TypeId

_SIMPLE: Mapping[str, TypeId] = {
    "boolean": TypeId.BOOLEAN,
    "tinyint": TypeId.TINYINT,
    "smallint": TypeId.SMALLINT,
    "int": TypeId.INT,
    "bigint": TypeId.BIGINT,
    "float": TypeId.FLOAT,
    "double": TypeId.DOUBLE,
    "binary": TypeId.BINARY,
    "date": TypeId.DATE,
    "timestamp": TypeId.TIMESTAMP,
    "timestamp_ltz": TypeId.TIMESTAMP,
    "timestamp_ntz": TypeId.TIMESTAMP,
    "void": TypeId.NULL,
    "decimal": TypeId.DECIMAL,
    "varchar": TypeId.VARCHAR,
    "char": TypeId.CHAR,
    "array": TypeId.ARRAY,
    "map": TypeId.MAP,
    "struct": TypeId.STRUCT,
}
_FORM = re.compile(r"([a-z_]+)(?:\((\d+)(?:,\s*(\d+))?\))?")


@dataclass(frozen=True)
class HiveType:
    """A type with its qualifiers: `precision` and `scale` of decimals, `length` of CHAR and VARCHAR."""

    id: TypeId
    precision: int | None = None
    scale: int | None = None
    length: int | None = None

    @property
    def qualifiers(self) -> Mapping[str, int]:
        named = {"precision": self.precision, "scale": self.scale, "characterMaximumLength": self.length}
        return {name: value for name, value in named.items() if value is not None}


def hive_type(spark_type: str) -> HiveType:
    """The type for Spark's simple type string, e.g. `decimal(10,2)` or `array<int>`."""
    match = _FORM.match(spark_type.lower())
    type_id = _SIMPLE.get(match.group(1), TypeId.STRING) if match else TypeId.STRING
    first, second = match.group(2, 3) if match else (None, None)
    match type_id:
        case TypeId.DECIMAL:
            return HiveType(type_id, precision=int(first or 10), scale=int(second or 0))
        case TypeId.VARCHAR | TypeId.CHAR if first is not None:
            return HiveType(type_id, length=int(first))
        case _:
            return HiveType(type_id)
