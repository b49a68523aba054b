"""The tests of clients' suites that fail through a session, each with its reason, and how many there are by area. Pure.

In `differences.yaml` each suite has its areas, each of these the number of its tests, how many of them the suite skips, and those that
fail by their reasons:

    dbt-spark:
      empty:
        tests: 6
        skipped: 1
        differences:
          empty.test_empty.TestSparkEmptySeedFlag::test_build_empty_with_seed: dbt-core
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import yaml


@dataclass(frozen=True)
class Area:
    """The number of its tests, of those among them that the suite skips, and the reasons of those that fail, by the tests' names."""

    tests: int
    skipped: int = 0
    differences: Mapping[str, str] = field(default_factory=dict)


Areas = dict[str, Area]


def parse(text: str) -> dict[str, Areas]:
    """Returns the areas of each suite that a text holds."""
    read = yaml.safe_load(text) or {}
    return {suite: {name: Area(**each) for name, each in areas.items()} for suite, areas in read.items()}


def written(listing: Mapping[str, Areas]) -> str:
    """Returns the text of a list."""
    suites = {
        suite: {name: _area(area) for name, area in sorted(areas.items())} for suite, areas in sorted(listing.items())
    }
    return yaml.safe_dump(suites, sort_keys=False, width=160)


def _area(area: Area) -> Mapping[str, object]:
    counts = {"tests": area.tests} | ({"skipped": area.skipped} if area.skipped else {})
    return counts | ({"differences": dict(sorted(area.differences.items()))} if area.differences else {})


def listed(tests: Mapping[str, bool], failed: Mapping[str, str], area_of: Callable[[str], str]) -> Areas:
    """Returns the list of a run: all tests with whether each was skipped, and the reasons of those that failed."""
    areas: dict[str, list[str]] = {}
    for test in tests:
        areas.setdefault(area_of(test), []).append(test)
    return {
        name: Area(
            len(found), sum(tests[test] for test in found), {test: failed[test] for test in found if test in failed}
        )
        for name, found in areas.items()
    }


def failing(areas: Areas) -> dict[str, str]:
    """Returns the reasons of all tests that fail."""
    return {test: reason for area in areas.values() for test, reason in area.differences.items()}
