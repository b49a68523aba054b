"""What HiveServer2's clients do besides queries: metadata, asynchronous statements, cancel, tokens, dbt."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conformance.programs import ENDLESS, Run, beeline_command, environment, execute
from tests.conformance.suite import database
from tests.conformance.target import Target

ALIVE = [["alive"]]
EVERY = ("pyhive", "impyla", "hive-driver")


def of(*clients: str) -> pytest.MarkDecorator:
    """The test looks at these clients' answers, one after the other."""
    params = [pytest.param(None, marks=pytest.mark.client(client), id=client) for client in clients]
    return pytest.mark.parametrize("run", params, indirect=True)


@of(*EVERY)
def test_a_canceled_statement_leaves_the_session_usable(run: Run) -> None:
    assert run["cancel"].get("rows") == ALIVE, run["cancel"]


@of("pyhive", "impyla")
def test_a_stream_is_iterated_as_its_rows_come_and_canceled(run: Run) -> None:
    assert run["follow"].get("value") == [1, 2, "alive"], run["follow"]


@of(*EVERY)
def test_a_wrong_token_is_refused_and_the_client_says_why(run: Run) -> None:
    answer = run["wrong_token"]
    assert "oken" in answer.get("error", ""), answer


@of("impyla", "hive-driver", "pyhive")
def test_the_program_ends_in_peace(run: Run) -> None:
    assert run.exit_code == 0, run.noise


@pytest.mark.client("pyhive")
class TestPyHive:
    def test_pyhive_polls_and_fetches_in_parts(self, run: Run) -> None:
        assert run["poll"]["value"] == [[[0], [1]], [2], [[3], [4]], None]

    def test_pyhive_describes_columns_by_hives_types(self, run: Run) -> None:
        assert run["types"]["value"] == [
            ["i", "INT_TYPE"], ["s", "STRING_TYPE"], ["d", "DECIMAL_TYPE"], ["t", "DATE_TYPE"], ["a", "ARRAY_TYPE"],
        ]  # fmt: skip

    def test_pyhive_escapes_parameters_of_a_statement(self, run: Run) -> None:
        assert run["parameters"]["value"] == [["it's \\ fine", 5]]

    def test_pyhive_opens_a_session_with_settings_and_a_database(self, run: Run) -> None:
        assert run["settings"]["value"] == [[["spark.sql.shuffle.partitions", "5"]], [[database("pyhive")]]]

    def test_a_session_sees_shared_views_only_on_request_and_no_other_sessions_views(self, run: Run) -> None:
        assert run["shared_view_true"].get("rows") == [[7]], run["shared_view_true"]
        for name in ("shared_view_false", "isolation"):
            assert "TABLE_OR_VIEW_NOT_FOUND" in run[name].get("error", ""), run[name]


@pytest.mark.client("impyla")
def test_impyla_browses_the_catalog(run: Run) -> None:
    own = database("impyla")
    answer = run["metadata"]
    assert own in answer["databases"]
    assert {(row[0], row[1], row[2]) for row in answer["tables"]} >= {(own, "t", "TABLE"), (own, "c", "TABLE")}
    assert answer["schema"] == [["id", "INT"], ["name", "STRING"], ["amount", "DECIMAL(10,2)"], ["day", "DATE"]]
    assert answer["exists"] == [True, False]


@pytest.mark.client("hive-driver")
def test_hive_driver_browses_the_catalog(run: Run) -> None:
    own = database("hive-driver")
    answer = run["metadata"]
    assert "error" not in answer, answer
    assert ["t", "TABLE"] in answer["tables"]
    assert answer["schemas"] == [own]
    assert answer["columns"] == [["id", "INT"], ["name", "STRING"], ["amount", "DECIMAL(10,2)"], ["day", "DATE"]]
    assert {"BIGINT", "STRING", "DECIMAL", "TIMESTAMP"} <= set(answer["types"])
    assert {"TABLE", "VIEW"} <= set(answer["tableTypes"])
    assert "upper" in answer["functions"]


@pytest.mark.client("beeline")
def test_beeline_browses_the_catalog(run: Run) -> None:
    own = database("beeline")
    tables = {(row[1], row[2]) for row in run["tables"]["rows"]}
    assert (own, "t") in tables, tables
    columns = [(row[3], row[5]) for row in run["table_columns"]["rows"] if row[1] == own]
    assert columns == [("id", "INT"), ("name", "STRING"), ("amount", "DECIMAL(10,2)"), ("day", "DATE")]


def test_beeline_comes_by_http_as_well(target: Target, tmp_path: Path) -> None:
    sql = "SELECT sum(id) AS total, current_schema() AS home FROM range(1000)"
    command = beeline_command(target, "-e", sql, by_http=True)
    output, noise, code, _ = execute(command, tmp_path, env=environment(SPARK_HOME=""))
    assert code == 0 and "499500" in output, f"{output}\n{noise}"
    wrong = dataclasses.replace(target, token="wrong")
    command = beeline_command(wrong, "-e", sql, by_http=True)
    output, noise, code, _ = execute(command, tmp_path, env=environment(SPARK_HOME=""))
    assert code != 0 and "401" in output + noise, f"{output}\n{noise}"


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_a_beeline_that_ends_leaves_nothing_running(target: Target, tmp_path: Path, ending: signal.Signals) -> None:
    command = [str(part) for part in beeline_command(target, "-e", ENDLESS)]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment(SPARK_HOME="")
        )
        try:
            deadline = time.monotonic() + 240
            while not any(o["door"] == "thrift" for o in target.get("/control/v1/clients")["operations"]):
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            process.send_signal(ending)
            target.wait_until_nothing_runs("thrift")
        finally:
            process.kill()
            process.wait()


@pytest.mark.client("dbt")
@pytest.mark.parametrize("turn", ["first", "second"])
class TestDbt:
    def test_dbt_seed_inserts_all_rows(self, run: Run, turn: str) -> None:
        assert run[f"{turn}_seed"]["results"] == {"orders": ["success", "INSERT 4"]}, run[f"{turn}_seed"]

    def test_builds_a_view_and_a_table(self, run: Run, turn: str) -> None:
        results = run[f"{turn}_run"]["results"]
        assert {name: status for name, (status, _) in results.items()} == dict.fromkeys(
            ("latest", "spending", "totals"), "success"
        )

    def test_dbt_snapshot_into_iceberg_is_made_and_then_merged(self, run: Run, turn: str) -> None:
        assert run[f"{turn}_snapshot"]["success"], run[f"{turn}_snapshot"]
        assert {status for status, _ in run[f"{turn}_snapshot"]["results"].values()} == {"success"}

    def test_dbt_docs_know_the_columns_of_all_tables(self, run: Run, turn: str) -> None:
        assert run[f"{turn}_docs"]["success"], run[f"{turn}_docs"]
        columns = run[f"{turn}_docs"]["columns"]
        assert columns["latest"] == ["customer", "total"]
        assert {"customer", "total", "dbt_scd_id", "dbt_valid_from", "dbt_valid_to"} <= set(columns["history"])

    def test_all_dbt_tests_of_the_project_pass(self, run: Run, turn: str) -> None:
        results = run[f"{turn}_test"]["results"]
        assert {status for status, _ in results.values()} == {"pass"}, results
        assert len(results) == 4
