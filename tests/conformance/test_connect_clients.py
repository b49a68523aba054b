"""What pyspark-client does besides SQL: DataFrames, Arrow, cancel by tag, reattaching, the catalog."""

from __future__ import annotations

import pytest

from tests.conformance.programs import Run
from tests.conformance.suite import database

CLIENTS = ("pyspark-client", "pyspark-client-old")
ROWS = 400_000


@pytest.mark.parametrize("run", [pytest.param(None, marks=pytest.mark.client(c), id=c) for c in CLIENTS], indirect=True)
class TestConnect:
    def test_frames_of_the_clients_data_are_made_grouped_and_written(self, run: Run) -> None:
        assert run["dataframe"].get("rows") == [[0, 166833.0, 334], [1, 166167.0, 333], [2, 166500.0, 333]], run[
            "dataframe"
        ]
        assert run["dataframe:written"]["value"] == 1000

    def test_a_dropped_table_can_be_made_again_and_is_empty(self, run: Run) -> None:
        assert run["dropped"].get("value") == [0, 1, 0, 1], run["dropped"]

    def test_pandas_frame_comes_back_as_it_was_sent(self, run: Run) -> None:
        assert run["pandas"]["value"] == {"id": [0, 1, 2], "s": ["0", "1", "2"]}
        assert run["pandas:back"]["value"] == [[0, "0"], [1, "1"], [2, "2"]]

    def test_a_result_fetched_as_arrow_is_complete(self, run: Run) -> None:
        assert run["arrow"]["value"] == [100_000, 99_999]

    def test_settings_and_views_are_of_the_session(self, run: Run) -> None:
        assert run["settings"]["value"] == ["7", "7"]
        assert run["views"]["value"] == 3
        assert "TABLE_OR_VIEW_NOT_FOUND" in run["isolation"].get("error", ""), run["isolation"]

    def test_the_sessions_views_are_seen_only_on_request(self, run: Run) -> None:
        assert run["shared_view_true"].get("rows") == [[7]], run["shared_view_true"]
        assert "TABLE_OR_VIEW_NOT_FOUND" in run["shared_view_false"].get("error", ""), run["shared_view_false"]

    def test_catalog_lists_tables_and_columns_of_the_database(self, run: Run, request: pytest.FixtureRequest) -> None:
        answer = run["catalog"]
        assert {"t", "c"} <= set(answer["tables"]), (
            answer,
            database(request.node.get_closest_marker("client").args[0]),
        )
        assert answer["columns"] == ["id", "name", "amount", "day"]
        assert answer["exists"] is True

    def test_errors_have_condition_and_sql_state(self, run: Run) -> None:
        answer = run["error_class"]
        assert (answer["condition"], answer["sql_state"], answer["kind"]) == (
            "TABLE_OR_VIEW_NOT_FOUND", "42P01", "AnalysisException",
        )  # fmt: skip

    def test_a_wrong_token_is_refused_and_the_client_says_why(self, run: Run) -> None:
        error = run["wrong_token"].get("error", "")
        assert "UNAUTHENTICATED" in error or "oken" in error, run["wrong_token"]

    def test_a_tag_cancels_and_the_session_stays(self, run: Run) -> None:
        answer = run["cancel"]
        assert answer.get("alive") is False, answer
        assert answer["condition"] == "OPERATION_CANCELED", answer
        assert run["cancel:after"]["value"] == "alive"

    def test_a_cut_connection_is_taken_up_again_without_losing_a_row(self, run: Run) -> None:
        assert run["reattach"].get("value") == [ROWS, ROWS * (ROWS - 1) // 2], run["reattach"]

    def test_the_program_ends_in_peace(self, run: Run) -> None:
        assert run.exit_code == 0, run.noise[-3000:]
