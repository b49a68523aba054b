"""Measures which lines and branches of the product the tests run, in pytest's processes and in those that tests start here.

Processes in pods are not measured, and neither is one that a test kills.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

FILE_ENV = "COVERAGE_FILE"
SETTINGS_ENV = "COVERAGE_RCFILE"
SETTINGS = Path(__file__).resolve().parents[2] / "pyproject.toml"


def environment(folder: Path) -> Mapping[str, str]:
    """Returns the variables for processes that are measured. Their figures go into the folder, which is emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return {FILE_ENV: str(folder / ".coverage"), SETTINGS_ENV: str(SETTINGS)}


def summary(variables: Mapping[str, str]) -> str:
    """Returns a line with the shares of lines and branches that ran; a report by file is written beside the figures."""
    file = Path(variables[FILE_ENV]).with_name("coverage.json")
    for words in (("combine", "-q"), ("json", "-q", "-o", str(file))):
        subprocess.run([sys.executable, "-m", "coverage", *words], env={**variables}, check=True, cwd=SETTINGS.parent)
    totals = json.loads(file.read_text())["totals"]
    lines, branches = (
        (totals["covered_lines"], totals["num_statements"]),
        (
            totals["covered_branches"],
            totals["num_branches"],
        ),
    )
    return f"coverage: {share(*lines)} lines, {share(*branches)} branches; by file: {file}"


def share(covered: int, count: int) -> str:
    """Returns counts and percentage."""
    return f"{covered} of {count} ({100 * covered / max(count, 1):.2f} %)"
