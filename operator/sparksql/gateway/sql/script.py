"""Splits a text into statements at the semicolons that Spark's own lexer sees, and keeps where each one stood.

Pure: the lexer and the parser are given. A `BEGIN ... END` block is one statement: it ends at the first semicolon after an
END where Spark's parser accepts it. Invariant: `sql[f.offset : f.offset + len(f.text)] == f.text` for every fragment, in
order and without overlap, so that any position inside a fragment has one in the submitted text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sparksql.gateway.sql.window_syntax import Edited

MAX_STATEMENTS = 500


@dataclass(frozen=True)
class Token:
    """A token that is no comment and no blank: where it starts and its text in upper case (offsets in code points)."""

    offset: int
    text: str = field(repr=False)


@dataclass(frozen=True)
class Fragment:
    """Holds one statement of the submitted text, without comments and blanks around it.

    `edited` is the text as Spark reads it, None when that is the same.
    """

    text: str = field(repr=False)
    offset: int
    edited: Edited | None = None

    @property
    def parsed_text(self) -> str:
        """Returns the text that Spark's parser is given."""
        return self.text if self.edited is None else self.edited.text

    def original(self, position: int) -> int:
        """Returns where a position of the parsed text is in the fragment's own."""
        return position if self.edited is None else self.edited.original(position)


@dataclass(frozen=True)
class Section:
    """Describes what lies between two semicolons: its first token (None if there is only comment) and its last two."""

    end: int
    first: Token | None
    last: tuple[Token, ...] = ()


class ScriptTooLongError(Exception):
    """More than MAX_STATEMENTS statements."""


def split(sql: str, sections: Sequence[Section], parses: Callable[[str], bool]) -> list[Fragment]:
    """Returns the fragments of a text whose sections the lexer found.

    Empty sections (`;;`, a comment alone) are no statements.
    """
    fragments: list[Fragment] = []
    position = 0
    while position < len(sections):
        section = sections[position]
        if section.first is not None:
            start = section.first.offset
            if section.first.text == "BEGIN":
                position = _end_of_block(sql, start, sections, position, parses)
            fragments.append(Fragment(sql[start : sections[position].end].rstrip(), start))
            if len(fragments) > MAX_STATEMENTS:
                raise ScriptTooLongError
        position += 1
    return fragments


def _end_of_block(sql: str, start: int, sections: Sequence[Section], first: int, parses: Callable[[str], bool]) -> int:
    """Index of the section that ends the block; the last one if nothing parses, so that Spark explains why."""
    for position in range(first, len(sections)):
        section = sections[position]
        if any(token.text == "END" for token in section.last) and parses(sql[start : section.end]):
            return position
    return len(sections) - 1


def locate(sql: str, offset: int) -> tuple[int, int]:
    """Returns the 1-based line and position of a 0-based offset in a text. Offsets outside are moved to its ends."""
    offset = min(max(offset, 0), len(sql))
    before = sql[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def offset_of(text: str, line: int, column: int) -> int:
    """Returns the 0-based offset of a 1-based line and 0-based column in a text, as Spark's parser reports them."""
    start = 0
    for _ in range(line - 1):
        newline = text.find("\n", start)
        if newline < 0:
            break
        start = newline + 1
    return min(start + column, len(text))
