"""What windows and distinct counts of a stream cost, form beside form in one gateway: rows a second, and what is kept in the state.

Usage: python -m tests.bench.streaming_windows [ROUNDS] [ROWS]. All forms read the same file table, batch by batch, until it is read up, and take turns; the
ratio of a form is that of its time to the one it is compared with, in the same round. The last batch leaves the last window open, so that what
is told of the state is that of an hour.

- CUMULATE of an hour by minutes, beside TUMBLE of a minute: a row is in 60 windows of the one and in one of the other.
- The same with an aggregate that cannot be made of panes, so that a row goes into each of its windows.
- count(DISTINCT), with even keys and with 90 % of the rows under one, beside approx_count_distinct, on both state stores.
- count(DISTINCT) by a key whose three values the filter lists, which share their state, beside the same without a list.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sparksql.api.execution import TriggerMode
from sparksql.wire.control import OperationState, OperationView, ResultOptions, StreamOptions
from tests.bench.latency.common import machine
from tests.gateway.client import GatewayClient, connect
from tests.support.process import running

BATCHES = 10
CONF = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}
STORES = {
    "files": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "RocksDB": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
SOURCE = "TABLE(FROM STREAM rows_of_an_hour WATERMARK ts DELAY OF INTERVAL 1 MINUTE), DESCRIPTOR(ts)"
TUMBLE = f"TUMBLE({SOURCE}, INTERVAL 1 MINUTE)"
HOUR = f"TUMBLE({SOURCE}, INTERVAL 2 HOURS)"
CUMULATE = f"CUMULATE({SOURCE}, INTERVAL 1 MINUTE, INTERVAL 1 HOUR)"
BY_WINDOW = "GROUP BY window_start, window_end"


@dataclass(frozen=True)
class Form:
    """A query, the state store that it runs on, and the name of the form that it is compared with."""

    sql: str
    store: str = "files"
    beside: str = ""


FORMS = {
    "TUMBLE": Form(f"SELECT window_end, k, count(*), sum(v) FROM {TUMBLE} {BY_WINDOW}, k"),
    "CUMULATE": Form(f"SELECT window_end, k, count(*), sum(v) FROM {CUMULATE} {BY_WINDOW}, k", beside="TUMBLE"),
    "CUMULATE, no panes": Form(
        f"SELECT window_end, k, count(*), CAST(stddev(v) AS BIGINT) FROM {CUMULATE} {BY_WINDOW}, k", beside="TUMBLE"
    ),
    "approximate": Form(f"SELECT window_end, k, approx_count_distinct(uid), count(*) FROM {HOUR} {BY_WINDOW}, k"),
    "distinct": Form(
        f"SELECT window_end, k, count(DISTINCT uid), count(*) FROM {HOUR} {BY_WINDOW}, k", beside="approximate"
    ),
    "distinct, RocksDB": Form(
        f"SELECT window_end, k, count(DISTINCT uid), count(*) FROM {HOUR} {BY_WINDOW}, k", "RocksDB", "distinct"
    ),
    "distinct, hot key": Form(
        f"SELECT window_end, hot, count(DISTINCT uid), count(*) FROM {HOUR} {BY_WINDOW}, hot", beside="distinct"
    ),
    "three keys": Form(f"SELECT window_end, k % 3, count(DISTINCT uid), 0 FROM {HOUR} {BY_WINDOW}, k % 3"),
    "three keys, listed": Form(
        "SELECT window_end, c, count(DISTINCT uid), 0 FROM TUMBLE(TABLE(SELECT *, k % 3 AS c FROM STREAM rows_of_an_hour "
        f"WATERMARK ts DELAY OF INTERVAL 1 MINUTE), DESCRIPTOR(ts), INTERVAL 2 HOURS) WHERE c IN (0, 1, 2) {BY_WINDOW}, c",
        beside="three keys",
    ),
}


@dataclass(frozen=True)
class Run:
    """Seconds from the request to the end, and the rows and bytes of the state then."""

    seconds: float
    state_rows: int
    state_bytes: int


async def _made(client: GatewayClient, rows: int) -> None:
    """A table of one file a batch: 100 keys, a fiftieth as many users as rows, times that go through an hour."""
    await client.ok("CREATE TABLE rows_of_an_hour (ts TIMESTAMP, k INT, hot INT, uid INT, v INT) USING parquet")
    per_batch = rows // BATCHES
    for batch in range(BATCHES):
        first = batch * per_batch
        await client.ok(
            "INSERT INTO rows_of_an_hour SELECT /*+ COALESCE(1) */ timestamp_millis(1767225600000 + id * 3590000 DIV "
            f"{rows}), CAST(pmod(hash(id), 100) AS INT), IF(pmod(hash(id, 1), 10) < 9, 0, CAST(pmod(hash(id), 100) AS INT)), "
            f"CAST(pmod(hash(id, 2), {rows // 50}) AS INT), CAST(id % 1000 AS INT) FROM range({first}, {first + per_batch})"
        )


async def _run(client: GatewayClient, form: Form, turn: str, folder: Path) -> Run:
    await client.ok(f"CREATE TABLE {turn} (window_end TIMESTAMP, k INT, a BIGINT, b BIGINT) USING parquet")
    options = StreamOptions(
        checkpoint=(folder / turn).as_uri(), trigger=TriggerMode.AVAILABLE_NOW, max_files_per_trigger=1
    )
    conf = {"spark.sql.streaming.stateStore.providerClass": STORES[form.store]}
    began = time.perf_counter()
    view = await client.put(f"INSERT INTO {turn} {form.sql}", streaming=options, conf=conf)
    view = await client.end(view, 600)
    seconds = time.perf_counter() - began
    if view.state is not OperationState.FINISHED:
        raise SystemExit(f"{form.sql} ended as {view.error}")
    return _of(view, seconds)


def _of(view: OperationView, seconds: float) -> Run:
    stream = view.progress.stream if view.progress is not None else None
    rows, size = (0, 0) if stream is None else (stream.state_rows or 0, stream.state_bytes or 0)
    return Run(seconds, rows, size)


def _show(rows: int, runs: dict[str, list[Run]]) -> None:
    print(
        f"\n{'form':22}{'rows/s':>10}{'state rows':>12}{'MiB':>8}   time of it / of what it is beside, median (range)"
    )
    for name, form in FORMS.items():
        found = runs[name]
        rate = rows / statistics.median(run.seconds for run in found)
        told = f"{name:22}{rate:>10,.0f}{found[-1].state_rows:>12,}{found[-1].state_bytes / 2**20:>8.1f}"
        if form.beside:
            ratios = [run.seconds / other.seconds for run, other in zip(found, runs[form.beside], strict=True)]
            told += f"   {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) {form.beside}"
        print(told)


async def measure(rounds: int, rows: int) -> None:
    """Prints what each form takes. Each runs once before, so that all are compiled."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running(folder, optimised=True, spark_conf=CONF, heap_mib=4096) as process:
            async with connect(process) as client:
                await client.until_started()
                await _made(client, rows)
                await client.rows("SELECT 1", result=ResultOptions())
                runs: dict[str, list[Run]] = {form: [] for form in FORMS}
                for number in range(rounds + 1):
                    order = list(FORMS) if number % 2 else list(reversed(FORMS))
                    for place in order:
                        turn = f"t{number}_{list(FORMS).index(place)}"
                        run = await _run(client, FORMS[place], turn, folder / "checkpoints")
                        if number:
                            runs[place].append(run)
    _show(rows, runs)


def main() -> None:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(description="Windows and distinct counts of streams, form beside form.")
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    arguments = parser.parse_args()
    print(f"{machine()}; {arguments.rows:,} rows in {BATCHES} batches")
    asyncio.run(measure(arguments.rounds, arguments.rows))


if __name__ == "__main__":
    main()
