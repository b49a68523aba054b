"""A driver that freezes in the middle of a batch, and wakes when another one has gone on from its checkpoint: each row comes once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sparksql.api.execution import OutputMode, TriggerMode, Upsert
from sparksql.gateway.streaming.checkpoints.fence import TAKEN_OVER, UNREADABLE
from sparksql.wire.control import OperationState, OperationView, StreamOptions
from tests.support.default_class import class_path
from tests.support.object_store import ROOT, ObjectStore, object_store
from tests.support.process import GatewayProcess, running

from ..client import GatewayClient, connect
from ..connectors import conf, iceberg_catalog

# Seconds for each row, and as many whatever else the machine does.
SLOWLY = "WHERE aggregate(sequence(1, 4000000), CAST(id AS STRING), (text, n) -> sha2(text, 256)) <> ''"
UPSERT = {"upsert": Upsert(keys=("id",)), "output_mode": OutputMode.UPDATE}


@dataclass(frozen=True)
class Stream:
    """Where a stream writes, and the checkpoint that both drivers write."""

    target: str
    checkpoint: str
    options: dict[str, Any]

    async def put(self, client: GatewayClient, where: str = "") -> OperationView:
        options = StreamOptions(checkpoint=self.checkpoint, trigger=TriggerMode.AVAILABLE_NOW, **self.options)
        return await client.put(f"INSERT INTO {self.target} SELECT id FROM STREAM src {where}", streaming=options)

    async def drain(self, client: GatewayClient) -> None:
        ended = await client.end(await self.put(client))
        assert ended.state is OperationState.FINISHED, f"{ended}\n{client.gateway.log_tail(3000)}"

    async def ids(self, client: GatewayClient) -> list[int]:
        return [int(id_) for (id_,) in await client.rows(f"SELECT id FROM {self.target} ORDER BY id")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    with object_store(tmp_path) as started:
        yield started


@pytest.fixture
def gateways(store: ObjectStore, tmp_path: Path) -> Iterator[list[GatewayProcess]]:
    """Two, each with a catalog of its own, and `lake`, which is both's."""
    with ExitStack() as stack:
        started = []
        for name in ("first", "second"):
            folder = tmp_path / name
            folder.mkdir()
            stack.enter_context(class_path(folder))
            settings = {**conf(folder), **iceberg_catalog("lake", tmp_path), **store.conf}
            started.append(stack.enter_context(running(folder, spark_conf=settings)))
        yield started


@pytest.fixture
async def clients(gateways: list[GatewayProcess], tmp_path: Path) -> AsyncIterator[list[GatewayClient]]:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(each)) for each in gateways]
        for client in clients:
            await client.until_started()
            for table, format_ in (("src", "parquet"), ("kept", "delta")):
                await client.ok(f"CREATE TABLE {table} (id INT) USING {format_} LOCATION '{tmp_path}/{table}'")
        yield clients


# The pods of a lost node run on in the same way: tests/e2e/test_lost_node.py.
@pytest.mark.thorough
async def test_no_row_comes_twice_from_a_driver_that_wakes(
    clients: list[GatewayClient], store: ObjectStore, tmp_path: Path
) -> None:
    first, second = clients
    streams = [
        Stream("lake.d.appended", f"{ROOT}/appended", {}),
        Stream("lake.d.merged", f"{ROOT}/merged", UPSERT),
        Stream("kept", f"{tmp_path.as_uri()}/kept", {}),
    ]
    logs = [store.folder / "appended", store.folder / "merged", tmp_path / "kept"]
    for stream in streams[:2]:
        await first.ok(f"CREATE TABLE {stream.target} (id INT) USING iceberg")
    await first.ok("INSERT INTO src VALUES (1)")
    frozen = await asyncio.gather(*(each.put(first, SLOWLY) for each in streams))
    await until_there([each / "offsets" / "0" for each in logs])
    with first.gateway.held():
        assert not any((each / "commits" / "0").exists() for each in logs), "a batch took no time"
        await asyncio.gather(*(each.drain(second) for each in streams))
    ended = await asyncio.gather(*map(first.end, frozen))
    for each in ended:  # the other text if the second driver took longer than a lease lasts
        assert each.error is not None and each.error.message in (TAKEN_OVER, UNREADABLE), each
    await second.ok("INSERT INTO src VALUES (2)")
    await asyncio.gather(*(each.drain(second) for each in streams))
    assert [await each.ids(second) for each in streams] == [[1, 2]] * len(streams)


async def until_there(files: list[Path]) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 120
    while missing := [each for each in files if not each.exists()]:
        assert loop.time() < deadline, f"not there: {missing}"
        await asyncio.sleep(0.02)
