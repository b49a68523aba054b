"""Runs of pytest over small tests: what is counted, shown and reported."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.runner import run as runs
from tests.runner.__main__ import main
from tests.runner.events import Cost, Ended
from tests.runner.levels import LEVELS, Level
from tests.runner.report import closing_line, costs_table, report
from tests.runner.run import LevelRun, Run, Selection, command
from tests.runner.screen import Screen

MIXED = """
import pytest

@pytest.fixture(scope="session")
def shared():
    return 1

def test_one_passes_well(shared): pass
def test_one_fails_well(shared): assert shared == 2
@pytest.mark.skip
def test_one_skips_well(): pass
@pytest.mark.thorough
def test_one_thorough_case(): pass
"""


@pytest.fixture
def levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A level `small` whose tests the folder holds."""
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "conftest.py").write_text(
        "def pytest_configure(config): config.addinivalue_line('markers', 'thorough: x')\n"
    )
    monkeypatch.setitem(LEVELS, "small", Level("small", (str(folder),)))
    return folder


def ran(folder: Path, selection: Selection = Selection()) -> tuple[LevelRun, str, list[str]]:  # noqa: B008
    """Returns the run of level `small`, what was printed, and the failed tests as they were shown."""
    out, failures = io.StringIO(), []
    screen = Screen([(("small",),)], {}, out)

    def failed(run: LevelRun, event: Ended) -> None:
        failures.append(event.test)
        screen.failure(run, event)

    made = Run(selection, folder.parent, folder.parent / "files.json", failed, screen.end)
    asyncio.run(made.stages([(("small",),)]))
    return made.levels["small"], out.getvalue(), failures


@pytest.mark.parametrize("processes", [1, 2])
def test_run_of_a_level_counts_each_test_once(levels: Path, monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    (levels / "test_mixed.py").write_text(MIXED)
    monkeypatch.setitem(LEVELS, "small", Level("small", (str(levels),), processes=processes))
    made, printed, failures = ran(levels)
    assert (made.passed, len(made.failed), made.skipped, made.total) == (1, 1, 1, 3), made.log.read_text()
    assert made.exit_code == 1 and not made.is_good
    assert len(failures) == 1 and failures[0].endswith("test_mixed.py::test_one_fails_well")
    assert "assert 1 == 2" in printed and f"make test TESTS='{failures[0]}'" in printed
    assert closing_line([made]) == "1 passed, 1 failed, 1 skipped"
    assert any(cost.kind == "file" and cost.name.endswith("test_mixed.py") for cost in made.costs), made.costs
    assert any(cost.kind == "fixture" and cost.name.startswith("shared (") for cost in made.costs), made.costs


def test_run_with_thorough_tests_runs_them_too(levels: Path) -> None:
    (levels / "test_mixed.py").write_text(MIXED)
    made, _, _ = ran(levels, Selection(thorough=True))
    assert (made.passed, made.total) == (2, 4)


def test_run_of_a_named_test_runs_it_whatever_its_mark(levels: Path) -> None:
    (levels / "test_mixed.py").write_text(MIXED)
    path = f"{levels}/test_mixed.py::test_one_thorough_case"
    made, _, _ = ran(levels, Selection(paths={"small": (path,)}))
    assert (made.passed, made.total) == (1, 1)


def test_run_of_a_level_without_tests_is_not_good_and_shows_why(levels: Path) -> None:
    made, printed, _ = ran(levels)
    assert not made.is_good
    assert "FAILED" in printed and "no tests ran" in printed


def test_failure_of_a_shared_fixture_is_shown_once(levels: Path) -> None:
    (levels / "test_shared.py").write_text(
        "import pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def broken():\n    raise OSError('no such server')\n"
        "def test_one_needs_it(broken): pass\n"
        "def test_two_needs_it(broken): pass\n"
    )
    made, printed, failures = ran(levels)
    assert len(made.failed) == 2
    assert printed.count("E       OSError: no such server") == 1
    assert f"for the same cause as {failures[0]}" in printed


def test_run_of_a_file_that_does_not_import_names_the_file(levels: Path) -> None:
    (levels / "test_broken.py").write_text("import nothing_of_that_name\n")
    made, printed, failures = ran(levels)
    assert not made.is_good
    assert [name.rpartition("/")[2] for name in failures] == ["test_broken.py"]
    assert "nothing_of_that_name" in printed


def test_interrupted_run_cleans_up_and_ends(levels: Path) -> None:
    begun, cleaned = levels / "begun", levels / "cleaned"
    (levels / "test_long.py").write_text(
        "import pathlib, pytest, time\n"
        "@pytest.fixture\n"
        f"def held():\n    yield\n    pathlib.Path({str(cleaned)!r}).touch()\n"
        f"def test_one_lasts_long(held):\n    pathlib.Path({str(begun)!r}).touch()\n    time.sleep(600)\n"
    )

    async def interrupted() -> Run:
        made = Run(Selection(), levels.parent, levels.parent / "files.json", lambda *_: None, lambda _: None)
        task = asyncio.create_task(made.stages([(("small",),)]))
        async with asyncio.timeout(60):
            while not begun.exists():
                await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return made

    made = asyncio.run(interrupted())
    assert cleaned.exists()
    assert made.levels["small"].exit_code is None


@pytest.mark.parametrize(
    ("level", "selection", "present", "absent"),
    [
        ("gateway", Selection(), ["-n", "tests/gateway", "not thorough"], ["coverage"]),
        ("gateway", Selection(thorough=True), ["-n"], ["-m not thorough"]),
        ("e2e", Selection(), ["not operator_lost and not alone and not thorough"], []),
        ("faults", Selection(thorough=True), ["operator_lost", "-n"], []),
        ("outages", Selection(thorough=True), ["alone"], ["-n"]),
        ("unit", Selection(variables={"COVERAGE_FILE": "x"}), ["coverage"], []),
        ("unit", Selection(paths={"unit": ("tests/unit/test_logs.py",)}), ["not thorough"], ["-n", "tests/chart"]),
        ("unit", Selection(paths={"unit": ("tests/unit/api",)}), ["-n"], ["tests/chart"]),
        (
            "e2e",
            Selection(paths={"e2e": ("tests/e2e/test_front.py",)}),
            ["not thorough"],
            ["not operator_lost and not alone and not thorough"],
        ),
    ],
)
def test_command_of_a_level_selects_its_tests(
    level: str, selection: Selection, present: Sequence[str], absent: Sequence[str]
) -> None:
    words = command(LEVELS[level], selection)
    assert all(word in words for word in present), words
    assert not any(word in words for word in absent), words


def test_costs_of_a_fixture_of_several_processes_are_one_row() -> None:
    costs = [
        Cost("fixture", "gateway (all)", 10, 5),
        Cost("fixture", "gateway (all)", 20, 7),
        Cost("file", "a.py", 1, 40),
    ]
    rows = [line.split() for line in costs_table(costs).splitlines()[1:]]
    assert rows == [["1.0", "40.0", "1", "a.py"], ["30.0", "12.0", "2", "gateway", "(all)"]]


def test_report_of_a_failed_level_names_the_command_of_each_failed_test() -> None:
    made = LevelRun(LEVELS["unit"], Path("log"), 0.0, passed=1, failed=["a.py::test_x"], exit_code=1)
    assert "  make test TESTS='a.py::test_x'" in report([made]).splitlines()


def test_command_line_with_a_path_of_no_level_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["unit", "--tests", "operator/sparksql"]) == 2
    assert "operator/sparksql: no level has tests there" in capsys.readouterr().err
    assert runs.ROOT.name
