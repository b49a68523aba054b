"""`kubectl sparksql describe`: what people need of an object, with each message once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.integration.cli.cli_cluster import Cluster, eventually, session_status, written
from tests.integration.cli.cli_gateway import Served

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
WHY = "0/1 nodes are available: 1 Insufficient memory"


def event(cluster: Cluster, kind: str, name: str, message: str, reason: str = "Told") -> None:
    """Makes an Event about an object."""
    plural = {"SqlSession": "sqlsessions", "SqlStatement": "sqlstatements"}[kind]
    uid = cluster.server.request("GET", cluster.path(plural, name)).body["metadata"]["uid"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "metadata": {"generateName": "e-"},
        "involvedObject": {"kind": kind, "name": name, "namespace": cluster.namespace, "uid": uid},
        "reason": reason, "message": message, "type": "Warning", "lastTimestamp": now,
    }  # fmt: skip
    assert cluster.server.request("POST", f"/api/v1/namespaces/{cluster.namespace}/events", body).status == 201


def test_description_of_a_session_has_its_class_and_each_message_once_and_no_configuration(cluster: Cluster) -> None:
    cluster.create("sqlsessions", "SqlSession", "analytics", {})
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {"type": kind, "status": "False", "reason": "Unschedulable", "message": WHY, "observedGeneration": 1, "lastTransitionTime": now}
        for kind in ("Ready", "Stalled")
    ]  # fmt: skip
    configuration = [{"name": f"conf.spark.x{n}", "value": "v", "layer": "Operator"} for n in range(100)]
    status = {**session_status(), "phase": "Starting", "message": WHY, "conditions": conditions}
    status |= {"configuration": configuration, "className": "standard"}
    status["driver"] |= {"certificate": PEM}
    cluster.write_status("sqlsessions", "analytics", status)
    event(cluster, "SqlSession", "analytics", WHY, "Unschedulable")
    event(cluster, "SqlSession", "analytics", "another")
    done = cluster.run("describe", "-s", "analytics")
    assert (done.returncode, done.stderr) == (0, "")
    assert (done.stdout.count(WHY), done.stdout.count("another")) == (1, 1)
    assert "Class:         standard\n" in done.stdout
    assert "100 values: kubectl sparksql config analytics" in done.stdout
    assert "CERTIFICATE" not in done.stdout
    assert "spark.x" not in done.stdout
    assert len(done.stdout.splitlines()) < 20


def test_description_of_a_failed_statement_has_its_message_once_with_the_place(
    cluster: Cluster, operator: None
) -> None:
    cluster.create_statement("bad", "SELECT * FROM nope")
    eventually("failed", lambda: cluster.phase("bad") == "Error")
    event(cluster, "SqlStatement", "bad", "There is no `nope`.", "SqlError")
    done = cluster.run("describe", "bad")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("There is no `nope`.") == 1
    assert "Session:       analytics\n" in done.stdout
    assert "  1 | SELECT * FROM nope\n    |               ^\n" in done.stdout
    assert "SqlError" in done.stdout


def test_description_of_a_statement_with_its_own_session_names_that(cluster: Cluster) -> None:
    cluster.create("sqlstatements", "SqlStatement", "own", {"sql": "SELECT 1", "session": {}})
    assert "Session:       (not made yet) (its own)\n" in cluster.run("describe", "own").stdout
    session = {
        "session": {"name": "own-1a2b3c4d"},
        "result": {"columns": [{"name": "a", "type": "int"}], "rowCount": 3},
    }
    cluster.write_status("sqlstatements", "own", written(1, "Finished", "Finished", **session))
    shown = cluster.run("describe", "own").stdout
    assert "Session:       own-1a2b3c4d (its own)\n" in shown
    assert "3 rows: kubectl sparksql results own" in shown


def test_description_without_the_right_to_list_events_is_shown_with_a_note(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served.become_viewer(tmp_path)
    assert served.main("describe", "many") == 0
    shown = capsys.readouterr()
    assert "many" in shown.out
    assert "Events are not shown" in shown.err
