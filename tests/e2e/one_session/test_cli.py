"""`kubectl sparksql` against a real session: running, paging, following, ending."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.support.harness import ENDLESS, STORAGE_SECRET, Space, phase

ROWS = 120_000  # more than a driver keeps in memory: the result is written to the storage


@pytest.fixture(scope="module")
def large(main: Space) -> str:
    sql = f"SELECT id, id * 2 AS twice, concat('row ', id) AS label, CAST(id AS DECIMAL(12,2)) / 4 AS part FROM range({ROWS})"
    name = main.statement(sql, result={"maxRows": 200_000})
    ended = main.cluster.wait_finished(main.name, name)
    result = ended["status"]["result"]
    assert (phase(ended), result["rowCount"], result["truncated"]) == ("Finished", ROWS, False), ended["status"]
    return name


@pytest.mark.thorough
def test_a_large_result_comes_whole_and_in_order(main: Space, large: str) -> None:
    printed = main.cluster.cli(main.name, "results", large, "-o", "csv")
    assert printed.returncode == 0, printed.stderr
    header, *rows = csv.reader(io.StringIO(printed.stdout))
    assert header == ["id", "twice", "label", "part"]
    assert len(rows) == ROWS
    assert [int(row[0]) for row in rows] == list(range(ROWS))
    assert all(int(row[1]) == 2 * int(row[0]) and row[2] == f"row {row[0]}" for row in rows)


def test_a_large_result_may_be_read_again(main: Space, large: str) -> None:
    printed = main.cluster.cli(main.name, "results", large, "-o", "json")
    assert printed.returncode == 0, printed.stderr
    rows = json.loads(printed.stdout)
    assert len(rows) == ROWS and rows[-1]["label"] == f"row {ROWS - 1}"


def test_run_prints_rows_and_ends_with_the_outcome(main: Space) -> None:
    printed = main.cluster.cli(main.name, "run", "-s", "main", "-e", "SELECT 1 AS a, 'x' AS b", "-o", "json")
    assert (printed.returncode, json.loads(printed.stdout)) == (0, [{"a": 1, "b": "x"}]), printed.stderr
    parameters = ("-p", "day=2026-01-31:DATE", "-p", "n=5:INT")
    printed = main.cluster.cli(main.name, "run", "-s", "main", "-e", "SELECT :day + :n AS d", *parameters, "-o", "csv")
    assert printed.stdout.splitlines() == ["d", "2026-02-05"], printed.stderr


def test_run_prints_all_rows(main: Space) -> None:
    printed = main.cluster.cli(main.name, "run", "-s", "main", "-e", "SELECT id FROM range(18880)", "-o", "csv")
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.splitlines() == ["id", *map(str, range(18_880))]
    part = main.cluster.cli(
        main.name, "run", "-s", "main", "-e", "SELECT id FROM range(18880)", "-o", "csv", "--max-rows", "7"
    )
    assert (part.returncode, len(part.stdout.splitlines())) == (0, 8), part.stderr


def test_run_shows_where_an_error_is(main: Space) -> None:
    failed = main.cluster.cli(main.name, "run", "-s", "main", "-f", "-", stdin="SELECT 1,\n  missing\nFROM range(3)")
    assert failed.returncode == 1
    assert "UNRESOLVED_COLUMN" in failed.stderr and "missing" in failed.stderr
    assert failed.stdout == ""


def test_cli_run_without_a_session_name_prints_the_rows(main: Space) -> None:
    printed = main.cluster.cli(main.name, "run", "-e", "SELECT sum(id) AS s FROM range(10)", "-o", "csv")
    assert printed.stdout.splitlines() == ["s", "45"], printed.stderr


def test_no_wait_then_wait_then_results(main: Space) -> None:
    cli = main.cluster.cli
    name = cli(main.name, "run", "-s", "main", "-e", "SELECT 7 AS n", "--no-wait", "--name", "seven").stdout.strip()
    assert name == "seven"
    waited = cli(main.name, "wait", name, "--timeout", "240")
    assert (waited.returncode, waited.stdout.split()) == (0, ["seven", "Finished"]), waited.stderr
    assert cli(main.name, "results", name, "-o", "csv").stdout.splitlines() == ["n", "7"]
    logs = cli(main.name, "logs", name)
    assert logs.returncode == 0, logs.stderr
    operation = main.get(name)["status"]["operationId"]
    lines = [json.loads(line) for line in logs.stdout.splitlines()]
    assert lines and {line["operation_id"] for line in lines} == {operation}


def test_cancel_and_timeout_have_codes_of_their_own(main: Space) -> None:
    name = main.statement(ENDLESS)
    main.wait_phase(name, "Running")
    canceled = main.cluster.cli(main.name, "cancel", name)
    assert phase(main.get(name)) == "Canceled", canceled.stderr
    assert main.cluster.cli(main.name, "wait", name).returncode == 130
    timed_out = main.cluster.cli(main.name, "run", "-s", "main", "-e", ENDLESS, "--timeout", "2")
    assert timed_out.returncode == 3, timed_out.stderr


def test_status_lists_sessions_and_statements(main: Space, large: str) -> None:
    printed = main.cluster.cli(main.name, "status", "-o", "json")
    listed = json.loads(printed.stdout)
    assert "main" in [session["session"] for session in listed["sessions"]]
    assert large in [statement["statement"] for statement in listed["statements"]]
    assert "main" in main.cluster.cli(main.name, "status").stdout


def test_config_tells_the_layer_of_each_value_and_no_secret(main: Space) -> None:
    printed = main.cluster.cli(main.name, "config", "main", "-o", "json").stdout
    told = {entry["name"]: (entry["value"], entry["layer"]) for entry in json.loads(printed)}
    assert told["driver.memory"] == ("768Mi", "Class")
    assert told["maxConcurrentStatements"] == ("4", "Session")
    assert told["statementTimeouts.queueSeconds"] == ("0", "Operator")
    assert told["conf.spark.hadoop.fs.s3a.secret.key"] == ("*********(redacted)", "Class")
    assert STORAGE_SECRET not in printed
