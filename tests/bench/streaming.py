"""A streaming statement through the gateway against the same query in plain PySpark: rows a second, latency from file to table.

Usage: python -m tests.bench.streaming [--quick]. Two Sparks in local mode on this machine with the same settings, warm, take turns: whatever else the
machine does disturbs both alike, and each turn's pair gives one ratio. Under 4 minutes, `--quick` about one. Then the time of a
savepoint's copy against its bytes, to a local disk.

Rate: a windowed aggregation of a file table, in batches of some files, until it is read up; over all, and from the first commit
to the last, which leaves out the start. The start, from the request to the plan of the first batch, and that batch's commit are told on
their own: they are there once in a query's life, however long that is. Latency: from a source file's appearance to the commit of the batch that has
it. Moments of files are those that the file system has for them, so that nobody polls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow.parquet as pq

from sparksql.api.execution import TriggerMode
from sparksql.wire.control import OperationState, StreamOptions
from tests.bench.latency.common import machine
from tests.gateway.client import GatewayClient, connect
from tests.support.process import GatewayProcess, running

PLAIN = Path(__file__).resolve().parent / "streaming_plain.py"
SECONDS = 120.0  # what any single turn may take
# Two files of the latency's source, in intervals of its trigger: more than a batch takes, or they would wait for one another.
INTERVALS_APART = 5
INTERVAL_MILLIS = 100
CONF = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}
AGGREGATION = (
    "INSERT INTO {target} SELECT window.start, k, count(*) AS n, sum(x) AS total FROM STREAM {source} "
    "WATERMARK ts DELAY OF INTERVAL 10 MINUTES GROUP BY window(ts, '10 seconds'), k"
)


@dataclass(frozen=True)
class Scale:
    """How much is measured: pairs of turns, rows and files of the rate's source, files of a latency turn, MiB of savepoints."""

    pairs: int
    rows: int
    files: int
    files_a_batch: int
    latency_pairs: int
    latency_files: int
    savepoints: tuple[int, ...]


FULL = Scale(9, 6_000_000, 24, 4, 6, 15, (16, 64, 256, 1024))
QUICK = Scale(2, 1_500_000, 12, 4, 1, 10, (16, 64))


class Side(Protocol):
    """A way to run a streaming query."""

    name: str

    async def throughput(self, source: Path, turn: str, folder: Path, files: int) -> float:
        """Seconds from the request to the end of a query that reads the source up."""

    async def start(self, source: Path, turn: str, folder: Path) -> None: ...

    async def stop(self) -> None: ...

    async def rows(self, turn: str) -> int: ...

    def table(self, turn: str) -> Path:
        """Folder of a turn's target."""


class Gateway:
    """Statements of the control API."""

    name = "gateway"

    def __init__(self, process: GatewayProcess, client: GatewayClient) -> None:
        self._process, self._client = process, client
        self._running = ""

    async def throughput(self, source: Path, turn: str, folder: Path, files: int) -> float:
        await self._client.ok(
            f"CREATE TABLE source_{turn} (ts TIMESTAMP, k INT, x DOUBLE) USING parquet LOCATION '{source}'"
        )
        await self._client.ok(f"CREATE TABLE {turn} (start TIMESTAMP, k INT, n BIGINT, total DOUBLE) USING parquet")
        sql = AGGREGATION.format(target=turn, source=f"source_{turn}")
        options = StreamOptions(
            checkpoint=folder.as_uri(), trigger=TriggerMode.AVAILABLE_NOW, max_files_per_trigger=files
        )
        began = time.perf_counter()
        await self._until_ended((await self._client.put(sql, streaming=options)).operation_id)
        return time.perf_counter() - began

    async def start(self, source: Path, turn: str, folder: Path) -> None:
        await self._client.ok(f"CREATE TABLE source_{turn} (n BIGINT) USING json LOCATION '{source}'")
        await self._client.ok(f"CREATE TABLE {turn} (n BIGINT) USING parquet")
        options = StreamOptions(
            checkpoint=folder.as_uri(), trigger=TriggerMode.INTERVAL, interval_millis=INTERVAL_MILLIS
        )
        sql = f"INSERT INTO {turn} SELECT n FROM STREAM source_{turn}"
        self._running = (await self._client.put(sql, streaming=options)).operation_id

    async def stop(self) -> None:
        await self._client.cancel(self._running)
        await self._client.until(self._running, lambda view: view.state.is_terminal)

    async def rows(self, turn: str) -> int:
        return int((await self._client.rows(f"SELECT count(*) FROM {turn}"))[0][0])

    def table(self, turn: str) -> Path:
        return self._process.folder / "warehouse" / turn

    async def _until_ended(self, operation_id: str) -> None:
        """By the stream of events: a poll would take its part of the machine."""
        async with self._client.events() as events:
            async for event in events:
                view = event.operation
                if view is not None and view.operation_id == operation_id and view.state.is_terminal:
                    if view.state is not OperationState.FINISHED:
                        raise SystemExit(f"{view}\n{self._process.log_tail(3000)}")
                    return


class Plain:
    """A process of streaming_plain.py."""

    name = "PySpark"

    def __init__(self, process: subprocess.Popen[str], warehouse: Path) -> None:
        self._process, self._warehouse = process, warehouse

    async def throughput(self, source: Path, turn: str, folder: Path, files: int) -> float:
        found = await self.ask("throughput", source=str(source), target=turn, checkpoint=folder.as_uri(), files=files)
        return float(found["seconds"])

    async def start(self, source: Path, turn: str, folder: Path) -> None:
        await self.ask("start", source=str(source), target=turn, checkpoint=folder.as_uri(), millis=INTERVAL_MILLIS)

    async def stop(self) -> None:
        await self.ask("stop")

    async def rows(self, turn: str) -> int:
        return int((await self.ask("count", table=turn))["rows"])

    def table(self, turn: str) -> Path:
        return self._warehouse / turn

    async def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
        self._process.stdin.flush()
        line = await asyncio.wait_for(asyncio.to_thread(self._process.stdout.readline), SECONDS)
        if not line:
            raise SystemExit("plain PySpark has ended; its log is above")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def plain_side(folder: Path, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[Plain]:
    """PySpark as pip installs it, with these settings beside CONF."""
    folder.mkdir()
    conf = {**CONF, **more, "spark.driver.memory": "1g", "spark.sql.warehouse.dir": f"file://{folder}/warehouse"}
    conf["spark.driver.host"] = conf["spark.driver.bindAddress"] = "127.0.0.1"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(PLAIN), json.dumps(conf)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise SystemExit(f"plain PySpark did not start:\n{(folder / 'log').read_text()[-3000:]}")
            yield Plain(process, folder / "warehouse")
        finally:
            process.terminate()
            process.wait()


@dataclass(frozen=True)
class _Rate:
    """Rows a second over all, and between the first and the last commit; milliseconds from the request to the plan of the
    first batch, and to its commit."""

    whole: float
    steady: float
    start_millis: float
    first_millis: float


class Bench:
    """The turns of both sides. `folder` holds sources and checkpoints."""

    def __init__(self, sides: tuple[Side, Side], folder: Path, scale: Scale) -> None:
        self._sides, self._folder, self._scale = sides, folder, scale

    async def rates(self, source: Path) -> None:
        """Pairs of rates; a pair before the first warms both up."""
        pairs: list[tuple[_Rate, _Rate]] = []
        for pair in range(-1, self._scale.pairs):
            found = {side.name: await self._rate(side, source, pair) for side in self._in_turn(pair)}
            rows = {await side.rows(_turn("rate", side, pair)) for side in self._sides}
            if len(rows) != 1:
                raise SystemExit(f"the targets of pair {pair} differ in their rows: {rows}")
            if pair >= 0:
                ours, theirs = (found[side.name] for side in self._sides)
                pairs.append((ours, theirs))
        _show("rows/s, start to end", [(a.whole, b.whole) for a, b in pairs], "{:,.0f}")
        _show("rows/s, first commit to last", [(a.steady, b.steady) for a, b in pairs], "{:,.0f}")
        _show("start, ms", [(a.start_millis, b.start_millis) for a, b in pairs], "{:,.0f}")
        _show("first commit, ms", [(a.first_millis, b.first_millis) for a, b in pairs], "{:,.0f}")

    async def latencies(self) -> None:
        pairs: list[tuple[float, float]] = []
        for pair in range(self._scale.latency_pairs):
            found = {side.name: await self._latency(side, pair) for side in self._in_turn(pair)}
            ours, theirs = (statistics.median(found[side.name]) for side in self._sides)
            pairs.append((ours, theirs))
        _show("latency, ms, medians of turns", pairs, "{:,.0f}")

    def _in_turn(self, pair: int) -> tuple[Side, Side]:
        first, second = self._sides
        return (first, second) if pair % 2 else (second, first)

    async def _rate(self, side: Side, source: Path, pair: int) -> _Rate:
        turn = _turn("rate", side, pair)
        checkpoint = self._folder / f"checkpoint_{turn}"
        seconds = await side.throughput(source, turn, checkpoint, self._scale.files_a_batch)
        began = time.time() - seconds
        commits = sorted(path.stat().st_mtime for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
        batches = -(-self._scale.files // self._scale.files_a_batch)
        after_first = self._scale.rows * (1 - self._scale.files_a_batch / self._scale.files)
        planned = (checkpoint / "offsets" / "0").stat().st_mtime
        return _Rate(
            whole=self._scale.rows / seconds,
            steady=after_first / (commits[batches - 1] - commits[0]),
            start_millis=(planned - began) * 1000,
            first_millis=(commits[0] - began) * 1000,
        )

    async def _latency(self, side: Side, pair: int) -> list[float]:
        """Milliseconds of each file; the first one, which the query starts with, is left out."""
        turn = _turn("latency", side, pair)
        source, target = self._folder / f"source_{turn}", side.table(turn)
        source.mkdir()
        placed = {0: _place(source, 0)}
        await side.start(source, turn, self._folder / f"checkpoint_{turn}")
        await _until(lambda: 0 in committed(target))
        for number in range(1, self._scale.latency_files + 1):
            await asyncio.sleep(until_moment(INTERVALS_APART, number / self._scale.latency_files))
            placed[number] = _place(source, number)
        await _until(lambda: committed(target).keys() >= placed.keys())
        await side.stop()
        seen = committed(target)
        return [(seen[number] - at) * 1000 for number, at in placed.items() if number]


def committed(table: Path) -> dict[int, float]:
    """When each number of a file sink's table was committed, seconds since the epoch."""
    log = table / "_spark_metadata"
    found: dict[int, float] = {}
    if not log.is_dir():
        return found
    batches = [path for path in log.iterdir() if path.name.split(".")[0].isdigit()]
    for batch in sorted(batches, key=lambda path: int(path.name.split(".")[0])):
        at = batch.stat().st_mtime
        for line in batch.read_text().splitlines()[1:]:
            data = json.loads(line)["path"].removeprefix("file://")
            for number in pq.read_table(data, partitioning=None).column("n").to_pylist():
                found.setdefault(number, at)
    return found


def until_moment(intervals: int, part: float) -> float:
    """Seconds until this part of an interval of the trigger, so many intervals on. Batches begin at multiples of it, so that files which came at any
    one part would all wait alike, and a turn's median would tell of that."""
    interval = INTERVAL_MILLIS / 1000
    return (intervals + part) * interval - time.time() % interval


def _place(source: Path, number: int) -> float:
    """Puts a file of a hundred rows there at once; seconds since the epoch at which it was."""
    hidden = source / f".{number}"
    hidden.write_text(f'{{"n": {number}}}\n' * 100)
    os.replace(hidden, source / f"{number}.json")
    return (source / f"{number}.json").stat().st_mtime


def _turn(what: str, side: Side, pair: int) -> str:
    return f"{what}_{side.name.lower()}_{pair + 1}"


async def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not seen within {SECONDS:g} s")
        await asyncio.sleep(0.25)


def _show(what: str, pairs: list[tuple[float, float]], form: str) -> None:
    """Medians of both sides, and of the ratios of the pairs, with their range."""
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    print(
        f"{what:<32}gateway {form.format(ours):>10}   PySpark {form.format(theirs):>10}   ratio {statistics.median(ratios):.3f} "
        f"({ratios[0]:.3f} to {ratios[-1]:.3f}, {len(ratios)} pairs)",
        flush=True,
    )


async def savepoints(plain: Plain, folder: Path, sizes: tuple[int, ...]) -> None:
    for size in sizes:
        place = folder / f"savepoint_{size}"
        found = await plain.ask("savepoint", folder=str(place), mebibytes=size)
        mebibytes = found["bytes"] / 2**20
        print(
            f"{'savepoint':<32}{mebibytes:>7.0f} MiB in {found['seconds']:.2f} s, {mebibytes / found['seconds']:.0f} MiB/s"
        )
        shutil.rmtree(place)


async def measure(scale: Scale, folder: Path) -> None:
    (folder / "gateway").mkdir()
    with running(folder / "gateway", optimised=True, spark_conf=CONF) as process, plain_side(folder / "plain") as plain:
        async with connect(process) as client:
            await client.until_started()
            source = folder / "source"
            await client.ok(
                f"CREATE TABLE source USING parquet LOCATION '{source}' AS SELECT timestamp_millis(id) AS ts, "
                f"CAST(id % 100 AS INT) AS k, CAST(id AS DOUBLE) / 7 AS x FROM range(0, {scale.rows}, 1, {scale.files})"
            )
            bench = Bench((Gateway(process, client), plain), folder, scale)
            await bench.rates(source)
            await bench.latencies()
            await savepoints(plain, folder, scale.savepoints)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about a minute: whether it works, not what it gives")
    scale = QUICK if parser.parse_args().quick else FULL
    print(f"{machine()}; {scale.rows:,} rows in {scale.files} files, {scale.files_a_batch} a batch")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(scale, Path(folder)))


if __name__ == "__main__":
    main()
