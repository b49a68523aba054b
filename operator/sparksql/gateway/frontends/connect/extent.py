"""Bounds a request before protobuf and Spark read it: how deeply its messages are nested, and how many fields they have.

protobuf and Spark go down their thread's stack for each level, and make objects of each field: two bytes of a request become a
hundred in the driver, and again in its JVM. So the bytes are looked through once, by the descriptors of the messages and without
recursion. Every field that is a message counts, whatever it is called. Pure.

What Spark 4.1 took, from the first plan of a driver on, in threads with the stack of 4 MiB that drivers have:

| bound | within it | beyond it |
|---|---|---|
| levels, 512 | 250 operations of a DataFrame, or functions within each other: 1 s | 1,200 operations: beyond the stack |
| levels of a type, 128 | 62 arrays within each other: 0.6 s | 200, with a stack of 1 MiB: beyond it |
| relations, 4,000 | 400 UNION ALL: 35 s, most of it for their tasks | |
| fields, 1,000,000 | 100,000 values of isin: 5 s | |

An operation, a function and an array each take two levels; a literal takes three fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from pyspark.sql.connect.proto import relations_pb2 as relations
from pyspark.sql.connect.proto import types_pb2 as types

MAX_LEVELS = 512
MAX_TYPE_LEVELS = 128
MAX_RELATIONS = 4_000
MAX_FIELDS = 1_000_000

# How a field's value is written (protobuf's documentation, "Encoding").
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES = 10
_WIDTHS = {
    FieldDescriptor.TYPE_DOUBLE: 8, FieldDescriptor.TYPE_FIXED64: 8, FieldDescriptor.TYPE_SFIXED64: 8,
    FieldDescriptor.TYPE_FLOAT: 4, FieldDescriptor.TYPE_FIXED32: 4, FieldDescriptor.TYPE_SFIXED32: 4,
}  # fmt: skip
_WITHOUT_WIDTH = frozenset({FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES})
_TYPE = types.DataType.DESCRIPTOR.full_name
_RELATION = relations.Relation.DESCRIPTOR.full_name


class WireFormatError(Exception):
    """The bytes are no message of protobuf's, or have a group, which no message of Connect has."""


class ExtentError(Exception):
    """Names the bound that a request is beyond, and what to do."""


@dataclass(frozen=True)
class _Shape:
    """What is known of a kind of message: `messages` are its fields that are messages, `widths` those of packed numbers.

    A width is how many bytes a number has at least.
    """

    messages: dict[int, Descriptor]
    widths: dict[int, int]
    is_relation: bool
    is_type: bool


def check_extent(data: bytes, descriptor: Descriptor) -> None:
    """Looks through a message's bytes. Raises ExtentError beyond a bound, and WireFormatError."""
    fields, found = 0, 0
    pending = [(0, len(data), descriptor, 1, 0)]
    while pending:
        position, end, kind, levels, type_levels = pending.pop()
        shape = _shape_of(kind)
        type_levels += bool(type_levels or shape.is_type)
        found += shape.is_relation
        if levels > MAX_LEVELS or type_levels > MAX_TYPE_LEVELS or found > MAX_RELATIONS:
            raise _beyond(levels, type_levels)
        while position < end:
            tag = data[position]
            position += 1
            if tag > 0x7F:
                tag, position = _varint(data, position - 1, end)
            fields += 1
            if tag & 7 == _BYTES:
                size, start = _varint(data, position, end)
                position, number = start + size, tag >> 3
                if (message := shape.messages.get(number)) is not None:
                    pending.append((start, position, message, levels + 1, type_levels))
                elif (width := shape.widths.get(number)) is not None:
                    fields += size // width
            else:
                position = _past_number(data, position, end, tag & 7)
            if fields > MAX_FIELDS:
                raise ExtentError(
                    f"the request has more than {MAX_FIELDS} fields, three for a literal: send values as local data"
                    " (createDataFrame), and join with that"
                )
        if position > end:
            raise WireFormatError


def _beyond(levels: int, type_levels: int) -> ExtentError:
    if levels > MAX_LEVELS:
        return ExtentError(
            f"the plan is nested more than {MAX_LEVELS} levels deep, two for each operation of a DataFrame or function:"
            " write an intermediate result to a table, or use fewer operations (withColumns in place of withColumn)"
        )
    if type_levels > MAX_TYPE_LEVELS:
        return ExtentError(
            f"a type is nested more than {MAX_TYPE_LEVELS} levels deep, two for each array, map or struct: use a flatter type"
        )
    return ExtentError(
        f"the plan has more than {MAX_RELATIONS} relations: write intermediate results to tables, and read those"
    )


@cache
def _shape_of(descriptor: Descriptor) -> _Shape:
    return _Shape(
        {field.number: field.message_type for field in descriptor.fields if field.message_type is not None},
        {field.number: _WIDTHS.get(field.type, 1) for field in descriptor.fields if field.type not in _WITHOUT_WIDTH},
        is_relation=descriptor.full_name == _RELATION,
        is_type=descriptor.full_name == _TYPE,
    )


def _past_number(data: bytes, position: int, end: int, kind: int) -> int:
    """Returns the place after a number that is written by itself. Raises WireFormatError for what is none."""
    if kind == _VARINT:
        return _varint(data, position, end)[1]
    if kind not in _FIXED_BYTES:
        raise WireFormatError
    return position + _FIXED_BYTES[kind]


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Reads a number; returns it and the place after it. Raises WireFormatError."""
    if position < end and (value := data[position]) < 0x80:
        return value, position + 1
    value = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        if position >= end:
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise WireFormatError
