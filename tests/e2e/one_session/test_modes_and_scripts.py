"""Modes that look without touching, and scripts."""

from __future__ import annotations

import pytest

from tests.e2e.streams import count_up
from tests.support.harness import Space, phase, reason

LEAST = {"name": "least", "value": "2.50", "type": "DECIMAL(10,2)"}


@pytest.fixture(scope="module")
def orders(main: Space) -> Space:
    """The session with a table `orders` of three rows and an empty table `copy`."""
    script = """
        CREATE TABLE orders (id INT, amount DECIMAL(10,2)) USING parquet;
        CREATE TABLE copy (id INT, amount DECIMAL(10,2)) USING parquet;
        INSERT INTO orders VALUES (1, 1.50), (2, 2.50), (3, 3.50)
    """
    ended = main.run(script)
    assert phase(ended) == "Finished", ended["status"]
    return main


def test_preview_runs_the_query_and_leaves_the_sink_alone(orders: Space) -> None:
    insert = "INSERT INTO copy SELECT * FROM orders WHERE id > 1 ORDER BY id"
    ended = orders.run(insert, mode="Preview", result={"maxRows": 1})
    assert phase(ended) == "Finished", ended["status"]
    assert ended["status"]["result"]["preview"] == [["2", "2.50"]]
    assert ended["status"]["result"]["truncated"] is True
    assert orders.rows("CREATE TABLE made AS SELECT max(id) AS m FROM orders", mode="Preview") == [["3"]]
    assert orders.rows("SELECT count(*) FROM copy") == [["0"]]
    assert "made" not in {row[1] for row in orders.rows("SHOW TABLES")}


@pytest.mark.thorough
def test_a_preview_of_a_source_without_end_shows_rows_while_it_runs(orders: Space) -> None:
    count_up(orders)
    insert = "INSERT INTO copy SELECT CAST(value AS INT), CAST(1 AS DECIMAL(10,2)) FROM STREAM ticks"
    name = orders.statement(insert, mode="Preview", timeouts={"executionSeconds": 60})
    running = orders.cluster.wait(
        "SqlStatement",
        orders.name,
        name,
        lambda s: phase(s) in ("Error", "TimedOut") or bool(s and s.get("status", {}).get("result", {}).get("preview")),
        "with rows",
        300,
    )
    assert phase(running) == "Running", running["status"]
    assert running["status"]["result"]["preview"][0] == ["0", "1.00"], running["status"]
    ended = orders.cluster.wait_finished(orders.name, name)
    assert (phase(ended), ended["status"]["result"]["truncated"]) == ("Finished", True), ended["status"]
    assert ended["status"]["result"]["rowCount"] >= running["status"]["result"]["rowCount"] > 0, ended["status"]
    assert orders.rows("SELECT count(*) FROM copy") == [["0"]]


def test_explain_shows_a_plan_and_runs_nothing(orders: Space) -> None:
    for sql in (
        "INSERT INTO copy SELECT * FROM orders",
        "DROP TABLE orders",
        "CREATE TABLE made (n INT) USING parquet",
    ):
        ended = orders.run(sql, mode="Explain")
        assert phase(ended) == "Finished", ended["status"]
        assert ended["status"]["result"]["preview"], ended["status"]
    assert orders.rows("SELECT count(*) FROM copy") == [["0"]]
    assert orders.rows("SELECT count(*) FROM orders") == [["3"]]


def test_validate_analyses_and_runs_nothing(orders: Space) -> None:
    ended = orders.run("SELECT id, amount AS a FROM orders", mode="Validate")
    assert [c["name"] for c in ended["status"]["result"]["columns"]] == ["id", "a"]
    assert ended["status"]["result"]["rowCount"] == 0
    assert phase(orders.run("DROP TABLE orders", mode="Validate")) == "Finished"
    wrong = orders.run("SELECT nothing FROM orders", mode="Validate")
    assert (phase(wrong), reason(wrong)) == ("Error", "SqlError")
    assert wrong["status"]["error"]["condition"] == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert orders.rows("SELECT count(*) FROM orders") == [["3"]]


@pytest.mark.parametrize("mode", ["Preview", "Explain", "Validate"])
@pytest.mark.parametrize(
    "sql",
    [
        "EXECUTE IMMEDIATE 'INSERT INTO copy VALUES (9, 9)'",
        "BEGIN INSERT INTO copy VALUES (9, 9); END",
        "CALL spark_catalog.system.expire_snapshots('copy')",
        "SELECT 1; SELECT 2",
    ],
    ids=lambda sql: sql.split()[0].lower(),
)
def test_preview_explain_and_validate_refuse_scripts_calls_and_execute_immediate(
    orders: Space, mode: str, sql: str
) -> None:
    ended = orders.run(sql, mode=mode)
    assert (phase(ended), reason(ended)) == ("Error", "InvalidSpec"), ended["status"]


def test_preview_refuses_statements_with_an_effect(orders: Space) -> None:
    for sql in ("DROP TABLE copy", "SET spark.sql.ansi.enabled=false", "TRUNCATE TABLE orders"):
        ended = orders.run(sql, mode="Preview")
        assert (phase(ended), reason(ended)) == ("Error", "InvalidSpec"), (sql, ended["status"])
    assert orders.rows("SELECT count(*) FROM orders") == [["3"]]


def test_a_script_runs_in_order_and_answers_with_its_last_rows(orders: Space) -> None:
    script = """
        -- a ; in a comment, and one in a string
        CREATE OR REPLACE TEMPORARY VIEW big AS SELECT * FROM orders WHERE amount > 2;
        SELECT 'a;b' AS not_the_last;
        SELECT count(*) AS n, sum(amount) AS total FROM big WHERE amount > :least;
        SET VAR seen = (SELECT max(id) FROM big)
    """
    ended = orders.run("DECLARE OR REPLACE VARIABLE seen INT;" + script, parameters=[LEAST])
    status = ended["status"]
    assert (phase(ended), status["statementType"]) == ("Finished", "SCRIPT"), status
    assert status["result"]["preview"] == [["1", "3.50"]]
    assert status["progress"]["statementCount"] == 5
    assert orders.rows("SELECT seen") == [["3"]]


def test_a_script_stops_at_its_first_error_and_says_where(orders: Space) -> None:
    script = (
        "CREATE TABLE stopped (n INT) USING parquet;\nSELECT 1;\n\nSELECT missing FROM stopped;\nDROP TABLE stopped"
    )
    ended = orders.run(script)
    assert (phase(ended), reason(ended)) == ("Error", "SqlError")
    assert ended["status"]["error"]["line"] == 4, ended["status"]["error"]
    assert ended["status"]["progress"]["statementIndex"] == 3
    assert "stopped" in {row[1] for row in orders.rows("SHOW TABLES")}


def test_a_script_with_a_refused_statement_runs_none_of_its_statements(orders: Space) -> None:
    ended = orders.run("INSERT INTO copy VALUES (8, 8); ADD JAR 'https://somewhere.example/a.jar'")
    assert (phase(ended), reason(ended)) == ("Error", "NotAllowed"), ended["status"]
    assert orders.rows("SELECT count(*) FROM copy WHERE id = 8") == [["0"]]


def test_a_block_is_one_statement(orders: Space) -> None:
    block = """
        BEGIN
          DECLARE i INT DEFAULT 0;
          WHILE i < 3 DO
            SET i = i + 1;
          END WHILE;
          SELECT i AS turns;
        END
    """
    ended = orders.run(block)
    assert phase(ended) == "Finished", ended["status"]
    assert ended["status"]["result"]["preview"] == [["3"]]
