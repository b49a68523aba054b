"""Spark's column types as the logical types of the REST API.

What the released JDBC driver cannot read goes out as VARCHAR, the whole column, and its values as text: NULL, intervals,
VARIANT, TIME (the driver drops its fraction), types of user code, maps whose keys are no text, and whatever holds one of
these. Every type is nullable, because the columns of a result do not tell.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa

from sparksql.gateway.frontends.rest.models import MAX_LENGTH, LogicalType, RowField, TypeRoot

TIMESTAMP_PRECISION = 6  # Spark's timestamps have microseconds
STRING = LogicalType(type=TypeRoot.VARCHAR, nullable=True, length=MAX_LENGTH)
_MAX_NESTING = 64

_SIMPLE = {
    "boolean": TypeRoot.BOOLEAN,
    "tinyint": TypeRoot.TINYINT,
    "smallint": TypeRoot.SMALLINT,
    "int": TypeRoot.INTEGER,
    "bigint": TypeRoot.BIGINT,
    "float": TypeRoot.FLOAT,
    "double": TypeRoot.DOUBLE,
    "date": TypeRoot.DATE,
}
_TIMESTAMPS = {"timestamp": TypeRoot.TIMESTAMP_LTZ, "timestamp_ntz": TypeRoot.TIMESTAMP}
_TEXTS = {"char": TypeRoot.CHAR, "varchar": TypeRoot.VARCHAR}
_ARROW = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INTEGER: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIMESTAMP: pa.timestamp("us"),
    TypeRoot.TIMESTAMP_LTZ: pa.timestamp("us", "UTC"),
}


class _UnreadableTypeError(Exception):
    """A type without a logical type that clients can read."""


@lru_cache(maxsize=4096)
def logical_type(spark_type: str) -> LogicalType:
    """Returns the logical type of a column, from Spark's simple type string."""
    try:
        reader = _Reader(spark_type)
        found = reader.type()
        reader.expect_end()
    except _UnreadableTypeError:
        return STRING
    return found


def arrow_type(logical: LogicalType) -> pa.DataType:
    """Returns the Arrow type of a logical type, for a page that has no rows to tell it."""
    match logical.type:
        case TypeRoot.DECIMAL:
            return pa.decimal128(logical.precision or 38, logical.scale or 0)
        case TypeRoot.ARRAY:
            return pa.list_(arrow_type(_known(logical.element_type)))
        case TypeRoot.MAP:
            return pa.map_(arrow_type(_known(logical.key_type)), arrow_type(_known(logical.value_type)))
        case TypeRoot.ROW:
            return pa.struct([(field.name, arrow_type(field.field_type)) for field in logical.row_fields or ()])
        case simple:
            return _ARROW[simple]


def _known(part: LogicalType | None) -> LogicalType:
    assert part is not None
    return part


class _Reader:
    """Reads one type string of `results/types.py` from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def type(self, nesting: int = 0) -> LogicalType:
        if nesting > _MAX_NESTING:
            raise _UnreadableTypeError
        match = re.compile(r"[a-z_]+").match(self._text, self._at)
        if match is None:
            raise _UnreadableTypeError
        name, self._at = match.group(), match.end()
        match name:
            case "array":
                return self._array(nesting + 1)
            case "map":
                return self._map(nesting + 1)
            case "struct":
                return self._row(nesting + 1)
            case "decimal":
                precision, scale = self._numbers(2)
                return LogicalType(type=TypeRoot.DECIMAL, nullable=True, precision=precision, scale=scale)
            case "char" | "varchar":
                (length,) = self._numbers(1)
                return LogicalType(type=_TEXTS[name], nullable=True, length=length)
            case "string":
                self._collation()
                return STRING
            case "binary":
                return LogicalType(type=TypeRoot.VARBINARY, nullable=True, length=MAX_LENGTH)
            case "timestamp" | "timestamp_ntz":
                return LogicalType(type=_TIMESTAMPS[name], nullable=True, precision=TIMESTAMP_PRECISION)
            case _ if name in _SIMPLE:
                return LogicalType(type=_SIMPLE[name], nullable=True)
            case _:
                raise _UnreadableTypeError

    def expect_end(self) -> None:
        if self._at != len(self._text):
            raise _UnreadableTypeError

    def _array(self, nesting: int) -> LogicalType:
        self._expect("<")
        element = self.type(nesting)
        self._expect(">")
        return LogicalType(type=TypeRoot.ARRAY, nullable=True, element_type=element)

    def _map(self, nesting: int) -> LogicalType:
        self._expect("<")
        key = self.type(nesting)
        if key.type not in (TypeRoot.CHAR, TypeRoot.VARCHAR):
            raise _UnreadableTypeError
        self._expect(",")
        value = self.type(nesting)
        self._expect(">")
        key = key.model_copy(update={"nullable": False})
        return LogicalType(type=TypeRoot.MAP, nullable=True, key_type=key, value_type=value)

    def _row(self, nesting: int) -> LogicalType:
        fields: list[RowField] = []
        self._expect("<")
        while not self._skip(">"):
            if fields:
                self._expect(",")
            name = self._name()
            self._expect(":")
            fields.append(RowField(name=name, field_type=self.type(nesting)))
        return LogicalType(type=TypeRoot.ROW, nullable=True, row_fields=fields)

    def _name(self) -> str:
        match = re.compile(r"`((?:[^`]|``)*)`|([^,:<>()`]+)").match(self._text, self._at)
        if match is None:
            raise _UnreadableTypeError
        self._at = match.end()
        quoted, plain = match.groups()
        return str(plain) if quoted is None else str(quoted).replace("``", "`")

    def _numbers(self, count: int) -> tuple[int, ...]:
        match = re.compile(r"\((\d+(?:,\d+)*)\)").match(self._text, self._at)
        if match is None or match.group(1).count(",") != count - 1:
            raise _UnreadableTypeError
        self._at = match.end()
        return tuple(int(number) for number in match.group(1).split(","))

    def _collation(self) -> None:
        match = re.compile(r" collate \w+").match(self._text, self._at)
        self._at = self._at if match is None else match.end()

    def _expect(self, mark: str) -> None:
        if not self._skip(mark):
            raise _UnreadableTypeError

    def _skip(self, mark: str) -> bool:
        found = self._text.startswith(mark, self._at)
        self._at += found
        return found
