"""The page on upgrades has the cases that are tried, and none that is not."""

from __future__ import annotations

import pytest

from .cases import CASES
from .page import PAGE, page, rows
from .texts import Parked, Rewritten


def test_the_tables_of_the_upgrades_page_match_the_tested_cases() -> None:
    text = PAGE.read_text()
    assert page(text) == text


def test_upgrade_cases_have_unique_names_and_the_page_lists_each_refusal() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    words = {case.outcome.words for case in CASES if isinstance(case.outcome, Parked | Rewritten)}
    assert words == {row.told for row in rows() if row.told}


@pytest.mark.parametrize(
    "text", ["<!-- cases: wording -->\n<!-- end -->", PAGE.read_text() + "<!-- cases: more -->\n<!-- end -->"]
)
def test_a_subject_without_a_place_and_a_place_without_cases_are_told(text: str) -> None:
    with pytest.raises(ValueError, match="the page has places for"):
        page(text)
