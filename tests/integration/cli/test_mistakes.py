"""Mistakes that people make in manifests: a real API server's answer names the field or the value, and what the plugin adds the remedy.

`KUBECTL` is what `kubectl apply` prints, `PLUGIN` what `kubectl sparksql run -f` prints of the same text.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.cli.cli_cluster import DEADLINE_SECONDS, Cluster
from tests.support.mistakes import assert_answered, rows_of

MISSING_SESSION = "-s analitics: session analitics does not exist"


@dataclass(frozen=True)
class Mistake:
    """`text` is a manifest, or what differs from a good statement's spec; `field` and `remedy` are in kubectl's answer, `by_plugin` in the plugin's."""

    text: str
    field: str
    remedy: str = ""
    by_plugin: str = ""


HEAD = "apiVersion: sparksql.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n"


def statement(*lines: str, name: str = "a", text: str = "sql: SELECT 1", session: str = "sessionRef: {name: x}") -> str:
    spec = [line for line in (session, text, *lines) if line]
    return HEAD.format(kind="SqlStatement", name=name) + "".join(f"  {line}\n" for line in spec)


def session(*lines: str) -> str:
    return HEAD.format(kind="SqlSession", name="a") + "".join(f"  {line}\n" for line in lines)


MISTAKES = {
    "misspelt reference": Mistake(
        statement("sessionref: {name: x}", session=""),
        "spec.sessionref",
        "",
        "line 6: spec.sessionref: there is no such field: did you mean sessionRef?",
    ),
    "misspelt field": Mistake(
        statement("result: {maxrows: 3}"),
        "spec.result.maxrows",
        "",
        "line 7: spec.result.maxrows: there is no such field: did you mean maxRows?",
    ),
    "unknown endpoint": Mistake(session("endpoints: {jdbc: true}"), "spec.endpoints.jdbc"),
    "mode in lower case": Mistake(statement("mode: execute"), "spec.mode", '"Execute"', "did you mean Execute?"),
    "misspelt reason of a retry": Mistake(
        statement("retry: {'on': [SqlErorr]}"),
        "spec.retry.on[0]",
        '"SqlError"',
        "line 7: spec.retry.on[0]: SqlErorr: did you mean SqlError?",
    ),
    "text as a priority": Mistake(statement("priority: high"), "spec.priority", "integer", "it must be a whole number"),
    "unit in seconds": Mistake(
        statement("timeouts: {executionSeconds: 5m}"),
        "spec.timeouts.executionSeconds",
        "integer",
        "5m: it must be a whole number",
    ),
    "number in conf": Mistake(
        statement("conf: {spark.sql.shuffle.partitions: 8}"),
        "spec.conf.spark.sql.shuffle.partitions",
        "string",
        'write "8", with the quotes',
    ),
    "no session": Mistake(
        statement(session=""), "spec", "set exactly one of sessionRef", "set exactly one of sessionRef"
    ),
    "two texts": Mistake(
        statement("sqlFrom: {configMapKeyRef: {name: a, key: b}}"),
        "spec",
        "set exactly one of sql and sqlFrom",
        "set exactly one of sql and sqlFrom",
    ),
    "fixed and dynamic executors": Mistake(
        session("executors: {instances: 1, max: 4}"),
        "spec.executors",
        "set either instances (a fixed number) or min and max",
    ),
    "long name": Mistake(
        statement(name="a" * 74), "name", "at most 50 characters: choose a shorter one", "choose a shorter one"
    ),
    "name in capitals": Mistake(statement(name="UX_Named"), "metadata.name", "lower case", "lower case"),
    "wrong version": Mistake(
        statement().replace("v1alpha1", "v1"),
        "sparksql.dev/v1",
        "",
        "line 1: apiVersion: sparksql.dev/v1: this plugin supports sparksql.dev/v1alpha1",
    ),
    "misspelt kind": Mistake(
        statement().replace("SqlStatement", "SqlStatment"),
        "SqlStatment",
        "",
        "line 2: kind: SqlStatment: did you mean SqlStatement?",
    ),
    "session of another namespace": Mistake(
        statement(session="sessionRef: {name: demo/analytics}"), "spec.sessionRef.name"
    ),
    "memory with another unit": Mistake(session("driver: {memory: 2g}"), "spec.driver.memory", "write for instance"),
    "batch statement that is to stop": Mistake(
        statement("desiredState: Stopped"), "spec.desiredState", "use Canceled to end a batch statement", "use Canceled"
    ),
    "interval without a length": Mistake(
        statement("streaming: {trigger: {mode: Interval}}"),
        "spec.streaming.trigger.intervalMillis",
        "or use mode Auto",
        "or use mode Auto",
    ),
    "long text": Mistake(
        statement(text=f"sql: '{'x' * 350_000}'"), "spec.sql", "", "spec.sql: the SQL has 350,000 characters"
    ),
    "very long text": Mistake(
        statement(text=f"sql: '{'x' * 3_300_000}'"), "limit is 3145728", "", "spec.sqlFrom.configMapKeyRef"
    ),
    "parameter without a value": Mistake(
        statement("parameters: [{name: d}]"),
        "spec.parameters[0]",
        "set exactly one of value and valueFrom",
        "set exactly one of value",
    ),
    "action of idle sessions": Mistake(session("idle: {action: Sleep}"), "spec.idle.action", '"Hibernate", "Close"'),
}


BASE = {
    "sessionRef": {"name": "x"},
    "sql": "SELECT 1",
    "parameters": [{"name": "d", "value": "1"}],
    "dependsOn": [{"name": "z"}],
}
CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "text": ({"sql": "SELECT 2"}, "sql is immutable unless spec.streaming is set: create a new SqlStatement for another text, or change runNonce"),
    "mode": ({"mode": "Preview"}, "mode is immutable: create a new SqlStatement with the other mode"),
    "session": ({"sessionRef": {"name": "y"}}, "create a new SqlStatement with the other sessionRef"),
    "own session": ({"sessionRef": None, "session": {}}, "session is immutable: create a new SqlStatement with the other session"),
    "parameters": ({"parameters": [{"name": "d", "value": "2"}]}, "parameters are immutable: create a new SqlStatement with the other values"),
    "dependencies": ({"dependsOn": []}, "dependsOn is immutable: create a new SqlStatement with the other dependencies"),
    "text elsewhere": ({"sql": None, "sqlFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}, "sqlFrom is immutable: create a new SqlStatement"),
    "streaming": ({"streaming": {}}, "the presence of streaming is immutable: create a new SqlStatement"),
}  # fmt: skip
# The rows of the table that are proven here; the last has a test of its own.
ROWS = rows_of("integration/cli/test_mistakes.py", but=frozenset({MISSING_SESSION}))


def test_mistakes_are_those_of_the_table() -> None:
    assert MISTAKES.keys() | CHANGES.keys() == ROWS.keys()


def kubectl(cluster: Cluster, *arguments: str, data: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["kubectl", *cluster.flags(), *arguments],
        input=data, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("case", [case for case in ROWS if case in MISTAKES])
def test_mistake_in_a_manifest_is_answered_with_its_field_and_a_remedy(cluster: Cluster, case: str) -> None:
    mistake = MISTAKES[case]
    answer = kubectl(cluster, "apply", "--filename=-", data=mistake.text)
    assert answer.returncode == 1
    assert mistake.field in answer.stderr
    assert mistake.remedy in answer.stderr
    done = None
    if mistake.by_plugin:
        done = cluster.run("run", "-f", "-", stdin=mistake.text)
        assert done.returncode in (1, 2)
        assert mistake.by_plugin in done.stderr
        assert "ended with code" not in done.stderr
    assert_answered(ROWS[case].mistake, answer.stderr, done.stderr if done is not None else "")
    assert cluster.statements() == []


@pytest.mark.parametrize("case", [case for case in ROWS if case in CHANGES])
def test_change_that_is_not_allowed_is_answered_with_its_field_and_what_to_do_instead(
    cluster: Cluster, case: str
) -> None:
    change, remedy = CHANGES[case]
    cluster.create("sqlstatements", "SqlStatement", "a", BASE)
    answer = kubectl(cluster, "patch", "sqlstmt", "a", "--type=merge", f"--patch={json.dumps({'spec': change})}")
    assert answer.returncode == 1
    assert remedy in answer.stderr
    assert_answered(ROWS[case].mistake, answer.stderr)


def test_statement_in_a_missing_session_fails_at_once_with_the_sessions_that_exist(cluster: Cluster) -> None:
    cluster.create("sqlsessions", "SqlSession", "analytics", {"className": "standard"})
    missing = cluster.run("run", "-e", "SELECT 1", "-s", "analitics")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "-s analitics: session analitics does not exist; sessions of the namespace: analytics" in missing.stderr
    assert_answered("missing session of the plugin", missing.stderr)
    assert cluster.statements() == []
    waits = cluster.run("run", "--no-wait", "-f", "-", stdin=statement(session="sessionRef: {name: analitics}"))
    assert (waits.returncode, waits.stdout) == (0, "a\n")
    assert (
        "spec.sessionRef.name: analitics: session analitics does not exist; sessions of the namespace: analytics"
        in waits.stderr
    )
