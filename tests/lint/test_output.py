"""The report as text, JSON, JUnit XML and SARIF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from sparksql.lint.command import Format, rendered
from sparksql.lint.findings import Finding, Rule
from sparksql.lint.output.model import Report
from sparksql.lint.output.sarif import sarif

FINDINGS = (
    Finding(
        "sales/a b.yaml", 3, 9, Rule.VALUE, "spec.mode: execute: did you mean Execute?", "SqlStatement//a:spec.mode"
    ),
    Finding(
        "sales/a b.yaml", 8, 9, Rule.VALUE, "spec.mode: preview: did you mean Preview?", "SqlStatement//a:spec.mode"
    ),
    Finding("sales/c.yaml", 1, 1, Rule.NAME, "metadata.name: \x1b[31m\x00: é <&>", "SqlSession//:metadata.name"),
)
REPORT = Report(FINDINGS, ["sales/a b.yaml", "sales/c.yaml", "sales/right.yaml"], ["SQL was not checked"])


def results(report: Report, root: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(sarif(report, "1", root))["runs"][0]["results"]
    return found


def test_a_line_begins_with_the_place_and_has_no_control_characters() -> None:
    lines = rendered(REPORT, Format.TEXT).splitlines()
    assert lines[0] == "sales/a b.yaml:3:9: value: spec.mode: execute: did you mean Execute?"
    assert lines[2] == "sales/c.yaml:1:1: name: metadata.name: \\x1b[31m\\x00: é <&>"
    assert len(lines) == 3


def test_json_has_the_parts_of_each_finding() -> None:
    content = json.loads(rendered(REPORT, Format.JSON))
    first = {"file": "sales/a b.yaml", "line": 3, "column": 9, "rule": "value", "message": FINDINGS[0].message}
    assert content["findings"][0] == first
    assert (len(content["findings"]), content["files"], content["notes"]) == (3, 3, ["SQL was not checked"])


def test_junit_has_a_case_for_each_file_and_a_failure_for_each_wrong_file() -> None:
    root = ElementTree.fromstring(rendered(REPORT, Format.JUNIT))
    suite = root.find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.findtext("system-out")) == (
        "3",
        "2",
        "SQL was not checked",
    )
    failures = {case.get("name"): case.find("failure") for case in suite.findall("testcase")}
    wrong = failures["sales/a b.yaml"]
    assert failures["sales/right.yaml"] is None
    assert wrong is not None
    assert (wrong.text or "").splitlines() == [str(each) for each in FINDINGS[:2]]


def test_sarif_has_rules_and_relative_places() -> None:
    log = json.loads(rendered(REPORT, Format.SARIF))
    run = log["runs"][0]
    assert (log["version"], run["columnKind"]) == ("2.1.0", "unicodeCodePoints")
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == list(Rule)
    assert [rules[each["ruleIndex"]] for each in run["results"]] == [each["ruleId"] for each in run["results"]]
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == "SQL was not checked"
    place = results(REPORT, str(Path.cwd()))[0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "sales/a%20b.yaml"
    assert place["region"] == {"startLine": 3, "startColumn": 9}


def test_a_uri_is_relative_to_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "deploy").mkdir()
    monkeypatch.chdir(tmp_path / "deploy")
    log = json.loads(rendered(REPORT, Format.SARIF))
    uris = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in log["runs"][0]["results"]]
    assert uris[2] == "deploy/sales/c.yaml"


def test_a_fingerprint_stays_when_lines_move_and_is_unique() -> None:
    def fingerprints(report: Report) -> list[str]:
        return [each["partialFingerprints"]["primaryLocationLineHash"] for each in results(report, "/")]

    moved = Report(
        [Finding(f.path, f.line + 7, f.column, f.rule, f.message, f.subject) for f in FINDINGS], REPORT.files
    )
    assert fingerprints(moved) == fingerprints(REPORT)
    assert len(set(fingerprints(REPORT))) == 3
