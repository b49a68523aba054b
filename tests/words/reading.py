"""Splits a file into its words: identifiers, comments with docstrings, string literals; or plain prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# The order of the alternatives is the order of precedence. A string literal that begins its line with three quotes is a docstring.
_PYTHON = re.compile(
    r'(?P<docstring>(?<=\n)[ ]*"""(?:[^\\]|\\.)*?"""|\A"""(?:[^\\]|\\.)*?""")'
    r"|(?P<comment>\#[^\n]*)"
    r'|(?P<string>"""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
    r"|(?P<name>[A-Za-z_]\w*)",
    re.DOTALL,
)
_JAVA = re.compile(
    r"(?P<comment>/\*.*?\*/|//[^\n]*)"
    r'|(?P<string>"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
    r"|(?P<name>[A-Za-z_]\w*)",
    re.DOTALL,
)


class Part(StrEnum):
    """Kind of a piece of a file."""

    CODE = "code"
    COMMENTS = "comments"
    MESSAGES = "messages"


@dataclass(frozen=True)
class Piece:
    """A piece of a file, with the offset where it begins."""

    part: Part
    text: str
    offset: int


def python_pieces(source: str) -> Iterator[Piece]:
    """Yield the identifiers, comments, docstrings and string literals of Python source."""
    return _pieces(_PYTHON, source)


def java_pieces(source: str) -> Iterator[Piece]:
    """Yield the identifiers, comments and string literals of Java source."""
    return _pieces(_JAVA, source)


def identifier_words(name: str) -> str:
    """Return the words of an identifier in lower case, with a space between them."""
    return _CAMEL.sub(" ", name).replace("_", " ").lower().strip()


def _pieces(lexer: re.Pattern[str], source: str) -> Iterator[Piece]:
    """The pieces in their order, each name once."""
    names = set[str]()
    for match in lexer.finditer(source):
        match match.lastgroup:
            case "name":
                if match.group() in names:
                    continue
                names.add(match.group())
                part = Part.CODE
            case "string":
                part = Part.MESSAGES
            case _:
                part = Part.COMMENTS
        yield Piece(part, match.group(), match.start())
