"""The order of files for several processes."""

from __future__ import annotations

from pathlib import Path

from tests.runner.events import Cost
from tests.runner.order import position, read, write


def test_files_that_took_longest_come_first_and_unknown_ones_before_them() -> None:
    seconds = {"a.py": 1.0, "b.py": 20.0}
    assert sorted(["a.py", "b.py", "c.py"], key=lambda name: position(name, seconds)) == ["c.py", "b.py", "a.py"]


def test_times_of_files_that_did_not_run_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "files.json"
    assert read(file) == {}
    write(file, [Cost("file", "a.py", 1.04, 0.5), Cost("fixture", "gateway (all)", 9, 9)])
    write(file, [Cost("file", "b.py", 2, 0.5)])
    assert read(file) == {"a.py": 1.0, "b.py": 2}
