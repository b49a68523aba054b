"""Spark's data types, looked into by their classes: a name inside a type's text may be a field's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparksql.gateway.spark.scala import is_a

_TYPES = "org.apache.spark.sql.types"
_TIMES = (f"{_TYPES}.TimestampType", f"{_TYPES}.TimestampNTZType")


def parts_of(data_type: Any) -> Iterator[Any]:
    """Yields a DataType and all that it is made of: fields, elements, keys and values, and what a user's type is kept as.

    Every other type of Spark is made of no other.
    """
    pending = [data_type]
    while pending:
        part = pending.pop()
        yield part
        if is_a(part, f"{_TYPES}.StructType"):
            pending.extend(field.dataType() for field in part.fields())
        elif is_a(part, f"{_TYPES}.ArrayType"):
            pending.append(part.elementType())
        elif is_a(part, f"{_TYPES}.MapType"):
            pending.extend((part.keyType(), part.valueType()))
        elif is_a(part, f"{_TYPES}.UserDefinedType"):
            pending.append(part.sqlType())


def has_times(data_type: Any) -> bool:
    """Returns whether values of a type have timestamps, with a time zone or without one."""
    return any(is_a(part, name) for part in parts_of(data_type) for name in _TIMES)


def has_collation(data_type: Any) -> bool:
    """Returns whether values of a type have texts that may be equal and differ: of a collation other than UTF8_BINARY."""
    return any(is_a(part, f"{_TYPES}.StringType") and not part.isUTF8BinaryCollation() for part in parts_of(data_type))


def is_struct(data_type: Any) -> bool:
    """Returns whether values of a type are structs."""
    return is_a(data_type, f"{_TYPES}.StructType")
