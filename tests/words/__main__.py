"""Checks that listed words do not become more frequent.

Usage: python -m tests.words --check | --write | --list [WORD] [--since REVISION]

`--check` fails when a count grew, and when one fell that `--write` has not stored. `--write` stores counts that fell, and those of
words new in words.yaml; it refuses counts that grew. `--list` prints where words are, and what to write instead.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.words import counting, places, storage
from tests.words.counting import Occurrence

_COMMAND = "python -m tests.words"
_SHOWN_OCCURRENCES = 40


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog=_COMMAND)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="fail when a count differs from the stored one")
    action.add_argument("--write", action="store_true", help="store counts that fell")
    action.add_argument("--list", nargs="?", const="", metavar="WORD", help="print the places of one word, or of all")
    parser.add_argument("--since", metavar="REVISION", help="with --list: only lines that changed since a revision")
    chosen = parser.parse_args(arguments)
    words = storage.word_list()
    found = _occurrences(words)
    if chosen.list is not None:
        return _list(words, found, chosen.list, chosen.since)
    stored, now = storage.stored_counts(), counting.counted(words, found)
    listed_before = {word for word, _ in stored}
    grown = {key: counts for key, counts in counting.grown(stored, now).items() if key[0] in listed_before}
    if grown:
        return _report_growth(words, found, grown)
    if stored == now:
        return 0
    if chosen.check:
        sys.stderr.write(
            f"tests/words/counts.csv: counts fell, or words are new; store them with `{_COMMAND} --write`\n"
        )
        return 1
    storage.store_counts(now)
    return 0


def _occurrences(words: counting.WordList) -> list[Occurrence]:
    seen_names = set[tuple[str, str]]()
    found = [
        each
        for file in places.files()
        for each in counting.occurrences(words, file, (places.ROOT / file).read_text(), seen_names)
    ]
    return [*found, *counting.in_commits(words, places.commit_subjects())]


def _list(words: counting.WordList, found: list[Occurrence], word: str, since: str | None) -> int:
    instead = {entry.word: entry.instead for entry in words.entries}
    if word and word not in instead and word not in (counting.LONG_SENTENCE, counting.LONG_LINE):
        sys.stderr.write(f"--list {word}: not in tests/words/words.yaml; use one of: {', '.join(instead)}\n")
        return 2
    chosen = [each for each in found if not word or each.word == word]
    for each in _changed(chosen, since) if since else chosen:
        sys.stdout.write(_rendered(each, instead))
    return 0


def _report_growth(
    words: counting.WordList, found: list[Occurrence], grown: dict[tuple[str, str], tuple[int, int]]
) -> int:
    instead = {entry.word: entry.instead for entry in words.entries}
    for (word, place), (before, now) in sorted(grown.items()):
        sys.stderr.write(f"tests/words: {word!r} in {place}: {before} -> {now}. {_advice(instead, word)}\n")
    revision = places.last_revision_of(storage.COUNTS) or "HEAD"
    new = [each for each in found if (each.word, each.place) in grown]
    for each in _changed(new, revision)[:_SHOWN_OCCURRENCES]:
        sys.stderr.write(f"  {_rendered(each, instead)}")
    sys.stderr.write(f"All places: `{_COMMAND} --list WORD`. Counts may only fall.\n")
    return 1


def _changed(found: list[Occurrence], revision: str) -> list[Occurrence]:
    """Occurrences at lines that changed since a revision, in files that are new to Git, and in commits."""
    lines, new_files = places.added_lines(revision), places.untracked()
    return [
        each
        for each in found
        if each.place == "commits" or each.file in new_files or each.line in lines.get(each.file, ())
    ]


def _rendered(each: Occurrence, instead: dict[str, str]) -> str:
    return f"{each.file}:{each.line}: [{each.word}, {each.place}] {each.excerpt} -- {_advice(instead, each.word)}\n"


def _advice(instead: dict[str, str], word: str) -> str:
    return f"Write: {instead[word]}" if word in instead else "Split it"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
