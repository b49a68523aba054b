"""Messages of CDC tools as they stand in a topic, written without the code that reads them."""

from __future__ import annotations

import json
from typing import Any

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
