"""The line below what a finished statement has given."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.cli import render

from .test_render import statement


@pytest.mark.parametrize(
    ("result", "rows", "shown"),
    [
        (None, 0, "(0 rows, 1.2s)"),
        ({"rowCount": 1}, 1, "(1 row, 1.2s)"),
        ({"rowCount": 1, "rowsWritten": 7}, 1, "(7 rows written, 1.2s)"),
        ({"rowsWritten": 1}, 0, "(1 row written, 1.2s)"),
        ({"rowsWritten": 0}, 0, "(0 rows written, 1.2s)"),
    ],
)
def test_footer_of_a_write_has_the_rows_written(result: dict[str, Any] | None, rows: int, shown: str) -> None:
    assert (
        render.footer(statement(durationMillis=1200, **({} if result is None else {"result": result})), rows) == shown
    )
