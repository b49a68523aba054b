"""The page on upgrades has the cases that are tried, and none that is not."""

from __future__ import annotations

import pytest

from .upgrade_texts import Parked
from .upgrades import CASES
from .upgrades_page import PAGE, page, rows


def test_its_tables_are_those_of_the_cases() -> None:
    text = PAGE.read_text()
    assert page(text) == text


def test_each_case_has_a_line_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    words = {case.outcome.words for case in CASES if isinstance(case.outcome, Parked)}
    assert words == {row.told for row in rows() if row.told}


@pytest.mark.parametrize(
    "text", ["<!-- cases: wording -->\n<!-- end -->", PAGE.read_text() + "<!-- cases: more -->\n<!-- end -->"]
)
def test_a_subject_without_a_place_and_a_place_without_cases_are_told(text: str) -> None:
    with pytest.raises(ValueError, match="the page has places for"):
        page(text)
