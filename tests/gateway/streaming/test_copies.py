"""Statements of one session whose states are copies of one checkpoint: each is a query of its own, or the second is refused at once."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from typing import Any

import pytest

from sparksql.api.execution import TriggerMode
from sparksql.wire.control import ErrorReason, OperationState, OperationView, RestoreOptions
from tests.support.process import GatewayProcess

from ..streams import Streams

INSERT = "INSERT INTO lake.$.{} SELECT id, name FROM STREAM $.src"


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


@pytest.fixture
async def copied(streams: Streams) -> Streams:
    """With a checkpoint `c` that has read what there is, and the folders `one` and `two`, which are copies of it."""
    # Iceberg lets each query begin with any batch; the tables of files of another one would be refused.
    await streams.ok(*(f"CREATE TABLE lake.$.{name} (id INT, name STRING) USING iceberg" for name in ("dst", "a", "b")))
    await streams.drained(INSERT.format("dst"))
    for name in ("one", "two"):
        shutil.copytree(streams.folder / "c", streams.folder / name)
    return streams


def restore(streams: Streams, folder: str) -> RestoreOptions:
    return RestoreOptions(location=(streams.folder / folder).as_uri(), query_id=str(uuid.uuid4()))


def query_id(view: OperationView) -> str:
    assert view.progress is not None and view.progress.stream is not None
    return view.progress.stream.query_id


async def assert_goes_on(streams: Streams, view: OperationView, table: str, count: int) -> None:
    """Fails unless the query writes a further row: `count` is how many there are then."""
    await streams.ok("INSERT INTO $.src VALUES (100, 'more', NULL)")
    async with asyncio.timeout(60):
        while await streams.rows(f"SELECT count(*) FROM lake.$.{table}") != [(count,)]:
            assert not (await streams.client.get(view.operation_id)).state.is_terminal
            await asyncio.sleep(0.3)
    assert query_id(await streams.client.get(view.operation_id)) == query_id(view)


def assert_refused(view: OperationView, other: str) -> None:
    assert view.state is OperationState.ERROR and view.error is not None, view
    assert view.error.reason is ErrorReason.INVALID_SPEC, view
    assert f"SqlStatement team-a/{other} runs in this session" in view.error.message
    assert "source Existing" in view.error.message
    assert (view.start_time, view.progress and view.progress.stream) == (None, None)


async def begun(streams: Streams, name: str, text: str, checkpoint: str, **fields: Any) -> OperationView:
    """Hands a text over as that of a statement."""
    options = streams.options(checkpoint, trigger=TriggerMode.INTERVAL, interval_millis=100, **fields)
    view = await streams.client.put(text.replace("$", streams.database), name=name, streaming=options)
    streams.started.append(view.operation_id)
    return view


async def runs(streams: Streams, name: str, text: str, checkpoint: str, **fields: Any) -> OperationView:
    view = await begun(streams, name, text, checkpoint, **fields)
    running = await streams.client.until(
        view.operation_id, lambda seen: seen.state.is_terminal or (seen.progress is not None and seen.progress.stream is not None)
    )  # fmt: skip
    assert running.state is OperationState.RUNNING, running
    return running


@pytest.mark.parametrize(
    "places",
    [("one", "two"), pytest.param(("c", "c"), marks=pytest.mark.thorough)],
    ids=["copies", "one savepoint twice"],
)
async def test_streams_restored_from_copies_of_one_checkpoint_run_side_by_side(
    copied: Streams, places: tuple[str, str]
) -> None:
    first = await runs(copied, "first", INSERT.format("a"), "first", restore=restore(copied, places[0]))
    second = await runs(copied, "second", INSERT.format("b"), "second", restore=restore(copied, places[1]))
    assert query_id(first) != query_id(second)
    await assert_goes_on(copied, first, "a", 1)
    await assert_goes_on(copied, second, "b", 2)
    anew = await runs(copied, "anew", INSERT.format("dst"), "anew")  # without state
    assert len({query_id(each) for each in (first, second, anew)}) == 3
    await assert_goes_on(copied, first, "a", 3)


async def test_a_stream_on_a_copied_checkpoint_starts_only_after_the_original_stopped(
    copied: Streams,
) -> None:
    first = await runs(copied, "first", INSERT.format("a"), "one")
    second = await copied.client.end(await begun(copied, "second", INSERT.format("b"), "two"))
    assert_refused(second, "first")
    await assert_goes_on(copied, first, "a", 1)
    saved = await runs(copied, "saved", INSERT.format("b"), "second", restore=restore(copied, "two"))
    assert query_id(saved) != query_id(first)
    await copied.stop(saved)
    await copied.stop(first)
    again = await runs(copied, "again", INSERT.format("b"), "two")
    assert query_id(again) == query_id(first)


@pytest.mark.thorough
async def test_a_copy_of_what_runs_is_refused_as_well(copied: Streams) -> None:
    first = await runs(copied, "first", INSERT.format("a"), "fresh")
    await copied.committed(first, 0)
    (copied.folder / "later").mkdir()
    shutil.copy(copied.folder / "fresh" / "metadata", copied.folder / "later" / "metadata")
    assert_refused(await copied.client.end(await begun(copied, "second", INSERT.format("b"), "later")), "first")


async def test_checkpoint_of_a_running_stream_is_refused_to_a_second_statement(copied: Streams) -> None:
    first = await runs(copied, "first", INSERT.format("a"), "one")
    mark = copied.folder / "one.writer.json"
    before = mark.read_text()
    assert_refused(await copied.client.end(await begun(copied, "second", INSERT.format("a"), "one")), "first")
    assert mark.read_text() == before
    await assert_goes_on(copied, first, "a", 1)


@pytest.mark.thorough
async def test_of_two_that_start_at_once_one_runs(copied: Streams) -> None:
    views = [await begun(copied, place, INSERT.format(table), place) for table, place in (("a", "one"), ("b", "two"))]
    seen = [await copied.client.until_state(view.operation_id, OperationState.RUNNING) for view in views]
    assert sorted(view.state for view in seen) == [OperationState.ERROR, OperationState.RUNNING], seen
    refused = next(view for view in seen if view.state is OperationState.ERROR)
    assert_refused(refused, "two" if refused is seen[0] else "one")
