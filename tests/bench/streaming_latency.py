"""A statement that follows a topic with batches every 100 ms, against the same query in plain PySpark: from the event to the row that can be read.

Usage: python -m tests.bench.streaming_latency [--events N] [--pairs N] [--sinks NAME ...]. About a minute for each pair of a sink. Needs no
cluster: both Sparks run in local mode, with checkpoints on this machine's disk, and a Kafka broker beside them.

The event is when the broker has a record, by its clock. The row is there, in Iceberg, when the table's metadata that names it are
written, in Kafka when the broker has the record. Events come at all parts of the trigger's interval, see streaming.py. Where the
time goes is told by the phases that Spark reports of PySpark's batches, as medians.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sparksql.api.execution import TriggerMode
from sparksql.wire.control import StreamOptions
from tests.bench.latency.common import machine
from tests.bench.streaming import CONF, INTERVAL_MILLIS, SECONDS, Plain, plain_side, until_moment
from tests.bench.streaming_plain import FORWARDED
from tests.gateway.client import GatewayClient, connect
from tests.gateway.connectors import iceberg_catalog
from tests.gateway.streaming.kafka_broker import running_broker
from tests.support.default_class import class_path, image_connectors
from tests.support.process import running

INTERVALS_APART = 3
WARM_UP = 10  # first events of a turn, which are left out: the query starts, and its code is compiled
ICEBERG, KAFKA, ASYNC = "iceberg", "kafka", "kafka-async"
SINKS = (ICEBERG, KAFKA, ASYNC)
ASYNC_OPTIONS = {"asyncProgressTrackingEnabled": "true"}
# The file of the table's metadata that was the first with a row's snapshot.
VISIBLE = (
    "SELECT r.n, unix_millis(r.event), m.file FROM (SELECT n, event, _file AS f FROM {table}) r "
    "JOIN {table}.entries e ON e.data_file.file_path = r.f "
    "JOIN {table}.metadata_log_entries m ON m.latest_snapshot_id = e.snapshot_id"
)


class Side(Protocol):
    """A way to run the query."""

    name: str

    async def start(self, sink: str, turn: str, checkpoint: Path) -> None: ...

    async def stop(self) -> None: ...

    async def rows(self, sql: str) -> Sequence[Sequence[Any]]: ...


class Gateway:
    """Statements of the control API."""

    name = "gateway"

    def __init__(self, client: GatewayClient, servers: str) -> None:
        self._client, self._servers = client, servers
        self._running = ""

    async def start(self, sink: str, turn: str, checkpoint: Path) -> None:
        at = f"'kafka.bootstrap.servers' = '{self._servers}'"
        await self._client.ok(
            f"CREATE TABLE source_{turn} USING kafka OPTIONS ({at}, 'subscribe' = 'in_{turn}', 'startingOffsets' = 'earliest')"
        )
        if sink == ICEBERG:
            await self._client.ok(f"CREATE TABLE lake.bench.{turn} (event TIMESTAMP, n STRING) USING iceberg")
            sql = f"INSERT INTO lake.bench.{turn} SELECT timestamp, CAST(value AS STRING) FROM STREAM source_{turn}"
        else:
            await self._client.ok(
                f"CREATE TABLE out_{turn} USING kafka OPTIONS ({at}, 'topic' = 'out_{turn}', 'subscribe' = 'out_{turn}')"
            )
            given = ", ".join(f"'{key}' = '{value}'" for key, value in ASYNC_OPTIONS.items())
            options = f" WITH ({given})" if sink == ASYNC else ""
            sql = f"INSERT INTO out_{turn}{options} SELECT {FORWARDED} FROM STREAM source_{turn}"
        options_of_stream = StreamOptions(
            checkpoint=checkpoint.as_uri(), trigger=TriggerMode.INTERVAL, interval_millis=INTERVAL_MILLIS
        )
        self._running = (await self._client.put(sql, streaming=options_of_stream)).operation_id

    async def stop(self) -> None:
        await self._client.cancel(self._running)
        await self._client.until(self._running, lambda view: view.state.is_terminal)

    async def rows(self, sql: str) -> Sequence[Sequence[Any]]:
        return await self._client.rows(sql)


class PySpark:
    """A process of streaming_plain.py. `phases` are those of its turns, by the sink."""

    name = "PySpark"

    def __init__(self, plain: Plain, servers: str) -> None:
        self._plain, self._servers = plain, servers
        self.phases: dict[str, dict[str, float]] = {}
        self._sink = ""

    async def start(self, sink: str, turn: str, checkpoint: Path) -> None:
        self._sink = sink
        target = {"table": f"lake.bench.{turn}"}
        if sink == ICEBERG:
            await self._plain.ask(
                "sql", text=f"CREATE TABLE lake.bench.{turn} (event TIMESTAMP, n STRING) USING iceberg"
            )
        else:
            target = {"kafka.bootstrap.servers": self._servers, "topic": f"out_{turn}"}
            target |= ASYNC_OPTIONS if sink == ASYNC else {}
        target["checkpointLocation"] = checkpoint.as_uri()
        await self._plain.ask("forward", servers=self._servers, topic=f"in_{turn}", sink=target, millis=INTERVAL_MILLIS)

    async def stop(self) -> None:
        self.phases[self._sink] = await self._plain.ask("phases")
        await self._plain.ask("stop")

    async def rows(self, sql: str) -> Sequence[Sequence[Any]]:
        found: list[list[Any]] = (await self._plain.ask("sql", text=sql))["rows"]
        return found


@dataclass(frozen=True)
class Bench:
    """The turns. `plain` makes topics, sends events and reads topics for both sides."""

    sides: tuple[Side, Side]
    plain: Plain
    servers: str
    folder: Path
    events: int

    async def pairs(self, sink: str, count: int) -> dict[str, list[list[float]]]:
        """Latencies of each side's turns, milliseconds; the sides take turns in going first."""
        found: dict[str, list[list[float]]] = {side.name: [] for side in self.sides}
        for pair in range(count):
            for side in self.sides if pair % 2 else reversed(self.sides):
                turn = f"{sink}_{side.name}_{pair}".replace("-", "_").lower()
                found[side.name].append(await self._turn(side, sink, turn))
        return found

    async def _turn(self, side: Side, sink: str, turn: str) -> list[float]:
        for name in (f"in_{turn}", f"out_{turn}"):
            await self.plain.ask("topic", servers=self.servers, name=name)
        await side.start(sink, turn, self.folder / f"checkpoint_{turn}")
        for number in range(self.events + WARM_UP):
            await asyncio.sleep(until_moment(INTERVALS_APART, number / self.events % 1))
            await self.plain.ask("send", servers=self.servers, topic=f"in_{turn}", value=str(number))
        deadline = time.monotonic() + SECONDS
        while len(found := await self._latencies(side, sink, turn)) < self.events + WARM_UP:
            if time.monotonic() > deadline:
                raise SystemExit(f"{turn}: {len(found)} of {self.events + WARM_UP} rows are there after {SECONDS:g} s")
        await side.stop()
        return [latency for number, latency in found.items() if number >= WARM_UP]

    async def _latencies(self, side: Side, sink: str, turn: str) -> dict[int, float]:
        if sink == ICEBERG:
            rows = await side.rows(VISIBLE.format(table=f"lake.bench.{turn}"))
            return {int(number): _written(file) - int(event) for number, event, file in rows}
        records = (await self.plain.ask("records", servers=self.servers, topic=f"out_{turn}"))["rows"]
        texts = [(text.split(), at) for text, at in records]
        return {int(number): at - int(event) for (number, event), at in reversed(texts)}  # the first of a row's records


def _written(uri: str) -> float:
    """When a file was written, milliseconds since the epoch."""
    return Path(uri.removeprefix("file:")).stat().st_mtime * 1000


def _show(sink: str, found: dict[str, list[list[float]]], phases: dict[str, float]) -> None:
    sides = []
    for name, turns in found.items():
        centiles = statistics.quantiles([each for turn in turns for each in turn], n=100, method="inclusive")
        sides.append(f"{name} {centiles[49]:5.0f} / {centiles[98]:5.0f} ms")
    medians = [[statistics.median(turn) for turn in turns] for turns in found.values()]
    ratios = sorted(ours / theirs for ours, theirs in zip(*medians, strict=True))
    told = ", ".join(f"{phase} {millis:g}" for phase, millis in phases.items())
    print(
        f"{sink:<12} p50 / p99   {'   '.join(sides)}   ratio of p50 {statistics.median(ratios):.2f} "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}, {len(ratios)} pairs)\n{'':<12} {told}",
        flush=True,
    )


async def measure(sinks: Sequence[str], events: int, pairs: int, folder: Path) -> None:
    for name in ("gateway", "kafka"):
        (folder / name).mkdir()
    with ExitStack() as stack:
        servers = stack.enter_context(running_broker(folder / "kafka")).address
        stack.enter_context(class_path(folder))
        ours = {**CONF, **iceberg_catalog("lake", folder / "gateway")}
        process = stack.enter_context(running(folder / "gateway", optimised=True, spark_conf=ours))
        more = {**iceberg_catalog("lake", folder / "plain"), "spark.jars": ",".join(image_connectors())}
        plain = stack.enter_context(plain_side(folder / "plain", more))
        async with connect(process) as client:
            await client.until_started()
            await client.ok("CREATE DATABASE lake.bench")
            await plain.ask("sql", text="CREATE DATABASE lake.bench")
            pyspark = PySpark(plain, servers)
            bench = Bench((Gateway(client, servers), pyspark), plain, servers, folder, events)
            for sink in sinks:
                _show(sink, await bench.pairs(sink, pairs), pyspark.phases[sink])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=60, help="that count, of each turn")
    parser.add_argument("--pairs", type=int, default=2, help="turns of each side for each sink")
    parser.add_argument("--sinks", nargs="+", choices=SINKS, default=SINKS)
    arguments = parser.parse_args()
    print(f"{machine()}; batches every {INTERVAL_MILLIS} ms", flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-latency-") as folder:
        asyncio.run(measure(arguments.sinks, arguments.events, arguments.pairs, Path(folder)))


if __name__ == "__main__":
    main()
