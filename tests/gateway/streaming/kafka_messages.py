"""Messages of CDC tools as they stand in a topic, written without the code that reads them."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

ROW = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None}],
}
ROW_SCHEMA = json.dumps(ROW)
ENVELOPE_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.customers",
        "fields": [
            {"name": "before", "type": ["null", ROW], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
    }
)

Row = dict[str, Any]


def debezium(op: str, before: Row | None, after: Row | None, with_schema: bool = False) -> bytes:
    envelope = {"before": before, "after": after, "op": op, "source": {"table": "orders"}, "ts_ms": 1}
    return json.dumps({"schema": {"type": "struct"}, "payload": envelope} if with_schema else envelope).encode()


def maxwell(kind: str, data: Row | None, old: Row | None = None) -> bytes:
    told = {"database": "shop", "table": "customers", "type": kind, "ts": 1, "xid": 9, "data": data}
    return json.dumps(told if old is None else {**told, "old": old}).encode()


def avro_row(row: Row) -> bytes:
    return _long(row["id"]) + _optional(row["name"], _string)


def avro_debezium(op: str, before: Row | None, after: Row | None) -> bytes:
    return _optional(before, avro_row) + _optional(after, avro_row) + _string(op) + _optional(None, _long)


def confluent(number: int, record: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + record


def apicurio(number: int, record: bytes) -> bytes:
    return b"\0" + number.to_bytes(8, "big") + record


Field = FieldDescriptorProto
OPTIONAL, REPEATED = Field.LABEL_OPTIONAL, Field.LABEL_REPEATED


def proto_message(into: Any, name: str, *fields: tuple[str, int, int, str]) -> Any:
    """Adds a message with these fields: name, type, label, and the type's name. Fields whose names end in ? know if they are there."""
    made = into.add(name=name)
    for number, (field, kind, label, of) in enumerate(fields, 1):
        added = made.field.add(
            name=field.removesuffix("?"), number=number, type=kind, label=label, type_name=of or None
        )
        if field.endswith("?"):
            added.proto3_optional = True
            added.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{field.removesuffix('?')}")
    return made


def _shop() -> FileDescriptorSet:
    made = FileDescriptorSet()
    made.file.add().ParseFromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    wrappers = made.file.add(name="google/protobuf/wrappers.proto", package="google.protobuf", syntax="proto3")
    proto_message(wrappers.message_type, "Int64Value", ("value", Field.TYPE_INT64, OPTIONAL, ""))
    shop = made.file.add(name="shop.proto", package="shop", syntax="proto3")
    shop.dependency.extend(["google/protobuf/timestamp.proto", wrappers.name])
    proto_message(
        shop.message_type, "Value", ("id", Field.TYPE_INT64, OPTIONAL, ""), ("name?", Field.TYPE_STRING, OPTIONAL, "")
    )
    row = (Field.TYPE_MESSAGE, OPTIONAL, ".shop.Value")
    proto_message(
        shop.message_type, "Envelope", ("before", *row), ("after", *row), ("op", Field.TYPE_STRING, OPTIONAL, "")
    )
    state = shop.enum_type.add(name="State")
    for number, name in enumerate(("NONE", "PAID")):
        state.value.add(name=name, number=number)
    kinds = proto_message(
        shop.message_type,
        "Kinds",
        ("small", Field.TYPE_SINT32, OPTIONAL, ""),
        ("large", Field.TYPE_UINT32, OPTIONAL, ""),
        ("largest", Field.TYPE_FIXED64, OPTIONAL, ""),
        ("bytes", Field.TYPE_BYTES, OPTIONAL, ""),
        ("state", Field.TYPE_ENUM, OPTIONAL, ".shop.State"),
        ("items", Field.TYPE_MESSAGE, REPEATED, ".shop.Value"),
        ("by_name", Field.TYPE_MESSAGE, REPEATED, ".shop.Kinds.ByNameEntry"),
        ("at", Field.TYPE_MESSAGE, OPTIONAL, ".google.protobuf.Timestamp"),
        ("left", Field.TYPE_MESSAGE, OPTIONAL, ".google.protobuf.Int64Value"),
        ("text?", Field.TYPE_STRING, OPTIONAL, ""),
        ("ratio", Field.TYPE_DOUBLE, OPTIONAL, ""),
    )
    entry = proto_message(
        kinds.nested_type,
        "ByNameEntry",
        ("key", Field.TYPE_STRING, OPTIONAL, ""),
        ("value", Field.TYPE_MESSAGE, OPTIONAL, ".shop.Value"),
    )
    entry.options.map_entry = True
    proto_message(shop.message_type, "Tree", ("left", Field.TYPE_MESSAGE, OPTIONAL, ".shop.Tree"))
    proto_message(shop.message_type, "Empty")
    return made


_SHOP = _shop()
DESCRIPTOR = base64.b64encode(_SHOP.SerializeToString()).decode()
_POOL = descriptor_pool.DescriptorPool()
for _file in _SHOP.file:
    _POOL.Add(_file)


def lacking(*names: str) -> str:
    """The descriptor without these files."""
    files = [file for file in _SHOP.file if file.name not in names]
    return base64.b64encode(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()).decode()


def proto(name: str, /, **fields: Any) -> Any:
    """A message of the package shop."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"shop.{name}"))(**fields)


def proto_row(row: Row) -> bytes:
    return bytes(_proto_value(row).SerializeToString())


def proto_debezium(op: str, before: Row | None, after: Row | None) -> bytes:
    told = {name: _proto_value(row) for name, row in (("before", before), ("after", after)) if row is not None}
    return bytes(proto("Envelope", op=op, **told).SerializeToString())


def confluent_proto(number: int, place: tuple[int, ...], message: bytes) -> bytes:
    """With the header of Confluent's serializers: an id, and the place of the message in its file, (0,) as 0."""
    indexes = b"\0" if place == (0,) else _long(len(place)) + b"".join(map(_long, place))
    return confluent(number, indexes + message)


def _proto_value(row: Row) -> Any:
    return proto("Value", **{name: value for name, value in row.items() if value is not None})


def _long(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    written = bytearray()
    while zigzag > 0x7F:
        written.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    return bytes([*written, zigzag])


def _string(value: str) -> bytes:
    return _long(len(value.encode())) + value.encode()


def _optional(value: Any, write: Any) -> bytes:
    return b"\0" if value is None else b"\2" + write(value)
