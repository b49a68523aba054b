"""Rows over the REST API: values of every type in every format, pages, tokens, and Arrow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from .rest_client import RestClient, RestSession

ROWS = 12_345
MAX_VARCHAR = {"type": "VARCHAR", "nullable": True, "length": 2147483647}

# SQL of a value, its logical type's keys besides `nullable`, what JSON and what PLAIN_TEXT say.
VALUES: list[tuple[str, dict[str, Any], Any, str | None]] = [
    ("true", {"type": "BOOLEAN"}, True, "TRUE"),
    ("1Y", {"type": "TINYINT"}, 1, "1"),
    ("2S", {"type": "SMALLINT"}, 2, "2"),
    ("3", {"type": "INTEGER"}, 3, "3"),
    ("9223372036854775807L", {"type": "BIGINT"}, 9223372036854775807, "9223372036854775807"),
    ("CAST(0.1 AS FLOAT)", {"type": "FLOAT"}, 0.1, "0.1"),
    ("1e8D", {"type": "DOUBLE"}, 1e8, "1.0E8"),
    ("CAST('Infinity' AS DOUBLE)", {"type": "DOUBLE"}, "Infinity", "Infinity"),
    ("CAST('NaN' AS DOUBLE)", {"type": "DOUBLE"}, "NaN", "NaN"),
    ("12.30BD", {"type": "DECIMAL", "precision": 4, "scale": 2}, 12.3, "12.30"),
    ("'é \"q\" \\\\ 😀'", {"type": "VARCHAR", "length": 2147483647}, 'é "q" \\ 😀', 'é "q" \\ 😀'),
    ("X'68656C6C6F'", {"type": "VARBINARY", "length": 2147483647}, "aGVsbG8=", "x'68656c6c6f'"),
    ("DATE'2024-02-29'", {"type": "DATE"}, "2024-02-29", "2024-02-29"),
    (
        "TIMESTAMP'2024-02-29 12:34:56.5'",
        {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision": 6},
        "2024-02-29T12:34:56.5Z",
        "2024-02-29 12:34:56.500000",
    ),
    (
        "TIMESTAMP_NTZ'2024-02-29 12:34:56'",
        {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 6},
        "2024-02-29T12:34:56",
        "2024-02-29 12:34:56.000000",
    ),
    (
        "array(1, NULL)",
        {"type": "ARRAY", "elementType": {"type": "INTEGER", "nullable": True}},
        [1, None],
        "[1, NULL]",
    ),
    (
        "map('k', 7)",
        {"type": "MAP", "keyType": {**MAX_VARCHAR, "nullable": False}, "valueType": {"type": "INTEGER", "nullable": True}},
        {"k": 7},
        "{k=7}",
    ),
    (
        "named_struct('x', 1, 'y', 'z')",
        {
            "type": "ROW",
            "fields": [
                {"name": "x", "fieldType": {"type": "INTEGER", "nullable": True}},
                {"name": "y", "fieldType": MAX_VARCHAR},
            ],
        },
        {"x": 1, "y": "z"},
        "(1, z)",
    ),
    ("CAST(NULL AS INT)", {"type": "INTEGER"}, None, None),
    ("CAST(NULL AS ARRAY<INT>)", {"type": "ARRAY", "elementType": {"type": "INTEGER", "nullable": True}}, None, None),
    # What the released JDBC driver cannot read.
    ("NULL", {"type": "VARCHAR", "length": 2147483647}, None, None),
    ("INTERVAL '1' DAY", {"type": "VARCHAR", "length": 2147483647}, "INTERVAL '1' DAY", "INTERVAL '1' DAY"),
    ("INTERVAL '1-2' YEAR TO MONTH", {"type": "VARCHAR", "length": 2147483647}, "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1-2' YEAR TO MONTH"),
    ("parse_json('{\"a\": 1}')", {"type": "VARCHAR", "length": 2147483647}, '{"a":1}', '{"a":1}'),
    ("map(1, 'a')", {"type": "VARCHAR", "length": 2147483647}, "{1=a}", "{1=a}"),
    ("array(map(1, DATE'2024-02-29'))", {"type": "VARCHAR", "length": 2147483647}, "[{1=2024-02-29}]", "[{1=2024-02-29}]"),
]  # fmt: skip


@pytest.fixture
async def session(rest: RestClient) -> AsyncIterator[RestSession]:
    async with rest.session() as opened:
        yield opened


async def test_every_type_in_both_row_formats(session: RestSession) -> None:
    sql = "SELECT " + ", ".join(f"{value} AS c{index}" for index, (value, *_) in enumerate(VALUES))
    first, rows = await session.run(sql)
    _, texts = await session.run(sql, "PLAIN_TEXT")
    columns = first["results"]["columns"]
    for index, (value, logical, as_json, as_text) in enumerate(VALUES):
        assert columns[index] == {"name": f"c{index}", "logicalType": {"nullable": True, **logical}, "comment": None}, (
            value
        )
        assert (rows[0][index], texts[0][index]) == (as_json, as_text), value
    assert (len(rows), len(texts)) == (1, 1)


@pytest.mark.parametrize(("zone", "wall"), [("Asia/Tokyo", "09:00:00"), ("GMT+9", "09:00:00"), ("-08:00", "16:00:00")])
async def test_a_timestamp_is_shown_in_the_session_time_zone(rest: RestClient, zone: str, wall: str) -> None:
    async with rest.session(**{"spark.sql.session.timeZone": zone}) as session:
        shown = await session.value("SELECT timestamp_seconds(0)")
        assert shown.endswith(f"T{wall}Z")
        assert await session.value("SELECT timestamp_seconds(0)", "PLAIN_TEXT") == f"{shown[:10]} {wall}.000000"


async def test_duplicate_and_quoted_column_names_stay_unchanged(session: RestSession) -> None:
    first, rows = await session.run('SELECT 1 AS a, 2 AS a, 3 AS `b "c"`, 4')
    assert [column["name"] for column in first["results"]["columns"]] == ["a", "a", 'b "c"', "4"]
    assert rows == [[1, 2, 3, 4]]


async def test_a_large_result_comes_in_pages_each_of_which_stays_the_same(session: RestSession) -> None:
    operation = await session.submit(f"SELECT id, concat('row ', id) AS t FROM range(0, {ROWS}, 1, 3) ORDER BY id")
    pages = [(await session.page(operation, token)).raw for token in range(4)]
    bodies = [(await session.page(operation, token)).body for token in range(4)]
    sizes = [len(body["results"]["data"]) for body in bodies]
    assert sizes == [5_000, 5_000, ROWS - 10_000, 0]
    assert [body["resultType"] for body in bodies] == ["PAYLOAD", "PAYLOAD", "PAYLOAD", "EOS"]
    seen = [row["fields"] for body in bodies for row in body["results"]["data"]]
    assert seen == [[number, f"row {number}"] for number in range(ROWS)]
    again = await asyncio.gather(*(session.page(operation, token) for token in (2, 0, 3, 1)))
    assert [answer.raw for answer in again] == [pages[token] for token in (2, 0, 3, 1)]
    text = await session.page(operation, 1, "PLAIN_TEXT")
    assert text.body["results"]["data"][0]["fields"] == ["5000", "row 5000"]
    beyond = await session.page(operation, 4)
    assert beyond.told == "SqlExecutionException: Expecting token to be 3 or 2, but found 4."


async def test_pages_of_wide_rows_are_smaller_and_lose_nothing(session: RestSession) -> None:
    count = 400
    first, rows = await session.run(f"SELECT id, repeat('x', 50000) AS wide FROM range(0, {count}, 1, 2) ORDER BY id")
    assert [row[0] for row in rows] == list(range(count))
    assert len(first["results"]["data"]) < count and session.pages > 1


async def test_the_last_page_may_be_full(session: RestSession) -> None:
    _, rows = await session.run("SELECT id FROM range(5000)")
    assert len(rows) == 5_000 and session.pages == 1


async def test_a_result_without_rows_has_its_columns_and_ends_on_the_first_page(session: RestSession) -> None:
    first, rows = await session.run("SELECT id, 'a' AS b FROM range(1) WHERE id > 5")
    assert (rows, first["resultType"], first["isQueryResult"]) == ([], "EOS", True)
    assert [column["name"] for column in first["results"]["columns"]] == ["id", "b"]


async def test_arrow_pages_hold_the_same_rows_in_fewer_and_typed(session: RestSession) -> None:
    operation = await session.submit(
        f"SELECT id, CAST(id AS DECIMAL(10,2)) AS d, timestamp_seconds(id) AS t FROM range({ROWS}) ORDER BY id"
    )
    table = await session.arrow(operation)
    assert session.pages == 2
    assert table.schema.names == ["id", "d", "t"]
    assert [str(kind) for kind in table.schema.types] == ["int64", "decimal128(10, 2)", "timestamp[us, tz=UTC]"]
    assert table.column("id").to_pylist() == list(range(ROWS))
    assert len((await session.page(operation, 0)).body["results"]["data"]) == 5_000
    json_page = await session.page(operation, 1)
    assert json_page.body["results"]["data"][0]["fields"][0] == 5_000  # tokens of the two kinds are counted apart


async def test_arrow_of_statements_without_rows(session: RestSession) -> None:
    empty = await session.arrow(await session.submit("SELECT 1 AS a, map('k', 1.5BD) AS m WHERE false"))
    assert (empty.num_rows, [str(kind) for kind in empty.schema.types]) == (
        0,
        ["int32", "map<string, decimal128(2, 1)>"],
    )
    done = await session.arrow(await session.submit("SET 'my.x'='1'"))
    assert done.to_pylist() == [{"result": "OK"}]


async def test_arrow_tells_that_a_result_is_not_ready(rest: RestClient, session: RestSession) -> None:
    operation = await session.submit("SELECT count(*) FROM range(0, 1000000000000, 1, 2)")
    answer = await rest.call("GET", f"{session.path}/operations/{operation}/result/0?rowFormat=arrow")
    assert answer.body["resultType"] == answer.headers["X-Result-Type"] == "NOT_READY"
    assert answer.headers["X-Next-Token"] == "0"


async def test_version_1_knows_only_json(rest: RestClient) -> None:
    async with rest.session("/v1") as session:
        operation = await session.submit("SELECT 1 AS a")
        answer = await session.page(operation, 0, "PLAIN_TEXT")
        assert answer.body["results"]["data"][0]["fields"] == [1]
        assert answer.body["nextResultUri"] == f"{session.path}/operations/{operation}/result/1"
