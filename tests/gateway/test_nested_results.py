"""Lists, maps and rows within each other that hold something, nothing or NULL, on every way out of a driver.

Arrow's Java writer leaves the offsets of what is empty without bytes; who reads them all the same ends the driver.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from sparksql.wire.control import ResultOptions
from tests.support.thorough import thorough_but

from .client import API, GatewayClient
from .rest_client import RestClient

DEPTH = 3
MANY = 10_001  # rows that go to files
LEAF = "text"


@dataclass(frozen=True)
class Nest:
    """A type that holds a value of another one."""

    type: str
    around: Callable[[Any], Any]
    empty: Callable[[Any], Any]


NESTS = (
    Nest("ARRAY<{}>", lambda inner: [inner], lambda inner: []),
    Nest("MAP<STRING, {}>", lambda inner: {"k": inner}, lambda inner: {}),
    Nest("STRUCT<f: {}>", lambda inner: {"f": inner}, lambda inner: {"f": inner}),  # what it holds is empty
)


@dataclass(frozen=True)
class Kind:
    """A type and values of it. `hollow` has one value at each depth but the last, which is empty."""

    type: str
    empty: Any
    hollow: Any
    one: Any


def kinds(depth: int) -> list[Kind]:
    if depth == 0:
        return [Kind("STRING", None, None, LEAF)]
    return [
        Kind(
            nest.type.format(inner.type),
            nest.empty(inner.empty),
            nest.around(inner.hollow) if depth > 1 else nest.empty(inner.empty),
            nest.around(inner.one),
        )
        for nest in NESTS
        for inner in kinds(depth - 1)
    ]


KINDS = [kind for depth in range(1, DEPTH + 1) for kind in kinds(depth)]
NULLS = [None for _ in KINDS]
EMPTY = [kind.empty for kind in KINDS]
HOLLOW = [kind.hollow for kind in KINDS]
ONE = [kind.one for kind in KINDS]
CONTENTS = {
    "NULL": [NULLS],
    "empty": [EMPTY],
    "empty within": [HOLLOW],
    "one value": [ONE],
    "nothing, in rows": [NULLS, EMPTY, HOLLOW],
    "all, in rows": [NULLS, EMPTY, ONE, HOLLOW, EMPTY, NULLS],
}
CASES = pytest.mark.parametrize("rows", CONTENTS.values(), ids=CONTENTS)


def query(rows: list[list[Any]], times: int = 1) -> str:
    """A query with a column of each type."""
    schema = ", ".join(f"c{at} {kind.type}" for at, kind in enumerate(KINDS))
    texts = ", ".join(f"('{json.dumps({f'c{at}': cell for at, cell in enumerate(row)})}')" for row in rows)
    source = f"VALUES {texts} AS given(j)" if times == 1 else f"(VALUES {texts}) AS given(j), range({times})"
    return f"SELECT v.* FROM (SELECT from_json(j, '{schema}') AS v FROM {source})"


async def arrow_rows(client: GatewayClient, operation_id: str) -> list[list[Any]]:
    parameters = {"format": "arrow"}
    async with client.http.get(f"{API}/statements/{operation_id}/results", params=parameters) as response:
        assert response.status == 200
        table = pa.ipc.open_stream(await response.read()).read_all()
    return [list(row.values()) for row in table.to_pylist(maps_as_pydicts="strict")]


@CASES
async def test_nested_values_are_shown_and_paged_in_every_format(
    client: GatewayClient, rest: RestClient, rows: list[list[Any]]
) -> None:
    view = await client.ok(query(rows))
    assert view.result is not None
    assert view.result.row_count == len(rows)
    assert [list(row) async for row in client.pages(view.operation_id)] == rows
    assert await arrow_rows(client, view.operation_id) == rows
    async with rest.session() as session:
        assert (await session.run(query(rows)))[1] == rows
        _, plain = await session.run(query(rows), "PLAIN_TEXT")
        assert [len(row) for row in plain] == [len(KINDS) for _ in rows]


@pytest.mark.parametrize("rows", thorough_but([CONTENTS["all, in rows"]], CONTENTS.values()), ids=CONTENTS)
async def test_nested_values_are_paged_from_files(client: GatewayClient, rows: list[list[Any]]) -> None:
    count = MANY * len(rows)
    view = await client.ok(query(rows, MANY), result=ResultOptions(max_rows=count))
    assert view.result is not None
    assert (view.result.row_count, view.result.truncated) == (count, False)
    page = await client.page(view.operation_id, count - 2 * len(rows), 2 * len(rows))
    assert len(page.rows) == 2 * len(rows)
    assert {json.dumps(row) for row in page.rows} <= {json.dumps(row) for row in rows}
    assert len(await arrow_rows(client, view.operation_id)) > 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("filter(array(map('a', 1)), x -> false)", []),
        ("map_filter(map('a', array(array(1))), (k, v) -> false)", {}),
        ("CAST(NULL AS ARRAY<MAP<STRING, INT>>)", None),
        ("CAST(NULL AS ARRAY<ARRAY<ARRAY<INT>>>)", None),
        ("CAST(NULL AS MAP<STRING, ARRAY<STRING>>)", None),
        ("named_struct('f', filter(array(map('a', 1)), x -> false))", {"f": []}),
        ("named_struct('f', CAST(NULL AS ARRAY<ARRAY<ARRAY<INT>>>))", {"f": None}),
        ("array(named_struct('f', CAST(NULL AS MAP<STRING, ARRAY<STRING>>)))", [{"f": None}]),
    ],
)
async def test_computed_value_that_holds_nothing_is_shown(client: GatewayClient, value: str, expected: Any) -> None:
    assert await client.rows(f"SELECT {value} AS v") == [(expected,)]


async def test_nested_columns_without_a_row_have_no_page_and_no_harm(client: GatewayClient) -> None:
    view = await client.ok(f"SELECT * FROM ({query([ONE])}) WHERE c0 IS NULL")
    assert view.result is not None
    assert (view.result.row_count, len(view.result.columns)) == (0, len(KINDS))
    assert await arrow_rows(client, view.operation_id) == []
