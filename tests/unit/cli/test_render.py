from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.cli import render
from sparksql.cli.objects import Session, Statement
from sparksql.cli.results import says_all
from sparksql.wire.clients import ClientOperationView, ClientSessionView, ClientsView
from sparksql.wire.control import (
    ClientProtocol,
    Column,
    OperationState,
    ResultSummary,
)

NAME_AND_SUM = [Column(name="name", type="string"), Column(name="sum", type="int")]


def statement(sql: str = "SELECT 1", **status: Any) -> Statement:
    return Statement.of({
        "metadata": {"name": "daily", "namespace": "n", "generation": 1},
        "spec": {"sql": sql, "sessionRef": {"name": "analytics"}},
        "status": {"observedGeneration": 1, **status},
    })  # fmt: skip


def condition(kind: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": reason, "message": message}


def test_table_aligns_numbers_right_and_shows_null() -> None:
    assert render.table(NAME_AND_SUM, [("漢字", 5), (None, None), ("a\nb\x1b[2J", 1234)]) == (
        "name        | sum\n------------+-----\n漢字        |    5\nNULL        | NULL\na\\nb\\x1b[2J | 1234\n"
    )


def test_table_of_a_single_cell_has_the_lines_of_its_text() -> None:
    plan = [Column(name="plan", type="string")]
    assert render.table(plan, [("== Plan ==\n\tScan \x1b[2J\n",)]) == (
        "plan\n--------------------\n== Plan ==\n        Scan \\x1b[2J\n"
    )
    assert render.table(plan, [("a\nb",), ("c",)]) == "plan\n----\na\\nb\nc\n"


def test_record_has_a_line_a_column_and_the_lines_of_its_values() -> None:
    columns = (Column(name="id", type="int"), Column(name="plan", type="string"))
    assert render.expanded(columns, [(1, "== Plan ==\n+- Scan\x1b\n"), (None, "x")]) == (
        "-[ row 1 ]\nid   | 1\nplan | == Plan ==\n     | +- Scan\\x1b\n-[ row 2 ]\nid   | NULL\nplan | x\n"
    )
    assert render.expanded((), [(), ()]) == ""


@pytest.mark.parametrize(("count", "words"), [(1, "an earlier result of it is"), (3, "3 earlier results of it are")])
def test_note_of_earlier_results_has_their_number(count: int, words: str) -> None:
    assert render.earlier_note(count) == f"This is the last result of the script; {words} left out"


def test_table_without_columns_is_empty_and_without_rows_has_a_header() -> None:
    assert render.table([], []) == ""
    assert render.table(NAME_AND_SUM, []) == "name | sum\n-----+----\n"


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (["a", "b"], "a,b\n"),
        ([None, ""], ',""\n'),
        (['say "hi"', "a,b"], '"say ""hi""","a,b"\n'),
        (["two\nlines", " padded "], '"two\nlines"," padded "\n'),
    ],
)
def test_csv_quotes_what_must_be_quoted(values: list[str | None], line: str) -> None:
    assert render.csv_line(values) == line


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=2))
def test_csv_line_is_read_back_with_the_same_values(values: list[str]) -> None:
    assert list(csv.reader(io.StringIO(render.csv_line(values), newline=""))) == [values]


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["a_2", "a", "a"], ["a_2", "a", "a_3"]),
    ],
)
def test_json_keys_are_unique(names: list[str], keys: list[str]) -> None:
    assert render.json_names([Column(name=name, type="int") for name in names]) == keys


def test_json_row_of_preview_text_has_typed_values() -> None:
    assert render.json_row(["name", "sum"], NAME_AND_SUM, ("x\x9b", "5")) == '{"name": "x\\u009b", "sum": 5}'


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0s"), (59.94, "59.9s"), (60, "1m00s"), (3599, "59m59s"), (7620, "2h07m")]
)
def test_duration_is_shown_in_seconds_minutes_or_hours_by_its_length(seconds: float, text: str) -> None:
    assert render.duration(seconds) == text


PROGRESS = {"tasksDone": 10, "tasksTotal": 12, "stagesDone": 1, "stagesTotal": 2}


@pytest.mark.parametrize(
    ("states", "total", "line"),
    [
        ([], 1, "3.4s"),
        ([statement()], 1, "daily  Waiting for the operator  3.4s"),
        (
            [statement(phase="Initialized", conditions=[condition("Reconciling", "SessionNotReady")])],
            1,
            "daily  Initialized (SessionNotReady)  3.4s",
        ),
        (
            [
                statement(
                    phase="Initialized",
                    conditions=[condition("Reconciling", "SessionNotReady", "session b\nis Failed")],
                )
            ],
            1,
            "daily  Initialized (SessionNotReady)  3.4s  session b is Failed",
        ),
        ([statement(phase="Running", progress=PROGRESS)], 1, "daily  Running  stages 1/2  tasks 10/12  3.4s"),
        (
            [statement(phase="Running", progress={**PROGRESS, "statementIndex": 2, "statementCount": 3})],
            1,
            "daily  Running  statement 2/3  stages 1/2  tasks 10/12  3.4s",
        ),
        (
            [statement(phase="Finished", conditions=[condition("Finished", "Finished")]), statement(phase="Pending")],
            2,
            "1/2 ended  daily  Pending  3.4s",
        ),
    ],
)
def test_progress_line_counts_statements_by_state(states: list[Statement], total: int, line: str) -> None:
    assert render.progress_line(states, total, 3.4, 200) == line


STARTING = {
    "metadata": {"name": "analytics", "namespace": "n"},
    "status": {
        "phase": "Starting",
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes\nhave memory"}
        ],
    },
}
SHORT_OF_EXECUTORS = {
    "metadata": {"name": "analytics", "namespace": "n"},
    "status": {"phase": "Ready", "executors": {"wanted": 2, "message": "0/1 nodes have 4 cpu"}},
}


@pytest.mark.parametrize(
    ("message", "session", "text"),
    [
        ("", STARTING, "session analytics: Unschedulable: 0/1 nodes have memory"),
        ("it waits", STARTING, "it waits; session analytics: Unschedulable: 0/1 nodes have memory"),
        (
            "session analytics is Starting: 0/1 nodes have memory",
            STARTING,
            "session analytics is Starting: 0/1 nodes have memory",
        ),
        ("", SHORT_OF_EXECUTORS, "executors: 0/1 nodes have 4 cpu"),
        (
            "waits for an executor: 0/1 nodes have 4 cpu",
            SHORT_OF_EXECUTORS,
            "waits for an executor: 0/1 nodes have 4 cpu",
        ),
        ("", {"metadata": {"name": "a", "namespace": "n"}, "status": {"phase": "Ready"}}, ""),
    ],
)
def test_wait_is_explained_by_session_and_executors_with_each_message_once(
    message: str, session: dict[str, Any], text: str
) -> None:
    waiting = statement(phase="Initialized", conditions=[condition("Reconciling", "SessionNotReady", message)])
    assert render.waits_for(waiting, Session.of(session)) == text


def test_progress_line_is_cut_to_the_terminal_and_safe() -> None:
    running = statement(phase="Running", conditions=[condition("Reconciling", "\x1b[2Jx" * 20)])
    line = render.progress_line([running], 1, 1.0, 40)
    assert len(line) == 39
    assert "\x1b" not in line


ENDED = [condition("Stalled", "SqlError", "no such table"), condition("Finished", "SqlError")]


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (
            statement(
                "SELECT 1;\n\tSELECT * FROM t",
                phase="Error",
                conditions=ENDED,
                error={
                    "condition": "TABLE_OR_VIEW_NOT_FOUND",
                    "sqlState": "42P01",
                    "message": "The table `t`\ncannot be \x1bfound.\n",
                    "line": 2,
                    "position": 16,
                },
            ),
            "daily: Error: TABLE_OR_VIEW_NOT_FOUND (SQLSTATE 42P01) at line 2:16\n"
            "The table `t`\n"
            "cannot be \\x1bfound.\n"
            "  2 |  SELECT * FROM t\n"
            "    |                ^\n",
        ),
        (
            statement("SELECT '漢字' + x", phase="Error", conditions=ENDED, error={"line": 1, "position": 15}),
            "daily: Error: SqlError at line 1:15\n  1 | SELECT '漢字' + x\n    |                 ^\n",
        ),
        (
            statement("SELECT 1", phase="Error", conditions=ENDED, error={"line": 7, "fragment": "x\x07"}),
            "daily: Error: SqlError at line 7:1\n  near: x\\x07\n",
        ),
        (
            statement(phase="Error", conditions=[condition("Stalled", "SessionLost", "outcome unknown")]),
            "daily: Error (SessionLost): outcome unknown\n",
        ),
        (
            statement(phase="Canceled", conditions=[condition("Finished", "CanceledByUser")]),
            "daily: Canceled (CanceledByUser)\n",
        ),
        (statement(phase="Running").model_copy(update={"deleted": True}), "daily was deleted before it ended\n"),
    ],
)
def test_failure_says_where_and_why(seen: Statement, text: str) -> None:
    assert render.failure(seen) == text


@pytest.mark.parametrize(
    ("rows", "truncated", "shown", "note"),
    [
        (3, False, 3, ""),
        (50, False, 20, "Only 20 of 50 rows are shown: expired"),
        (3, True, 3, "The result was cut at 3 rows; the statement had more (spec.result.maxRows)"),
    ],
)
def test_result_note_tells_of_rows_that_are_not_shown_or_were_cut(
    rows: int, truncated: bool, shown: int, note: str
) -> None:
    assert render.cut_note(ResultSummary(row_count=rows, truncated=truncated), shown, "expired") == note


@pytest.mark.parametrize(
    ("column_type", "preview", "row_count", "whole"),
    [
        ("int", (), 0, True),
        ("int", (("1",),), 1, True),
        ("int", (("1",),), 2, False),
        ("timestamp", (("2026-01-31 00:00:00",),), 1, False),
        ("string", (("long…",),), 1, False),
        ("string", ((None,),), 1, True),
    ],
)
def test_when_the_preview_is_the_whole_result(
    column_type: str, preview: tuple[tuple[str | None, ...], ...], row_count: int, whole: bool
) -> None:
    columns = (Column(name="a", type=column_type),)
    assert says_all(ResultSummary(columns=columns, row_count=row_count, preview=preview)) is whole


def test_status_lists_sessions_and_statements() -> None:
    session = Session.of({
        "metadata": {"name": "analytics", "namespace": "n"},
        "status": {
            "phase": "Ready",
            "driver": {"podName": "analytics-0-1", "podUID": "u"},
            "statements": {"running": 1, "queued": 0},
            "clients": {"sessions": 3},
            "conditions": [condition("Ready", "Ready")],
        },
    })  # fmt: skip
    seen = statement(
        phase="Finished", statementType="SELECT", durationMillis=1234, conditions=[condition("Finished", "Finished")]
    )
    assert render.status_text([session], [seen]) == (
        "SESSION     PHASE   REASON   RUNNING   QUEUED   CLIENTS   DRIVER\n"
        "analytics   Ready   Ready    1         0        3         analytics-0-1\n"
        "\n"
        "STATEMENT   SESSION     PHASE      REASON     TYPE     PROGRESS   DURATION\n"
        "daily       analytics   Finished   Finished   SELECT   -          1.2s\n"
    )


def test_clients_are_listed_with_ages_and_their_statements() -> None:
    now = datetime(2026, 1, 31, 8, 10, tzinfo=UTC)
    session = ClientSessionView(
        handle="h-1", protocol=ClientProtocol.THRIFT, name="b\x1bi", operations=2,
        open_time=now - timedelta(seconds=300), last_used_time=now - timedelta(seconds=2),
    )  # fmt: skip
    operation = ClientOperationView(
        operation_id="op-1", session="h-1", protocol=ClientProtocol.THRIFT, state=OperationState.RUNNING, statement_type="SELECT",
        submitted_time=now - timedelta(seconds=61),
    )  # fmt: skip
    stray = ClientOperationView(
        operation_id="op-2", session="gone", protocol=ClientProtocol.REST, state=OperationState.PENDING
    )
    view = ClientsView(sessions=(session,), operations=(operation, stray))
    clients, operations = render.client_summaries("analytics", view), render.operation_summaries("analytics", view)
    assert render.clients_text(clients, operations, now) == (
        "\n"
        "CLIENT   SESSION     DOOR     OPERATIONS   AGE     IDLE\n"
        "b\\x1bi   analytics   thrift   2            5m00s   2.0s\n"
        "\n"
        "OPERATION   SESSION     DOOR     CLIENT   TYPE     STATE     AGE\n"
        "op-1        analytics   thrift   b\\x1bi   SELECT   Running   1m01s\n"
        "op-2        analytics   rest     gone     -        Pending   -\n"
    )
    assert render.clients_text([], [], now) == ""
