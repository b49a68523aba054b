"""A stream's state computed anew for a query of another kind, whose state has other stores: each pair of kinds starts again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from sparksql.wire.control import OperationState, OperationView, RestoreOptions
from tests.support.process import GatewayProcess

from ..client import connect
from ..streams import Streams
from .test_rewritten_states import CLOSING, PARTS

CONF = {"spark.sql.shuffle.partitions": "2"}
READ = "FROM STREAM $.src WATERMARK ts DELAY OF INTERVAL 60 SECONDS"
BY = "GROUP BY window_start, window_end, k"
COUNTED = "SELECT k, window_end AS until, count(*) AS n FROM"
TUMBLING = f"{COUNTED} TUMBLE(TABLE({{read}}), DESCRIPTOR(ts), INTERVAL 5 MINUTES) {BY}"
UNTIL_SILENT = (
    f"{COUNTED} CUMULATE(DATA => TABLE({{read}}) PARTITION BY k, TIMECOL => DESCRIPTOR(ts), STEP => INTERVAL 1 MINUTE, "
    f"GAP => INTERVAL 5 MINUTES) {BY}"
)
PAIR = "x.k = y.k AND x.until = y.until"
KINDS = {
    "tumble": TUMBLING,
    "hop": f"{COUNTED} HOP(TABLE({{read}}), DESCRIPTOR(ts), INTERVAL 1 MINUTE, INTERVAL 5 MINUTES) {BY}",
    "cumulate": f"{COUNTED} CUMULATE(TABLE({{read}}), DESCRIPTOR(ts), INTERVAL 1 MINUTE, INTERVAL 5 MINUTES) {BY}",
    "session": f"{COUNTED} SESSION(TABLE({{read}}) PARTITION BY k, DESCRIPTOR(ts), INTERVAL 20 SECONDS) {BY}",
    "gap": UNTIL_SILENT,
    "values": TUMBLING.replace("count(*)", "count(DISTINCT v)"),
    "first": "SELECT k, window_end, CAST(v AS BIGINT) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
    "ORDER BY v) AS r FROM TUMBLE(TABLE({read}), DESCRIPTOR(ts), INTERVAL 5 MINUTES)) WHERE r = 1",
    "duplicates": "SELECT DISTINCT k, ts, CAST(v AS BIGINT) {read}",
    "stateless": "SELECT k, ts, CAST(v AS BIGINT) {read}",
    "joined windows": f"SELECT x.k, x.until, x.n + y.n FROM ({TUMBLING}) x JOIN ({TUMBLING}) y ON {PAIR}",
    "joined rows": "SELECT x.k, x.ts, CAST(y.v AS BIGINT) FROM (SELECT * {read}) x LEFT JOIN (SELECT * {read}) y "
    "ON x.k = y.k AND x.ts = y.ts",
}  # fmt: skip
BEGUN = ("tumble", "gap")  # that the daily tests need
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


def insert(kind: str, table: str) -> str:
    """A query of a kind into a table."""
    return f"INSERT INTO $.{table} {KINDS[kind].format(read=READ)}"


def table_of(kind: str) -> str:
    return kind.replace(" ", "_")


async def begin(streams: Streams, kind: str) -> None:
    """Has a query of a kind read what the source has."""
    await streams.ok(f"CREATE TABLE $.{table_of(kind)} (k STRING, until TIMESTAMP, n BIGINT) USING parquet")
    await streams.drained(insert(kind, table_of(kind)), table_of(kind), conf=CONF)


async def rebuilt(streams: Streams, old: str, new: str, place: str) -> OperationView:
    """Starts a query of another kind from the state of the old one, by Rebuild."""
    location = streams.options(table_of(old)).checkpoint
    return await streams.run(
        insert(new, table_of(old)), place, conf=CONF, rewrites=True, rebuilds=True,
        restore=RestoreOptions(location=location, query_id="", rewrite=True),
    )  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def streams(gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Streams]:
    async with connect(gateway) as client:
        await client.until_started()
        made = Streams(client, Path(tmp_path_factory.mktemp("kinds")), "rebuilt_kinds")
        await made.ok("CREATE DATABASE $", f"CREATE TABLE $.src USING parquet AS {PARTS[1]}")
        await asyncio.gather(*(begin(made, kind) for kind in BEGUN))
        yield made
        await made.ok("DROP DATABASE $ CASCADE")


async def test_curves_of_keys_until_they_are_silent_of_a_rebuilt_state_are_those_of_a_computation(
    streams: Streams,
) -> None:
    """Part 1 has moved the watermark to just before 8 minutes: what ends until then was written by the text before."""
    view = await rebuilt(streams, "tumble", "gap", "tumble_to_gap")
    assert view.state is OperationState.FINISHED, view
    await streams.ok(f"INSERT INTO $.src {PARTS[2]}", f"INSERT INTO $.src {CLOSING}")
    for _ in range(2):  # the second start finds nothing new
        await streams.drained(insert("gap", "tumble"), "tumble_to_gap", conf=CONF)
    found = await streams.rows("SELECT * FROM $.tumble WHERE k <> 'end' ORDER BY ALL")
    before, after = (text.format(read="SELECT * FROM $.src WHERE k <> 'end'") for text in (TUMBLING, UNTIL_SILENT))
    at = "TIMESTAMP '1970-01-01 00:08:00'"
    wanted = f"SELECT * FROM ({before}) WHERE until < {at} UNION ALL SELECT * FROM ({after}) WHERE until >= {at}"
    assert found and found == await streams.rows(f"SELECT * FROM ({wanted}) ORDER BY ALL")


async def test_a_state_of_curves_until_silence_is_rebuilt_for_windows(streams: Streams) -> None:
    view = await rebuilt(streams, "gap", "tumble", "gap_to_tumble")
    assert view.state is OperationState.FINISHED, view
    await streams.drained(insert("tumble", "gap"), "gap_to_tumble", conf=CONF)


@pytest.mark.thorough
@pytest.mark.parametrize("old", KINDS)
async def test_each_other_kind_of_state_is_rebuilt_and_starts_again_or_is_refused_with_its_sources(
    streams: Streams, old: str
) -> None:
    """One after another, as no two statements go on from one state."""
    if old not in BEGUN:
        await begin(streams, old)
    failed: list[str] = []
    for new in KINDS.keys() - {old}:
        place = table_of(f"{old} {new} pair")
        view = await rebuilt(streams, old, new, place)
        if view.state is OperationState.FINISHED:
            view = await streams.run(insert(new, table_of(old)), place, conf=CONF)
        message = view.error.message if view.error else ""
        is_refused = "its sources are" in message and ("joined" in old) != ("joined" in new)
        if view.state is not OperationState.FINISHED and not is_refused:
            failed.append(f"{old} to {new}: {message[:1500]}")
    assert not failed, "\n".join(failed)
