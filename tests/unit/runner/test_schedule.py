"""Which levels run beside each other, and how long they take by the last run's times."""

from __future__ import annotations

import pytest

from tests.runner.levels import GROUPS, LEVELS, STAGES, level_of
from tests.runner.schedule import Duration, Progress, level_left, plan, run_left

TWO_LANES = ((("unit",), ("images", "e2e")), (("gateway",),))


def test_stages_hold_every_level_once() -> None:
    staged = [level for stage in STAGES for lane in stage for level in lane]
    assert sorted(staged) == sorted(LEVELS)
    assert sorted(level for group in GROUPS.values() for level in group) == sorted(LEVELS)


def test_levels_of_local_tests_share_no_stage_with_levels_of_the_cluster() -> None:
    for stage in STAGES:
        levels = {level for lane in stage for level in lane}
        assert levels <= {*GROUPS["local"]} or levels <= {*GROUPS["cluster"]}, stage


def test_plan_without_some_levels_leaves_out_empty_lanes_and_stages() -> None:
    assert plan(["e2e"], TWO_LANES) == [(("e2e",),)]
    assert plan(["gateway", "unit"], TWO_LANES) == [(("unit",),), (("gateway",),)]
    assert plan([], TWO_LANES) == []


@pytest.mark.parametrize(
    ("path", "level"),
    [
        ("tests/unit/domain", "unit"),
        ("tests/chart/test_docs.py", "unit"),
        ("./tests/gateway/test_modes.py", "gateway"),
        ("tests/gateway/", "gateway"),
        ("tests/gateway/windows/test_windows.py::test_a_b_c[x/y]", "gateway"),
        ("tests/e2e/test_front.py", "e2e"),
    ],
)
def test_level_of_a_path_is_that_of_its_folder(path: str, level: str) -> None:
    assert level_of(path).name == level


@pytest.mark.parametrize("path", ["tests/nothing.py", "tests/gatewayed/test_x.py", "operator", ""])
def test_level_of_a_path_outside_all_levels_is_refused_with_the_folders(path: str) -> None:
    with pytest.raises(ValueError, match="tests/e2e, tests/gateway"):
        level_of(path)


LAST = Duration(seconds=100, tests=50)


@pytest.mark.parametrize(
    ("progress", "last", "left"),
    [
        (None, None, None),
        (None, LAST, 100),
        (Progress(0, 0, 0, 5), None, None),
        (Progress(0, 0, 0, 5), LAST, 95),
        (Progress(25, 50, 0, 40), LAST, 60),
        (Progress(25, 50, 0, 140), LAST, 25),  # slower than the last time: by what is left to run
        (Progress(50, 50, 0, 140), LAST, 0),
        (Progress(25, 50, 0, 40), None, 40),
    ],
)
def test_time_left_of_a_level_follows_the_last_run(
    progress: Progress | None, last: Duration | None, left: float | None
) -> None:
    assert level_left(progress, last) == left


def test_time_left_of_a_run_is_the_longest_lane_of_each_stage() -> None:
    last = dict.fromkeys(("unit", "images", "e2e", "gateway"), LAST)
    assert run_left(TWO_LANES, [], {}, last) == 300
    assert run_left(TWO_LANES, ["images"], {"e2e": Progress(0, 0, 0, 10)}, last) == 200
    assert run_left(TWO_LANES, ["images", "e2e"], {"unit": Progress(25, 50, 0, 40)}, last) == 160


def test_time_left_of_a_run_with_a_level_that_never_ran_is_unknown() -> None:
    assert run_left(TWO_LANES, [], {}, {"unit": LAST}) is None
