"""What shows a stream without running it, and what copies its checkpoint while it runs."""

from __future__ import annotations

import asyncio

import pytest

from sparksql.api.execution import StatementMode
from sparksql.wire.control import ErrorReason, OperationState, OperationView, ResultOptions, StreamOptions
from sparksql.wire.savepoints import SavepointRequest, SavepointState, SavepointView
from tests.support.process import GatewayProcess
from tests.support.thorough import thorough_but

from ..client import API
from ..streams import Streams

PREVIEWED = (
    ("INSERT INTO $.dst SELECT id FROM STREAM $.src WHERE id > 1", (("2",),)),
    ("SELECT name, id FROM STREAM $.src WHERE id = 1", (("a", "1"),)),
    ("SELECT count(*) FROM STREAM $.src", (("2",),)),
    (
        "SELECT count(*), window.end FROM STREAM $.src WATERMARK ts DELAY OF INTERVAL 1 HOUR "
        "GROUP BY window(ts, '1 minute')",
        (("2", "2026-01-01 00:01:00"),),
    ),
)


async def test_a_preview_of_a_stream_shows_what_is_there_and_leaves_nothing(
    streams: Streams, gateway: GatewayProcess
) -> None:
    await streams.ok("CREATE TABLE $.dst (id INT) USING parquet")
    for query, expected in PREVIEWED:
        view = await streams.client.ok(query.replace("$", streams.database), mode=StatementMode.PREVIEW)
        assert view.result is not None
        assert view.result.preview == expected, query
    limited = await streams.client.ok(
        f"SELECT * FROM STREAM {streams.database}.src", mode=StatementMode.PREVIEW, result=ResultOptions(max_rows=1)
    )
    assert limited.result is not None
    assert (limited.result.row_count, limited.result.truncated) == (1, True)
    assert await streams.rows("SELECT * FROM $.dst") == []
    assert await streams.client.rows("SHOW VIEWS LIKE '__sparksql*'") == []
    assert list(gateway.folder.rglob("*-preview")) == []


async def ticking(streams: Streams) -> str:
    """A source without end, 20 rows a second."""
    await streams.ok("CREATE TABLE $.ticks USING rate OPTIONS (rowsPerSecond '20', numPartitions '1')")
    return f"{streams.database}.ticks"


def shown(view: OperationView) -> int:
    return len(view.result.preview) if view.result else 0


ENDLESS = ["INSERT INTO $.dst SELECT value FROM STREAM $.ticks", "SELECT value FROM STREAM $.ticks"]


@pytest.mark.parametrize("sql", thorough_but(ENDLESS[:1], ENDLESS), ids=["insert", "select"])
async def test_a_preview_of_an_endless_stream_shows_rows_until_its_time_is_over(
    streams: Streams, gateway: GatewayProcess, sql: str
) -> None:
    ticks = await ticking(streams)
    await streams.ok("CREATE TABLE $.dst (value BIGINT) USING parquet")
    # There before the other: what ends that ends this one, too, unless it is its time.
    few = f"SELECT value FROM STREAM {ticks} WHERE value < 5"
    longer = await streams.client.put(few, mode=StatementMode.PREVIEW, execution_seconds=3600)
    await streams.client.until(longer.operation_id, lambda seen: shown(seen) > 0 or seen.state.is_terminal)
    text = sql.replace("$", streams.database)
    view = await streams.client.put(text, mode=StatementMode.PREVIEW, execution_seconds=12)
    running = await streams.client.until(view.operation_id, lambda seen: shown(seen) > 0 or seen.state.is_terminal)
    assert (running.state, running.progress is not None) == (OperationState.RUNNING, True), running
    assert running.result is not None
    assert (running.result.preview[0], running.result.truncated) == (("0",), True), running
    ended = await streams.client.end(view)
    assert (ended.state, ended.error) == (OperationState.FINISHED, None), ended
    assert ended.result is not None
    assert ended.result.truncated and ended.result.row_count >= running.result.row_count, (running, ended)
    assert ended.result.row_count < ResultOptions().max_rows, "it ended with rows enough"
    assert [row async for row in streams.client.pages(view.operation_id)] == [
        (number,) for number in range(ended.result.row_count)
    ]
    assert (await streams.client.get(longer.operation_id)).state is OperationState.RUNNING
    await streams.client.cancel(longer.operation_id)
    await streams.client.end(longer)
    assert await streams.rows("SELECT * FROM $.dst") == []
    assert list(gateway.folder.rglob("*-preview")) == []


async def test_a_preview_of_a_source_without_end_ends_with_rows_enough(streams: Streams) -> None:
    ticks = await ticking(streams)
    for query in (f"SELECT value FROM STREAM {ticks}", f"SELECT value, count(*) FROM STREAM {ticks} GROUP BY value"):
        view = await streams.client.ok(query, mode=StatementMode.PREVIEW, result=ResultOptions(max_rows=7))
        assert view.result is not None
        assert (view.result.row_count, view.result.truncated, len(view.result.preview)) == (7, True, 7), view


async def test_a_preview_without_a_row_has_run_out_of_time(streams: Streams) -> None:
    query = f"SELECT value FROM STREAM {await ticking(streams)} WHERE value < 0"
    view = await streams.client.run(query, mode=StatementMode.PREVIEW, execution_seconds=6)
    assert (view.state, view.result) == (OperationState.TIMED_OUT, None), view
    assert view.error is not None and view.error.reason is ErrorReason.EXECUTION_TIMEOUT, view


async def test_a_preview_shows_null_of_a_column_that_is_declared_as_never_null(streams: Streams) -> None:
    await streams.ok("INSERT INTO $.src SELECT 1, 'a', TIMESTAMP'2026-01-01 00:00:00'")
    query = "SELECT uniform(NULL, 1, 0) AS u, count(*) AS n FROM {}"
    for text in (query, "SELECT uniform(NULL, 1, 0) AS u FROM {}"):
        preview = await streams.client.rows(text.format(f"STREAM {streams.database}.src"), mode=StatementMode.PREVIEW)
        assert preview == await streams.rows(text.format("$.src")) and preview[0][0] is None, preview


async def test_a_stream_can_be_explained_and_validated(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.dst (id INT) USING parquet")
    sql = f"INSERT INTO {streams.database}.dst SELECT id FROM STREAM {streams.database}.src"
    for mode in (StatementMode.VALIDATE, StatementMode.EXPLAIN):
        view = await streams.client.ok(sql, mode=mode, dry_run=StreamOptions(checkpoint=""))
        assert view.result is not None
        assert bool(view.result.preview) == (mode is StatementMode.EXPLAIN)


async def test_a_savepoint_is_taken_over_the_control_api_while_the_stream_runs(streams: Streams) -> None:
    await streams.ok(
        "CREATE TABLE $.ticks USING rate OPTIONS (rowsPerSecond '50', numPartitions '1')",
        "CREATE TABLE $.dst (value BIGINT) USING parquet",
    )
    view = await streams.endless("INSERT INTO $.dst SELECT value FROM STREAM $.ticks")
    await streams.committed(view, 1)
    client, target = streams.client, streams.folder / "s"
    asked = SavepointRequest(
        boot_id=client.boot_id, checkpoint=streams.options().checkpoint, target=target.as_uri(), uid="u", namespace="n", name="x"
    )  # fmt: skip

    async def call(method: str, attempt: str, body: SavepointRequest | None = None) -> tuple[int, SavepointView | None]:
        url, data = f"{API}/savepoints/{attempt}", None if body is None else body.to_json()
        async with client.http.request(method, url, data=data) as response:
            text = await response.text()
            return response.status, SavepointView.model_validate_json(text) if response.status == 200 else None

    async def made(attempt: str, body: SavepointRequest) -> SavepointView:
        _, seen = await call("PUT", attempt, body)
        async with asyncio.timeout(60):
            while seen is not None and seen.state is SavepointState.RUNNING:
                await asyncio.sleep(0.05)
                _, seen = await call("GET", attempt)
        assert seen is not None
        return seen

    assert await call("GET", "one") == (404, None)
    assert (await call("DELETE", "zero"))[0] == 200
    assert (await made("zero", asked)).state is SavepointState.FAILED
    assert not target.exists()
    assert (await call("PUT", "one", asked.model_copy(update={"boot_id": "other"})))[0] == 412
    first = await made("one", asked)
    assert (first.state, first.boot_id) == (SavepointState.COMPLETED, client.boot_id), first
    assert first.batch_id is not None and first.batch_id >= 1
    assert view.progress is not None and view.progress.stream is not None
    assert first.query_id == view.progress.stream.query_id
    assert first.size_bytes and first.file_count
    assert (target / "manifest.json").exists()
    assert await call("PUT", "one", asked) == await call("DELETE", "one") == (200, first)
    assert await made("two", asked) == first.model_copy(update={"attempt_id": "two"})
    refused = await made("three", asked.model_copy(update={"uid": "another"}))
    assert refused.state is SavepointState.FAILED
    assert "another object" in (refused.message or "")
    assert (await streams.stop(view)).state is OperationState.CANCELED
