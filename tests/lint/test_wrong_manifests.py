"""Each wrong manifest has the findings that the file beside it holds: file, line, column, rule and message."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparksql.lint.findings import Rule
from tests.lint.running import WRONG, findings

MANIFESTS = sorted(path for path in WRONG.iterdir() if path.suffix in (".yaml", ".json"))
OF_SQL = f": {Rule.SQL}: "  # found by Spark's parser: tests/gateway/test_lint.py


def expected(manifest: Path) -> list[str]:
    return manifest.with_suffix(".expected").read_text().splitlines()


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_a_wrong_manifest_has_the_expected_findings(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(WRONG)
    lines = [str(finding) for finding in findings(manifest.name)]
    assert lines == [line for line in expected(manifest) if OF_SQL not in line]


def test_there_are_forty_wrong_manifests_and_each_has_a_finding() -> None:
    assert len(MANIFESTS) >= 40
    assert all(expected(manifest) for manifest in MANIFESTS)


def test_a_folder_has_the_findings_of_all_files_in_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(WRONG)
    lines = {str(finding) for finding in findings(".")}
    alone = {line for manifest in MANIFESTS for line in expected(manifest) if OF_SQL not in line}
    # Further files have further resources: names resolve that do not in the file alone, and are defined more than once.
    of_names = (Rule.UNRESOLVED_REFERENCE, Rule.DUPLICATE_OBJECT, Rule.MISSING_KEY, Rule.DEPENDENCY_CYCLE)
    assert {line for line in alone if not any(f": {rule}: " in line for rule in of_names)} <= lines


def test_every_rule_of_a_file_alone_has_a_wrong_manifest() -> None:
    rules = {line.split(": ")[1] for manifest in MANIFESTS for line in expected(manifest)}
    assert rules | {Rule.IMMUTABLE, Rule.SQL} == set(Rule)  # of two states: test_against.py
