"""What an administrator does to topics, by single requests of Kafka's protocol."""

from __future__ import annotations

import socket
import struct

from .kafka_broker import Broker

_DELETE_TOPICS, _DELETE_RECORDS = 20, 21  # keys of requests
_TIMEOUT_MILLIS = 30_000


def delete_topic(broker: Broker, topic: str) -> None:
    """Deletes a topic; the next record that is written makes a new one of its name."""
    answer = _asked(broker, _DELETE_TOPICS, struct.pack(">i", 1) + _text(topic) + struct.pack(">i", _TIMEOUT_MILLIS))
    error = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic))[0]  # behind throttling, the count, and the name
    assert error == 0, error


def delete_records(broker: Broker, topic: str, before: int, partition: int = 0) -> None:
    """Deletes the records of a partition whose numbers are below `before`."""
    asked = struct.pack(">i", 1) + _text(topic) + struct.pack(">iiqi", 1, partition, before, _TIMEOUT_MILLIS)
    answer = _asked(broker, _DELETE_RECORDS, asked)
    low, error = struct.unpack_from(">qh", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    assert (low, error) == (before, 0), (low, error)


def _asked(broker: Broker, key: int, body: bytes) -> bytes:
    host, _, port = broker.address.partition(":")
    question = struct.pack(">hhih", key, 1, 1, -1) + body  # version 1, a correlation id, no client id
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(struct.pack(">i", len(question)) + question)
        with connection.makefile("rb") as stream:
            size = struct.unpack(">i", stream.read(4))[0]
            return stream.read(size)[4:]


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()
