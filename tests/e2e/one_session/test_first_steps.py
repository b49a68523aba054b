"""The thin slice: a session, a statement, its result, its conditions, its error."""

from __future__ import annotations

from tests.support.harness import Space, condition, phase, reason


def test_a_statement_finishes_with_its_result(main: Space) -> None:
    ended = main.run("SELECT 1 AS a, 'x' AS b, CAST(NULL AS INT) AS c")
    status = ended["status"]
    assert phase(ended) == "Finished", status
    assert status["result"]["preview"] == [["1", "x", None]]
    assert [c["name"] for c in status["result"]["columns"]] == ["a", "b", "c"]
    assert status["result"]["truncated"] is False
    assert (status["run"], status["attempt"]) == (1, 1)
    assert status["statementType"] == "SELECT"
    assert condition(ended, "Succeeded") == "True"
    assert condition(ended, "Ready") == "True"
    assert status["observedGeneration"] == ended["metadata"]["generation"]


def test_an_error_names_condition_state_line_and_position(main: Space) -> None:
    ended = main.run("SELECT 1,\n  nowhere.x\nFROM missing_table")
    error = ended["status"]["error"]
    assert phase(ended) == "Error"
    assert reason(ended) == "SqlError"
    assert error["condition"] == "TABLE_OR_VIEW_NOT_FOUND", error
    assert error["sqlState"] == "42P01"
    assert error["line"] == 3, error
    assert condition(ended, "Stalled") == "True"
    assert condition(ended, "Succeeded") == "False"


def test_executors_do_the_work(main: Space) -> None:
    assert main.rows("SELECT count(*), sum(id) FROM range(1000000)") == [["1000000", "499999500000"]]
    executors = main.cluster.list("Pod", main.name, "spark-role=executor")
    assert executors, "no executor pod"
