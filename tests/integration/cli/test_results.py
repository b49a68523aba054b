"""The plugin's `results` and `logs`: all pages from a gateway, and what is said when there is none."""

from __future__ import annotations

import base64
import csv
import io
import json
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from sparksql.api.names import gateway_server_name
from sparksql.wire.control import MAX_RESULT_ROWS
from tests.integration.cli.cli_cluster import (
    FOREVER,
    ROWS,
    SCRIPT,
    Cluster,
    eventually,
    session_status,
)
from tests.integration.cli.cli_gateway import FakeGateway, Served, certificate, serving
from tests.support.apiserver import MERGE_PATCH


def test_all_pages_are_printed(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert served.main("results", "many", "-o", "csv") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert list(csv.reader(io.StringIO(shown.out))) == [["id", "text"], *([str(i), f"row {i}"] for i in range(ROWS))]
    assert served.gateway.asked == [("op-many", "0"), ("op-many", "5000"), ("op-many", "10000")]
    assert served.forwarded == [f"{served.cluster.namespace}/analytics-driver-1"]


def test_json_is_one_array_over_all_pages(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert served.main("results", "many", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == [{"id": i, "text": f"row {i}"} for i in range(ROWS)]


def test_run_of_a_script_prints_each_result_as_a_table(
    served: Served, operator: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert served.main("run", "-e", SCRIPT, "-s", "analytics") == 0
    shown = capsys.readouterr()
    assert shown.out == "n\n-\n0\n\nn\n-\n1\n\na\n-\n1\n"
    assert "Result 2 has more rows; the first 1 are stored" in shown.err


def test_run_of_a_script_prints_the_last_result_alone_in_a_format_for_programs(
    served: Served, operator: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert served.main("run", "-e", SCRIPT, "-s", "analytics", "-o", "csv") == 0
    shown = capsys.readouterr()
    assert shown.out == "a\n1\n"
    assert "2 earlier results of it are left out; -o table prints them" in shown.err


def test_run_of_a_script_prints_the_last_result_and_a_note_when_the_gateway_refuses(
    served: Served, operator: None, capsys: pytest.CaptureFixture[str]
) -> None:
    served.gateway.status = 410
    assert served.main("run", "-e", SCRIPT, "-s", "analytics") == 0
    shown = capsys.readouterr()
    assert shown.out == "a\n-\n1\n"
    assert "2 earlier results of it are left out: the result has expired" in shown.err


def test_run_prints_all_rows_unless_told_how_many(
    served: Served, operator: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert served.main("run", "-e", "SELECT many", "-s", "analytics", "--name", "all", "-o", "csv") == 0
    shown = capsys.readouterr()
    assert (len(shown.out.splitlines()), shown.err) == (1 + ROWS, "")
    assert served.cluster.statement("all")["spec"]["result"]["maxRows"] == MAX_RESULT_ROWS


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-s", "analytics"), 5),
        (("-s", "analytics", "--max-rows", "1"), 0),
        (("-s", "analytics", "--mode", "Preview"), 0),
        ((), 5),
    ],
    ids=["all", "some", "preview", "dedicated"],
)
def test_cli_run_fails_when_rows_are_missing_unless_fewer_were_requested(
    cluster: Cluster, operator: None, arguments: tuple[str, ...], code: int
) -> None:
    cluster.create("sqlsessions", "SqlSession", "analytics", {"className": "standard"})
    done = cluster.run("run", "-e", "SELECT cut", *arguments, "-o", "csv")
    assert (done.returncode, done.stdout) == (code, "a\n1\n"), done.stderr
    assert "The result was cut at 1 rows" in done.stderr


def test_results_of_a_cut_statement_are_incomplete(cluster: Cluster, operator: None) -> None:
    cluster.create_statement("cut", "SELECT cut")
    eventually("finished", lambda: cluster.phase("cut") == "Finished")
    assert cluster.run("results", "cut").returncode == 5


def test_rows_of_a_dedicated_session_that_are_gone_are_the_exit_code(cluster: Cluster, operator: None) -> None:
    done = cluster.run("run", "-e", "SELECT many", "-o", "csv")
    assert (done.returncode, done.stdout) == (5, PREVIEW), done.stderr
    assert "use a named session to keep all rows" in done.stderr


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
        (_unknown, "the gateway no longer has this result"),
        (_other_driver, "the driver with the result no longer exists"),
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


def test_a_gateway_with_another_certificate_never_gets_the_token(
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
    served.become_viewer(tmp_path)
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
    assert "the driver of session analytics no longer exists" in done.stderr
