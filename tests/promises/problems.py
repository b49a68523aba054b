"""What is wrong with the promises: tests, headings and reasons that do not fit what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.promises.data import LeftOut, Promise, Promises
from tests.promises.tree import TESTS, Run, Test

DOCS = TESTS.parent / "docs"
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def headings(page: Path) -> list[str]:
    """Returns the headings of a page of Markdown."""
    return [found.strip() for found in _HEADING.findall(_FENCED.sub("", page.read_text()))]


def of_promises(promises: Promises, tests: Mapping[str, Test]) -> Iterator[str]:
    """Yields what is wrong with promises and the tests that they name."""
    for group, by_name in promises.items():
        for name, each in by_name.items():
            if not each:
                yield f"{group}, {name}: it has no promise; say one, or why there is none to test"
            for promise in each:
                yield from (f"{group}, {name}: {problem}" for problem in _of_promise(promise, tests))


def of_pages(promises: Promises, docs: Path = DOCS) -> Iterator[str]:
    """Yields headings without a promise, and promises without a heading."""
    for page, by_heading in promises.items():
        there = headings(docs / f"{page}.md")
        for heading in there:
            if heading not in by_heading:
                yield f"docs/{page}.md: heading {heading!r} has no promise in tests/promises/pages/{page}.yaml"
        for heading in by_heading:
            if heading not in there:
                yield f"pages/{page}.yaml: docs/{page}.md has no heading {heading!r}"


def of_thorough(left_out: Mapping[str, LeftOut], tests: Mapping[str, Test]) -> Iterator[str]:
    """Yields thorough tests without a reason, and reasons for others."""
    for test in tests.values():
        if test.run is Run.THOROUGH and test.id not in left_out:
            yield f"{test.id} is marked thorough: say why in thorough.yaml, and which daily tests show the same"
    for name, reason in left_out.items():
        if name not in tests:
            yield f"thorough.yaml: there is no test {name}"
        elif tests[name].run is not Run.THOROUGH:
            yield f"thorough.yaml: {name} is not marked thorough as a whole"
        for daily in reason.daily:
            if daily not in tests:
                yield f"thorough.yaml, {name}: there is no test {daily}"
            elif tests[daily].run is Run.THOROUGH:
                yield f"thorough.yaml, {name}: {daily} is not a daily test"


def _of_promise(promise: Promise, tests: Mapping[str, Test]) -> Iterator[str]:
    said = f"{promise.promise!r}"
    if sum((bool(promise.tests), bool(promise.untested), promise.not_yet)) != 1:
        yield f"{said} has one of tests, untested and not_yet"
    missing = [each for each in promise.tests if each not in tests]
    yield from (f"{said}: there is no test {each}" for each in missing)
    is_daily = any(tests[each].run is not Run.THOROUGH for each in promise.tests if each in tests)
    if promise.tests and not missing and not is_daily and not promise.only_thorough:
        yield f"{said}: all its tests are thorough; name a daily one, or say in only_thorough why there is none"
    if promise.only_thorough and (is_daily or not promise.tests):
        yield f"{said}: only_thorough is for promises whose tests are all thorough"
