"""Runs the checks as the command does, without its process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from sparksql.lint.baseline import Baseline
from sparksql.lint.command import load, run
from sparksql.lint.findings import Finding, Rule

WRONG = Path(__file__).parent / "wrong"
HEAD = "apiVersion: sparksql.dev/v1alpha1\n"
STATEMENT = HEAD + "kind: SqlStatement\nmetadata: {name: daily}\nspec:\n"
SESSION = HEAD + "kind: SqlSession\nmetadata: {name: analytics}\nspec:\n"


def findings(
    *paths: Path | str, baseline: Baseline | None = None, external: Collection[tuple[str, str]] = ()
) -> Sequence[Finding]:
    return run(load([str(path) for path in paths]), baseline or Baseline(), external, with_sql=False).findings


def found(folder: Path, text: str, name: str = "manifest.yaml") -> list[tuple[int, int, Rule]]:
    """Places and rules of what is wrong with one text."""
    file = folder / name
    file.write_bytes(text.encode())
    return [(finding.line, finding.column, finding.rule) for finding in findings(file)]
