"""The line below what a finished statement has given."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.cli import render

from .test_render import statement


@pytest.mark.parametrize(
    ("status", "rows", "shown"),
    [
        ({}, 0, "(0 rows, 1.2s)"),
        ({"result": {"rowCount": 1}}, 1, "(1 row, 1.2s)"),
        ({"statementType": "INSERT", "result": {"rowCount": 1, "rowsWritten": 7}}, 1, "INSERT 0 7 (1.2s)"),
        ({"statementType": "MERGE", "result": {"rowsWritten": 0}}, 0, "MERGE 0 (1.2s)"),
        ({"result": {"rowsWritten": 3}}, 0, "rows written 3 (1.2s)"),
    ],
)
def test_footer_of_a_write_has_its_type_and_the_rows_written(status: dict[str, Any], rows: int, shown: str) -> None:
    assert render.footer(statement(durationMillis=1200, **status), rows) == shown


def test_footer_of_a_script_has_a_line_for_each_write_that_was_counted() -> None:
    writes = [
        {"statementIndex": 2, "statementType": "INSERT", "rowsWritten": 7},
        {"statementIndex": 3, "statementType": "UPDATE"},
        {"statementIndex": 5, "statementType": "MERGE", "rowsWritten": 0},
    ]
    script = statement(durationMillis=1200, statementType="SCRIPT", result={"rowsWritten": 0, "writes": writes})
    assert render.footer(script, 0) == "INSERT 0 7\nMERGE 0 (1.2s)"
    uncounted = {"writes": [writes[1]]}
    assert render.footer(statement(durationMillis=1200, result=uncounted), 0) == "(0 rows, 1.2s)"
