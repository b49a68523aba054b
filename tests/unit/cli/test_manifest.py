from __future__ import annotations

import pytest

from sparksql.api.execution import StatementMode
from sparksql.api.statement import SqlStatement
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.manifest import RunOptions, is_manifest, parse_parameter, statement_manifest, wants_a_part
from sparksql.wire.control import MAX_RESULT_ROWS, Parameter


@pytest.mark.parametrize(
    ("text", "name", "value", "type_"),
    [
        ("day=2026-01-31:DATE", "day", "2026-01-31", "DATE"),
        ("n=5:int", "n", "5", "INT"),
        ("x=1.5:DECIMAL(10, 2)", "x", "1.5", "DECIMAL(10, 2)"),
        ("s=abc", "s", "abc", "STRING"),
        ("s=", "s", "", "STRING"),
        ("t=2026-01-31 10:20:30", "t", "2026-01-31 10:20:30", "STRING"),
        ("t=2026-01-31 10:20:30:TIMESTAMP", "t", "2026-01-31 10:20:30", "TIMESTAMP"),
        ("u=http://host:STRING", "u", "http://host", "STRING"),
        ("u=a:b", "u", "a:b", "STRING"),
        ("e=a=b:c", "e", "a=b:c", "STRING"),
        ("i=x:INTERNAL", "i", "x:INTERNAL", "STRING"),
        ("h=host:8080", "h", "host:8080", "STRING"),
        ("d=2026-01-01:DAET:STRING", "d", "2026-01-01:DAET", "STRING"),
    ],
)
def test_parameter_with_an_optional_type(text: str, name: str, value: str, type_: str) -> None:
    assert parse_parameter(text) == Parameter(name=name, value=value, type=type_)


@pytest.mark.parametrize("text", ["day", "=5", ""])
def test_a_parameter_without_name_or_value_is_a_usage_error(text: str) -> None:
    with pytest.raises(CliError) as caught:
        parse_parameter(text)
    assert caught.value.code is Exit.USAGE


@pytest.mark.parametrize(
    ("text", "type_"), [("d=2026-01-01:DAET", "DATE"), ("n=1:intger", "INTEGER"), ("x=1.5:DECMAL(10, 2)", "DECIMAL")]
)
def test_parameter_with_a_misspelt_type_is_refused_with_the_similar_type(text: str, type_: str) -> None:
    with pytest.raises(CliError, match=f"did you mean {type_}\\?") as caught:
        parse_parameter(text)
    assert caught.value.code is Exit.USAGE


def test_manifest_of_plain_sql_is_a_dedicated_statement_that_removes_itself() -> None:
    manifest = statement_manifest("run-1", "SELECT 1", RunOptions())
    assert manifest == {
        "apiVersion": "sparksql.dev/v1alpha1",
        "kind": "SqlStatement",
        "metadata": {"name": "run-1"},
        "spec": {"sql": "SELECT 1", "mode": "Execute", "session": {}, "ttlSecondsAfterFinished": 3600},
    }
    SqlStatement.parse(manifest)


def test_statement_manifest_has_the_values_of_all_run_flags() -> None:
    options = RunOptions(
        session="analytics",
        parameters=[Parameter(name="day", value="2026-01-31", type="DATE")],
        mode=StatementMode.PREVIEW,
        timeout_seconds=60,
        max_rows=5,
        keep=True,
    )
    manifest = statement_manifest("mine", "SELECT :day", options)
    assert manifest["spec"] == {
        "sql": "SELECT :day",
        "mode": "Preview",
        "sessionRef": {"name": "analytics"},
        "parameters": [{"name": "day", "value": "2026-01-31", "type": "DATE"}],
        "timeouts": {"queueSeconds": 60, "executionSeconds": 60},
        "result": {"maxRows": 5},
    }
    SqlStatement.parse(manifest)


def test_all_rows_of_a_session_are_asked_for_unless_some_or_a_preview_are() -> None:
    wanted = {
        RunOptions(session="a"): {"maxRows": MAX_RESULT_ROWS},
        RunOptions(session="a", max_rows=5): {"maxRows": 5},
        RunOptions(session="a", mode=StatementMode.PREVIEW): None,
        RunOptions(): None,
    }
    for options, result in wanted.items():
        manifest = statement_manifest("run-1", "SELECT 1", options)
        assert manifest["spec"].get("result") == result
        assert wants_a_part(manifest) == (options.max_rows is not None or options.mode is StatementMode.PREVIEW)
        SqlStatement.parse(manifest)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.sql", "apiVersion: x", False),
        ("a.yaml", "", True),
        ("dir/a.yml", "", True),
        ("a.json", "", True),
        ("query", "SELECT 1", False),
        ("-", "SELECT 1", False),
        ("-", "-- apiVersion: no\nSELECT 1", False),
        ("-", "# comment\napiVersion: sparksql.dev/v1alpha1\nkind: SqlStatement\n", True),
        ("-", '  {"apiVersion": "sparksql.dev/v1alpha1"}', True),
    ],
)
def test_input_is_a_manifest_by_file_suffix_or_on_stdin_by_content(path: str, text: str, expected: bool) -> None:
    assert is_manifest(path, text) is expected
