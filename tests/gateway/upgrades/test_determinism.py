"""What is read of one text is the same, byte by byte, in any process: it is compared at each start, also with the same text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.maven import REPOSITORY

_SECONDS = 400


@pytest.mark.thorough
def test_a_text_is_told_in_the_same_bytes_by_another_process(tmp_path: Path) -> None:
    """Each is a Spark and a Python of its own: with other hashes, other addresses, and other numbers, as the order is another."""
    told: list[dict[str, str]] = []
    for seed, order in (("1", "forwards"), ("2", "backwards")):
        file = tmp_path / order
        command = [sys.executable, "-m", "tests.gateway.upgrades.repertoire", str(tmp_path / "spark"), str(file), order]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        told.append(json.loads(file.read_text()))
    first, second = told
    assert len(first) > 50 and first.keys() == second.keys()
    assert [text for text in first if first[text] != second[text]] == []
