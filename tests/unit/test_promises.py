"""Each promise of the product has tests that exist, or a reason; each heading of the pages has a promise; the page shows all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.promises import __main__ as program
from tests.promises import data, problems, tree
from tests.promises.data import LeftOut, Promise
from tests.promises.tree import Run, Test

DAILY, PARTLY, THOROUGH = (Test(f"e2e/test_a.py::test_{run}", run, "e2e") for run in Run)
KNOWN = {each.id: each for each in (DAILY, PARTLY, THOROUGH)}


@pytest.fixture(scope="module")
def tests() -> dict[str, Test]:
    return tree.found()


def test_promises_name_tests_that_exist_or_a_reason(tests: dict[str, Test]) -> None:
    assert [*problems.of_promises(data.features(), tests), *problems.of_promises(data.pages(), tests)] == []


def test_every_heading_of_the_pages_has_a_promise() -> None:
    assert [*problems.of_pages(data.pages())] == []


def test_every_thorough_test_has_a_reason(tests: dict[str, Test]) -> None:
    assert [*problems.of_thorough(data.left_out(), tests)] == []


def test_the_page_of_promises_is_up_to_date() -> None:
    assert program.main(["--check"]) == 0


PROMISES: dict[str, tuple[dict[str, Any], str]] = {
    "daily": ({"tests": [THOROUGH.id, DAILY.id]}, ""),
    "partly": ({"tests": [PARTLY.id]}, ""),
    "thorough with a reason": ({"tests": [THOROUGH.id], "only_thorough": "It is long."}, ""),
    "reason": ({"untested": "It is a figure."}, ""),
    "later": ({"not_yet": True}, ""),
    "no test": ({}, "has one of tests, untested and not_yet"),
    "test and reason": ({"tests": [DAILY.id], "untested": "It is a figure."}, "has one of tests, untested and not_yet"),
    "unknown test": ({"tests": ["e2e/test_a.py::test_gone"]}, "there is no test e2e/test_a.py::test_gone"),
    "thorough": ({"tests": [THOROUGH.id]}, "all its tests are thorough"),
    "needless reason": ({"tests": [DAILY.id], "only_thorough": "It is long."}, "only_thorough is for promises"),
}


@pytest.mark.parametrize("case", PROMISES)
def test_promise_without_a_test_or_a_reason_is_told(case: str) -> None:
    fields, told = PROMISES[case]
    promise = Promise(promise="It works.", **fields)
    found = [*problems.of_promises({"Sessions": {"S1": (promise,)}}, KNOWN)]
    assert [told in each and each.startswith("Sessions, S1: 'It works.'") for each in found] == [True] * bool(told)


def test_headings_that_differ_from_the_promises_are_told(tmp_path: Path) -> None:
    for page in data.PAGES:
        (tmp_path / f"{page}.md").write_text("# Title\n```\n# no heading\n```\n## Two\n")
    found = [*problems.of_pages({page: {"Title": (), "Three": ()} for page in data.PAGES}, tmp_path)]
    assert len(found) == 2 * len(data.PAGES)
    assert "heading 'Two' has no promise" in found[0] and "has no heading 'Three'" in found[1]


@pytest.mark.parametrize(
    ("left_out", "told"),
    [
        ({THOROUGH.id: LeftOut(why="It is long.", daily=(DAILY.id, PARTLY.id))}, ""),
        ({}, "is marked thorough: say why"),
        ({THOROUGH.id: LeftOut(why="It is long."), "x": LeftOut(why="It is long.")}, "there is no test x"),
        ({THOROUGH.id: LeftOut(why="It is long."), PARTLY.id: LeftOut(why="It is long.")}, "is not marked thorough"),
        ({THOROUGH.id: LeftOut(why="It is long.", daily=("x",))}, "there is no test x"),
        ({THOROUGH.id: LeftOut(why="It is long.", daily=(THOROUGH.id,))}, "is not a daily test"),
    ],
)
def test_thorough_test_without_a_reason_that_fits_is_told(left_out: dict[str, LeftOut], told: str) -> None:
    found = [*problems.of_thorough(left_out, KNOWN)]
    assert [told in each for each in found] == [True] * bool(told)


MARKED = {
    "def test_a(): ...": Run.DAILY,
    "async def test_a(): ...": Run.DAILY,
    "@pytest.mark.thorough\ndef test_a(): ...": Run.THOROUGH,
    "pytestmark = pytest.mark.thorough\ndef test_a(): ...": Run.THOROUGH,
    "pytestmark = [pytest.mark.alone, pytest.mark.thorough]\ndef test_a(): ...": Run.THOROUGH,
    "@pytest.mark.thorough\n@pytest.mark.parametrize('n', thorough_but([1], [1, 2]))\ndef test_a(n): ...": Run.THOROUGH,
    "@pytest.mark.parametrize('n', thorough_but([1], [1, 2]))\ndef test_a(n): ...": Run.PARTLY,
    "@pytest.mark.parametrize('n', [1, pytest.param(2, marks=pytest.mark.thorough)])\ndef test_a(n): ...": Run.PARTLY,
    "N = [pytest.param(2, marks=(pytest.mark.thorough,))]\n@pytest.mark.parametrize('n', N)\ndef test_a(n): ...": Run.PARTLY,
    "def n(): return m()\ndef m(): return thorough_but([1], [1, 2])\n@n()\ndef test_a(n): ...": Run.PARTLY,
    "def n(): return n()\n@n()\ndef test_a(n): ...": Run.DAILY,
}  # fmt: skip


@pytest.mark.parametrize("source", MARKED)
def test_run_of_a_test_is_read_from_its_marks(source: str) -> None:
    assert [(each.id, each.run) for each in tree.tests_of(source, "e2e/test_x.py")] == [
        ("e2e/test_x.py::test_a", MARKED[source])
    ]


def test_tests_of_classes_have_their_names_and_marks() -> None:
    source = "@pytest.mark.thorough\nclass TestB:\n    def test_a(self): ...\nclass Other:\n    def test_c(self): ..."
    [found] = tree.tests_of(source, "conformance/test_x.py")
    assert (found.id, found.run, found.words) == ("conformance/test_x.py::TestB::test_a", Run.THOROUGH, "B: a")


@pytest.mark.parametrize(
    ("file", "mark", "level"),
    [
        ("unit/domain/test_x.py", "", "unit"),
        ("chart/test_x.py", "", "unit"),
        ("gateway/test_x.py", "", "gateway"),
        ("gateway/windows/test_x.py", "", "gateway"),
        ("e2e/test_x.py", "", "e2e"),
        ("e2e/test_x.py", "@pytest.mark.operator_lost\n", "faults"),
        ("e2e/test_x.py", "@pytest.mark.alone\n", "outages"),
    ],
)
def test_level_of_a_test_is_that_which_runs_its_file(file: str, mark: str, level: str) -> None:
    [found] = tree.tests_of(f"{mark}def test_a(): ...", file)
    assert found.level == level
