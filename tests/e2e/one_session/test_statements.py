"""What becomes of one statement in a session: results, errors, configuration, parameters, runs, retries, time to live."""

from __future__ import annotations

import json

import pytest

from tests.support.harness import ENDLESS, Object, Space, condition, phase, reason


def test_phases_only_go_forward(main: Space) -> None:
    name = main.statement("SELECT sum(id) FROM range(1000)")
    order = ["Initialized", "Pending", "Running", "Finished"]
    seen: list[str] = []
    for obj in main.cluster.follow("SqlStatement", main.name, name, seconds=300):
        current = phase(obj)
        if current is not None and (not seen or seen[-1] != current):
            seen.append(current)
        if current == "Finished":
            break
    assert seen and seen[-1] == "Finished", seen
    assert seen == [p for p in order if p in seen], seen
    status = main.get(name)["status"]
    assert status["submittedTime"] <= status["startTime"] <= status["completionTime"]
    assert status["session"]["podUID"] == main.get_session()["status"]["driver"]["podUID"]
    assert len(status["operationId"]) == 36


def test_a_finished_statement_has_all_conditions_at_its_generation(main: Space) -> None:
    ended = main.run("SELECT 1")
    conditions = {c["type"]: c for c in ended["status"]["conditions"]}
    assert {t: c["status"] for t, c in conditions.items()} == {
        "Ready": "True", "Reconciling": "False", "Stalled": "False", "Succeeded": "True", "Finished": "True",
    }  # fmt: skip
    assert {c["observedGeneration"] for c in conditions.values()} == {ended["metadata"]["generation"]}
    assert {c["reason"] for c in conditions.values()} == {"Finished"}


def test_ddl_and_dml_in_parquet_and_iceberg(main: Space) -> None:
    for using in ("parquet", "iceberg"):
        table = f"t_{using}"
        created = main.run(f"CREATE TABLE {table} (id INT, name STRING) USING {using}")
        assert (phase(created), created["status"]["statementType"]) == ("Finished", "CREATE TABLE"), created["status"]
        inserted = main.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
        assert (phase(inserted), inserted["status"]["statementType"]) == ("Finished", "INSERT"), inserted["status"]
        assert inserted["status"]["readOnly"] is False
        assert main.rows(f"SELECT * FROM {table} ORDER BY id") == [["1", "a"], ["2", "b"]]
    merge = (
        "MERGE INTO t_iceberg t USING (SELECT 2 AS id, 'B' AS name UNION ALL SELECT 3, 'c') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *"
    )
    assert main.run(merge)["status"]["statementType"] == "MERGE"
    assert main.rows("SELECT * FROM t_iceberg ORDER BY id") == [["1", "a"], ["2", "B"], ["3", "c"]]
    assert {"t_iceberg", "t_parquet"} <= {row[1] for row in main.rows("SHOW TABLES")}


def test_truncated_is_true_only_when_the_preview_leaves_rows_out(main: Space) -> None:
    for rows, truncated in ((10, False), (11, True)):
        result = main.run(f"SELECT id FROM range({rows})", result={"maxRows": 10})["status"]["result"]
        assert (result["rowCount"], result["truncated"]) == (10, truncated), result
    few = main.run("SELECT id FROM range(10)", result={"previewRows": 3})["status"]["result"]
    assert (few["rowCount"], few["truncated"], len(few["preview"])) == (10, False, 3)


def test_a_preview_is_bounded(main: Space) -> None:
    ended = main.run("SELECT repeat('x', 5000) AS wide FROM range(20)")
    result = ended["status"]["result"]
    assert result["rowCount"] == 20
    assert len(json.dumps(result["preview"])) <= 8192
    assert result["truncated"] is False


def test_runtime_and_syntax_errors_of_a_statement_name_their_line(main: Space) -> None:
    error = main.run("SELECT\n  id,\n  1 / (id - 5) AS x\nFROM range(10)")["status"]["error"]
    assert (error["condition"], error["sqlState"], error["line"]) == ("DIVIDE_BY_ZERO", "22012", 3), error
    assert error["fragment"] == "1 / (id - 5)"
    syntax = main.run("SELECT 1\nFORM range(10)")
    assert syntax["status"]["error"]["condition"] == "PARSE_SYNTAX_ERROR", syntax["status"]
    assert syntax["status"]["error"]["line"] == 2


def test_a_running_statement_is_cancelled_with_its_jobs(main: Space) -> None:
    name = main.statement(ENDLESS)
    main.wait_phase(name, "Running")
    main.cluster.wait(
        "SqlStatement", main.name, name, lambda o: bool((o or {})["status"].get("progress", {}).get("tasksTotal")), "seen at work"
    )  # fmt: skip
    main.cancel(name)
    ended = main.cluster.wait_finished(main.name, name)
    assert (phase(ended), reason(ended)) == ("Canceled", "CanceledByUser")
    assert condition(ended, "Stalled") == "False" and condition(ended, "Succeeded") == "False"
    # The one executor is free again: an endless task left behind would hold this up for ever.
    assert main.rows("SELECT sum(id) FROM range(0, 1000, 1, 4)") == [["499500"]]


def test_statement_conf_stays_with_the_statement_and_denied_keys_are_refused(main: Space) -> None:
    key = "spark.sql.shuffle.partitions"
    assert main.rows(f"SET {key}", conf={key: "7"}) == [[key, "7"]]
    assert main.rows(f"SET {key}") != [[key, "7"]]
    for refused in ("spark.kubernetes.namespace", "SPARK.JARS", "spark.hadoop.fs.s3a.secret.key"):
        ended = main.run("SELECT 1", conf={refused: "x"})
        assert (phase(ended), reason(ended)) == ("Error", "NotAllowed"), ended["status"]
        assert refused in (condition(ended, "Ready", "message") or "")
    ended = main.run("SET spark.driver.extraJavaOptions=-Dx=y")
    assert (phase(ended), reason(ended)) == ("Error", "NotAllowed"), ended["status"]


def test_session_state_is_kept_between_statements(main: Space) -> None:
    main.run("CREATE TEMPORARY VIEW seven AS SELECT 7 AS n")
    main.run("DECLARE VARIABLE answer INT DEFAULT 42")
    assert main.rows("SELECT n, answer FROM seven") == [["7", "42"]]


def test_parameters_are_bound_by_their_type(main: Space) -> None:
    main.config_map("limits", most="10.50")
    parameters = [
        {"name": "day", "value": "2026-01-31", "type": "DATE"},
        {"name": "n", "value": "41", "type": "INT"},
        {"name": "text", "value": "it's; :n -- '"},
        {"name": "most", "type": "DECIMAL(10,2)", "valueFrom": {"configMapKeyRef": {"name": "limits", "key": "most"}}},
    ]
    sql = "SELECT :day + INTERVAL 1 DAY AS d, :n + 1 AS n, :text AS t, :most * 2 AS m"
    assert main.rows(sql, parameters=parameters) == [["2026-02-01", "42", "it's; :n -- '", "21.00"]]


def test_parameters_that_cannot_be_bound_are_refused(main: Space) -> None:
    cases = {
        "SELECT 1": [{"name": "unused", "value": "1"}],
        "SELECT :n": [{"name": "n", "value": "no number", "type": "INT"}],
        "SET spark.sql.shuffle.partitions=:n": [{"name": "n", "value": "3"}],
    }
    for sql, parameters in cases.items():
        ended = main.run(sql, parameters=parameters)
        assert (phase(ended), reason(ended)) == ("Error", "InvalidSpec"), (sql, ended["status"])


def test_a_missing_secret_is_waited_for(main: Space) -> None:
    source = {"secretKeyRef": {"name": "late", "key": "password"}}
    name = main.statement("SELECT length(:p) AS n", parameters=[{"name": "p", "valueFrom": source}])
    main.wait_reason("SqlStatement", name, "WaitingForSource")
    main.secret("late", password="eleven char")
    ended = main.cluster.wait_finished(main.name, name)
    assert ended["status"]["result"]["preview"] == [["11"]]


def test_text_from_a_config_map(main: Space) -> None:
    main.config_map("queries", one="SELECT 'first' AS version")
    ref = {"configMapKeyRef": {"name": "queries", "key": "one"}}
    name = main.statement(None, sqlFrom=ref)
    assert main.cluster.wait_finished(main.name, name)["status"]["result"]["preview"] == [["first"]]
    changed = {"data": {"one": "SELECT 'second' AS version"}}
    main.cluster.patch("ConfigMap", main.name, "queries", changed)
    assert main.get(name)["status"]["result"]["preview"] == [["first"]]
    main.change("SqlStatement", name, runNonce="again")
    assert _wait_run(main, name, 2)["status"]["result"]["preview"] == [["second"]]


def test_a_finished_statement_with_a_new_run_nonce_runs_once_more(main: Space) -> None:
    main.run("CREATE TABLE runs (n INT) USING parquet")
    name = main.statement("INSERT INTO runs VALUES (1)")
    first = main.cluster.wait_finished(main.name, name)
    main.change("SqlStatement", name, runNonce="2")
    second = _wait_run(main, name, 2)
    assert phase(second) == "Finished"
    assert second["status"]["operationId"] != first["status"]["operationId"]
    assert second["status"]["observedRunNonce"] == "2"
    assert main.rows("SELECT count(*) FROM runs") == [["2"]]


def test_a_retry_runs_again_after_an_error(main: Space) -> None:
    retry = {"limit": 3, "backoffSeconds": 5, "on": ["SqlError"]}
    name = main.statement("SELECT count(*) FROM comes_later", retry=retry)
    waiting = main.wait_reason("SqlStatement", name, "Retrying", "SqlError")
    assert phase(waiting) == "Initialized" and waiting["status"]["attempt"] == 2
    main.run("CREATE TABLE comes_later (n INT) USING parquet")
    ended = main.cluster.wait_finished(main.name, name)
    assert phase(ended) == "Finished", ended["status"]
    never = main.run("SELECT 1 FROM never_there", retry={"limit": 1, "backoffSeconds": 1, "on": ["SqlError"]})
    assert (phase(never), never["status"]["attempt"]) == ("Error", 2)


def test_an_ended_statement_is_deleted_after_its_time_to_live(main: Space) -> None:
    name = main.statement("SELECT 1", ttlSecondsAfterFinished=2)
    seen = [phase(obj) for obj in main.cluster.follow("SqlStatement", main.name, name, seconds=300)]
    assert seen[-1:] == ["Finished"], seen  # and then it was deleted
    assert main.cluster.get("SqlStatement", main.name, name) is None


def test_a_dedicated_session_goes_with_its_statement(main: Space) -> None:
    name = main.statement(
        "SELECT sum(id) AS total FROM range(10)", session={"conf": {"spark.sql.ansi.enabled": "true"}}
    )
    main.wait_phase(name, "Running", "Finished")
    own = main.get(name)["status"]["session"]["name"]
    owner = main.cluster.get("SqlSession", main.name, own)
    assert owner is None or owner["metadata"]["ownerReferences"][0]["name"] == name
    ended = main.cluster.wait_finished(main.name, name)
    assert phase(ended) == "Finished", ended["status"]
    assert ended["status"]["result"]["preview"] == [["45"]]
    main.cluster.wait_gone("SqlSession", main.name, own)
    assert phase(main.get(name)) == "Finished"


def test_a_savepoint_of_a_batch_statement_fails_and_says_why(main: Space) -> None:
    ended = main.run("SELECT 1")
    body = {
        "apiVersion": "sparksql.dev/v1alpha1",
        "kind": "SqlSavepoint",
        "metadata": {"name": "batch", "namespace": main.name},
        "spec": {"statementRef": {"name": ended["metadata"]["name"]}},
    }
    main.cluster.create(body)
    savepoint = main.wait_reason("SqlSavepoint", "batch", "StatementNotStreaming")
    assert (phase(savepoint), condition(savepoint, "Stalled")) == ("Failed", "True"), savepoint["status"]


def _wait_run(space: Space, name: str, run: int) -> Object:
    def has_ended(obj: Object | None) -> bool:
        return (obj or {})["status"].get("run") == run and condition(obj, "Finished") == "True"

    return space.cluster.wait("SqlStatement", space.name, name, has_ended, f"at the end of run {run}")


@pytest.mark.parametrize("form", ["parquet", "json", "iceberg"])
def test_a_dropped_table_can_be_made_again_and_is_empty(main: Space, form: str) -> None:
    for _ in range(2):
        made = main.run(f"CREATE TABLE dropped_{form} (a INT) USING {form}")
        assert phase(made) == "Finished", made["status"]
        counted = main.run(f"SELECT count(*) FROM dropped_{form}")
        assert counted["status"]["result"]["preview"] == [["0"]]
        assert phase(main.run(f"INSERT INTO dropped_{form} VALUES (1)")) == "Finished"
        dropped = main.run(f"DROP TABLE dropped_{form}{' PURGE' if form == 'iceberg' else ''}")
        assert phase(dropped) == "Finished", dropped["status"]
