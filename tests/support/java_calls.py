"""Calls in compiled Java classes, read from the class files themselves (JVM specification, chapter 4)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_METHOD, _INTERFACE_METHOD, _HANDLE = 10, 11, 15
_INVOKES = range(182, 186)  # virtual, special, static, interface
_TABLE_SWITCH, _LOOKUP_SWITCH, _WIDE, _IINC = 170, 171, 196, 132
# Bytes of a constant behind its tag.
_CONSTANT_BYTES = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
_LENGTHS = {
    **dict.fromkeys((16, 18, *range(21, 26), *range(54, 59), 169, 188), 2),
    **dict.fromkeys((17, 19, 20, 132, *range(153, 169), *range(178, 185), 187, 189, 192, 193, 198, 199), 3),
    **dict.fromkeys((185, 186, 200, 201), 5),
    197: 4,
}
METHOD_REFERENCE = "<reference>"


@dataclass(frozen=True)
class Call:
    """A method (or METHOD_REFERENCE, where code takes another one as a value) and what it calls: class, name and type."""

    method: str
    owner: str
    name: str
    type: str


def calls(content: bytes, is_wanted: Callable[[str, str, str], bool]) -> Iterator[Call]:
    """Yields the calls in a class file of those methods that are wanted, by class, name and type as the JVM writes them."""
    constants, position = _constants(content)
    wanted = {
        number: target
        for number, constant in enumerate(constants)
        if isinstance(constant, tuple)
        and constant[0] in (_METHOD, _INTERFACE_METHOD)
        and is_wanted(*(target := _target(constants, constant)))
    }
    if not wanted:
        return
    for constant in constants:
        if isinstance(constant, tuple) and constant[0] == _HANDLE and constant[2] in wanted:
            yield Call(METHOD_REFERENCE, *wanted[constant[2]])
    for method, code in _methods(content, constants, position):
        for number in _called(code):
            if number in wanted:
                yield Call(method, *wanted[number])


def _constants(content: bytes) -> tuple[list[Any], int]:
    """Constants by number (text, or its tag and the numbers that follow) and where they end."""
    count, position = _short(content, 8), 10
    constants: list[Any] = [None] * count
    number = 1
    while number < count:
        tag = content[position]
        if tag == 1:
            size = 2 + _short(content, position + 1)
            constants[number] = content[position + 3 : position + 1 + size].decode("utf-8", "replace")
        else:
            size = _CONSTANT_BYTES[tag]
            if tag == _HANDLE:
                constants[number] = (tag, content[position + 1], _short(content, position + 2))
            elif size == 4:
                constants[number] = (tag, _short(content, position + 1), _short(content, position + 3))
            elif size == 2:
                constants[number] = (tag, _short(content, position + 1))
        position += 1 + size
        number += 2 if tag in (5, 6) else 1  # long and double take two numbers
    return constants, position


def _target(constants: list[Any], reference: tuple[int, int, int]) -> tuple[str, str, str]:
    _, name, kind = constants[reference[2]]
    return constants[constants[reference[1]][1]], constants[name], constants[kind]


def _methods(content: bytes, constants: list[Any], position: int) -> Iterator[tuple[str, bytes]]:
    """Names of methods and their code."""
    position += 8 + 2 * _short(content, position + 6)  # behind access, class, super class and interfaces
    for is_method in (False, True):
        members, position = _short(content, position), position + 2
        for _ in range(members):
            name, attributes = constants[_short(content, position + 2)], _short(content, position + 6)
            position += 8
            for _ in range(attributes):
                size = struct.unpack_from(">I", content, position + 2)[0]
                if is_method and constants[_short(content, position)] == "Code":
                    length = struct.unpack_from(">I", content, position + 10)[0]
                    yield name, content[position + 14 : position + 14 + length]
                position += 6 + size


def _called(code: bytes) -> Iterator[int]:
    """Numbers of the constants that the code's calls name."""
    at = 0
    while at < len(code):
        operation = code[at]
        if operation in _INVOKES:
            yield _short(code, at + 1)
        if operation in (_TABLE_SWITCH, _LOOKUP_SWITCH):
            aligned = at + 4 - at % 4
            if operation == _TABLE_SWITCH:
                low, high = struct.unpack_from(">ii", code, aligned + 4)
                at = aligned + 12 + 4 * (high - low + 1)
            else:
                at = aligned + 8 + 8 * struct.unpack_from(">i", code, aligned + 4)[0]
        elif operation == _WIDE:
            at += 6 if code[at + 1] == _IINC else 4
        else:
            at += _LENGTHS.get(operation, 1)


def _short(content: bytes, position: int) -> int:
    return content[position] << 8 | content[position + 1]
