"""The table of mistakes that users make, and the proof of a row: an answer with its place and its remedy."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Row:
    """A mistake, with fragments of the answer: `place` is the field or value, or line and position as `2:15`.

    `file` and `case` are the test that makes the mistake; an empty `remedy` has its reason in `unremedied`.
    """

    mistake: str
    given: str
    place: str
    remedy: str
    level: str
    file: str
    case: str
    unremedied: str

    @property
    def position(self) -> tuple[int, int] | None:
        """Line and position of a place in a text, None for a field or value."""
        line, colon, position = self.place.partition(":")
        return (int(line), int(position)) if colon and line.isdigit() and position.isdigit() else None


@cache
def rows() -> tuple[Row, ...]:
    """All rows of the table."""
    with (TESTS / "mistakes.csv").open(newline="") as file:
        return tuple(Row(**row) for row in csv.DictReader(file))


def rows_of(file: str, *, but: frozenset[str] = frozenset()) -> dict[str, Row]:
    """The rows that a file proves, by their case there."""
    return {row.case: row for row in rows() if row.file == file and row.case not in but}


def assert_answered(mistake: str, *answers: str) -> None:
    """Asserts that the answers to a mistake have the place and the remedy of its row."""
    (row,) = (row for row in rows() if row.mistake == mistake)
    text = "\n".join(answers)
    if row.position is None:
        assert row.place in text, (row.place, text)
    assert row.remedy in text, (row.remedy, text)
