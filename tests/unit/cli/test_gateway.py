from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sparksql.cli.cells import cell_text, json_cell
from sparksql.cli.gateway import arrow_rows, forwarded_port, json_rows
from sparksql.wire.control import Column

COLUMNS = tuple(
    Column(name="same", type=type_)
    for type_ in ("int", "decimal(30,2)", "double", "string", "date", "array<int>", "map<string,int>")
)
SCHEMA = [
    pa.int32(), pa.decimal128(30, 2), pa.float64(), pa.string(), pa.date32(), pa.list_(pa.int32()),
    pa.map_(pa.string(), pa.int32()),
]  # fmt: skip
ROWS: list[list[Any]] = [
    [1, Decimal("1234567890123456789012345678.10"), 1e10, "x", date(2026, 1, 31), [1, None], [("k", 1)]],
    [None] * 7,
]
JSON_PAGE = """{"columns": [], "rows": [
    [1, "1234567890123456789012345678.10", 1.0E10, "x", "2026-01-31", [1, null], {"k": 1}],
    [null, null, null, null, null, null, null]
], "nextToken": 3}"""


def arrow_page(rows: list[list[Any]]) -> bytes:
    arrays = [pa.array([row[at] for row in rows], type_) for at, type_ in enumerate(SCHEMA)]
    batch = pa.record_batch(arrays, names=[column.name for column in COLUMNS])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def test_arrow_and_json_pages_say_the_same_to_the_last_digit() -> None:
    from_arrow = arrow_rows(arrow_page(ROWS))
    from_json, token = json_rows(JSON_PAGE.encode())
    assert token == 3
    for rows in (from_arrow, from_json):
        assert [cell_text(cell) for cell in rows[0]] == [
            "1", "1234567890123456789012345678.10", "1.0E10", "x", "2026-01-31", "[1, null]", '{"k": 1}',
        ]  # fmt: skip
        assert [json_cell(cell, column.type) for cell, column in zip(rows[0], COLUMNS, strict=True)] == [
            1, "1234567890123456789012345678.10", 1e10, "x", "2026-01-31", [1, None], {"k": 1},
        ]  # fmt: skip
        assert list(rows[1]) == [None] * 7


def test_an_empty_arrow_page_has_no_rows() -> None:
    assert arrow_rows(arrow_page([])) == []


def test_a_date_that_python_does_not_have_is_text() -> None:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.array([3_000_000, None], pa.date32())], ["d"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert arrow_rows(bytes(sink.getvalue())) == [("10183-09-21",), (None,)]


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
