"""The clients' own test suites through a session: all tests pass, but for those that are listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.suites import page
from tests.conformance.suites.listing import failing, parse
from tests.conformance.suites.reasons import REASONS
from tests.conformance.suites.running import run
from tests.conformance.suites.suites import SUITES
from tests.conformance.target import Target
from tests.support.thorough import thorough_but

LISTING = parse(page.LIST.read_text())
SAMPLES = {
    "dbt-spark": (
        "test_basic.TestSimpleMaterializationsSpark::test_base",
        "test_basic.TestIncrementalSpark::test_incremental",
    ),
    "impyla": ("test_hive::test_hive_queries",),
}
DAILY = [*SAMPLES.items()]
EVERY = [(name, ()) for name in SUITES]


@pytest.mark.parametrize(("name", "tests"), thorough_but(DAILY, [*DAILY, *EVERY]))
def test_a_test_of_a_client_fails_only_where_it_is_listed(
    name: str, tests: tuple[str, ...], target: Target, tmp_path: Path
) -> None:
    outcomes = run(SUITES[name], tmp_path, target, tests)
    listed = {test: reason for test, reason in failing(LISTING[name]).items() if test in outcomes}
    failed = {test: outcome.message for test, outcome in outcomes.items() if not outcome.passed}
    unlisted = failed.keys() - listed.keys()
    assert not unlisted, "\n\n".join(failed[test] for test in unlisted)
    assert listed.keys() <= failed.keys(), f"listed, but they pass: python -m tests.conformance.suites.generate {name}"
    assert len(outcomes) == (len(tests) or sum(area.tests for area in LISTING[name].values()))


def test_every_failure_has_a_reason_and_the_page_shows_it() -> None:
    reasons = {reason for areas in LISTING.values() for reason in failing(areas).values()}
    assert reasons - REASONS.keys() == set()
    assert page.rendered(page.PAGE.read_text(), LISTING) == page.PAGE.read_text()
