"""Thrift's binary protocol for messages that are declared as dataclasses.

Why not a Thrift library (thrift 0.25, thriftpy2 0.7.1): none has what a port that strangers reach needs at once. Apache's
limits the sizes of texts and containers (`string_length_limit`, `container_length_limit`) and has no server for asyncio.
thriftpy2 has one, limits only the depth of a message, and believes the sizes that a peer sends, so that a dozen bytes hold the
thread for seconds or take gigabytes; its SASL is a client's. Neither writes a TRowSet straight from Arrow, as `rowset` does,
and code generated from Hive's IDL is eleven thousand lines. That our declarations are those of the IDL is tested against Hive's
own classes.

Invariants: decoding takes time and memory in proportion to the message, whatever its bytes say; any bytes give a message or a
ProtocolError; fields that a declaration does not know are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, TypeVar

MAX_DEPTH = 16  # TCLIService nests 6 deep
_VERSION_1 = 0x80010000
_VERSION_MASK = 0xFFFF0000

S = TypeVar("S", bound="Struct")


class ProtocolError(Exception):
    """The bytes are no message of Thrift's binary protocol; the message says what is wrong."""


class TType(IntEnum):
    """Type codes of the protocol, by the names of Thrift's libraries."""

    STOP = 0
    BOOL = 2
    BYTE = 3
    DOUBLE = 4
    I16 = 6
    I32 = 8
    I64 = 10
    STRING = 11
    STRUCT = 12
    MAP = 13
    SET = 14
    LIST = 15


class TMessageType(IntEnum):
    """Names the types of messages, as Thrift's libraries do."""

    CALL = 1
    REPLY = 2
    EXCEPTION = 3
    ONEWAY = 4


@dataclass(frozen=True)
class Shape:
    """Describes what a field holds.

    `binary` tells bytes from text; `item` and `key` are those of containers; `struct` is the message of a struct.
    """

    kind: TType
    binary: bool = False
    struct: type[Struct] | None = None
    item: Shape | None = None
    key: Shape | None = None


BOOL = Shape(TType.BOOL)
I16 = Shape(TType.I16)
I32 = Shape(TType.I32)
I64 = Shape(TType.I64)
DOUBLE = Shape(TType.DOUBLE)
STRING = Shape(TType.STRING)
BINARY = Shape(TType.STRING, binary=True)


def list_of(item: Shape | type[Struct]) -> Shape:
    """Returns the shape of a list of such items."""
    return Shape(TType.LIST, item=_shape(item))


def map_of(key: Shape, item: Shape | type[Struct]) -> Shape:
    """Returns the shape of a map from such keys to such items."""
    return Shape(TType.MAP, key=key, item=_shape(item))


_SHOWN_KINDS = frozenset({TType.BOOL, TType.BYTE, TType.DOUBLE, TType.I16, TType.I32, TType.I64, TType.STRUCT})


def at(number: int, shape: Shape | type[Struct], default: Any = None) -> Any:
    """Declares a field of a message by its number. One that is None is not sent.

    A text of clients, such as SQL or a token, is not shown by a message's `repr`, and no container, which may hold some.
    """
    known = _shape(shape)
    return field(default=default, metadata={"number": number, "shape": known}, repr=known.kind in _SHOWN_KINDS)


class Struct:
    """Base of messages: frozen dataclasses whose fields are all made by `at`."""


def _shape(shape: Shape | type[Struct]) -> Shape:
    return shape if isinstance(shape, Shape) else Shape(TType.STRUCT, struct=shape)


_layouts: dict[type[Struct], dict[int, tuple[str, Shape]]] = {}


def _layout(message: type[Struct]) -> dict[int, tuple[str, Shape]]:
    """Names and shapes of a message's fields by their numbers."""
    known = _layouts.get(message)
    if known is None:
        parts = fields(message)  # type: ignore[arg-type]
        known = _layouts[message] = {part.metadata["number"]: (part.name, part.metadata["shape"]) for part in parts}
    return known


_FIXED: dict[TType, struct.Struct] = {
    TType.BYTE: struct.Struct(">b"),
    TType.I16: struct.Struct(">h"),
    TType.I32: struct.Struct(">i"),
    TType.I64: struct.Struct(">q"),
    TType.DOUBLE: struct.Struct(">d"),
}
_FIELD = struct.Struct(">bh")
_SIZE = struct.Struct(">i")


class Reader:
    """Reads one message. Every method raises ProtocolError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def header(self) -> tuple[str, TMessageType, int]:
        """Reads the method, type and sequence id of a message."""
        word = self._fixed(TType.I32) & 0xFFFFFFFF
        if word & _VERSION_MASK != _VERSION_1:
            raise ProtocolError("the message does not begin with version 1 of the binary protocol")
        try:
            kind = TMessageType(word & 0xFF)
        except ValueError:
            raise ProtocolError(f"no message has type {word & 0xFF}") from None
        return self._text(), kind, self._fixed(TType.I32)

    def message(self, message: type[S], depth: int = 0) -> S:
        """Reads a struct, up to its end mark, as a message of this class.

        Fields that the class does not declare, or declares with another type, are skipped. `depth` counts the structs
        and containers around this one.
        """
        layout = _layout(message)
        values: dict[str, Any] = {}
        while (kind := self._kind()) is not TType.STOP:
            number = self._fixed(TType.I16)
            name, shape = layout.get(number, ("", None))
            if shape is None or shape.kind is not kind:
                self._skip(kind, depth + 1)
            else:
                values[name] = self._value(shape, depth + 1)
        return message(**values)

    def result(self, message: type[S]) -> S:
        """Reads the result of a reply, which stands in a struct of its own. Raises ProtocolError."""
        return self._only(message, 0)

    def argument(self, message: type[S]) -> S:
        """Reads the one argument of a call, which stands in a struct of its own. Raises ProtocolError."""
        return self._only(message, 1)

    def begin(self, message: type[S]) -> S:
        """Reads the first field of a call's argument, a struct; the rest of the message may be missing. Raises ProtocolError."""
        for _ in ("the argument", "its first field"):
            if (self._kind(), self._fixed(TType.I16)) != (TType.STRUCT, 1):
                raise ProtocolError("the call does not begin with a session or an operation")
        return self.message(message, 2)

    def _only(self, message: type[S], number: int) -> S:
        found: S | None = None
        while (kind := self._kind()) is not TType.STOP:
            if self._fixed(TType.I16) == number and kind is TType.STRUCT:
                found = self.message(message, 1)
            else:
                self._skip(kind, 1)
        if found is None:
            raise ProtocolError("the call has no argument" if number else "the reply has no result")
        return found

    def _value(self, shape: Shape, depth: int) -> Any:
        _check_depth(depth)
        match shape.kind:
            case TType.BOOL:
                return self._bytes(1) != b"\0"
            case TType.STRING:
                return self._sized() if shape.binary else self._text()
            case TType.STRUCT if shape.struct is not None:
                return self.message(shape.struct, depth)
            case TType.LIST | TType.SET if shape.item is not None:
                found, count = self._kind(), self._count()
                if found is not shape.item.kind:
                    self._skip_items((found,), count, depth)
                    return []
                return [self._value(shape.item, depth + 1) for _ in range(count)]
            case TType.MAP if shape.item is not None and shape.key is not None:
                kinds, count = (self._kind(), self._kind()), self._count()
                if kinds != (shape.key.kind, shape.item.kind):
                    self._skip_items(kinds, count, depth)
                    return {}
                return {self._value(shape.key, depth + 1): self._value(shape.item, depth + 1) for _ in range(count)}
            case _:
                return self._fixed(shape.kind)

    def _skip(self, kind: TType, depth: int) -> None:
        _check_depth(depth)
        match kind:
            case TType.BOOL:
                self._bytes(1)
            case TType.STRING:
                self._sized()
            case TType.STRUCT:
                while (inner := self._kind()) is not TType.STOP:
                    self._bytes(2)
                    self._skip(inner, depth + 1)
            case TType.LIST | TType.SET:
                found = self._kind()
                self._skip_items((found,), self._count(), depth)
            case TType.MAP:
                kinds = (self._kind(), self._kind())
                self._skip_items(kinds, self._count(), depth)
            case _:
                self._fixed(kind)

    def _skip_items(self, kinds: tuple[TType, ...], count: int, depth: int) -> None:
        for _ in range(count):
            for kind in kinds:
                if kind is TType.STOP:
                    raise ProtocolError("a container of nothing has items")
                self._skip(kind, depth + 1)

    def _kind(self) -> TType:
        code = self._bytes(1)[0]
        try:
            return TType(code)
        except ValueError:
            raise ProtocolError(f"no field has type {code}") from None

    def _count(self) -> int:
        """Number of items that follow; each takes a byte at least, so more than there are bytes is a lie."""
        count: int = self._fixed(TType.I32)
        if not 0 <= count <= len(self._data) - self._at:
            raise ProtocolError(f"{count} items cannot be in the {len(self._data) - self._at} bytes that are left")
        return count

    def _sized(self) -> bytes:
        return self._bytes(self._count())

    def _text(self) -> str:
        try:
            return self._sized().decode()
        except UnicodeDecodeError:
            raise ProtocolError("a text is not UTF-8") from None

    def _fixed(self, kind: TType) -> Any:
        form = _FIXED[kind]
        return form.unpack(self._bytes(form.size))[0]

    def _bytes(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise ProtocolError("the message ends too early")
        found = self._data[self._at : end]
        self._at = end
        return found


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ProtocolError(f"the message is nested deeper than {MAX_DEPTH}")


def header(method: str, kind: TMessageType, sequence: int) -> bytes:
    """Returns the begin of a message; its struct follows."""
    name = method.encode()
    word = _VERSION_1 | kind
    return struct.pack(f">Ii{len(name)}si", word, len(name), name, sequence)


def field_header(kind: TType, number: int) -> bytes:
    """Returns the bytes before the value of a struct's field."""
    return _FIELD.pack(kind, number)


STOP = b"\0"


def list_header(kind: TType, count: int) -> bytes:
    """Returns the bytes before the items of a list."""
    return struct.pack(">bi", kind, count)


def encode(message: Struct) -> bytes:
    """Returns the bytes of a struct with its end mark."""
    return b"".join(_struct_parts(message))


def _struct_parts(message: Struct) -> Iterable[bytes]:
    for number, (name, shape) in _layout(type(message)).items():
        value = getattr(message, name)
        if value is not None:
            yield _FIELD.pack(shape.kind, number)
            yield from _value_parts(shape, value)
    yield STOP


def _value_parts(shape: Shape, value: Any) -> Iterable[bytes]:
    match shape.kind:
        case TType.BOOL:
            yield b"\1" if value else b"\0"
        case TType.STRING:
            data = value if shape.binary else value.encode(errors="replace")
            yield _SIZE.pack(len(data))
            yield data
        case TType.STRUCT:
            yield from _struct_parts(value)
        case TType.LIST | TType.SET if shape.item is not None:
            yield list_header(shape.item.kind, len(value))
            for item in value:
                yield from _value_parts(shape.item, item)
        case TType.MAP if shape.item is not None and shape.key is not None:
            yield struct.pack(">bbi", shape.key.kind, shape.item.kind, len(value))
            for key, item in value.items():
                yield from _value_parts(shape.key, key)
                yield from _value_parts(shape.item, item)
        case _:
            yield _FIXED[shape.kind].pack(value)
