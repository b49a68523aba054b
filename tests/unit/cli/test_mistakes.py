"""What the plugin says of manifests that the API server has refused."""

from __future__ import annotations

import pytest

from sparksql.cli.mistakes import explained

HEAD = "apiVersion: sparksql.dev/v1alpha1\nkind: SqlStatement\nmetadata: {name: a}\nspec:\n  sql: SELECT 1\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            HEAD + "  sessionref: {name: x}\n",
            ["line 6: spec.sessionref: there is no such field: did you mean sessionRef?"],
        ),
        (
            HEAD + "  result:\n    maxrows: 3\n",
            ["line 7: spec.result.maxrows: there is no such field: did you mean maxRows?"],
        ),
        (HEAD + "  mode: execute\n", ["line 6: spec.mode: execute: did you mean Execute?"]),
        (HEAD + "  priority: high\n", ["line 6: spec.priority: high: it must be a whole number"]),
        (
            HEAD + "  timeouts: {executionSeconds: 5m}\n",
            ["line 6: spec.timeouts.executionSeconds: 5m: it must be a whole number"],
        ),
        (
            HEAD + "  conf: {spark.sql.shuffle.partitions: 8}\n",
            ['line 6: spec.conf.spark.sql.shuffle.partitions: it must be a string: write "8", with the quotes'],
        ),
        (
            HEAD + "  parameters:\n  - {name: a, valeu: b}\n",
            ["line 7: spec.parameters[0].valeu: there is no such field: did you mean value?"],
        ),
        (HEAD.replace("SqlStatement", "SqlStatment"), ["line 2: kind: SqlStatment: did you mean SqlStatement?"]),
        (
            HEAD.replace("v1alpha1", "v1"),
            ["line 1: apiVersion: sparksql.dev/v1: this plugin supports sparksql.dev/v1alpha1"],
        ),
        (HEAD + "---\n" + HEAD + "  modus: x\n", ["line 12: spec.modus: there is no such field: did you mean mode?"]),
        (HEAD + "  conf: {a: b}\n  retry: {'on': [SessionLost]}\n  ttlSecondsAfterFinished: null\n", []),
        (HEAD.replace("{name: a}", "{name: a, labels: {b: c}}"), []),
        ("a: [", []),
        ("- a\n", []),
        ("", []),
    ],
)
def test_refused_manifest_is_explained_by_line_path_and_what_is_meant(text: str, lines: list[str]) -> None:
    assert explained(text) == lines


def test_field_that_resembles_none_is_explained_by_those_that_there_are() -> None:
    (line,) = explained(HEAD + "  retry: {zzzz: 1}\n")
    assert line == "line 6: spec.retry.zzzz: there is no such field: known are backoffSeconds, limit, on, true"
