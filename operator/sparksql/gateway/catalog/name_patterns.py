"""JDBC's patterns for the names of a catalog's objects, and the walk through nested namespaces that they bound. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

MAX_NAMESPACES = 10_000


@dataclass(frozen=True)
class NamePattern:
    """A JDBC pattern: `%` is any text, `_` one character, a backslash takes the next one literally; None matches all.

    Case does not matter, as it does not in Spark's names.
    """

    pieces: tuple[tuple[str, bool], ...]
    """Characters, each with whether it is a wildcard."""

    @classmethod
    def parse(cls, pattern: str | None) -> NamePattern:
        """Reads a JDBC pattern: `%` and `_` are wildcards, a backslash escapes one. None matches every name."""
        pieces: list[tuple[str, bool]] = []
        characters = iter("%" if pattern is None else pattern)
        for character in characters:
            if character == "\\":
                pieces.append((next(characters, "\\"), False))
            else:
                pieces.append((character, character in "%_"))
        return cls(tuple(pieces))

    def matches(self, name: str) -> bool:
        """Returns whether all of a name matches."""
        return self._regex.fullmatch(name) is not None

    @cached_property
    def literal_start(self) -> str:
        """Returns what every matching name begins with, but for case."""
        start = []
        for character, is_wildcard in self.pieces:
            if is_wildcard:
                break
            start.append(character)
        return "".join(start)

    @cached_property
    def stars(self) -> str:
        """Returns a pattern as Spark's own listings take it (`*` only): all that match, and maybe more."""
        plain = (c if not wild and (c == "_" or (c.isascii() and c.isalnum())) else "*" for c, wild in self.pieces)
        return re.sub(r"\*+", "*", "".join(plain)).lower()

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        """Each text between two `%` is taken where it occurs first and never again, so a hostile pattern costs no more."""
        parts = [""]
        for character, is_wildcard in self.pieces:
            if is_wildcard and character == "%":
                parts.append("")
            else:
                parts[-1] += "." if is_wildcard else re.escape(character)
        first, *middle = parts
        last = middle.pop() if middle else None
        text = first + "".join(f"(?>.*?{part})" for part in middle if part)
        return re.compile(text if last is None else f"{text}.*{last}", re.DOTALL | re.IGNORECASE)


def escaped(name: str) -> str:
    """Returns the pattern that only this name matches, but for case."""
    return re.sub(r"([%_\\])", r"\\\1", name)


def may_lie_below(namespace: Sequence[str], pattern: NamePattern) -> bool:
    """Returns whether a namespace within this one can match."""
    path = ".".join(namespace).lower() + "."
    start = pattern.literal_start.lower()
    is_literal = len(pattern.literal_start) == len(pattern.pieces)
    return start.startswith(path) if is_literal else start.startswith(path) or path.startswith(start)


def find_namespaces(
    children: Callable[[tuple[str, ...]], list[tuple[str, ...]]], pattern: NamePattern
) -> list[tuple[str, ...]]:
    """Returns all namespaces below the root that match a pattern.

    `children` gives the namespaces right below one, () being the root. At most MAX_NAMESPACES are looked at.
    """
    found: list[tuple[str, ...]] = []
    waiting = children(())[::-1]
    for _ in range(MAX_NAMESPACES):
        if not waiting:
            break
        namespace = waiting.pop()
        if pattern.matches(".".join(namespace)):
            found.append(namespace)
        if may_lie_below(namespace, pattern):
            below = [child for child in children(namespace) if len(child) > len(namespace)]
            waiting.extend(below[::-1])
    return found
