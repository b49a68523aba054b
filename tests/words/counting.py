"""Counts listed words by place, and compares counts with the stored ones."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tests.words import prose
from tests.words.places import Reading, readings
from tests.words.reading import Part, identifier_words

LONG_SENTENCE = "sentence over 30 words"
LONG_LINE = "line over 130 characters"
# What belongs to a word: `driver's` and `driver s` are read the same way.
_APOSTROPHE = re.compile(r"['’](?=s\b)")

Counts = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Entry:
    """A listed word: its pattern, what to write instead, and the places where it counts (all if there are none)."""

    word: str
    pattern: str
    instead: str
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class Occurrence:
    """A listed word at a line of a file."""

    word: str
    place: str
    file: str
    line: int
    excerpt: str


@dataclass(frozen=True)
class WordList:
    """The listed words, searched for together: one pass over a text finds all."""

    entries: tuple[Entry, ...]

    def in_prose(self, place: str, text: str) -> Iterator[tuple[str, int]]:
        """Yield each listed word of a text with its offset."""
        words = _APOSTROPHE.sub(" ", text).lower()
        for match in self._pattern(place).finditer(words):
            yield self._word(match), match.start()

    def in_identifier(self, place: str, name: str) -> set[str]:
        """Return the listed words of an identifier."""
        return {self._word(match) for match in self._pattern(place).finditer(identifier_words(name))}

    def _word(self, match: re.Match[str]) -> str:
        assert match.lastgroup
        return self.entries[int(match.lastgroup.removeprefix("entry"))].word

    @cached_property
    def _patterns(self) -> dict[str, re.Pattern[str]]:
        return {}

    def _pattern(self, place: str) -> re.Pattern[str]:
        """All words of a place in one pattern, tried at the beginnings of words only: three times as fast as one by one."""
        if place not in self._patterns:
            alternatives = "|".join(
                f"(?P<entry{index}>{entry.pattern})".replace(" ", r"\s+")
                for index, entry in enumerate(self.entries)
                if not entry.places or place in entry.places
            )
            self._patterns[place] = re.compile(rf"(?<!\w)(?=[a-z])(?:{alternatives})(?!\w)")
        return self._patterns[place]


def occurrences(words: WordList, file: str, content: str, seen_names: set[tuple[str, str]]) -> Iterator[Occurrence]:
    """Yield the listed words of a file. A name counts once in the repository, however often it is used.

    `seen_names` are the names of other files, and gets those of this one.
    """
    texts = dict[str, list[Reading]]()
    for reading in readings(file, content):
        if reading.piece.part is not Part.CODE:
            texts.setdefault(reading.place, []).append(reading)
            continue
        name = (reading.place, reading.piece.text)
        if name not in seen_names:
            seen_names.add(name)
            for word in words.in_identifier(reading.place, reading.piece.text):
                yield Occurrence(word, reading.place, file, _line(content, reading.piece.offset), reading.piece.text)
    for place, pieces in texts.items():
        yield from _in_texts(words, place, pieces, content)
    if file.endswith(".md"):
        for line in prose.long_sentences(content):
            yield Occurrence(LONG_SENTENCE, "docs", file, line, "")
        for line in prose.long_lines(content):
            yield Occurrence(LONG_LINE, "docs", file, line, "")


def in_commits(words: WordList, subjects: Iterable[str]) -> Iterator[Occurrence]:
    """Yield the listed words of commit subjects."""
    for subject in subjects:
        for word, _ in words.in_prose("commits", subject):
            yield Occurrence(word, "commits", "git log", 0, subject)


def counted(words: WordList, found: Iterable[Occurrence]) -> Counts:
    """Return how often each word occurs in each place, with a zero for a word that occurs in none."""
    counts = Counter((each.word, each.place) for each in found)
    occurring = {word for word, _ in counts}
    names = (*(entry.word for entry in words.entries), LONG_SENTENCE, LONG_LINE)
    return {**{(word, "docs"): 0 for word in names if word not in occurring}, **counts}


def grown(stored: Counts, now: Counts) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the counts that are larger than the stored ones: stored and present."""
    return {key: (stored.get(key, 0), count) for key, count in now.items() if count > stored.get(key, 0)}


def fallen(stored: Counts, now: Counts) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the counts that are smaller than the stored ones: stored and present."""
    return {key: (count, now.get(key, 0)) for key, count in stored.items() if now.get(key, 0) < count}


def _in_texts(words: WordList, place: str, pieces: list[Reading], content: str) -> Iterator[Occurrence]:
    """One search over the pieces of a place, joined: thousands of short searches would take longer."""
    joined = "\n.\n".join(reading.piece.text for reading in pieces)
    starts = list[int]()
    position = 0
    for reading in pieces:
        starts.append(position)
        position += len(reading.piece.text) + 3
    for word, offset in words.in_prose(place, joined):
        index = bisect_right(starts, offset) - 1
        reading = pieces[index]
        at = reading.piece.offset + offset - starts[index]
        line = _line(content, at)
        yield Occurrence(word, place, reading.file, line, content.splitlines()[line - 1].strip()[:120])


def _line(content: str, offset: int) -> int:
    return content.count("\n", 0, offset) + 1
