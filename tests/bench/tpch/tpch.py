"""The 22 TPC-H queries as statements of a gateway, beside `spark.sql(...).collect()` in plain PySpark.

Usage: python -m tests.bench.tpch.tpch [SCALE] [ROUNDS] [--quick]. Each round starts both in fresh processes with the same settings, heap and cores, and
asks them query by query in turns: first cold, as a job's only run is, then once more. A gateway's time is from the request to the event of its end,
with all rows kept; rows that differ between the ways end the program. The tables are Parquet files in the user's cache folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Protocol

from examples.quickstart.demo import data_folder
from sparksql.wire.control import OperationState, ResultOptions
from sparksql.wire.driver import FILE_ROOTS_ENV
from tests.bench.latency.common import machine
from tests.bench.peers import servers
from tests.bench.peers.ways import Control
from tests.e2e import tpch
from tests.gateway.client import GatewayClient, connect
from tests.support.process import FILES, running

PLAIN_PROGRAM = Path(__file__).resolve().parent / "plain.py"
QUERIES = {
    file.stem: file.read_text(encoding="utf-8") for file in tpch.QUERIES
}  # whose rows e2e compares with another database's
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
CONF = {**servers.CONF, "spark.sql.shuffle.partitions": "8"}
HEAP_MIB = 3072
ALL_ROWS = ResultOptions(max_rows=100_000, preview_rows=0)  # the longest of the results has 18,314 at scale 1
PASSES = ("cold", "again")
DIGITS = 10  # of numbers that are compared; averages of decimals are exact to 6 places in Spark

Rows = list[tuple[str | None, ...]]


class Way(Protocol):
    """One way to have a statement run."""

    async def run(self, sql: str) -> tuple[float, Rows]:
        """Returns the seconds from the request to the last row at hand, and the rows in any order but a fixed one."""


class Gateway:
    """As the operator hands a statement over. Its rows are read after the time is taken."""

    def __init__(self, control: Control, client: GatewayClient) -> None:
        self._control, self._client = control, client

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path) -> AsyncIterator[Gateway]:
        with running(folder, optimised=True, spark_conf=CONF, heap_mib=HEAP_MIB) as process:
            async with connect(process) as client, Control.open(process) as control:
                await client.until_started()
                yield cls(control, client)

    async def run(self, sql: str) -> tuple[float, Rows]:
        began = time.perf_counter()
        view = await self._control.execute(sql, "tpch", ALL_ROWS)
        seconds = time.perf_counter() - began
        if view.state is not OperationState.FINISHED:
            raise SystemExit(f"the gateway ended it as {view}:\n{sql}")
        columns = view.result is not None and view.result.columns
        return seconds, normal([row async for row in self._client.pages(view.operation_id)] if columns else [])


class Plain:
    """PySpark in a process of its own, which takes the time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path) -> AsyncIterator[Plain]:
        conf = {**CONF, "spark.driver.memory": f"{HEAP_MIB}m"}
        with servers.plain(folder, PLAIN_PROGRAM, conf) as process:
            yield cls(process)

    async def run(self, sql: str) -> tuple[float, Rows]:
        return await asyncio.to_thread(self._ask, sql)

    def _ask(self, sql: str) -> tuple[float, Rows]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(sql) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"plain PySpark ended at:\n{sql}")
        found = json.loads(answer)
        return found["seconds"], normal(found["rows"])


def normal(rows: Sequence[Sequence[object]]) -> Rows:
    """Rows as texts in a fixed order, numbers rounded."""
    return sorted((tuple(map(_cell, row)) for row in rows), key=str)


def _cell(value: object) -> str | None:
    if value is None:
        return None
    try:
        return f"{Decimal(str(value)):.{DIGITS}g}"
    except InvalidOperation:
        return str(value)


async def run_round(folder: Path, tables: Sequence[str], number: int) -> list[dict[str, tuple[float, float]]]:
    """Seconds of the gateway and of plain PySpark for each query, a dictionary a pass."""
    (folder / "gateway").mkdir()
    (folder / "plain").mkdir()
    async with Gateway.open(folder / "gateway") as gateway, Plain.open(folder / "plain") as plain:
        for table in tables:
            await gateway.run(table)
            await plain.run(table)
        return [await run_pass(gateway, plain, number + turn) for turn in range(len(PASSES))]


async def run_pass(gateway: Way, plain: Way, number: int) -> dict[str, tuple[float, float]]:
    """Every query once each way. Who goes first changes with each query, and for a query with each pass."""
    found: dict[str, tuple[float, float]] = {}
    for index, (name, sql) in enumerate(QUERIES.items(), start=number):
        first, second = (gateway, plain) if index % 2 else (plain, gateway)
        answers = {first: await first.run(sql), second: await second.run(sql)}
        if answers[gateway][1] != answers[plain][1]:
            raise SystemExit(f"{name}: the gateway has {answers[gateway][1]}\nplain PySpark has {answers[plain][1]}")
        found[name] = answers[gateway][0], answers[plain][0]
    return found


def report(name: str, rounds: Sequence[dict[str, tuple[float, float]]]) -> None:
    print(f"\n{name}: seconds, medians of {len(rounds)} rounds\n  {'':<6}{'gateway':>9}{'PySpark':>9}{'ratio':>8}")
    for query in QUERIES:
        ours, theirs = (statistics.median(found[query][way] for found in rounds) for way in (0, 1))
        print(f"  {query:<6}{ours:9.2f}{theirs:9.2f}{ours / theirs:8.3f}")
    sums = [(sum(ours for ours, _ in found.values()), sum(theirs for _, theirs in found.values())) for found in rounds]
    ratios = [ours / theirs for ours, theirs in sums]
    ours, theirs = (statistics.median(each[way] for each in sums) for way in (0, 1))
    print(
        f"  {'sum':<6}{ours:9.2f}{theirs:9.2f}{statistics.median(ratios):8.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
        flush=True,
    )


async def main(scale: str, rounds: int) -> None:
    print(machine())
    print(f"scale {scale}, {CONF['spark.master']}, {HEAP_MIB} MiB of heap", flush=True)
    data = data_folder(scale)
    os.environ[FILE_ROOTS_ENV] = f"{FILES}:{data}"  # a gateway's SQL reads nowhere else
    tables = [f"CREATE TABLE {each} USING parquet LOCATION 'file://{data}/{each}.parquet'" for each in TABLES]
    found = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            found.append(await run_round(Path(folder), tables, number))
    for turn, name in enumerate(PASSES):
        report(name, [each[turn] for each in found])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scale", nargs="?", default="1")
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="scale 0.1, one round")
    options = parser.parse_args()
    asyncio.run(main("0.1", 1) if options.quick else main(options.scale, options.rounds))
