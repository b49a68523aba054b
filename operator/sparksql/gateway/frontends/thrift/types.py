"""Spark's types as Hive's clients name them.

The same choice as Spark's own Thrift server: nested types keep their kind and travel as text, TIMESTAMP_NTZ is a TIMESTAMP.
What Hive has no name for (intervals, VARIANT, TIME) is a STRING.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparksql.protocols.hiveserver2.messages import TTypeId

_SIMPLE: Mapping[str, TTypeId] = {
    "boolean": TTypeId.BOOLEAN_TYPE,
    "tinyint": TTypeId.TINYINT_TYPE,
    "smallint": TTypeId.SMALLINT_TYPE,
    "int": TTypeId.INT_TYPE,
    "bigint": TTypeId.BIGINT_TYPE,
    "float": TTypeId.FLOAT_TYPE,
    "double": TTypeId.DOUBLE_TYPE,
    "binary": TTypeId.BINARY_TYPE,
    "date": TTypeId.DATE_TYPE,
    "timestamp": TTypeId.TIMESTAMP_TYPE,
    "timestamp_ltz": TTypeId.TIMESTAMP_TYPE,
    "timestamp_ntz": TTypeId.TIMESTAMP_TYPE,
    "void": TTypeId.NULL_TYPE,
    "decimal": TTypeId.DECIMAL_TYPE,
    "varchar": TTypeId.VARCHAR_TYPE,
    "char": TTypeId.CHAR_TYPE,
    "array": TTypeId.ARRAY_TYPE,
    "map": TTypeId.MAP_TYPE,
    "struct": TTypeId.STRUCT_TYPE,
}
_FORM = re.compile(r"([a-z_]+)(?:\((\d+)(?:,\s*(\d+))?\))?")


@dataclass(frozen=True)
class HiveType:
    """A type with its qualifiers: `precision` and `scale` of decimals, `length` of CHAR and VARCHAR."""

    id: TTypeId
    precision: int | None = None
    scale: int | None = None
    length: int | None = None

    @property
    def qualifiers(self) -> Mapping[str, int]:
        """Returns the qualifiers that the type has, by their names in Hive's TTypeQualifiers."""
        named = {"precision": self.precision, "scale": self.scale, "characterMaximumLength": self.length}
        return {name: value for name, value in named.items() if value is not None}


def hive_type(spark_type: str) -> HiveType:
    """Returns the type for Spark's simple type string, e.g. `decimal(10,2)` or `array<int>`."""
    match = _FORM.match(spark_type.lower())
    type_id = _SIMPLE.get(match.group(1), TTypeId.STRING_TYPE) if match else TTypeId.STRING_TYPE
    first, second = match.group(2, 3) if match else (None, None)
    match type_id:
        case TTypeId.DECIMAL_TYPE:
            return HiveType(type_id, precision=int(first or 10), scale=int(second or 0))
        case TTypeId.VARCHAR_TYPE | TTypeId.CHAR_TYPE if first is not None:
            return HiveType(type_id, length=int(first))
        case _:
            return HiveType(type_id)
