"""`kubectl sparksql` with the real kubectl against a real API server; status and gateway are played by the test.

There is no kubelet here, so the one thing not real is the way to the pod: the gateway's port is given instead of
forwarded. Secret, certificate check, token and paging are.
"""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.cli_cluster import (
    DEADLINE_SECONDS,
    FOREVER,
    PLUGIN,
    STUBBORN,
    Cluster,
    eventually,
    session_status,
)

# run


def test_run_creates_follows_and_prints_the_result(cluster: Cluster, operator: None) -> None:
    cluster.create("sqlsessions", "SqlSession", "analytics", {"className": "standard"})
    done = cluster.run(
        "run", "-e", "SELECT 1 AS a", "--session", "analytics", "-p", "d=2026-01-31:DATE", "--timeout", "9"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n-\n1\n", "")
    (statement,) = cluster.statements()
    assert statement["metadata"]["name"].startswith("run-")
    spec = statement["spec"]
    assert spec["sessionRef"] == {"name": "analytics"}
    assert spec["parameters"] == [{"name": "d", "value": "2026-01-31", "type": "DATE"}]
    assert spec["timeouts"] == {"queueSeconds": 9, "executionSeconds": 9}
    assert spec["ttlSecondsAfterFinished"] == 3600


@pytest.mark.parametrize(
    ("sql", "code", "error"),
    [
        ("SELECT closed", 4, "mine: Closed (SessionClosed)\n"),
        ("SELECT slow", 3, "mine: TimedOut (ExecutionTimeout)\n"),
        (
            "SELECT * FROM nope",
            1,
            "mine: Error: TABLE_OR_VIEW_NOT_FOUND (SQLSTATE 42P01) at line 1:15\n"
            "There is no `nope`.\n"
            "  1 | SELECT * FROM nope\n"
            "    |               ^\n",
        ),
    ],
)
def test_a_bad_end_is_explained_and_is_the_exit_code(
    cluster: Cluster, operator: None, sql: str, code: int, error: str
) -> None:
    done = cluster.run("run", "-e", sql, "--name", "mine", "--keep", "-o", "csv")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", error)
    spec = cluster.statement("mine")["spec"]
    assert "ttlSecondsAfterFinished" not in spec
    assert spec["session"] == {}


def test_sql_comes_from_a_file_or_standard_input(cluster: Cluster, operator: None, tmp_path: Path) -> None:
    file = tmp_path / "query.sql"
    file.write_text("SELECT 1 AS a")
    for path, stdin in ((str(file), None), ("-", "SELECT 1 AS a")):
        done = cluster.run("run", "-f", path, "-o", "json", stdin=stdin)
        assert (done.returncode, done.stdout) == (0, '[\n{"a": 1}\n]\n'), done.stderr


MANIFEST = """
apiVersion: sparksql.dev/v1alpha1
kind: SqlStatement
metadata: {name: first}
spec: {sql: SELECT 1 AS a, sessionRef: {name: analytics}}
---
apiVersion: sparksql.dev/v1alpha1
kind: SqlStatement
metadata: {generateName: second-}
spec: {sql: SELECT closed, sessionRef: {name: analytics}}
"""


def test_manifests_are_created_and_followed_together(cluster: Cluster, operator: None, tmp_path: Path) -> None:
    cluster.create("sqlsessions", "SqlSession", "analytics", {"className": "standard"})
    file = tmp_path / "statements.yaml"
    file.write_text(MANIFEST)
    done = cluster.run("run", "-f", str(file), "-o", "csv")
    assert (done.returncode, done.stdout) == (4, "a\n1\n")
    assert done.stderr.startswith("second-")
    assert {s["metadata"]["name"].split("-")[0] for s in cluster.statements()} == {"first", "second"}


def test_run_refuses_a_manifest_of_another_kind_before_anything_is_created(cluster: Cluster) -> None:
    other = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
    done = cluster.run("run", "-f", "-", stdin=MANIFEST + other)
    assert done.returncode == 2
    assert "only SqlStatement manifests, not ConfigMap" in done.stderr
    assert cluster.statements() == []


def test_kubectl_finds_the_plugin_and_passes_its_exit_code_on(
    cluster: Cluster, operator: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    done = subprocess.run(
        ["kubectl", "sparksql", "run", "-e", "SELECT closed", *cluster.flags()],
        capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (4, "")
    assert "Closed (SessionClosed)" in done.stderr


def test_a_refusal_of_the_api_server_is_shown(cluster: Cluster) -> None:
    done = cluster.run("run", "-e", "SELECT 1", "--name", "Not_A_Name")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Not_A_Name" in done.stderr


def test_no_wait_prints_the_name_for_wait(cluster: Cluster, operator: None) -> None:
    started = cluster.run("run", "--no-wait", "-e", "SELECT 1 AS a")
    assert started.returncode == 0
    name = started.stdout.strip()
    waited = cluster.run("wait", name)
    assert (waited.returncode, waited.stdout, waited.stderr) == (0, f"{name} Finished\n", "")


# Interrupts


def test_ctrl_c_cancels_and_waits_for_the_end(cluster: Cluster, operator: None) -> None:
    plugin = cluster.start("run", "-e", FOREVER, "--name", "long")
    eventually("running", lambda: cluster.phase("long") == "Running")
    plugin.send_signal(signal.SIGINT)
    out, err = plugin.communicate(timeout=DEADLINE_SECONDS)
    assert (plugin.returncode, out) == (130, "")
    assert "Canceling" in err
    assert "long: Canceled (CanceledByUser)" in err
    assert cluster.statement("long")["spec"]["desiredState"] == "Canceled"
    assert cluster.phase("long") == "Canceled"


def test_second_ctrl_c_leaves_at_once(cluster: Cluster, operator: None) -> None:
    plugin = cluster.start("run", "-e", STUBBORN, "--name", "stubborn")
    eventually("running", lambda: cluster.phase("stubborn") == "Running")
    plugin.send_signal(signal.SIGINT)
    eventually("cancel", lambda: cluster.statement("stubborn")["spec"].get("desiredState") == "Canceled")
    assert plugin.poll() is None
    plugin.send_signal(signal.SIGINT)
    _, err = plugin.communicate(timeout=DEADLINE_SECONDS)
    assert plugin.returncode == 130
    assert "To see the end: kubectl sparksql wait stubborn --namespace" in err
    assert cluster.phase("stubborn") == "Running"


def test_interrupted_wait_tells_that_the_statement_goes_on(cluster: Cluster, operator: None) -> None:
    cluster.create_statement("long", FOREVER)
    plugin = cluster.start("wait", "long")
    eventually("running", lambda: cluster.phase("long") == "Running")
    children = Path(f"/proc/{plugin.pid}/task/{plugin.pid}/children")
    eventually("its kubectl runs", children.read_text)
    plugin.send_signal(signal.SIGINT)
    _, err = plugin.communicate(timeout=DEADLINE_SECONDS)
    assert (plugin.returncode, cluster.phase("long")) == (130, "Running")
    assert "The statements go on" in err


def test_run_in_a_terminal_shows_a_live_line_and_ctrl_c_cancels_the_statement(cluster: Cluster, operator: None) -> None:
    """Typed Ctrl-C goes to the plugin's children too: its watch is killed under it and must come back."""
    setsid = shutil.which("setsid")
    assert setsid is not None
    terminal, theirs = pty.openpty()
    plugin = subprocess.Popen(
        [setsid, "--ctty", *PLUGIN, "run", "-e", FOREVER, "--name", "typed", *cluster.flags()],
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen = bytearray()

    def shown(text: bytes) -> bool:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                seen.extend(os.read(terminal, 65536))
            except OSError:  # the other side is closed
                return text in seen
        return text in seen

    try:
        eventually("live line", lambda: shown(b"typed  Running  stages 0/1  tasks 1/4") or print(bytes(seen)))
        os.write(terminal, b"\x03")
        eventually("end", lambda: shown(b"typed: Canceled (CanceledByUser)") or print(bytes(seen)))
        assert plugin.wait(DEADLINE_SECONDS) == 130
    finally:
        plugin.kill()
        plugin.wait()
        os.close(terminal)


# wait, cancel, status


def test_wait_says_how_each_ended(cluster: Cluster, operator: None) -> None:
    cluster.create_statement("good", "SELECT 1 AS a")
    cluster.create_statement("bad", "SELECT * FROM nope")
    done = cluster.run("wait", "good", "bad")
    assert (done.returncode, done.stdout) == (1, "good Finished\nbad Error\n")
    assert "TABLE_OR_VIEW_NOT_FOUND" in done.stderr


def test_wait_gives_up_after_its_timeout(cluster: Cluster) -> None:
    cluster.create_statement("lonely", FOREVER)
    done = cluster.run("wait", "lonely", "--timeout", "1")
    assert (done.returncode, done.stdout) == (5, "")
    assert "within 1 s" in done.stderr


def test_wait_for_nothing_is_an_error(cluster: Cluster) -> None:
    missing = cluster.run("wait", "nobody")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "NotFound" in missing.stderr


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_deletion_ends_the_following(cluster: Cluster, operator: None, made_anew: bool) -> None:
    plugin = cluster.start("run", "-e", FOREVER, "--name", "gone")
    eventually("running", lambda: cluster.phase("gone") == "Running")
    cluster.server.request("DELETE", cluster.path("sqlstatements", "gone"))
    if made_anew:
        cluster.create_statement("gone", "SELECT 1 AS a")
    out, err = plugin.communicate(timeout=DEADLINE_SECONDS)
    assert (plugin.returncode, out, err) == (1, "", "gone was deleted before it ended\n")


def test_cancel_waits_for_the_end_and_tells_if_it_came_too_late(cluster: Cluster, operator: None) -> None:
    cluster.create_statement("long", FOREVER)
    done = cluster.run("cancel", "long")
    assert (done.returncode, done.stdout, done.stderr) == (0, "long Canceled\n", "")
    cluster.create_statement("short", "SELECT 1 AS a")
    eventually("finished", lambda: cluster.phase("short") == "Finished")
    late = cluster.run("cancel", "short")
    assert (late.returncode, late.stdout) == (1, "short Finished\n")
    assert late.stderr == "short has ended already: there is nothing to cancel\n"
    assert cluster.statement("short")["spec"]["desiredState"] == "Running"


def test_status_shows_sessions_and_statements(cluster: Cluster, operator: None) -> None:
    for name in ("analytics", "other"):
        cluster.create("sqlsessions", "SqlSession", name, {"className": "standard"})
    cluster.write_status("sqlsessions", "analytics", session_status())
    cluster.create_statement("good", "SELECT 1 AS a")
    eventually("finished", lambda: cluster.phase("good") == "Finished")

    listed = json.loads(cluster.run("status", "-o", "json").stdout)
    assert [row["session"] for row in listed["sessions"]] == ["analytics", "other"]
    assert listed["sessions"][0] == {
        "session": "analytics", "phase": "Ready", "reason": "", "running": 1, "queued": 2,
        "clients": 0, "driver": "analytics-driver-1",
    }  # fmt: skip
    assert [(row["statement"], row["phase"]) for row in listed["statements"]] == [("good", "Finished")]

    other = cluster.run("status", "other")
    assert other.returncode == 0
    assert "other" in other.stdout
    assert "good" not in other.stdout
    assert cluster.run("status", "nobody").returncode == 1
