"""The table of mistakes: each is answered somewhere, most with a place and a remedy, and a test of the named file has the case."""

from __future__ import annotations

import csv
from pathlib import Path

TESTS = Path(__file__).parents[1]
MISTAKES = 69
LEAST_PLACES, LEAST_REMEDIES = 69, 67


def table() -> list[dict[str, str]]:
    with (TESTS / "mistakes.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_table_of_mistakes_has_each_mistake_once() -> None:
    names = [row["mistake"] for row in table()]
    assert len(names) == len(set(names)) == MISTAKES


def test_case_of_each_mistake_is_in_the_file_that_tests_it() -> None:
    lacking = [row for row in table() if row["file"] and row["case"] not in (TESTS / row["file"]).read_text()]
    assert lacking == []


def test_mistakes_with_a_place_and_with_a_remedy_do_not_become_fewer() -> None:
    tested = [row for row in table() if row["file"]]
    assert sum(bool(row["place"]) for row in tested) >= LEAST_PLACES
    assert sum(bool(row["remedy"]) for row in tested) >= LEAST_REMEDIES
