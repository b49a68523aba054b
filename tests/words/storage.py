"""Reads the word list, and reads and writes the stored counts."""

from __future__ import annotations

import csv
from pathlib import Path

import yaml

from tests.words.counting import Counts, Entry, WordList

FOLDER = Path(__file__).resolve().parent
COUNTS = FOLDER / "counts.csv"


def word_list(file: Path = FOLDER / "words.yaml") -> WordList:
    """Return the words of words.yaml."""
    entries = yaml.safe_load(file.read_text())
    return WordList(tuple(Entry(**{**each, "places": tuple(each.get("places", ()))}) for each in entries))


def stored_counts(file: Path = COUNTS) -> Counts:
    """Return the stored counts; none if the file does not exist."""
    if not file.exists():
        return {}
    with file.open() as lines:
        return {(row["word"], row["place"]): int(row["count"]) for row in csv.DictReader(lines)}


def store_counts(counts: Counts, file: Path = COUNTS) -> None:
    """Write the counts, one a line, in an order that merges well."""
    with file.open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(("word", "place", "count"))
        writer.writerows((word, place, count) for (word, place), count in sorted(counts.items()))
