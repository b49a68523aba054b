"""What a plan shows: calls of window table functions, and words for the columns that only the gateway knows."""

from __future__ import annotations

import ast
from pathlib import Path

import sparksql.gateway
from sparksql.gateway.execution.explained import in_words
from sparksql.gateway.sql.own_columns import WORDS
from sparksql.gateway.sql.own_columns import in_words as column_in_words

# No columns: of Python itself, of names that are made with a table's or an operation's, of the record around Avro's values.
NO_COLUMNS = ("__main__", "__deleted", "__sparksql_")


def literals(folder: Path) -> set[str]:
    """The texts in code that begin as our columns do."""
    return {
        node.value
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("__")
    }


def test_each_column_that_only_the_gateway_knows_has_a_word() -> None:
    found = literals(Path(sparksql.gateway.__file__).parent)
    columns = {name for name in found if name.isidentifier() and name.islower() and not name.startswith(NO_COLUMNS)}
    assert columns == set(WORDS)


def test_bounds_of_windows_are_told_as_what_they_are_of() -> None:
    plan = (
        "Project [a#1, precisetimestampconversion((__window_micros#2L - pmod(__window_micros#2L, 60)), LongType, TimestampType) AS window_start#3, "
        "precisetimestampconversion(__window_cut_end#4L, LongType, TimestampType) AS window_end#5]\n"
        "+- Project [concat(a#1, __key_0#6) AS window_time#7, precisetimestampconversion(__curve_part_1_sum#8L, LongType, TimestampType) AS window_end#9]"
    )
    assert in_words(plan, {2: "TUMBLE(ts, 60s)", 5: "HOP(ts, 60s, 120s)", 7: "no arithmetic"}) == (
        "Project [a#1, window_start of TUMBLE(ts, 60s) AS window_start#3, window_end of HOP(ts, 60s, 120s) AS window_end#5]\n"
        "+- Project [concat(a#1, key_0#6) AS window_time#7, precisetimestampconversion(total_1_sum#8L, LongType, TimestampType) AS window_end#9]"
    )


def test_names_of_users_stay_as_they_are_in_a_plan() -> None:
    plan = "Project [x__window_micros#1, __op#2, __window_microscope#3, '__window_micros' AS b#4, __key#5]"
    assert in_words(plan, {}) == plan


def test_columns_of_states_have_the_words_that_plans_have() -> None:
    names = ["__curve_key_0", "__curve_part_1_sum", "__curve_pane_end", "__distinct_0", "__mine", "k", "x__curve_pane"]
    told = ["key_0", "total_1_sum", "step_end", "distinct_0", "__mine", "k", "x__curve_pane"]
    assert [column_in_words(each) for each in names] == told
