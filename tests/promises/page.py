"""The page that shows each promise with its tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tests.promises.data import LeftOut, Promise, Promises
from tests.promises.tree import Run, Test

_HEAD = """# What the tests show

Each promise of the product with the tests that show it, at the lowest level that can and on a cluster where there is one. The first tables
have its features, the others what pages of these docs say. Daily is `make test`; `make test-thorough` has the rest as well:
further draws of what a daily test shows in one, and combinations. "A part" stands at a test some of whose parameters are daily. Levels are those of
[CONTRIBUTING.md](../CONTRIBUTING.md#tests): `e2e`, `faults`, `outages` and `conformance` run on a cluster.

This page is made of the files in [tests/promises](../tests/promises) by `python -m tests.promises`; never edit it by hand. A test that is renamed, a new heading
of a page, and a test that is marked thorough without a reason fail `python -m tests.promises --check`.
"""
_ONLY_THOROUGH = """## What the daily run leaves out

Each of these tests, why `make test` can do without it, and the daily tests that show the same in one draw, at a lower level or part by part.
"""
_NOT_YET = "not yet"
_NOTHING = "–"


def rendered(features: Promises, pages: Promises, left_out: Mapping[str, LeftOut], tests: Mapping[str, Test]) -> str:
    """Returns the text of the page."""
    parts = [_HEAD, "## Features\n"]
    for group, by_name in features.items():
        parts += [f"### {group}\n", _table("feature", by_name, tests)]
    parts.append("## Pages\n")
    for page, by_heading in pages.items():
        parts += [f"### [{page.capitalize()}]({page}.md)\n", _table("heading", by_heading, tests)]
    parts += [_ONLY_THOROUGH, _reasons((features, pages), left_out, tests)]
    return "\n".join(parts)


def _table(head: str, promises: Mapping[str, Iterable[Promise]], tests: Mapping[str, Test]) -> str:
    lines = [f"| {head} | promise | daily | only thorough |", "|---|---|---|---|"]
    for name, each in promises.items():
        for number, promise in enumerate(each):
            cells = (name if number == 0 else "", promise.promise, *_shown(promise, tests))
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join([*lines, ""])


def _shown(promise: Promise, tests: Mapping[str, Test]) -> tuple[str, str]:
    """Cells of the daily and of the thorough tests."""
    if promise.not_yet:
        return _NOT_YET, ""
    if promise.untested:
        return f"none: {_begun_small(promise.untested)}", ""
    named = [tests[each] for each in promise.tests]
    daily = [each for each in named if each.run is not Run.THOROUGH]
    thorough = [each for each in named if each.run is not Run.DAILY]
    return _links(daily, "a part") or _NOTHING, _links(thorough, "the rest")


def _links(tests: Iterable[Test], of_some: str) -> str:
    return "<br>".join(_link(test) + (f" ({of_some})" if test.run is Run.PARTLY else "") for test in tests)


def _link(test: Test) -> str:
    return f"[{test.level}](../tests/{test.file}) {test.words}"


def _reasons(promises: Iterable[Promises], left_out: Mapping[str, LeftOut], tests: Mapping[str, Test]) -> str:
    lines = ["| promise that no daily test shows | why |", "|---|---|"]
    lines += [f"| {each.promise} | {each.only_thorough} |" for each in _all(promises) if each.only_thorough]
    lines += ["", "| test | why | shown daily by |", "|---|---|---|"]
    for name, reason in left_out.items():
        daily = _links((tests[each] for each in reason.daily), "a part")
        lines.append(f"| {_link(tests[name])} | {reason.why} | {daily or _NOTHING} |")
    return "\n".join([*lines, ""])


def _all(promises: Iterable[Promises]) -> Iterator[Promise]:
    """Each promise once, in their order."""
    found = [each for groups in promises for names in groups.values() for some in names.values() for each in some]
    yield from dict.fromkeys(found)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _begun_small(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
