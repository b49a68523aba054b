"""SQL of manifests is read by Spark's parser, in one JVM, and its mistakes have their places in the files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from sparksql.lint.check import kept
from sparksql.lint.command import load
from sparksql.lint.references import Context, Index
from sparksql.lint.sql.sources import sql_of
from sparksql.lint.sql.spark import Reader, reader, started
from tests.chart.helmchart import ROOT
from tests.lint.running import STATEMENT, WRONG
from tests.lint.test_clean import PAGES, blocks
from tests.lint.test_wrong_manifests import MANIFESTS, OF_SQL, expected

MANY = 300


@pytest.fixture(scope="module")
def spark() -> Iterator[Reader]:
    with started() as jvm, reader(jvm) as parser:
        yield parser
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is not None:
        gateway.shutdown()


def lines(spark: Reader, *paths: Path | str) -> list[str]:
    resources = load([str(path) for path in paths]).manifests.resources
    sources = sql_of(resources, Index(resources, Context()))
    findings = {each for text in sources for each in kept(spark.findings(text), text.user, text.holder)}
    return [str(finding) for finding in sorted(findings)]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_wrong_sql_has_the_expected_findings(spark: Reader, manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(WRONG)
    assert lines(spark, manifest.name) == [line for line in expected(manifest) if OF_SQL in line]


def test_sql_of_the_examples_is_clean(spark: Reader) -> None:
    assert lines(spark, ROOT / "examples") == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sql_of_a_page_is_clean(spark: Reader, tmp_path: Path, page: Path) -> None:
    for index, block in enumerate(blocks(page)):
        (tmp_path / f"{index:02}.yaml").write_text(block)
    assert lines(spark, tmp_path) == []


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t WRITE ORDERED BY a",
        "ALTER TABLE t ADD PARTITION FIELD bucket(16, a)",
        "BEGIN DECLARE x INT DEFAULT 1; SELECT x; END",
        "SELECT * FROM IDENTIFIER(:t)",
        "SELECT ';' -- ;",
        "ADD JAR 's3a://jars/a.jar'",
        "SET spark.executor.memoryOverhead=1g",
        "CREATE VIEW v AS SELECT * FROM STREAM s",
    ],
)
def test_sql_of_classes_and_extensions_is_clean(spark: Reader, tmp_path: Path, sql: str) -> None:
    (tmp_path / "a.yaml").write_text(STATEMENT + f"  session: {{}}\n  sql: |\n    {sql}\n")
    assert lines(spark, tmp_path) == []


@pytest.mark.parametrize(("conf", "count"), [("{}", 1), ('{spark.sql.ansi.doubleQuotedIdentifiers: "true"}', 0)])
def test_sql_is_read_with_the_settings_of_the_session(spark: Reader, tmp_path: Path, conf: str, count: int) -> None:
    (tmp_path / "a.yaml").write_text(STATEMENT + f'  session: {{conf: {conf}}}\n  sql: SELECT a FROM "t"\n')
    assert len(lines(spark, tmp_path)) == count


def test_many_right_statements_are_clean(spark: Reader, tmp_path: Path) -> None:
    for index in range(MANY):
        text = (
            STATEMENT.replace("daily", f"d{index}")
            + f"  session: {{}}\n  sql: SELECT a, sum(b) FROM t{index} GROUP BY a\n"
        )
        (tmp_path / f"{index}.yaml").write_text(text)
    assert lines(spark, tmp_path) == []


def test_the_command_prints_findings_of_sql_alone(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(STATEMENT + "  session: {}\n  sql: SELECT a FORM t b\n")
    (tmp_path / "b.yaml").write_text(STATEMENT.replace("daily", "b") + "  session: {}\n  sql: SET é = 1\n")
    command = [sys.executable, "-m", "sparksql.cli.main", "lint", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=dict(os.environ), timeout=300)
    assert [line.split(": ")[:2] for line in done.stdout.splitlines()] == [
        ["a.yaml:6:22", "sql"],
        ["b.yaml:6:8", "sql"],
    ]
    assert (done.returncode, done.stderr) == (1, "")
