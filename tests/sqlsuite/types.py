"""Types as Spark's catalog writes them: `array<struct<a:int,b:decimal(10,2)>>`. Pure.

Names stand there without quotes, so those of columns are needed to read a schema; a field of a struct ends at its first colon.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_SIMPLE = re.compile(r"[a-z_]+(?: (?!collate)[a-z]+)*(?:\([^()]*\))?(?: collate \w+)?")


class UnreadableError(ValueError):
    """A text that is no type, or a schema that has other columns."""


@dataclass(frozen=True)
class Type:
    """A type: `text` is all of it, `name` its first word.

    `parts` are an array's element, a map's key and value, or the fields of a struct, whose `names` are beside them.
    """

    text: str
    name: str
    parts: tuple[Type, ...] = ()
    names: tuple[str, ...] = ()

    def has(self, *names: str) -> bool:
        """Returns whether it, or anything in it, has one of these first words."""
        return self.name in names or any(part.has(*names) for part in self.parts)


def parse_type(text: str) -> Type:
    """Returns the type of a text. Raises UnreadableError."""
    found, end = _type(text, 0)
    if end != len(text):
        raise UnreadableError(text)
    return found


def column_types(schema: str, names: Sequence[str]) -> tuple[Type, ...]:
    """Returns the types of a schema's columns, which must have these names. Raises UnreadableError."""
    at = _after("struct<", schema, 0)
    types = []
    for index, name in enumerate(names):
        at = _after(f"{',' if index else ''}{name}:", schema, at)
        found, at = _type(schema, at)
        types.append(found)
    if schema[at:] != ">":
        raise UnreadableError(schema)
    return tuple(types)


def _type(text: str, at: int) -> tuple[Type, int]:
    match = _SIMPLE.match(text, at)
    if match is None:
        raise UnreadableError(text[at:])
    name, end = match.group(), match.end()
    if not text.startswith("<", end):
        return Type(name, re.match(r"[a-z_]+", name).group()), end  # type: ignore[union-attr]
    end += 1
    parts: list[Type] = []
    names: list[str] = []
    while not text.startswith(">", end):
        if parts:
            end = _after(",", text, end)
        if name == "struct":
            field, colon, _ = text[end:].partition(":")
            end += len(field) + len(colon)
            names.append(field)
        part, end = _type(text, end)
        parts.append(part)
    return Type(text[at : end + 1], name, tuple(parts), tuple(names)), end + 1


def _after(mark: str, text: str, at: int) -> int:
    if not text.startswith(mark, at):
        raise UnreadableError(text[at:])
    return at + len(mark)
