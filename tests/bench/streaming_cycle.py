"""A streaming statement stopped with a savepoint and running again, against a plain stop and resume of the same statement.

Needs the cluster with the chart installed and KUBECONFIG. Usage: python -m tests.bench.streaming_cycle [--rounds N] [--mebibytes SIZE ...]. About
4 minutes at most: what there is no time for is left out, and named.

Stop: from `desiredState: Stopped` to the phase Stopped, as a watch sees it; with `upgradeMode: Savepoint` its savepoint is then
Completed. Start: from `desiredState: Running` to the first batch that is committed after it, as the target's snapshots date it;
the status of the resource follows within seconds. The two ways take turns, so that whatever else the machine does disturbs both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.latency.common import Object, machine
from tests.e2e.streams import QUICK, count_up, stream, wait_batch
from tests.support.harness import Cluster, Space, phase
from tests.support.installation import new_space

SECONDS = 210.0  # after that nothing is begun
PATIENCE_SECONDS = 120.0  # for any one change
ROW_BYTES = 4096
PROVIDER = "org.apache.spark.sql.execution.streaming.state.{}StateStoreProvider"
WAYS = ("Savepoint", "LastState")
# Noise, which no store can compress: 32 digests of 128 digits.
ROWS_OF_STATE = (
    "SELECT current_timestamp() AS ts, id AS k, "
    "array_join(transform(sequence(1, 32), i -> sha2(concat(id, '-', i), 512)), '') AS p FROM range(0, {rows}, 1, 2)"
)
# Windows that never end: all that is read stays in the state, and each batch commits a snapshot without rows.
QUERY = (
    "INSERT INTO {target} SELECT window.start, k, max(p) AS p FROM ("
    "SELECT ts, k, p FROM STREAM {source} WATERMARK ts DELAY OF INTERVAL 100 DAYS UNION ALL "
    "SELECT timestamp, -1 - value % 5, 'tick' FROM STREAM ticks WATERMARK timestamp DELAY OF INTERVAL 100 DAYS"
    ") GROUP BY window(ts, '1 day'), k"
)


@dataclass(frozen=True)
class Case:
    """A statement with so much state in a store of Spark's (`HDFSBacked` or `RocksDB`)."""

    store: str
    mebibytes: int

    @property
    def name(self) -> str:
        return f"{self.store.lower()}_{self.mebibytes}"


CASES = (Case("HDFSBacked", 1), Case("RocksDB", 1), Case("RocksDB", 50), Case("RocksDB", 200))


@dataclass(frozen=True)
class Cycle:
    """Seconds of one stop and start."""

    stop: float
    start: float

    @property
    def both(self) -> float:
        return self.stop + self.start


class Bench:
    """The turns of all cases, until `deadline` of the monotonic clock."""

    def __init__(self, space: Space, rounds: int, deadline: float) -> None:
        self._space, self._rounds, self._deadline = space, rounds, deadline

    def case(self, case: Case) -> None:
        statement = self._begin(case)
        found: dict[str, list[Cycle]] = {way: [] for way in WAYS}
        bytes_of_savepoint = 0
        for number in range(self._rounds):
            for way in WAYS if number % 2 else reversed(WAYS):
                if time.monotonic() > self._deadline:
                    break
                found[way].append(self._cycle(case, statement, way))
                if way == "Savepoint":
                    bytes_of_savepoint = self._savepoint_bytes(statement)
        self._space.cluster.delete("SqlStatement", self._space.name, statement)
        self._space.cluster.wait_gone("SqlStatement", self._space.name, statement, PATIENCE_SECONDS)
        _show(case, bytes_of_savepoint, found)

    def _begin(self, case: Case) -> str:
        """Name of a running statement that has read its state."""
        rows = ROWS_OF_STATE.format(rows=case.mebibytes * 2**20 // ROW_BYTES)
        for sql in (
            f"CREATE TABLE source_{case.name} USING parquet AS {rows}",
            f"CREATE TABLE {case.name} (start TIMESTAMP, k BIGINT, p STRING) USING iceberg",
        ):
            made = self._space.run(sql)
            if phase(made) != "Finished":
                raise SystemExit(f"{case}: {made['status']}")
        statement = self._space.statement(
            QUERY.format(target=case.name, source=f"source_{case.name}"),
            name=case.name.replace("_", "-"),
            conf={
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.streaming.stateStore.providerClass": PROVIDER.format(case.store),
            },
            streaming={**QUICK, "savepoints": {"onDelete": "Delete"}},
        )
        wait_batch(self._space, statement, more=3)
        return statement

    def _cycle(self, case: Case, statement: str, way: str) -> Cycle:
        space = self._space
        space.change("SqlStatement", statement, streaming={"upgradeMode": way})
        began = time.monotonic()
        space.change("SqlStatement", statement, desiredState="Stopped")
        self._see(statement, lambda seen: phase(seen) == "Stopped")
        stopped = time.monotonic() - began
        asked = datetime.now(UTC)
        space.change("SqlStatement", statement, desiredState="Running")
        committed = stream(space.get(statement))["committedBatchId"]
        self._see(statement, lambda seen: phase(seen) == "Running" and stream(seen)["committedBatchId"] > committed)
        moment = f"TIMESTAMP '{asked:%Y-%m-%d %H:%M:%S.%f} UTC'"
        [[micros]] = space.rows(
            f"SELECT unix_micros(min(committed_at)) FROM {space.database}.{case.name}.snapshots WHERE committed_at > {moment}"
        )
        return Cycle(stopped, int(micros or 0) / 1e6 - asked.timestamp())

    def _see(self, statement: str, reached: Callable[[Object], bool]) -> None:
        for seen in self._space.cluster.follow("SqlStatement", self._space.name, statement, PATIENCE_SECONDS):
            if phase(seen) in ("Error", "Finished", "Closed"):
                break
            if reached(seen):
                return
        raise SystemExit(f"{statement}: {self._space.get(statement)['status']}")

    def _savepoint_bytes(self, statement: str) -> int:
        name = stream(self._space.get(statement))["lastSavepoint"]["name"]
        taken = self._space.cluster.get("SqlSavepoint", self._space.name, name)
        if taken is None or phase(taken) != "Completed":
            raise SystemExit(f"{statement}: savepoint {name} is {taken}")
        return int(taken["status"]["sizeBytes"])


def _show(case: Case, size: int, found: dict[str, list[Cycle]]) -> None:
    """Medians of both ways, and of the ratios of their pairs, with their range."""
    what = f"{case.store}, {case.mebibytes} MiB of rows"
    if not all(found.values()):
        print(f"{what:<32}no time was left for its turns", flush=True)
        return
    sides = []
    for way, cycles in found.items():
        stop, start = (statistics.median(each) for each in zip(*((c.stop, c.start) for c in cycles), strict=True))
        sides.append(f"{way} {stop:5.1f} + {start:5.1f} = {statistics.median(c.both for c in cycles):5.1f} s")
    ratios = sorted(ours.both / plain.both for ours, plain in zip(*found.values(), strict=False))
    print(
        f"{what:<32}savepoint of {size / 2**20:5.1f} MiB   {'   '.join(sides)}   ratio {statistics.median(ratios):.2f} "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}, {len(ratios)} pairs)",
        flush=True,
    )


def measure(cases: list[Case], rounds: int) -> None:
    deadline = time.monotonic() + SECONDS
    cluster = Cluster(Path(os.environ["KUBECONFIG"]))
    with new_space(cluster, "cycle") as space:
        space.session("main")
        count_up(space)
        bench = Bench(space, rounds, deadline)
        for case in cases:
            if time.monotonic() > deadline:
                print(f"left out, there is no time: {case.store}, {case.mebibytes} MiB")
                continue
            bench.case(case)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="stops and starts of each way and case")
    sizes = sorted({case.mebibytes for case in CASES})
    parser.add_argument("--mebibytes", type=int, nargs="+", default=sizes, choices=sizes, help="of rows in the state")
    arguments = parser.parse_args()
    print(f"{machine()}; stop + start, medians", flush=True)
    measure([case for case in CASES if case.mebibytes in arguments.mebibytes], arguments.rounds)


if __name__ == "__main__":
    main()
