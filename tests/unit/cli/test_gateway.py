from __future__ import annotations

import json

import pytest

from sparksql.cli.cells import cell_text, json_cell
from sparksql.cli.gateway import forwarded_port, json_rows
from sparksql.wire.control import Column

COLUMNS = tuple(
    Column(name="same", type=type_)
    for type_ in ("int", "decimal(30,2)", "double", "string", "date", "array<int>", "map<string,int>")
)
JSON_PAGE = """{"columns": [], "rows": [
    [1, "1234567890123456789012345678.10", 1.0E10, "x", "2026-01-31", [1, null], {"k": 1}],
    [null, null, null, null, null, null, null]
], "nextToken": 3}"""


def test_a_page_is_shown_to_the_last_digit() -> None:
    rows, token = json_rows(JSON_PAGE.encode())
    assert token == 3
    assert [cell_text(cell) for cell in rows[0]] == [
        "1", "1234567890123456789012345678.10", "1.0E10", "x", "2026-01-31", "[1, null]", '{"k": 1}',
    ]  # fmt: skip
    assert [json_cell(cell, column.type) for cell, column in zip(rows[0], COLUMNS, strict=True)] == [
        1, "1234567890123456789012345678.10", 1e10, "x", "2026-01-31", [1, None], {"k": 1},
    ]  # fmt: skip
    assert list(rows[1]) == [None] * 7


def test_the_last_json_page_has_no_token() -> None:
    assert json_rows(json.dumps({"columns": [], "rows": []}).encode()) == ([], None)


@pytest.mark.parametrize(
    ("line", "port"),
    [
        ("Forwarding from 127.0.0.1:40123 -> 8443", 40123),
        ("Forwarding from [::1]:40123 -> 8443", None),
        ("Handling connection for 40123", None),
        ("", None),
    ],
)
def test_the_port_that_kubectl_chose(line: str, port: int | None) -> None:
    assert forwarded_port(line) == port
