"""Where each character of a scalar's value stands in the file: block scalars, folded lines and escapes move them.

Pure. It reads no YAML: value and range of a scalar are given by the parser, and are laid side by side. Characters that are no
blanks are the same on both sides and in the same order, so each of them has an exact place.
"""

from __future__ import annotations

import re

_ESCAPE_LENGTHS = {"x": 4, "u": 6, "U": 10}
_BLANKS = " \t\r\n\u0085\u2028\u2029"
_INDENTED = re.compile(r"\n( *)\S")


def position(text: str, start: int, end: int, style: str | None, value: str, offset: int) -> int:
    """Returns where the character at `offset` of a scalar's value is in the text.

    `start` and `end` are the range of the scalar as the parser reports it, `style` one of `|`, `>`, `'`, `"` and none.
    An offset behind the value is the place behind its last character that is no blank.
    """
    if offset >= len(value):
        last = len(value.rstrip())
        return start if last == 0 else position(text, start, end, style, value, last - 1) + 1
    match style:
        case "|":
            return _literal(text, start, end, value, offset)
        case '"' | "'":
            return _aligned(text, start + 1, end, style, value, offset)
        case ">":
            return _aligned(text, _line_end(text, start), end, style, value, offset)
        case _:
            return _aligned(text, start, end, style, value, offset)


def _literal(text: str, start: int, end: int, value: str, offset: int) -> int:
    """Each line of the value is a line of the text behind the same indent."""
    header_end = _line_end(text, start)
    indent = _indent(text, header_end, end, value)
    line, column = value.count("\n", 0, offset), offset - (value.rfind("\n", 0, offset) + 1)
    at = header_end + 1
    for _ in range(line):
        at = _line_end(text, at) + 1
    return min(at + indent + column, _line_end(text, at))


def _indent(text: str, header_end: int, end: int, value: str) -> int:
    """The indent of a literal: that of its first line with text, without the blanks that belong to the value."""
    found = _INDENTED.search(text, header_end, end)
    if found is None:
        return 0
    first = next((line for line in value.split("\n") if line.strip(" ")), "")
    return max(0, len(found[1]) - (len(first) - len(first.lstrip(" "))))


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _aligned(text: str, at: int, end: int, style: str | None, value: str, offset: int) -> int:
    for index in range(offset + 1):
        char = value[index]
        at = _continued(text, at, end) if style == '"' else at
        if char not in _BLANKS:
            while at < end and text[at] in _BLANKS:
                at = _continued(text, at + 1, end) if style == '"' else at + 1
        if index == offset:
            return min(at, end)
        at += _width(text, at, style) if at < end and (char not in _BLANKS or _is_blank(text, at, style)) else 0
    return at


def _is_blank(text: str, at: int, style: str | None) -> bool:
    """Whether a blank of the value is written here: as itself, or as an escape."""
    return text[at] in _BLANKS or (style == '"' and text[at] == "\\")


def _continued(text: str, at: int, end: int) -> int:
    """Behind an escaped line end, which is nothing in the value, and the blanks of the next line."""
    while text.startswith(("\\\n", "\\\r\n"), at):
        at = _line_end(text, at) + 1
        while at < end and text[at] in " \t":
            at += 1
    return at


def _width(text: str, at: int, style: str | None) -> int:
    if style == '"' and text[at] == "\\":
        return _ESCAPE_LENGTHS.get(text[at + 1 : at + 2], 2)
    return 2 if style == "'" and text.startswith("''", at) else 1
