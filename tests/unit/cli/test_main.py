from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparksql.cli.commands import is_of_operation, worst
from sparksql.cli.console import Console, row_writer
from sparksql.cli.errors import Exit
from sparksql.cli.main import build_parser, main
from sparksql.wire.control import Column
from tests.support.mistakes import assert_answered


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fly"],
        ["run"],
        ["run", "-e", "SELECT 1", "-f", "a.sql"],
        ["run", "-e", "SELECT 1", "-o", "xml"],
        ["run", "-e", "SELECT 1", "--mode", "Dream"],
        ["run", "-e", "SELECT 1", "--timeout", "0"],
        ["run", "-e", "SELECT 1", "--timeout", "1d"],
        ["wait"],
        ["logs"],
        ["describe"],
        ["logs", "daily", "--session", "analytics"],
        ["status", "-o", "csv"],
        ["connect"],
        ["connect", "analytics", "--protocol", "window"],
        ["connect", "analytics", "--door", "window"],
    ],
)
def test_wrong_usage_ends_with_2(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == Exit.USAGE


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1m", 60), ("2h", 7200)])
def test_timeout_with_a_unit_is_read_in_seconds(text: str, seconds: int) -> None:
    assert build_parser().parse_args(["run", "-e", "SELECT 1", "--timeout", text]).timeout == seconds
    assert build_parser().parse_args(["wait", "a", "--timeout", text]).timeout == seconds


def test_timeout_in_another_unit_is_refused_with_the_rule(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["wait", "a", "--timeout", "1d"])
    answer = capsys.readouterr().err
    assert "'1d' is not a duration: write a positive number of seconds, or 90s, 5m, 1h" in answer
    assert_answered("duration of the plugin", answer)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["run", "-e", "SELECT 1", "--sesion", "a"], "there is no flag --sesion: did you mean --session?"),
        (["run", "--sqll", "SELECT 1"], "there is no flag --sqll: did you mean --sql?"),
        (["run", "-e", "SELECT 1", "--time-out=5m"], "there is no flag --time-out: did you mean --timeout?"),
        (["--namespce", "a", "status"], "there is no flag --namespce: did you mean --namespace?"),
        (["status", "--fly"], "there is no flag --fly: it takes --context, --help"),
        (["run", "-e", "SELECT", "1"], "too many arguments: 1; a value that has blanks, such as SQL, needs quotes"),
        (["status", "-S", "a"], "too many arguments: -S"),
        (["statsu"], "invalid choice: 'statsu' (choose from 'run', "),
    ],
)
def test_wrong_argument_is_refused_with_its_name_and_a_remedy(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        build_parser().parse_args(argv)
    assert caught.value.code == Exit.USAGE
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["run", "-e", "-- a comment"], ["run", "-e", "SELECT 1", "--sess", "a"], ["-n", "run", "status"]]
)
def test_comment_beginning_of_a_flag_or_namespace_is_no_wrong_flag(argv: list[str]) -> None:
    assert build_parser().parse_args(argv).command in ("run", "status")


@pytest.mark.parametrize("text", ["Explain", "explain", "EXPLAIN"])
def test_mode_in_any_case_is_accepted(text: str) -> None:
    assert build_parser().parse_args(["run", "-e", "SELECT 1", "--mode", text]).mode == "Explain"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-e", "  "], "there is no SQL to run"),
        (["-e", "SELECT 1", "-p", "day"], "expected name=value"),
        (["-f", "nowhere.sql"], "-f nowhere.sql: No such file or directory: give a file that you can read"),
        (["-f", "latin.sql"], "latin.sql"),
        (["-f", "latin.sql"], "save it as UTF-8"),
        (["-f", "mark.sql"], "there is no SQL to run"),
        (["-f", "-", "--keep"], "keep: set this in the manifest instead"),
        (["-f", "long.sql"], "-f long.sql: the SQL has 262,145 characters, the limit of a SqlStatement is 262,144"),
        (["-f", "long.sql"], "spec.sqlFrom.configMapKeyRef"),
        (["-f", "a.yaml", "--session", "s", "--keep"], "session, keep: set this in the manifest instead"),
    ],
)
def test_wrong_input_ends_with_2_before_anything_is_asked(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    Path("a.yaml").write_text("kind: SqlStatement")
    Path("latin.sql").write_bytes(b"SELECT '\xe9'")
    Path("long.sql").write_text("x" * 262_145)
    Path("mark.sql").write_text("\ufeff", encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeffapiVersion: sparksql.dev/v1alpha1"))
    assert main(["run", *arguments]) == Exit.USAGE
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["-n", "a", "status"], ["status", "-n", "a"], ["-n", "b", "status", "-n", "a"]])
def test_global_flags_stand_before_or_after_the_command(argv: list[str]) -> None:
    assert build_parser().parse_args(argv).namespace == "a"


def test_the_worst_of_no_statements_is_a_good_end() -> None:
    assert worst([]) is Exit.FINISHED


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (json.dumps({"operation_id": "op-1", "message": "x"}), True),
        (json.dumps({"operation_id": "op-2", "message": "op-1"}), False),
        ("plain text about op-1", False),
        ('["op-1"]', False),
        ("", False),
    ],
)
def test_log_lines_of_one_operation(line: str, expected: bool) -> None:
    assert is_of_operation(line, "op-1") is expected


KUBECTL = """#!/bin/sh
case "$*" in
*"get sqlstatements"*) echo '{"metadata": {"name": "s", "namespace": "n"}, "spec": {"sessionRef": {"name": "a"}},
  "status": {"operationId": "op-1", "session": {"name": "a", "podUID": "u"}}}' ;;
*"get sqlsessions"*missing*) echo 'Error from server (NotFound): sqlsessions "missing" not found' >&2; exit 1 ;;
*"get sqlsessions.sparksql.dev --output=json"*) echo '{"kind": "List", "items": [
  {"metadata": {"name": "b", "namespace": "n"}}, {"metadata": {"name": "a", "namespace": "n"}}]}' ;;
*"get sqlsessions"*) echo '{"metadata": {"name": "a", "namespace": "n"},
  "status": {"driver": {"podName": "a-1", "podUID": "u"}}}' ;;
"--namespace=n logs pod/a-1 --follow") i=0; while [ $i -lt 9000 ]; do i=$((i + 1))
  echo "{\\"operation_id\\": \\"op-$((i % 3))\\", \\"line\\": $i}"; done ;;
*) echo "error: unexpected: $*" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


def test_logs_of_a_statement_are_the_driver_lines_about_it(kubectl: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "s", "-f"]) == Exit.FINISHED
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["line"] for line in lines] == list(range(1, 9000, 3))
    assert {line["operation_id"] for line in lines} == {"op-1"}


def test_run_in_a_missing_session_fails_with_the_existing_sessions(
    kubectl: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "-e", "SELECT 1", "-s", "missing"]) == Exit.USAGE
    assert "-s missing: session missing does not exist; sessions of the namespace: a, b" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error_worth_words(kubectl: None) -> None:
    plugin = subprocess.Popen(
        [sys.executable, "-m", "sparksql.cli.main", "logs", "s", "-f"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert plugin.stdout is not None
    assert plugin.stderr is not None
    assert json.loads(plugin.stdout.readline())["line"] == 1
    plugin.stdout.close()
    assert plugin.stderr.read() == b""
    plugin.stderr.close()
    assert plugin.wait(60) == Exit.ERROR


COLUMNS = (Column(name="a", type="string"), Column(name="a", type="int"))
PAGES = [[("x\x1b[2J", 1)], [(None, 2)]]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("table", "a        | a\n---------+--\nx\\x1b[2J | 1\nNULL     | 2\n"),
        ("csv", "a,a\nx\x1b[2J,1\n,2\n"),
        ("json", '[\n{"a": "x\\u001b[2J", "a_2": 1},\n{"a": null, "a_2": 2}\n]\n'),
    ],
)
def test_pages_are_written_in_each_format(output: str, text: str) -> None:
    out = io.StringIO()
    writer = row_writer(output, Console(out, io.StringIO()), COLUMNS)
    for page in PAGES:
        writer.write(page)
    writer.close()
    assert out.getvalue() == text


@pytest.mark.parametrize(
    ("columns", "is_expanded", "terminal", "is_record"),
    [
        (40, None, True, True),
        (40, None, False, False),
        (40, False, True, False),
        (2, None, True, False),
        (2, True, True, True),
        (2, True, False, True),
        (1, None, True, False),
    ],
)
def test_table_wider_than_the_terminal_is_written_as_records(
    columns: int, is_expanded: bool | None, terminal: bool, is_record: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = Terminal() if terminal else io.StringIO()
    names = [Column(name=f"column_{at}" * (20 if columns == 1 else 1), type="string") for at in range(columns)]
    writer = row_writer("table", Console(out, io.StringIO()), names, is_expanded)
    writer.write([["v"] * columns])
    writer.close()
    assert out.getvalue().startswith("-[ row 1 ]") is is_record


HOSTILE = "x\x1b[2J\x9b31m\u202e\x07"


@pytest.mark.parametrize("output", ["table", "csv", "json"])
def test_no_cell_or_name_drives_a_terminal(output: str) -> None:
    out = Terminal()
    writer = row_writer(output, Console(out, Terminal()), (Column(name=HOSTILE, type="string"),))
    writer.write([[HOSTILE], [{HOSTILE: HOSTILE}]])
    writer.close()
    assert not set(HOSTILE) - set("x[2J31m") & set(out.getvalue())


@pytest.mark.parametrize("output", ["csv", "json"])
def test_csv_or_json_for_a_file_has_cells_and_column_names_unescaped(output: str) -> None:
    out = io.StringIO()
    writer = row_writer(output, Console(out, io.StringIO()), (Column(name="a\u202e", type="string"),))
    writer.write([["x\x9b\u200d"]])
    writer.close()
    assert out.getvalue() == {"csv": "a\u202e\nx\x9b\u200d\n", "json": '[\n{"a\u202e": "x\x9b\u200d"}\n]\n'}[output]


@pytest.mark.parametrize(("output", "text"), [("table", ""), ("csv", ""), ("json", "[]\n")])
def test_result_without_columns_prints_an_empty_output(output: str, text: str) -> None:
    out = io.StringIO()
    writer = row_writer(output, Console(out, io.StringIO()), ())
    writer.close()
    assert out.getvalue() == text


def test_colour_and_live_line_are_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for err, colour in ((io.StringIO(), False), (Terminal(), True)):
        console = Console(io.StringIO(), err)
        console.progress("daily  Running")
        console.failure("daily: Error: X\x1b[2J\nmessage")
        assert ("\x1b[31m" in err.getvalue()) is colour
        assert ("Running" in err.getvalue()) is colour
        assert "X\x1b" not in err.getvalue()


def test_no_color_in_the_environment_turns_colors_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    err = Terminal()
    Console(io.StringIO(), err).failure("daily: Error")
    assert err.getvalue() == "daily: Error\n"
