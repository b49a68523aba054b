"""Finds sentences and lines of Markdown that are too long."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_SENTENCE_WORDS = 30
MAX_LINE_CHARACTERS = 130

_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`]*`")
_END = re.compile(r"(?<=[.!?:;])[)\"*_]*\s+")
_ITEM = re.compile(r"\s*([-*+]|\d+\.)\s+")


def long_sentences(markdown: str) -> Iterator[int]:
    """Yield the line of each paragraph, item or table cell with a sentence of more than 30 words, once a sentence."""
    for line, block in _blocks(markdown):
        plain = _CODE.sub("code", _LINK.sub(r"\1", block))
        for sentence in _END.split(plain):
            if len(sentence.split()) > MAX_SENTENCE_WORDS:
                yield line


def long_lines(markdown: str) -> Iterator[int]:
    """Yield each line of more than 130 characters outside tables and code blocks, which cannot be wrapped."""
    for number, line in _outside_code(markdown):
        if len(line) > MAX_LINE_CHARACTERS and not line.lstrip().startswith("|"):
            yield number


def _outside_code(markdown: str) -> Iterator[tuple[int, str]]:
    in_code = False
    for number, line in enumerate(markdown.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
            yield number, ""
        elif not in_code:
            yield number, line


def _blocks(markdown: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, items of lists and cells of tables, each with its first line."""
    first, lines = 0, list[str]()
    for number, line in (*_outside_code(markdown), (0, "")):
        is_apart = not line.strip() or line.lstrip().startswith(("|", "#"))
        if (is_apart or _ITEM.match(line)) and lines:
            yield first, " ".join(lines)
            lines = []
        if line.lstrip().startswith("|"):
            yield from ((number, cell) for cell in line.strip().strip("|").split("|"))
        elif not is_apart:
            first = first if lines else number
            lines.append(line.strip())
