"""`kubectl sparksql validate` against a real API server: its requests, its answers, and that no object remains."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.cli_cluster import DEADLINE_SECONDS, FOREVER, OTHER_KEY, Cluster, eventually

CHECKPOINT = "file:///data/checkpoints/orders/1"


def manifest(name: str, sql: str, **spec: Any) -> str:
    fields = "".join(f", {key}: {value}" for key, value in spec.items())
    return (
        "---\napiVersion: sparksql.dev/v1alpha1\nkind: SqlStatement\n"
        f"metadata: {{name: {name}}}\nspec: {{sql: '{sql}', sessionRef: {{name: analytics}}{fields}}}\n"
    )


@pytest.fixture
def session(cluster: Cluster) -> None:
    cluster.create("sqlsessions", "SqlSession", "analytics", {"className": "standard"})


@pytest.fixture
def orders(cluster: Cluster, session: None) -> None:
    """A streaming statement that is stopped and has a checkpoint; the played operator leaves it alone."""
    spec = {"sql": FOREVER, "sessionRef": {"name": "analytics"}, "streaming": {}, "desiredState": "Stopped"}
    cluster.create("sqlstatements", "SqlStatement", "orders", spec)
    streaming = {"checkpointLocation": CHECKPOINT}
    cluster.write_status("sqlstatements", "orders", {"phase": "Stopped", "streaming": streaming})


def made(cluster: Cluster) -> list[dict[str, Any]]:
    """The statements that validations have made."""
    return [each for each in cluster.statements() if each["metadata"]["name"].startswith("validate-")]


def test_validate_of_two_documents_prints_both_answers_and_leaves_no_object(
    cluster: Cluster, operator: None, session: None, tmp_path: Path
) -> None:
    file = tmp_path / "statements.yaml"
    file.write_text(
        manifest("first", "SELECT 1 AS a", dependsOn="[{name: absent}]", desiredState="Canceled")
        + manifest("second", "SELECT * FROM nope")
    )
    done = cluster.run("validate", "-f", str(file))
    assert (done.returncode, done.stdout) == (1, "first: valid\n")
    assert done.stderr == (
        "second: Error: TABLE_OR_VIEW_NOT_FOUND (SQLSTATE 42P01) at line 1:15\n"
        "There is no `nope`.\n"
        "  1 | SELECT * FROM nope\n"
        "    |               ^\n"
    )
    assert cluster.statements() == []


def test_incompatible_streaming_sql_is_refused_with_differences_and_remedies(
    cluster: Cluster, operator: None, orders: None
) -> None:
    done = cluster.run("validate", "-f", "-", stdin=manifest("orders", OTHER_KEY, streaming="{outputMode: Append}"))
    assert done.returncode == 1
    assert done.stderr == "orders: Error: STREAMING_STATE_INCOMPATIBLE (SQLSTATE 55000)\nkey day became month\n"
    header, _, row = done.stdout.splitlines()
    assert [cell.strip() for cell in header.split(" | ")] == ["change", "operator", "column", "was", "is", "remedy"]
    assert [cell.strip() for cell in row.split(" | ")][2:] == ["k", "day", "month", "change it back"]
    assert made(cluster) == []


def test_validation_of_a_stopped_stream_names_the_state_and_has_a_short_ttl(cluster: Cluster, orders: None) -> None:
    plugin = cluster.start("validate", "orders", "--timeout", "9m")
    (statement,) = eventually("made", lambda: made(cluster))
    plugin.send_signal(signal.SIGTERM)
    plugin.communicate(timeout=DEADLINE_SECONDS)
    spec = statement["spec"]
    assert (spec["mode"], spec["sql"], spec["sessionRef"]) == ("Validate", FOREVER, {"name": "analytics"})
    assert spec["validateAgainst"] == {"statementRef": {"name": "orders"}}
    assert (spec["ttlSecondsAfterFinished"], spec["timeouts"]["queueSeconds"]) == (60, 540)
    assert spec["desiredState"] == "Running"
    assert made(cluster) == []


@pytest.mark.parametrize(
    ("streaming", "words"),
    [
        ("{upgradeMode: Stateless}", "upgradeMode is Stateless"),
        ("{startFrom: {savepointRef: {name: sp}}, restoreNonce: again}", "from the savepoint"),
    ],
)
def test_stream_starting_without_a_checkpoint_is_validated_without_state_and_with_a_note(
    cluster: Cluster, operator: None, orders: None, streaming: str, words: str
) -> None:
    done = cluster.run("validate", "-f", "-", stdin=manifest("orders", "SELECT 1 AS a", streaming=streaming))
    assert (done.returncode, done.stdout) == (0, "orders: valid\n"), done.stderr
    assert "orders: no state is compared" in done.stderr and words in done.stderr


def test_incompatible_sql_with_start_fresh_is_valid_and_the_lost_state_is_shown(
    cluster: Cluster, operator: None, orders: None
) -> None:
    stdin = manifest("orders", OTHER_KEY, streaming="{onIncompatible: StartFresh}")
    done = cluster.run("validate", "-f", "-", stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("orders: valid, but a start begins without its state (onIncompatible: StartFresh)")


def test_named_statement_is_validated_with_the_sql_of_a_file(
    cluster: Cluster, operator: None, orders: None, tmp_path: Path
) -> None:
    file = tmp_path / "text.sql"
    file.write_text(OTHER_KEY)
    done = cluster.run("validate", "orders", "-f", str(file))
    assert (done.returncode, "key day became month" in done.stderr) == (1, True), done.stderr
    both = manifest("other", "SELECT * FROM nope") + manifest("orders", OTHER_KEY, streaming="{}")
    done = cluster.run("validate", "orders", "-f", "-", stdin=both)
    assert (done.returncode, "nope" in done.stderr, "orders: Error" in done.stderr) == (1, False, True), done.stderr


def test_validate_at_the_deadline_prints_the_awaited_phase_and_leaves_no_object(
    cluster: Cluster, operator: None, session: None
) -> None:
    stdin = manifest("slow", FOREVER) + manifest("good", "SELECT 1 AS a")
    done = cluster.run("validate", "-f", "-", "--timeout", "4s", stdin=stdin)
    assert (done.returncode, done.stdout) == (3, "good: valid\n"), done.stderr
    assert "slow: not validated within 4 s (--timeout): Running" in done.stderr
    assert cluster.statements() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_validate_leaves_no_object(
    cluster: Cluster, operator: None, session: None, number: signal.Signals, tmp_path: Path
) -> None:
    file = tmp_path / "statements.yaml"
    file.write_text(manifest("slow", FOREVER) + manifest("slower", FOREVER))
    plugin = cluster.start("validate", "-f", str(file))
    eventually(
        "both run", lambda: [each for each in made(cluster) if each.get("status", {}).get("phase") == "Running"][1:]
    )
    plugin.send_signal(number)
    _, err = plugin.communicate(timeout=DEADLINE_SECONDS)
    assert plugin.returncode == 130, err
    assert cluster.statements() == []


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        ([], "", "validate takes -f FILE, the name of a SqlStatement, or both"),
        (["-f", "-"], "", "-f -: there is no SQL to validate"),
        (["-f", "-"], manifest("a", "SELECT 1") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
         "validate accepts only SqlStatement manifests, not ConfigMap"),
        (["b", "-f", "-"], manifest("a", "SELECT 1"), "-f -: it has no SqlStatement b; it has a"),
        (["-f", "-", "-s", "absent"], "SELECT 1", "-s absent: session absent does not exist"),
        (["-f", "-"], manifest("a", "SELECT 1"), "create it, or give another one by -s"),
    ],
)  # fmt: skip
def test_validate_given_wrong_input_names_the_remedy_and_creates_nothing(
    cluster: Cluster, arguments: list[str], stdin: str, words: str
) -> None:
    done = cluster.run("validate", *arguments, stdin=stdin)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert cluster.statements() == []


def test_manifest_refused_by_the_api_server_leaves_no_object_and_the_line_is_named(
    cluster: Cluster, session: None
) -> None:
    stdin = manifest("good", "SELECT 1") + manifest("bad", "SELECT 1", priorty="3")
    done = cluster.run("validate", "-f", "-", stdin=stdin)
    assert done.returncode == 1
    assert "line 10: spec.priorty: there is no such field: did you mean priority?" in done.stderr
    assert cluster.statements() == []
