"""Immutable fields are compared with a git revision or with live objects, and names that are there may be referenced."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sparksql.lint.baseline import of_cluster
from sparksql.lint.findings import Finding, Rule
from sparksql.lint.revision import UnknownRevisionError, baseline
from tests.lint.running import HEAD, SESSION, STATEMENT, findings

BASE = STATEMENT + "  session: {}\n  sql: SELECT 1\n"
STREAM = STATEMENT + "  session: {}\n  sql: INSERT INTO t SELECT * FROM STREAM s\n  streaming: {}\n"
SAVEPOINT = HEAD + "kind: SqlSavepoint\nmetadata: {name: before}\nspec:\n  statementRef: {name: daily}\n"
PARAMETER = "  parameters: [{{name: day, value: '{}'}}]\n"


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet")

    def git(self, *arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(self.folder), *identity, *arguments], check=True, capture_output=True)

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=state")

    def against(self, *paths: Path, revision: str = "HEAD") -> Sequence[Finding]:
        return findings(*paths, baseline=baseline(revision, [str(path) for path in paths]))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        (BASE, BASE.replace("SELECT 1", "SELECT 2"), [(6, 3)]),
        (BASE, BASE + "  priority: 5\n", []),
        (BASE, BASE + "  mode: Preview\n", [(7, 3)]),
        (BASE, BASE + "  mode: Execute\n", []),
        (BASE, BASE + "  streaming: {}\n", [(7, 3)]),
        (STREAM, STREAM.replace("SELECT *", "SELECT a"), []),
        (STREAM, STREAM.replace("  streaming: {}\n", ""), [(4, 1)]),
        (BASE, BASE.replace("session: {}", "sessionRef: {name: analytics}"), [(5, 3), (4, 1)]),
        (BASE, BASE + "  dependsOn: [{name: daily2}]\n", [(7, 3)]),
        (BASE + PARAMETER.format(1), BASE + PARAMETER.format(2), [(7, 28)]),
        (BASE + PARAMETER.format(1), BASE + PARAMETER.format(1).replace("day", "other"), [(7, 3)]),
        (STREAM + "---\n" + SAVEPOINT, STREAM + "---\n" + SAVEPOINT.replace("daily", "daily2"), [(13, 3)]),
    ],
    ids=["sql", "priority", "mode", "default written out", "streaming added", "sql of a stream", "streaming removed", "session", "dependencies",
         "value of a parameter", "parameter", "statement of a savepoint"],
)  # fmt: skip
def test_a_change_of_an_immutable_field_is_a_finding_at_the_field(
    repository: Repository, before: str, after: str, places: list[tuple[int, int]]
) -> None:
    file = repository.write("a.yaml", before)
    repository.commit()
    file.write_text(after)
    immutable = [each for each in repository.against(file) if each.rule is Rule.IMMUTABLE]
    assert sorted((each.line, each.column) for each in immutable) == sorted(places)
    assert all("immutable" in each.message for each in immutable)
    assert not [each for each in findings(file) if each.rule is Rule.IMMUTABLE]


def test_a_resource_in_another_file_is_compared_as_well(repository: Repository) -> None:
    file = repository.write("sales/a.yaml", BASE)
    repository.commit()
    file.unlink()
    repository.write("sales/b.yaml", BASE.replace("SELECT 1", "SELECT 2"))
    assert [each.rule for each in repository.against(repository.folder / "sales")] == [Rule.IMMUTABLE]


def test_a_resource_is_compared_with_the_resource_of_the_same_file(repository: Repository) -> None:
    repository.write("one/a.yaml", BASE)
    repository.write("two/a.yaml", BASE.replace("SELECT 1", "SELECT 2"))
    repository.commit()
    assert list(repository.against(repository.folder)) == []


def test_a_name_of_the_revision_may_be_referenced(repository: Repository) -> None:
    repository.write("session.yaml", SESSION + "  className: standard\n")
    repository.commit()
    (repository.folder / "session.yaml").unlink()
    repository.write("a.yaml", BASE.replace("session: {}", "sessionRef: {name: analytics}"))
    assert [each.rule for each in findings(repository.folder)] == [Rule.UNRESOLVED_REFERENCE]
    assert list(repository.against(repository.folder)) == []


@pytest.mark.parametrize("revision", ["nothing", "--all", "HEAD~5"])
def test_an_unknown_revision_is_refused(repository: Repository, revision: str) -> None:
    file = repository.write("a.yaml", BASE)
    repository.commit()
    with pytest.raises(UnknownRevisionError, match="--against"):
        repository.against(file, revision=revision)


def test_a_folder_outside_of_a_repository_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "a.yaml").write_text(BASE)
    with pytest.raises(UnknownRevisionError, match="not a git repository"):
        baseline("HEAD", [str(tmp_path)])


def live(namespace: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "daily", "namespace": namespace, "uid": "1"}
    return {"apiVersion": "sparksql.dev/v1alpha1", "kind": "SqlStatement", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(("namespace", "rules"), [(None, [Rule.IMMUTABLE]), ("sales", [])])
def test_a_live_object_of_the_namespace_is_compared(tmp_path: Path, namespace: str | None, rules: list[Rule]) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(BASE)
    former = of_cluster([(namespace, live("sales", session={}, sql="SELECT 2", mode="Execute"))])
    assert [each.rule for each in findings(file, baseline=former)] == rules
    file.write_text(BASE.replace("name: daily}", "name: daily, namespace: sales}"))
    assert [each.rule for each in findings(file, baseline=former)] == [Rule.IMMUTABLE]


def test_an_object_older_than_a_rule_may_break_the_rule(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(STREAM.replace("streaming: {}", "streaming: {restoreNonce: '1'}"))
    assert [each.rule for each in findings(file)] == [Rule.CROSS_FIELD]
    spec = {"session": {}, "sql": "INSERT INTO t SELECT * FROM STREAM s", "streaming": {"restoreNonce": "1"}}
    assert list(findings(file, baseline=of_cluster([(None, live("sales", **spec))]))) == []
