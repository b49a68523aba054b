"""Values that are NULL in a column that Spark declares as never NULL: NULL is shown for them, however many rows there are."""

from __future__ import annotations

import pytest

from sparksql.wire.control import ResultOptions

from .client import GatewayClient

NULLS = "uniform(NULL, 1, 0)"
NESTED = f"struct(array({NULLS}) AS l, {NULLS} AS f)"
WIDE = f"{NULLS}, repeat('x', 2000)"  # a thousand rows of it are more than is kept in memory


@pytest.mark.parametrize(
    "rows", ["", "FROM range(3)", "FROM range(20000)", "FROM range(3) ORDER BY id", "FROM range(0, 4, 1, 4)"]
)
async def test_a_null_in_a_column_declared_as_never_null_is_shown_as_null(client: GatewayClient, rows: str) -> None:
    view = await client.ok(f"SELECT {NULLS} {rows}", result=ResultOptions(max_rows=100_000))
    assert {row async for row in client.pages(view.operation_id, 10_000)} == {(None,)}


async def test_a_null_within_a_struct_that_is_declared_as_never_null_is_shown_as_null(client: GatewayClient) -> None:
    view = await client.ok(f"SELECT {NESTED} FROM range(3)", result=ResultOptions(max_rows=10))
    assert [row async for row in client.pages(view.operation_id)] == [({"l": [None], "f": None},)] * 3


async def test_a_null_declared_as_never_null_in_wide_rows_is_shown_as_null(client: GatewayClient) -> None:
    view = await client.ok(f"SELECT {WIDE} FROM range(2000)", result=ResultOptions(max_rows=2_000))
    assert [row[0] async for row in client.pages(view.operation_id, 10_000)] == [None] * 2_000
