"""What gives no finding: right manifests, what is not ours, and what is only a part of a resource."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparksql.lint.findings import Rule
from tests.chart.helmchart import ROOT
from tests.lint.running import HEAD, SESSION, STATEMENT, findings, found

BLOCK = re.compile(r"^```ya?ml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = sorted(page for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if BLOCK.search(page.read_text()))
MANY = 2000


def blocks(page: Path) -> Iterator[str]:
    yield from BLOCK.findall(page.read_text())


@pytest.mark.parametrize("folder", ["examples", "docs", "charts/spark-sql-operator", "crds", ".github"])
def test_a_folder_of_the_repository_is_clean(folder: str) -> None:
    assert list(findings(ROOT / folder)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_manifests_of_a_page_are_clean(tmp_path: Path, page: Path) -> None:
    for index, block in enumerate(blocks(page)):
        (tmp_path / f"{index:02}.yaml").write_text(block)
    # A page names resources that its reader has, or that stand on another page, and shows several states of one.
    elsewhere = (Rule.UNRESOLVED_REFERENCE, Rule.DUPLICATE_OBJECT)
    assert [str(each) for each in findings(tmp_path) if each.rule not in elsewhere] == []


def test_manifests_of_pages_are_found() -> None:
    assert sum("kind: Sql" in block for page in PAGES for block in blocks(page)) > 20


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "a: 1\na: 2\n",
        "[1, 2]\n",
        "text\n",
        "apiVersion: sparksql.dev/v1alpha1\nspec: {clasName: a}\n",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: A}\nspec: {a: 1, a: 2}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}\ndata: {a: 1, a: 2}\n",
        "apiVersion: flink.apache.org/v1\nkind: SqlStatement\nmetadata: {name: A}\n",
        "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret, data: {a: b}}]\n",
        "kind: {a: 1}\n",
        HEAD + "kind: SqlSession\nmetadata: {name: a}\n$patch: delete\n",
    ],
    ids=["empty", "comment", "no kind", "list", "text", "no kind of ours", "deployment", "config map", "another group", "list of others",
         "kind that is no text", "patch"],
)  # fmt: skip
def test_foreign_documents_give_no_finding(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text) == []


@pytest.mark.parametrize(
    "entry",
    ["patches: [{path: patches/size.yaml}]", "patchesStrategicMerge: [patches/size.yaml]",
     "patchesJson6902: [{path: patches/size.yaml, target: {kind: SqlSession, name: a}}]"],
)  # fmt: skip
def test_a_patch_of_a_kustomization_gives_no_finding(tmp_path: Path, entry: str) -> None:
    (tmp_path / "patches").mkdir()
    (tmp_path / "patches/size.yaml").write_text(HEAD + "kind: SqlStatement\nmetadata: {name: a}\nspec: {priority: 1}\n")
    assert list(findings(tmp_path)) != []
    other = tmp_path / "kustomized"
    other.mkdir()
    (tmp_path / "patches").rename(other / "patches")
    (other / "kustomization.yaml").write_text(f"resources: []\n{entry}\n")
    assert list(findings(tmp_path)) == []
    assert list(findings(other / "patches/size.yaml")) == []


def test_templates_of_a_chart_are_no_manifests(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/a.yaml").write_text("apiVersion: sparksql.dev/v1alpha1\nname: {{ .Values.a }}\n{{- if }}\n")
    assert len(findings(tmp_path)) == 1
    (tmp_path / "Chart.yaml").write_text("name: a\n")
    assert list(findings(tmp_path)) == []


def test_a_broken_file_without_api_version_is_a_finding_only_by_name(tmp_path: Path) -> None:
    (tmp_path / "tsconfig.json").write_text('{"a": [1, // comment\n}')
    assert list(findings(tmp_path)) == []
    assert [each.rule for each in findings(tmp_path / "tsconfig.json")] == [Rule.YAML_SYNTAX]


def test_a_reference_is_resolved_by_an_open_namespace(tmp_path: Path) -> None:
    statement = STATEMENT + "  sessionRef: {name: analytics}\n  sql: SELECT 1\n"
    placed = statement.replace("name: daily}", "name: daily, namespace: sales}")
    (tmp_path / "session.yaml").write_text(SESSION + "  className: standard\n")
    (tmp_path / "a.yaml").write_text(placed)
    assert list(findings(tmp_path)) == []


def test_a_reference_to_an_external_resource_gives_no_finding(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(STATEMENT + "  sessionRef: {name: analytics}\n  sql: SELECT 1\n")
    assert [each.rule for each in findings(file)] == [Rule.UNRESOLVED_REFERENCE]
    assert list(findings(file, external=[("SqlSession", "analytics")])) == []
    assert len(findings(file, external=[("SqlStatement", "analytics")])) == 1


def test_resources_of_two_folders_without_namespace_may_have_equal_names(tmp_path: Path) -> None:
    for folder in ("development", "production"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "session.yaml").write_text(SESSION + "  className: standard\n")
    assert list(findings(tmp_path)) == []


@pytest.mark.parametrize(("length", "rules"), [(262_144, []), (262_145, [Rule.LIMIT])])
def test_sql_may_have_as_many_characters_as_the_field_takes(tmp_path: Path, length: int, rules: list[Rule]) -> None:
    text = "'" + "é" * (length - 9) + "'"
    assert [rule for _, _, rule in found(tmp_path, STATEMENT + f"  session: {{}}\n  sql: SELECT {text}\n")] == rules


def test_many_right_files_are_clean(tmp_path: Path) -> None:
    for index in range(MANY // 2):
        folder = tmp_path / f"team-{index // 50}"
        folder.mkdir(exist_ok=True)
        space = f"namespace: team-{index // 50}"
        (folder / f"session-{index}.yaml").write_text(
            SESSION.replace("name: analytics", f"name: s{index}, {space}") + "  className: a\n"
        )
        before = f"  dependsOn: [{{name: d{index - 1}}}]\n" if index % 50 else ""
        (folder / f"statement-{index}.yaml").write_text(
            STATEMENT.replace("name: daily", f"name: d{index}, {space}")
            + f"  sessionRef: {{name: s{index}}}\n  sql: |\n    INSERT INTO t{index} SELECT a, sum(b) FROM u GROUP BY a\n{before}"
        )
    assert list(findings(tmp_path)) == []
