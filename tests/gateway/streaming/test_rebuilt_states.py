"""A stream's state computed anew from the history of its sources: the rows are those of a computation, each once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import pytest_asyncio

from sparksql.api.execution import OutputMode, StatementMode, Upsert
from sparksql.wire.control import HISTORY_READ, OperationState, OperationView
from tests.support.process import GatewayProcess

from ..client import connect
from ..streams import Streams
from .test_rewritten_states import CLOSING, OLD, PARTS, STORES, TARGET, Rewrites, grouped, refusal

TARGETS = {"parquet": TARGET, "delta": "k STRING, n BIGINT"}
BY_KEY = {"output_mode": OutputMode.UPDATE, "upsert": Upsert(keys=("k",))}
COUNTS = "INSERT INTO $.@ SELECT k, count(*) AS n FROM STREAM $.src GROUP BY k"
SUMS = COUNTS.replace("count(*)", "sum(v)")
# A key more, and windows of another size.
BY_MORE = grouped("k, until, n, c", "k, window.end, count(*), CAST(d AS BIGINT)", "k, d, window(ts, '10 minutes')")
# One state with a watermark and so two versions, and one of another store.
BASES: dict[str, tuple[str, str, dict[str, str], dict[str, Any]]] = {
    "windows": ("parquet", OLD, STORES["hdfs"], {}),
    "sums": ("delta", COUNTS, STORES["changelog"], BY_KEY),
}
# By the end of part 1 the watermark is at 8 minutes: the windows before it were written by the text before.
COMPUTED = (
    "SELECT k, window(ts, '5 minutes').end AS until, count(*), avg(v), NULL, NULL, NULL, NULL, NULL, NULL FROM $.src "
    "GROUP BY k, window(ts, '5 minutes') HAVING until < TIMESTAMP '1970-01-01 00:08:00' UNION ALL "
    "SELECT k, window(ts, '10 minutes').end, count(*), NULL, NULL, NULL, CAST(d AS BIGINT), NULL, NULL, NULL FROM $.src "
    "WHERE k <> 'end' GROUP BY k, d, window(ts, '10 minutes')"
)
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


class Rebuilds(Rewrites):
    """Streams that have read part 1 of a source, each into a table and a checkpoint of its name."""

    async def started(self, name: str) -> None:
        provider, sql, conf, options = BASES[name]
        await self.streams.ok(f"CREATE TABLE $.{name} ({TARGETS[provider]}) USING {provider}")
        conf = {"spark.sql.shuffle.partitions": "2", **conf}
        await self.streams.drained(sql.replace("@", name), name, conf=conf, **options)

    async def rebuilt(self, name: str, sql: str, place: str) -> OperationView:
        _, _, conf, options = BASES[name]
        return await self.streams.run(
            sql.replace("@", name),
            place,
            conf={"spark.sql.shuffle.partitions": "3", **conf},  # a state keeps the number of its partitions
            rewrites=True,
            rebuilds=True,
            restore=self.restore(name),
            **options,
        )

    async def looked_at(self, name: str, sql: str) -> OperationView:
        text = sql.replace("@", name).replace("$", self.streams.database)
        against = self.streams.options(name, rewrites=True, rebuilds=True, **BASES[name][3])
        return await self.streams.client.run(text, mode=StatementMode.VALIDATE, validate_against=against)


@contextmanager
def away(file: Path) -> Iterator[None]:
    """A file that no longer exists for the block."""
    moved = file.rename(file.with_name("_away"))
    try:
        yield
    finally:
        moved.rename(file)


@asynccontextmanager
async def begun(gateway: GatewayProcess, folder: Path, name: str) -> AsyncIterator[Rebuilds]:
    """Starts one of the base queries in a new database."""
    async with connect(gateway) as client:
        await client.until_started()
        streams = Streams(client, folder, f"rebuilt_{name}")
        await streams.ok("CREATE DATABASE $", f"CREATE TABLE $.src USING parquet AS {PARTS[1]}")
        made = Rebuilds(streams)
        await made.started(name)
        await streams.ok(f"INSERT INTO $.src {PARTS[2]}", f"INSERT INTO $.src {CLOSING}")
        yield made
        await streams.ok("DROP DATABASE $ CASCADE")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rebuilds(gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rebuilds]:
    async with begun(gateway, tmp_path_factory.mktemp("sums"), "sums") as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def windows(gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rebuilds]:
    async with begun(gateway, tmp_path_factory.mktemp("windows"), "windows") as made:
        yield made


@pytest.mark.thorough
async def test_windows_of_a_rebuilt_state_are_those_of_a_computation(windows: Rebuilds) -> None:
    name, rebuilds = "windows", windows
    before, place = rebuilds.files(name), rebuilds.streams.folder / f"{name}_new"
    told = await rebuilds.looked_at(name, BY_MORE)
    assert told.state is OperationState.FINISHED and told.result is not None, told
    assert [(row[0], row[1], row[4]) for row in told.result.preview][:1] == [(HISTORY_READ, "source src", "1 file")]
    view = await rebuilds.rebuilt(name, BY_MORE, place.name)
    assert view.state is OperationState.FINISHED, view
    assert rebuilds.files(name) == before
    assert json.loads((place / "metadata").read_text()) == json.loads(before["metadata"])
    assert not (place / "_rebuilt").exists()
    found = await rebuilds.rows(f"SELECT * FROM $.{name} WHERE until < TIMESTAMP '1970-01-01 01:00:00'")
    assert found == await rebuilds.rows(COMPUTED) and found


@pytest.mark.thorough
async def test_rows_by_key_are_written_again_from_a_rebuilt_state(rebuilds: Rebuilds) -> None:
    view = await rebuilds.rebuilt("sums", SUMS, "sums_new")
    assert view.state is OperationState.FINISHED, view
    found = await rebuilds.rows("SELECT * FROM $.sums")
    assert found == await rebuilds.rows("SELECT k, sum(v) FROM $.src GROUP BY k") and found


@pytest.mark.thorough
async def test_a_text_that_comes_back_after_a_rebuilding_that_was_cut_off_writes_its_rows_again(
    rebuilds: Rebuilds,
) -> None:
    """Nobody knows what that has written. The target has batches of this query from after the change, so no more come."""
    place = rebuilds.streams.folder / "back"
    place.with_name("back.rebuilding").write_text("")
    view = await rebuilds.rebuilt("sums", COUNTS, place.name)
    assert view.state is OperationState.FINISHED, view
    found = await rebuilds.rows("SELECT * FROM $.sums WHERE k <> 'end'")
    assert found == await rebuilds.rows("SELECT k, count(*) FROM $.src WHERE part = 1 GROUP BY k") and found
    assert not list(place.parent.glob("*.rebuilding"))


async def test_a_history_with_a_hole_and_other_sources_are_refused(rebuilds: Rebuilds) -> None:
    ((uri,),) = await rebuilds.streams.rows("SELECT input_file_name() FROM $.src WHERE part = 1 AND v = 0 LIMIT 1")
    file = Path(unquote(urlsplit(uri).path))
    with away(file):
        message, is_met = refusal(await rebuilds.looked_at("sums", SUMS))
    assert not is_met and f"file {file.name} no longer exists" in message
    await rebuilds.streams.ok("CREATE TABLE $.other LIKE $.src")
    message, is_met = refusal(await rebuilds.looked_at("sums", SUMS.replace("STREAM $.src", "STREAM $.other")))
    assert not is_met and "its sources are other and were src" in message


async def test_a_state_is_computed_from_the_snapshots_of_an_iceberg_table(rebuilds: Rebuilds) -> None:
    source = "lake.$.src"
    await rebuilds.streams.ok(f"CREATE TABLE {source} (k STRING, v INT) USING iceberg")
    for part in (1, 2):
        await rebuilds.streams.ok(f"INSERT INTO {source} SELECT k, v FROM $.src WHERE part = {part} AND k <> 'end'")
    counts, sums = (sql.replace("$.src", source).replace("$.@", "lake.$.@") for sql in (COUNTS, SUMS))
    target = "lake.$.iced"
    await rebuilds.streams.ok(f"CREATE TABLE {target} (k STRING, n BIGINT) USING iceberg")
    conf = {"spark.sql.shuffle.partitions": "2"}
    await rebuilds.streams.drained(counts.replace("@", "iced"), "iced", conf=conf, **BY_KEY)
    BASES["iced"] = BASES["sums"]
    told = await rebuilds.looked_at("iced", sums)
    assert told.state is OperationState.FINISHED and told.result is not None, told
    assert [(row[0], row[4]) for row in told.result.preview][:1] == [(HISTORY_READ, "2 snapshots")]
    view = await rebuilds.rebuilt("iced", sums, "iced_new")
    assert view.state is OperationState.FINISHED, view
    await rebuilds.streams.ok(f"INSERT INTO {source} VALUES ('k1', 1000), ('new', 7)")
    view = await rebuilds.streams.run(
        sums.replace("@", "iced"), "iced_new", conf=conf, rewrites=True, rebuilds=True, **BY_KEY
    )
    assert view.state is OperationState.FINISHED, view
    found = await rebuilds.rows(f"SELECT * FROM {target}")
    assert found == await rebuilds.rows(f"SELECT k, sum(v) FROM {source} GROUP BY k") and found

    [[first]] = await rebuilds.streams.rows(f"SELECT min_by(snapshot_id, committed_at) FROM {source}.snapshots")
    await rebuilds.streams.ok(f"CALL lake.system.expire_snapshots(table => '$.src', snapshot_ids => array({first}))")
    message, is_met = refusal(await rebuilds.looked_at("iced", sums))
    assert not is_met and f"snapshot {first} has expired" in message
