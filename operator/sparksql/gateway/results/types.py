"""Types of a result's columns: which of them Arrow carries, and how they are written. Pure."""

from __future__ import annotations

import re

from pyspark.sql import types as t

# Of all others, which later versions of Spark may add, the values become text: intervals, VARIANT, TIME, GEOMETRY, VOID.
_CARRIED = (
    t.StringType, t.CharType, t.VarcharType, t.BinaryType, t.BooleanType, t.DateType, t.TimestampType, t.TimestampNTZType,
    t.DecimalType, t.DoubleType, t.FloatType, t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.UserDefinedType,
)  # fmt: skip
_PLAIN_NAME = re.compile(r"[^,:<>()`]+")


def is_carried(data_type: t.DataType) -> bool:
    """Returns whether values of a type go out as they are, and not as text: Arrow has them, and no two fields have one name."""
    match data_type:
        case t.ArrayType(elementType=element):
            return is_carried(element)
        case t.MapType(keyType=key, valueType=value):
            return is_carried(key) and is_carried(value)
        case t.StructType(fields=fields):
            names = {field.name.lower() for field in fields}
            return len(names) == len(fields) and all(is_carried(field.dataType) for field in fields)
        case _:
            return isinstance(data_type, _CARRIED)


def type_text(data_type: t.DataType) -> str:
    """Returns Spark's simple string of a type, with quotes around names of fields that have its own marks: struct<`a:b`:int>."""
    match data_type:
        case t.ArrayType(elementType=element):
            return f"array<{type_text(element)}>"
        case t.MapType(keyType=key, valueType=value):
            return f"map<{type_text(key)},{type_text(value)}>"
        case t.StructType(fields=fields):
            parts = ",".join(f"{quoted_name(field.name)}:{type_text(field.dataType)}" for field in fields)
            return f"struct<{parts}>"
        case _:
            return str(data_type.simpleString())


def quoted_name(name: str) -> str:
    """Returns the name of a field as `type_text` writes it."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    doubled = name.replace("`", "``")
    return f"`{doubled}`"
