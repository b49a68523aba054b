"""The text of a file and its places: lines and columns from 1, in characters. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class Source:
    """A file by the path that findings show, and its text without a byte order mark."""

    path: str
    text: str = field(repr=False)

    def place(self, index: int) -> tuple[int, int]:
        """Returns line and column of a position of the text. Positions outside are moved to its ends."""
        index = min(max(index, 0), len(self.text))
        line = bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in _LINE_END.finditer(self.text))]
