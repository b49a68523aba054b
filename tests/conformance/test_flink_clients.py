"""What Flink's released clients do besides queries: scripts, metadata, errors, tokens. Old ones included."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.clients import install
from tests.conformance.programs import FlinkSqlClient, Run, execute, flink_environment, flink_properties
from tests.conformance.suite import database
from tests.conformance.target import Target

NEW = "flink-jdbc"
OLD = "flink-jdbc-old"


@pytest.mark.parametrize(
    "run", [pytest.param(None, marks=pytest.mark.client(c), id=c) for c in (NEW, OLD)], indirect=True
)
class TestJdbc:
    def test_catalog_and_schema_are_read_and_chosen(self, run: Run, request: pytest.FixtureRequest) -> None:
        client = request.node.get_closest_marker("client").args[0]
        assert run["names"] == {
            "name": "names", "catalog": "spark_catalog", "before": run["names"]["before"], "after": database(client)
        }  # fmt: skip

    def test_catalogs_and_schemas_are_listed(self, run: Run, request: pytest.FixtureRequest) -> None:
        client = request.node.get_closest_marker("client").args[0]
        assert "spark_catalog" in run["metadata"]["catalogs"]
        schemas = run["metadata"]["schemas"]
        assert [database(client), "spark_catalog"] in schemas, schemas

    def test_client_info_is_a_setting_of_the_session(self, run: Run) -> None:
        assert run["info"].get("value") == "9", run["info"]

    def test_an_unread_result_does_not_block_the_session(self, run: Run) -> None:
        assert run["two_results"].get("value") == [7, 20_000], run["two_results"]

    def test_rows_of_a_query_without_end_are_read_as_they_are_written(self, run: Run) -> None:
        assert run["stream"].get("value") == [1, 2], run["stream"]

    def test_the_url_chooses_database_settings_and_shared_views(self, run: Run, request: pytest.FixtureRequest) -> None:
        client = request.node.get_closest_marker("client").args[0]
        assert run["url"] == {"name": "url", "database": database(client), "property": "11"}
        assert run["shared_view_true"]["rows"] == [[7]]

    def test_the_jdbc_program_closes_its_connection_and_exits_cleanly(self, run: Run) -> None:
        assert run["closed"] == {"name": "closed", "value": True}
        assert run.exit_code == 0, run.noise


def test_jdbc_with_a_wrong_token_says_so(target: Target, tmp_path: Path) -> None:
    jars = install.FLINK_JDBC.install()
    (tmp_path / "none").write_text("")
    source = Path(__file__).parent / "clients" / "flink" / "Jdbc.java"
    properties = [f"{key}={value}" for key, value in flink_properties(target.store).items()]
    command: list[str | Path] = [
        "java", "-cp", f"{jars}/*", source, f"jdbc:flink://localhost:{target.rest}", tmp_path / "none", "x", *properties
    ]  # fmt: skip
    output, errors, code, _ = execute(command, tmp_path, env=flink_environment("wrong"), seconds=300)
    assert code == 1, output
    assert "oken" in errors, errors


SQL_CLIENT = FlinkSqlClient(install.FLINK_SQL_CLIENT)
TABLEAU = "SET 'sql-client.execution.result-mode' = 'tableau';\n"


def test_sql_client_runs_the_init_file_first(target: Target, tmp_path: Path) -> None:
    init = f"{TABLEAU}CREATE TEMPORARY VIEW made AS SELECT 41 AS n;\nSET spark.sql.shuffle.partitions=6;\n"
    script = "SELECT n + 1 AS answer FROM made;\nSET spark.sql.shuffle.partitions;\nEXIT;\n"
    shown = SQL_CLIENT.script(target, tmp_path, script, init)
    assert "42" in shown, shown
    assert "1 row in set" in shown, shown
    assert "| spark.sql.shuffle.partitions | 6 |" in " ".join(shown.split()), shown
    assert "Shutting down the session" in shown, shown


def test_sql_client_names_its_session_in_its_configuration(target: Target, tmp_path: Path) -> None:
    if not target.session:
        pytest.skip("a front needs a cluster")
    query = "SET 'sql-client.execution.result-mode' = 'tableau';\nSELECT 40 + 2;\n"
    shown = SQL_CLIENT.script(target, tmp_path, query, seconds=300, session=target.session)
    assert "42" in shown, shown
    refused = SQL_CLIENT.script(target, tmp_path, "SELECT 1;\n", seconds=300, session="kube-system/other")
    assert "may not connect to session kube-system/other" in refused, refused


def test_sql_client_stops_at_sparks_error(target: Target, tmp_path: Path) -> None:
    shown = SQL_CLIENT.script(
        target, tmp_path, f"{TABLEAU}SELECT 'before' AS b;\nSELECT * FROM nothing_there;\nSELECT 'after' AS a;\n"
    )
    assert "before" in shown, shown
    assert "[TABLE_OR_VIEW_NOT_FOUND]" in shown, shown
    assert "nothing_there" in shown, shown
    assert "42P01" in shown, shown
    assert "| after |" not in shown, shown


def test_sql_client_speaks_flinks_own_statements(target: Target, tmp_path: Path) -> None:
    script = (
        "SHOW CURRENT CATALOG;\nSHOW CURRENT DATABASE;\nUSE CATALOG spark_catalog;\nSHOW CATALOGS;\nSHOW DATABASES;\n"
        "SET 'pipeline.name' = 'mine';\nSET;\nRESET 'pipeline.name';\nHELP;\nQUIT;\n"
    )
    shown = SQL_CLIENT.script(target, tmp_path, TABLEAU + script)
    assert "[ERROR]" not in shown, shown
    for text in ("current catalog name", "current database name", "spark_catalog", "spark.sql.session.timeZone"):
        assert text in shown, shown
    assert "Shutting down the session" in shown, shown


def test_sql_client_with_a_wrong_token_says_so(target: Target, tmp_path: Path) -> None:
    shown = SQL_CLIENT.script(dataclasses.replace(target, token="wrong"), tmp_path, "SELECT 1;\n", seconds=300)
    assert "oken" in shown, shown


@pytest.fixture
def stream(target: Target) -> Iterator[str]:
    """A table whose rows are queried as they come."""
    name = "conformance_stream"
    target.run(f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} (k STRING, v INT) USING parquet")
    yield name
    target.run(f"DROP TABLE {name}")


VIEW = "SET 'execution.runtime-mode' = 'streaming';\nSET 'sql-client.execution.result-mode' = '{}';\n"


def test_sql_client_shows_a_changelog_as_it_comes(target: Target, stream: str, tmp_path: Path) -> None:
    with SQL_CLIENT.terminal(target, tmp_path, VIEW.format("changelog")) as client:
        client.wait_for(r"^Flink SQL> *$")
        client.type(f"SELECT k, sum(v) AS total FROM STREAM {stream} GROUP BY k;\r")
        client.wait_for("SQL Query Result")
        target.run(f"INSERT INTO {stream} VALUES ('a', 1)")
        client.wait_for(r"\+I +a +1\b")
        target.run(f"INSERT INTO {stream} VALUES ('a', 2), ('b', 5)")
        client.wait_for(r"-U +a +1\b[^+-]*\+U +a +3\b")
        client.wait_for(r"\+I +b +5\b")
        client.type("q")
        client.wait_for(r"^Flink SQL> *$")
        client.type("QUIT;\r")


def test_sql_client_shows_a_table_that_changes(target: Target, stream: str, tmp_path: Path) -> None:
    with SQL_CLIENT.terminal(target, tmp_path, VIEW.format("table")) as client:
        client.wait_for(r"^Flink SQL> *$")
        client.type(f"SELECT k, sum(v) AS total FROM STREAM {stream} GROUP BY k HAVING sum(v) < 10;\r")
        client.wait_for("SQL Query Result")
        target.run(f"INSERT INTO {stream} VALUES ('a', 1), ('b', 5)")
        client.wait_for(r"^ *a +1\b")
        target.run(f"INSERT INTO {stream} VALUES ('a', 2), ('b', 5)")
        client.wait_for(r"\A(?![\s\S]*^ *b +\d)[\s\S]*^ *a +3\b")  # the client shows a batch's changes one by one
        client.type("q")
        client.wait_for(r"^Flink SQL> *$")
        client.type("QUIT;\r")
