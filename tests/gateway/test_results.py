"""Results of any size: pages by token, files beyond a bound, truthful `truncated`, expiry."""

from __future__ import annotations

import asyncio
import os
import time

import pyarrow as pa
import pytest

from sparksql.wire.control import OperationState, ResultOptions, ResultPage
from tests.support.process import GatewayProcess

from .client import API, GatewayClient

ROWS = 300_000


@pytest.mark.parametrize(("rows", "kept", "truncated"), [(9, 9, False), (10, 10, False), (11, 10, True), (0, 0, False)])
async def test_truncated_is_true_only_when_the_preview_leaves_rows_out(
    client: GatewayClient, rows: int, kept: int, truncated: bool
) -> None:
    view = await client.ok(f"SELECT id FROM range({rows})", result=ResultOptions(max_rows=10))
    assert view.result is not None
    assert (view.result.row_count, view.result.truncated) == (kept, truncated)
    page = await client.page(view.operation_id)
    assert (len(page.rows), page.row_count, page.truncated) == (kept, kept, truncated)


async def test_each_result_of_a_script_is_kept_with_its_first_rows(client: GatewayClient) -> None:
    many = "SELECT id, repeat('x', 100) AS wide FROM range(2000)"
    view = await client.ok(
        f"SELECT 1 AS a; SET spark.sql.shuffle.partitions = 2; {many}; SHOW SCHEMAS LIKE 'none'; SELECT 2 AS b"
    )
    assert view.result is not None
    assert (view.result.earlier_results, view.result.row_count, view.result.columns[0].name) == (3, 1, "b")

    async def earlier(number: int) -> ResultPage:
        status, body = await client.page_raw(view.operation_id, earlier=number, maxRows=5000)
        assert status == 200, body
        return ResultPage.model_validate_json(body)

    first, second, third = [await earlier(number) for number in range(3)]
    assert ([column.name for column in first.columns], first.rows, first.truncated) == (["a"], ((1,),), False)
    assert (len(second.rows), second.rows[-1][0], second.truncated) == (1000, 999, True)
    assert ([column.name for column in third.columns], third.rows) == (["namespace"], ())
    assert (await client.page_raw(view.operation_id, earlier=3))[0] == 404
    assert (await client.page_raw(view.operation_id, earlier="x"))[0] == 400


@pytest.mark.parametrize(("wanted", "truncated"), [(ROWS + 1, False), (ROWS, False), (ROWS - 1, True)])
async def test_a_large_sorted_result_is_paged_in_order(client: GatewayClient, wanted: int, truncated: bool) -> None:
    sql = f"SELECT id, concat('row-', id) AS name FROM range({ROWS}) ORDER BY id DESC"
    view = await client.ok(sql, result=ResultOptions(max_rows=wanted))
    assert view.result is not None
    kept = min(wanted, ROWS)
    assert (view.result.row_count, view.result.truncated) == (kept, truncated)
    assert view.result.preview[0] == (str(ROWS - 1), f"row-{ROWS - 1}")
    token: int | None = 0
    first = ROWS - 1
    while token is not None:
        page = await client.page(view.operation_id, token, 10_000)
        assert [row[0] for row in page.rows] == list(range(first, first - len(page.rows), -1))
        first -= len(page.rows)
        token = page.next_token
    assert first == ROWS - 1 - kept
    again = await client.page(view.operation_id, kept - 5, 100)
    assert [row[0] for row in again.rows] == list(range(ROWS - 1 - kept + 5, ROWS - 1 - kept, -1))
    assert again.next_token is None


async def test_the_memory_of_the_gateway_does_not_grow_with_the_result(
    client: GatewayClient, gateway: GatewayProcess
) -> None:
    async def read_all(rows: int) -> float:
        """MiB of the result's texts."""
        sql = f"SELECT id, sha2(CAST(id AS STRING), 512) AS wide, repeat('x', 200) AS more FROM range({rows})"
        view = await client.ok(sql, result=ResultOptions(max_rows=rows))
        count = size = 0
        token: int | None = 0
        while token is not None:
            page = await client.page(view.operation_id, token, 10_000)
            count += len(page.rows)
            size += sum(len(str(wide)) + len(str(more)) for _, wide, more in page.rows)
            token = page.next_token
        assert count == rows
        return size / (1 << 20)

    await read_all(ROWS // 6)
    before = gateway.rss_mib()  # what a page takes, whatever lies behind it
    size = await read_all(ROWS)
    deadline = time.monotonic() + 60  # allocators give back what was freed a little later
    while (grown := gateway.rss_mib() - before) >= size / 2:
        assert time.monotonic() < deadline, f"the gateway grew by {grown:.0f} MiB over a result of {size:.0f} MiB"
        await asyncio.sleep(0.5)


async def test_a_result_of_few_wide_rows_goes_to_files(client: GatewayClient, gateway: GatewayProcess) -> None:
    view = await client.ok("SELECT id, repeat(sha2(CAST(id AS STRING), 512), 400) AS wide FROM range(200)")
    assert view.result is not None
    assert (view.result.row_count, view.result.truncated) == (200, False)
    assert list((gateway.folder / "results").rglob(f"{view.operation_id}/part-*.parquet"))
    rows = [row async for row in client.pages(view.operation_id, 50)]
    assert [row[0] for row in rows] == list(range(200))
    assert sum(len(cell or "") for row in view.result.preview for cell in row) <= 8192


async def test_types_survive_the_way_through_files(client: GatewayClient) -> None:
    sql = """SELECT id, TIMESTAMP'2026-07-31 10:00:00' AS ts, CAST(1.5 AS DECIMAL(10,2)) AS de, array(id) AS a,
        map('k', id) AS m, INTERVAL '1-2' YEAR TO MONTH AS ym, parse_json('{"a":1}') AS v, NULL AS n, id AS n
        FROM range(20000)"""
    view = await client.ok(
        sql, result=ResultOptions(max_rows=20_000), conf={"spark.sql.session.timeZone": "Asia/Tokyo"}
    )
    page = await client.page(view.operation_id, 19_999)
    assert page.rows == (
        (
            19_999,
            "2026-07-31 10:00:00",
            "1.50",
            [19_999],
            {"k": 19_999},
            "INTERVAL '1-2' YEAR TO MONTH",
            '{"a":1}',
            None,
            19_999,
        ),
    )
    assert [column.type for column in page.columns][5:8] == ["interval year to month", "variant", "void"]


async def test_result_page_in_arrow_has_its_rows_and_the_next_token(client: GatewayClient) -> None:
    view = await client.ok("SELECT id AS a, 'x' AS a FROM range(5)")
    query = {"format": "arrow", "maxRows": 3}
    async with client.http.get(f"{API}/statements/{view.operation_id}/results", params=query) as response:
        assert response.status == 200
        assert response.headers["X-Next-Token"] == "3"
        table = pa.ipc.open_stream(await response.read()).read_all()
    assert table.column_names == ["a", "a"]
    assert table.column(0).to_pylist() == [0, 1, 2]


@pytest.mark.parametrize(("rows", "kept"), [(0, 10), (10_001, 10_001)], ids=["memory", "files"])
async def test_result_page_in_arrow_without_rows_has_the_columns(client: GatewayClient, rows: int, kept: int) -> None:
    options = ResultOptions(max_rows=kept)
    view = await client.ok(f"SELECT id AS a, map(id, array(id)) AS b FROM range({rows})", result=options)
    query = {"format": "arrow", "token": rows}
    async with client.http.get(f"{API}/statements/{view.operation_id}/results", params=query) as response:
        assert response.status == 200
        table = pa.ipc.open_stream(await response.read()).read_all()
    assert (table.column_names, table.num_rows) == (["a", "b"], 0)


@pytest.mark.parametrize(
    ("query", "status"), [({"token": "x"}, 400), ({"token": 7}, 404), ({"format": "xml"}, 400), ({"maxRows": -1}, 400)]
)
async def test_a_page_that_is_not_there(client: GatewayClient, query: dict[str, object], status: int) -> None:
    view = await client.ok("SELECT 1")
    assert (await client.page_raw(view.operation_id, **query))[0] == status


async def test_a_running_or_failed_statement_has_no_result(client: GatewayClient) -> None:
    failed = await client.run("SELECT 1/0")
    assert failed.state is OperationState.ERROR
    assert (await client.page_raw(failed.operation_id))[0] == 404


async def test_an_expired_result_is_gone_with_its_files(client: GatewayClient, gateway: GatewayProcess) -> None:
    options = ResultOptions(max_rows=20_000, retention_seconds=1)
    view = await client.ok("SELECT id FROM range(20000)", result=options)
    assert view.result is not None
    assert view.result.expiration_time is not None
    async with asyncio.timeout(90):
        while (status := (await client.page_raw(view.operation_id))[0]) != 410:
            assert status == 200
            await asyncio.sleep(0.1)
        while files_of(gateway, view.operation_id):
            await asyncio.sleep(0.1)
        while (await client.get(view.operation_id)).result.preview:  # type: ignore[union-attr]
            await asyncio.sleep(0.1)


def files_of(gateway: GatewayProcess, operation_id: str) -> list[str]:
    """Below the results, where other operations' files come and go meanwhile."""
    names = (name for _, folders, files in os.walk(gateway.folder / "results") for name in (*folders, *files))
    return [name for name in names if name.startswith(operation_id)]


async def test_a_preview_is_bounded_and_can_be_turned_off(client: GatewayClient) -> None:
    wide = await client.ok("SELECT repeat('é', 1000) FROM range(50)", result=ResultOptions(preview_rows=50))
    assert wide.result is not None
    assert 0 < sum(len(row[0].encode()) for row in wide.result.preview if row[0]) <= 8192
    off = await client.ok("SELECT 1", result=ResultOptions(preview_rows=0))
    assert off.result is not None
    assert (off.result.preview, off.result.row_count) == ((), 1)
