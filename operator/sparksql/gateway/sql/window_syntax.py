"""Flink's way to write window table functions, made one that Spark's parser takes: the same text with a few characters more.

Spark 4.1 parses `TUMBLE(TABLE(t), DESCRIPTOR(ts), INTERVAL '1' MINUTE)`. It takes neither TABLE around the function, nor a
table without parentheses, nor STREAM right behind TABLE, nor columns of PARTITION BY without parentheses (measured).

Pure: the tokens are given. Invariant: each position of the text that Spark reads has one in the text of the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

FUNCTIONS = frozenset({"TUMBLE", "HOP", "CUMULATE", "SESSION"})
WINDOW_COLUMNS = ("window_start", "window_end", "window_time")
_CALLS = re.compile(rf"\b(?:{'|'.join(sorted(FUNCTIONS))})\b", re.IGNORECASE)


@dataclass(frozen=True)
class Word:
    """A token that is no comment and no blank: its half-open range of code points, and its text in upper case."""

    start: int
    end: int
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        """Returns the text without backquotes."""
        return self.text.strip("`")


@dataclass(frozen=True)
class Edit:
    """Replaces the range from `start` to `end` of a text."""

    start: int
    end: int
    text: str = field(repr=False)


@dataclass(frozen=True)
class Edited:
    """Holds a text as Spark reads it, and what was edited, in order."""

    text: str = field(repr=False)
    edits: tuple[Edit, ...] = ()

    def original(self, position: int) -> int:
        """Returns where a position of the edited text is in the text of the user."""
        shift = 0
        for edit in self.edits:
            begin = edit.start + shift
            if position < begin:
                break
            if position < begin + len(edit.text):
                return min(edit.start + position - begin, edit.end)
            shift += len(edit.text) - (edit.end - edit.start)
        return position - shift


def may_call(text: str) -> bool:
    """Returns whether a text has the name of a window table function anywhere."""
    return _CALLS.search(text) is not None


def edited(text: str, words: Sequence[Word]) -> Edited:
    """Returns a text with its calls of window table functions as Spark parses them. `words` are all its tokens."""
    return with_edits(text, window_edits(words))


def with_edits(text: str, edits: Iterable[Edit]) -> Edited:
    """Returns a text with edits, of which none touches what another one replaces."""
    edits = sorted(edits, key=lambda edit: (edit.start, edit.end))
    parts: list[str] = []
    at = 0
    for edit in edits:
        parts += (text[at : edit.start], edit.text)
        at = edit.end
    return Edited("".join([*parts, text[at:]]), tuple(edits))


def window_edits(words: Sequence[Word]) -> list[Edit]:
    """Returns what makes calls of window table functions ones that Spark parses.

    A call has one TABLE and one PARTITION BY: what follows them is looked at once, however often they are repeated.
    """
    found: list[Edit] = []
    expected: list[set[str]] = []  # of each open parenthesis: what is to come of a window table function's arguments
    for index, word in enumerate(words):
        match word.text:
            case "(":
                expected.append({"TABLE", "PARTITION"} if _is_call(words, index - 1) else set())
            case ")" if expected:
                expected.pop()
            case "TABLE" if expected and "TABLE" in expected[-1]:
                expected[-1].remove("TABLE")
                found += _of_table(words, index)
            case "TABLE" if _text(words, index + 1) == "(" and _is_call(words, index + 2):
                found.append(Edit(word.start, word.end, " " * len(word.text)))
            case "PARTITION" if expected and "PARTITION" in expected[-1] and _text(words, index + 1) == "BY":
                expected[-1].remove("PARTITION")
                found += _of_partition(words, index + 2)
    return found


def _is_call(words: Sequence[Word], index: int) -> bool:
    """Whether the word at `index` is the name of a function of ours that is called."""
    return (
        0 <= index < len(words)
        and words[index].name in FUNCTIONS
        and _text(words, index + 1) == "("
        and _text(words, index - 1) != "."
    )


def _of_table(words: Sequence[Word], index: int) -> list[Edit]:
    """TABLE as the first word of an argument."""
    following = index + 1
    if _text(words, following) == "(":
        if _is_call(words, following + 1) or _is_stream(words, following + 1):
            return [_inserted(words[following + 1].start, "FROM ")]
        return []
    if not _text(words, following):
        return []
    before = words[following].start
    if _is_stream(words, following):
        end = _end_of_argument(words, following)
        return [_inserted(before, "(FROM "), _inserted(words[end - 1].end, ")")]
    last = following
    if _text(words, following) == "IDENTIFIER" and _text(words, following + 1) == "(":
        last = min(_closing(words, following + 1), len(words) - 1)
    while _text(words, last + 1) == "." and last + 2 < len(words):
        last += 2
    return [_inserted(before, "("), _inserted(words[last].end, ")")]


def _of_partition(words: Sequence[Word], first: int) -> list[Edit]:
    """The columns behind PARTITION BY, in parentheses if they are not."""
    end = _end_of_argument(words, first, several=True)
    if end <= first or (_text(words, first) == "(" and _closing(words, first) == end - 1):
        return []
    return [_inserted(words[first].start, "("), _inserted(words[end - 1].end, ")")]


def _is_stream(words: Sequence[Word], index: int) -> bool:
    """Whether the word is STREAM before a name, and no table of that name."""
    return _text(words, index) == "STREAM" and _text(words, index + 1) not in (",", ")", ".", "", "PARTITION")


def _end_of_argument(words: Sequence[Word], first: int, *, several: bool = False) -> int:
    """The index behind an argument's last word; with `several`, behind all columns before the next argument."""
    depth = 0
    for index in range(first, len(words)):
        match words[index].text:
            case "(":
                depth += 1
            case ")":
                depth -= 1
                if depth < 0:
                    return index
            case "," if depth == 0 and (not several or _begins_argument(words, index + 1)):
                return index
            case "PARTITION" if depth == 0 and not several:
                return index
    return len(words)


def _begins_argument(words: Sequence[Word], index: int) -> bool:
    return _text(words, index) in ("DESCRIPTOR", "INTERVAL") or _text(words, index + 1) == "=>"


def _closing(words: Sequence[Word], opening: int) -> int:
    depth = 0
    for index in range(opening, len(words)):
        depth += {"(": 1, ")": -1}.get(words[index].text, 0)
        if depth == 0:
            return index
    return len(words)


def _inserted(at: int, text: str) -> Edit:
    return Edit(at, at, text)


def _text(words: Sequence[Word], index: int) -> str:
    """The text of a word, empty beyond the ends."""
    return words[index].text if 0 <= index < len(words) else ""
