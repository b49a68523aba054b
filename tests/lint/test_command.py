"""`sparksql lint` as a command: its flags, its output and its exit codes."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest

from sparksql.cli.main import main
from tests.chart.helmchart import ROOT
from tests.lint.running import STATEMENT

WRONG = STATEMENT + "  sessionRef: {name: analytics}\n  sql: SELECT 1\n  mode: execute\n"
RIGHT = STATEMENT + "  sessionRef: {name: analytics}\n  sql: SELECT 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder. There is no Java on the path: tests/gateway/test_lint.py has Spark's parser."""
    programs = tmp_path.parent / f"{tmp_path.name}-programs"
    programs.mkdir()
    git = shutil.which("git")
    assert git is not None
    (programs / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def exit_code(*arguments: str) -> int:
    try:
        return main(["lint", *arguments])
    except SystemExit as ended:
        return int(ended.code or 0)


def test_findings_are_lines_of_standard_output_and_end_with_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.yaml").write_text(WRONG)
    assert exit_code("a.yaml", "--external", "sqlsession/analytics") == 1
    assert capsys.readouterr().out == "a.yaml:7:9: value: spec.mode: execute: did you mean Execute?\n"


@pytest.mark.parametrize("kind", ["SqlSession", "sqlsessions", "sqlsess", "session"])
def test_clean_files_end_with_0(folder: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    (folder / "a.yaml").write_text(RIGHT)
    assert exit_code(".", "--external", f"{kind}/analytics") == 0
    assert capsys.readouterr().out == ""


def test_a_note_without_java_reports_unchecked_sql_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.yaml").write_text(RIGHT)
    (folder / "b.yaml").write_text(RIGHT.replace("name: daily", "name: hourly"))
    assert exit_code(".", "--external", "session/analytics") == 0
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith("note: SQL was not checked: no java on the path and no JAVA_HOME; install Java 17")
    assert len(written.err.splitlines()) == 1
    assert exit_code(".", "--external", "session/analytics", "--format", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["notes"]) == 1


def test_an_empty_folder_is_clean(folder: Path) -> None:
    assert exit_code(str(folder)) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.yaml",), "missing.yaml: there is no such file or folder"),
        ((), "FILE|DIR"),
        (("a.yaml", "--format", "xml"), "invalid choice: 'xml'"),
        (("a.yaml", "--fromat", "json"), "did you mean --format?"),
        (("a.yaml", "--external", "analytics"), "write KIND/NAME"),
        (("a.yaml", "--external", "SqlSesion/analytics"), "did you mean SqlSession?"),
        (("a.yaml", "--against", "nothing"), "--against"),
    ],
    ids=["missing file", "no file", "format", "flag", "external", "kind", "revision"],
)
def test_wrong_usage_ends_with_2(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    (folder / "a.yaml").write_text(RIGHT)
    assert exit_code(*arguments) == 2
    written = capsys.readouterr()
    assert words in written.err
    assert written.out == ""


def test_live_objects_are_read_with_kubectl(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.yaml").write_text(RIGHT)
    metadata = {"namespace": "sales"}
    session = {"kind": "SqlSession", "metadata": {**metadata, "name": "analytics"}, "spec": {}}
    spec = {"sessionRef": {"name": "analytics"}, "sql": "SELECT 2", "mode": "Execute"}
    statement = {"kind": "SqlStatement", "metadata": {**metadata, "name": "daily"}, "spec": spec}
    (folder / "objects.out").write_text(json.dumps({"kind": "List", "items": [session, statement]}))
    program = folder / "bin/kubectl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >>{folder}/calls.txt\n/bin/cat {folder}/objects.out\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert exit_code("a.yaml", "--against", "cluster", "--namespace", "sales") == 1
    assert [line.partition(" spec")[0] for line in capsys.readouterr().out.splitlines()] == ["a.yaml:6:3: immutable:"]
    assert (
        (folder / "calls.txt").read_text().startswith("--namespace=sales get sqlsessions.sparksql.dev,sqlstatements.")
    )


def test_an_unreachable_cluster_ends_with_2(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.yaml").write_text(RIGHT)
    monkeypatch.setenv("PATH", str(folder))
    assert exit_code("a.yaml", "--against", "cluster") == 2


@pytest.mark.parametrize(("script", "shown"), [("sparksql", "sparksql"), ("kubectl-sparksql", "kubectl sparksql")])
def test_the_command_is_the_same_under_both_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], script: str, shown: str
) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts[script] == "sparksql.cli.main:main"
    monkeypatch.setattr("sys.argv", [f"/usr/bin/{script}"])
    assert exit_code("--help") == 0
    assert capsys.readouterr().out.startswith(f"usage: {shown} lint")
