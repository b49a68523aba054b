"""`kubectl sparksql` with the real kubectl against a real API server; status and gateway are played by the test.

There is no kubelet here, so the one thing not real is the way to the pod: the gateway's port is given instead of
forwarded. Secret, certificate check, token and paging are.
"""

from __future__ import annotations

import base64
import csv
import dataclasses
import io
import json
import os
import pty
import select
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from apiserver import MERGE_PATCH, ApiServer, binary
from cli_cluster import (
    DEADLINE_SECONDS,
    ENDS,
    FOREVER,
    PLUGIN,
    POD_UID,
    ROWS,
    STUBBORN,
    Cluster,
    eventually,
    operating,
    session_status,
    written,
)
from cli_gateway import TOKEN, FakeGateway, certificate, serving

from sparksql.api.names import child_base, gateway_server_name
from sparksql.cli import gateway as cli_gateway
from sparksql.cli.main import main


@pytest.fixture
def cluster(crds: ApiServer, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("PATH", f"{binary('kubectl').parent}{os.pathsep}{os.environ['PATH']}")
    cluster = Cluster(crds, namespace)
    yield cluster
    for plugin in cluster.started:
        plugin.kill()
        plugin.communicate()


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[None]:
    """Moves each statement of the namespace one step at a time."""
    with operating(cluster):
        yield


# run


def test_run_creates_follows_and_prints_the_result(cluster: Cluster, operator: None) -> None:
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
    file = tmp_path / "statements.yaml"
    file.write_text(MANIFEST)
    done = cluster.run("run", "-f", str(file), "-o", "csv")
    assert (done.returncode, done.stdout) == (4, "a\n1\n")
    assert done.stderr.startswith("second-")
    assert {s["metadata"]["name"].split("-")[0] for s in cluster.statements()} == {"first", "second"}


def test_another_kind_is_refused_before_anything_is_created(cluster: Cluster) -> None:
    other = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
    done = cluster.run("run", "-f", "-", stdin=MANIFEST + other)
    assert done.returncode == 2
    assert "SqlStatement manifests only, not ConfigMap" in done.stderr
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
    plugin.communicate(timeout=DEADLINE_SECONDS)
    assert plugin.returncode == 130
    assert cluster.phase("stubborn") == "Running"


def test_a_terminal_has_a_live_line_and_its_ctrl_c_cancels(cluster: Cluster, operator: None) -> None:
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
        "session": "analytics", "phase": "Ready", "reason": "", "running": 1, "queued": 2, "driver": "analytics-driver-1",
    }  # fmt: skip
    assert [(row["statement"], row["phase"]) for row in listed["statements"]] == [("good", "Finished")]

    other = cluster.run("status", "other")
    assert other.returncode == 0
    assert "other" in other.stdout
    assert "good" not in other.stdout
    assert cluster.run("status", "nobody").returncode == 1


# results, with a gateway


@dataclasses.dataclass
class Served:
    """A finished statement `many` with 12,000 rows whose session has a gateway."""

    cluster: Cluster
    gateway: FakeGateway
    secret: str
    forwarded: list[str] = dataclasses.field(default_factory=list)

    def main(self, *arguments: str) -> int:
        """The plugin in this process, the gateway's port in the place of a forwarded one."""

        @asynccontextmanager
        async def forward(kubectl: Any, namespace: str, pod: str) -> Any:
            self.forwarded.append(f"{namespace}/{pod}")
            yield self.gateway.port

        return main([*arguments, *self.cluster.flags()], forward=forward)


@pytest.fixture
def served(cluster: Cluster, tmp_path: Path) -> Iterator[Served]:
    session = cluster.create("sqlsessions", "SqlSession", "analytics", {"className": "standard"})
    cluster.write_status("sqlsessions", "analytics", session_status())
    uid = session["metadata"]["uid"]
    crt, key = certificate(tmp_path, gateway_server_name("analytics", uid, cluster.namespace))
    data = {"token": base64.b64encode(TOKEN.encode()).decode(), "tls.crt": base64.b64encode(crt.read_bytes()).decode()}
    secret = child_base("analytics", uid)
    answer = cluster.server.request(
        "POST", f"/api/v1/namespaces/{cluster.namespace}/secrets", {"metadata": {"name": secret}, "data": data}
    )
    assert answer.status == 201, answer
    cluster.create_statement("many", "SELECT many")
    phase, reason, extra = ENDS["SELECT many"]
    where = {"session": {"name": "analytics", "podUID": POD_UID}, "operationId": "op-many"}
    cluster.write_status("sqlstatements", "many", written(1, phase, reason, **extra, **where))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(crt, key)
    gateway = FakeGateway()
    with serving(gateway, context):
        yield Served(cluster, gateway, secret)


@pytest.mark.parametrize("page_format", ["arrow", "json"])
def test_all_pages_are_printed(
    served: Served, page_format: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_gateway, "page_format", lambda: page_format)
    assert served.main("results", "many", "-o", "csv") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert list(csv.reader(io.StringIO(shown.out))) == [["id", "text"], *([str(i), f"row {i}"] for i in range(ROWS))]
    assert served.gateway.asked == [("op-many", "0"), ("op-many", "5000"), ("op-many", "10000")]
    assert served.forwarded == [f"{served.cluster.namespace}/analytics-driver-1"]


def test_json_is_one_array_over_all_pages(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert served.main("results", "many", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == [{"id": i, "text": f"row {i}"} for i in range(ROWS)]


PREVIEW = "id,text\n0,row 0\n1,row 1\n"


def _expired(served: Served) -> None:
    served.gateway.status = 410


def _unknown(served: Served) -> None:
    served.gateway.status = 404


def _other_driver(served: Served) -> None:
    served.cluster.write_status("sqlsessions", "analytics", session_status("pod-uid-2"))


def _no_secret(served: Served) -> None:
    served.cluster.server.request("DELETE", _secret_path(served))


def _wrong_token(served: Served) -> None:
    _patch_secret(served, {"token": base64.b64encode(b"other").decode()})


def _empty_secret(served: Served) -> None:
    _patch_secret(served, {"token": None})


def _no_gateway(served: Served) -> None:
    served.gateway.port = 1


def _secret_path(served: Served) -> str:
    return f"/api/v1/namespaces/{served.cluster.namespace}/secrets/{served.secret}"


def _patch_secret(served: Served, data: dict[str, str | None]) -> None:
    answer = served.cluster.server.request("PATCH", _secret_path(served), {"data": data}, content_type=MERGE_PATCH)
    assert answer.status == 200, answer


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_expired, "the result has expired"),
        (_unknown, "the gateway no longer knows this result"),
        (_other_driver, "the driver that held the result is gone"),
        (_no_secret, "NotFound"),
        (_wrong_token, "the gateway refused the session's token"),
        (_empty_secret, "the session's Secret has no token"),
        (_no_gateway, "the gateway could not be reached"),
    ],
)
def test_without_the_gateway_the_preview_is_shown_and_said_to_be_one(
    served: Served, spoil: Callable[[Served], None], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(served)
    assert served.main("results", "many", "-o", "csv") == 5
    shown = capsys.readouterr()
    assert shown.out == PREVIEW
    assert "Only 2 of 12000 rows are shown" in shown.err
    assert why in shown.err


def test_another_certificate_never_sees_the_token(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Right name, wrong key; and the right key under another name: both are refused by the client."""
    uid = served.cluster.server.request("GET", served.cluster.path("sqlsessions", "analytics")).body["metadata"]["uid"]
    right_name = gateway_server_name("analytics", uid, served.cluster.namespace)
    folder = tmp_path / "impostor"
    folder.mkdir()
    for name, trusted in ((right_name, False), ("other.svc", True)):
        crt, key = certificate(folder, name)
        if trusted:
            _patch_secret(served, {"tls.crt": base64.b64encode(crt.read_bytes()).decode()})
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(crt, key)
        impostor = FakeGateway()
        with serving(impostor, context):
            served.gateway.port = impostor.port
            assert served.main("results", "many", "-o", "csv") == 5
        assert "could not be reached" in capsys.readouterr().err
        assert impostor.asked == []


def test_a_user_without_the_right_to_read_secrets_gets_the_preview(
    served: Served, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rules = [{"apiGroups": ["sparksql.dev"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{served.cluster.namespace}"
    request = served.cluster.server.request
    assert request("POST", f"{rbac}/roles", {"metadata": {"name": "view"}, "rules": rules}).status == 201
    binding = {
        "metadata": {"name": "view"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}],
    }
    assert request("POST", f"{rbac}/rolebindings", binding).status == 201
    admin = served.cluster.server.kubeconfig
    viewer = tmp_path / "kubeconfig"
    viewer.write_text(admin.read_text().replace("    client-key:", "    as: viewer\n    client-key:"))
    served.cluster = Cluster(dataclasses.replace(served.cluster.server, kubeconfig=viewer), served.cluster.namespace)
    assert served.main("results", "many", "-o", "csv") == 5
    shown = capsys.readouterr()
    assert shown.out == PREVIEW
    assert "Forbidden" in shown.err


def test_results_of_what_has_not_ended_or_ended_badly(cluster: Cluster, operator: None) -> None:
    cluster.create_statement("long", FOREVER)
    eventually("running", lambda: cluster.phase("long") == "Running")
    running = cluster.run("results", "long")
    assert (running.returncode, running.stdout, running.stderr) == (1, "", "long has not ended: Running\n")
    cluster.create_statement("closed", "SELECT closed")
    eventually("closed", lambda: cluster.phase("closed") == "Closed")
    assert cluster.run("results", "closed").returncode == 4


def test_logs_of_a_driver_that_is_gone_say_so(cluster: Cluster, operator: None) -> None:
    cluster.create("sqlsessions", "SqlSession", "analytics", {"className": "standard"})
    cluster.write_status("sqlsessions", "analytics", session_status("pod-uid-2"))
    cluster.create_statement("long", FOREVER)
    eventually("running", lambda: cluster.phase("long") == "Running")
    done = cluster.run("logs", "long")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the driver of session analytics is gone" in done.stderr
