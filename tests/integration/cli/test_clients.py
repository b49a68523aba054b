"""The plugin on clients of a session: who they are, the end of one of their statements, and what a new one needs."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sparksql.api.names import child_base
from sparksql.wire.clients import ClientOperationView, ClientSessionView, ClientsView
from sparksql.wire.control import ClientProtocol, OperationState
from tests.integration.cli.cli_cluster import DEADLINE_SECONDS, Cluster, session_status
from tests.integration.cli.cli_gateway import Served

OPERATION = "6f0c2a9e-0000-4000-8000-000000000007"
SINCE = datetime.now(UTC) - timedelta(seconds=30)
CLIENTS = ClientsView(
    sessions=(
        ClientSessionView(
            handle="h-1", protocol=ClientProtocol.REST, name="dashboard", open_time=SINCE, last_used_time=SINCE, operations=2
        ),
    ),
    operations=(
        ClientOperationView(
            operation_id=OPERATION, session="h-1", protocol=ClientProtocol.REST, state=OperationState.RUNNING,
            statement_type="SELECT", submitted_time=SINCE,
        ),
    ),
)  # fmt: skip


@pytest.fixture
def used(served: Served) -> Served:
    """A session with one client, that runs a statement."""
    served.gateway.clients = CLIENTS
    served.cluster.write_status("sqlsessions", "analytics", {**session_status(), "clients": {"sessions": 1}})
    return served


# status


def test_cli_status_shows_clients_and_their_running_statements(
    used: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    used.cluster.create("sqlsessions", "SqlSession", "other", {"className": "standard"})
    assert used.main("status", "-o", "json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [row["clients"] for row in listed["sessions"]] == [1, 0]
    [client], [operation] = listed["clients"], listed["operations"]
    assert (client["client"], client["session"], client["door"], client["operations"]) == (
        "dashboard", "analytics", "rest", 2,
    )  # fmt: skip
    assert (operation["operation"], operation["client"], operation["type"], operation["state"]) == (
        OPERATION, "dashboard", "SELECT", "Running",
    )  # fmt: skip
    assert len(used.forwarded) == 1  # sessions without clients are not asked

    assert used.main("status", "analytics") == 0
    shown = capsys.readouterr()
    assert (shown.err, OPERATION in shown.out, "dashboard" in shown.out) == ("", True, True)


def test_a_user_who_may_not_read_the_secret_sees_only_the_number_of_clients(
    used: Served, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    used.become_viewer(tmp_path)
    assert used.main("status", "-o", "json") == 0
    shown = capsys.readouterr()
    listed = json.loads(shown.out)
    assert (listed["sessions"][0]["clients"], listed["clients"], listed["operations"]) == (1, [], [])
    assert "analytics: its clients are counted, not shown" in shown.err
    assert "Forbidden" in shown.err
    assert used.forwarded == []


# cancel


def test_a_clients_statement_is_canceled_by_its_operation_id(used: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert used.main("cancel", "-s", "analytics", "--operation", OPERATION) == 0
    assert capsys.readouterr().out == f"{OPERATION} Canceled\n"
    [(operation, request)] = used.gateway.canceled
    assert (operation, request.boot_id, request.outcome) == (OPERATION, "boot-1", OperationState.CANCELED)


def test_cancel_counts_a_statement_that_its_client_closed_as_canceled(
    used: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    used.gateway.ends = None
    assert used.main("cancel", "--session", "analytics", "--operation", OPERATION) == 0
    assert capsys.readouterr().out == f"{OPERATION} Canceled\n"


def test_an_unknown_id_is_not_sent_to_the_gateway(used: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """The gateway would refuse that id for ever."""
    assert used.main("cancel", "-s", "analytics", "--operation", "mistyped") == 1
    assert "no client of session analytics has a statement mistyped" in capsys.readouterr().err
    assert used.gateway.canceled == []


@pytest.mark.parametrize(
    "arguments", [[], ["-s", "analytics"], ["--operation", OPERATION], ["daily", "-s", "analytics"]]
)
def test_cancel_takes_names_or_an_operation(served: Served, arguments: list[str]) -> None:
    assert served.main("cancel", *arguments) == 2


# connect


def _ready(cluster: Cluster, name: str = "bi") -> str:
    """A Ready session with two endpoints; the name of its Service."""
    session = cluster.create("sqlsessions", "SqlSession", name, {"className": "standard"})
    service = child_base(name, session["metadata"]["uid"])
    host = f"{service}.{cluster.namespace}.svc"
    endpoints = {"rest": f"https://{host}:8443", "thrift": f"jdbc:hive2://{host}:10000/default;ssl=true"}
    cluster.write_status("sqlsessions", name, {**session_status(), "endpoints": endpoints})
    token = base64.b64encode(b"t0ken").decode()
    body = {"metadata": {"name": service}, "data": {"token": token, "tls.crt": base64.b64encode(b"PEM").decode()}}
    assert cluster.server.request("POST", f"/api/v1/namespaces/{cluster.namespace}/secrets", body).status == 201
    return service


def test_connect_shows_addresses_and_commands_that_work(cluster: Cluster) -> None:
    service = _ready(cluster)
    done = cluster.run("connect", "bi")
    assert (done.returncode, done.stderr) == (0, "")
    told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[1:] if not line.startswith("from"))
    host = f"{service}.{cluster.namespace}.svc"
    assert told["rest"] == f"https://{host}:8443"
    assert told["thrift"] == f"jdbc:hive2://{host}:10000/default;ssl=true"
    assert "connect" not in told
    assert "t0ken" not in done.stdout
    for what, value in (("token", "t0ken"), ("certificate", "PEM")):
        assert _shell(told[what]) == value
    assert f"port-forward service/{service} 8443 10000" in done.stdout


def test_connect_prints_only_the_protocol_that_is_asked_for(cluster: Cluster) -> None:
    _ready(cluster)
    done = cluster.run("connect", "bi", "--door", "thrift")
    assert "jdbc:hive2" in done.stdout
    assert "https" not in done.stdout
    closed = cluster.run("connect", "bi", "--protocol", "connect")
    assert (closed.returncode, closed.stdout) == (1, "")
    assert "endpoint connect of session bi is off: turn it on in spec.endpoints" in closed.stderr


def test_connect_to_a_session_that_is_not_ready_says_so(cluster: Cluster) -> None:
    cluster.create("sqlsessions", "SqlSession", "new", {"className": "standard"})
    done = cluster.run("connect", "new")
    assert (done.returncode, done.stdout) == (1, "")
    assert "session new is not Ready" in done.stderr


def test_a_way_from_outside_leads_to_the_service(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No kubelet, no pod: a kubectl that only forwards stands before the real one."""
    service = _ready(cluster)
    real = _shell("command -v kubectl")
    fake = tmp_path / "kubectl"
    fake.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *port-forward*) echo "$@" > {tmp_path}/asked; echo "Forwarding from 127.0.0.1:10000 -> 10000"; '
        f'exec sleep 60;; *) exec {real} "$@";; esac\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    plugin = cluster.start("connect", "bi", "--protocol", "thrift", "--port-forward")
    assert plugin.stderr is not None
    assert plugin.stderr.readline() == "Forwarding from 127.0.0.1:10000 -> 10000\n"
    plugin.send_signal(signal.SIGINT)
    out, _ = plugin.communicate(timeout=DEADLINE_SECONDS)
    assert plugin.returncode == 130
    assert "jdbc:hive2://localhost:10000/default;ssl=true" in out
    assert (tmp_path / "asked").read_text().split()[-4:] == [
        "port-forward", f"service/{service}", "10000", "--address=127.0.0.1",
    ]  # fmt: skip


def _shell(command: str) -> str:
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=True)
    return done.stdout.strip()
