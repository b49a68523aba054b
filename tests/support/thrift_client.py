"""A small client of the HiveServer2 frontend: raw calls over a socket, answers as plain dictionaries by field number.

It decodes by what the bytes say and knows nothing of the gateway's declarations, so that a wrong declaration shows.
"""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType
from typing import Any, Self

from sparksql.protocols.hiveserver2.codec import Struct, encode
from tests.support.process import TOKEN

_CALL = 0x80010001
Fields = dict[int, Any]


class ThriftError(Exception):
    """One of Thrift's own exceptions; `code` is its type."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Refused(Exception):
    """The server broke off the negotiation; the message is its own."""


class ThriftClient:
    """One authenticated connection."""

    def __init__(
        self,
        port: int,
        tls: ssl.SSLContext | None,
        token: str = TOKEN,
        user: str = "ada",
        seconds: float = 120,
        host: str = "127.0.0.1",
    ) -> None:
        raw = socket.create_connection((host, port), seconds)
        self.socket = tls.wrap_socket(raw, server_hostname="localhost") if tls else raw
        self._sequence = 0
        self._negotiate(1, b"PLAIN")
        self._negotiate(2, b"\0".join((b"", user.encode(), token.encode())))
        status, size = struct.unpack(">bi", self._receive(5))
        message = self._receive(size).decode()
        if status != 5:
            self.socket.close()
            raise Refused(message)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def call(self, method: str, request: Struct) -> Fields:
        """The answer to a call. Raises ThriftError."""
        self.send(method, request)
        return self.receive()

    def send(self, method: str, request: Struct) -> None:
        self._sequence += 1
        name = method.encode()
        head = struct.pack(f">Ii{len(name)}si", _CALL, len(name), name, self._sequence)
        self.send_frame(head + b"\x0c\0\1" + encode(request) + b"\0")

    def send_frame(self, message: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(message)) + message)

    def receive(self) -> Fields:
        frame = self.receive_frame()
        word, size = struct.unpack_from(">Ii", frame)
        fields, end = _struct(frame, 12 + size)
        assert end == len(frame), "bytes behind the message"
        if word & 0xFF == 3:
            raise ThriftError(fields[1].decode(), fields[2])
        assert struct.unpack_from(">i", frame, 8 + size)[0] == self._sequence
        answer: Fields = fields[0]
        return answer

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def is_closed(self) -> bool:
        """Waits until the server has closed the connection."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _negotiate(self, status: int, payload: bytes) -> None:
        self.socket.sendall(struct.pack(">bi", status, len(payload)) + payload)

    def _receive(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while len(view):
            count = self.socket.recv_into(view)
            if count == 0:
                raise EOFError("the server has closed the connection")
            view = view[count:]
        return bytes(data)


def rows_of(answer: Fields) -> list[tuple[Any, ...]]:
    """Rows of a FetchResultsResp, columnar or not. Texts stay bytes; a NULL is None."""
    row_set = answer[3]
    if 3 not in row_set:
        return [tuple(cell.get(1) for value in row[1] for cell in value.values()) for row in row_set[2]]
    columns = []
    for union in row_set[3]:
        (column,) = union.values()
        nulls = column[2]
        columns.append(
            [
                None if index // 8 < len(nulls) and nulls[index // 8] >> index % 8 & 1 else value
                for index, value in enumerate(column[1])
            ]
        )
    return list(zip(*columns, strict=True))


def _struct(data: bytes, at: int) -> tuple[Fields, int]:
    fields: Fields = {}
    while data[at]:
        kind, number = struct.unpack_from(">bh", data, at)
        fields[number], at = _value(data, at + 3, kind)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    match kind:
        case 2:
            return data[at] != 0, at + 1
        case 12:
            return _struct(data, at)
        case 11:
            (size,) = struct.unpack_from(">i", data, at)
            return data[at + 4 : at + 4 + size], at + 4 + size
        case 15:
            item, count = struct.unpack_from(">bi", data, at)
            at += 5
            if item in _FORMATS:
                form = struct.Struct(f">{count}{_FORMATS[item]}")
                return list(form.unpack_from(data, at)), at + form.size
            values = []
            for _ in range(count):
                value, at = _value(data, at, item)
                values.append(value)
            return values, at
        case 13:
            key_kind, item_kind, count = struct.unpack_from(">bbi", data, at)
            at, found = at + 6, {}
            for _ in range(count):
                key, at = _value(data, at, key_kind)
                found[key], at = _value(data, at, item_kind)
            return found, at
        case _:
            form = struct.Struct(f">{_FORMATS[kind]}")
            return form.unpack_from(data, at)[0], at + form.size


_FORMATS = {3: "b", 4: "d", 6: "h", 8: "i", 10: "q"}
