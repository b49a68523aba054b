"""A large result read through every frontend, one after the other, of the same gateway: rows a second, and the driver's memory meanwhile.

Usage: python -m tests.bench.results.results [ROWS] [SECONDS]. ROWS of 5 columns (20,000,000), SECONDS at most for each way's reading (120). A way that is
not done by then is judged by what it has read. Rows become values of the client's language: Python objects, or Arrow's columns;
but for the ways named "bytes", whose client counts rows and decodes none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.latency.common import machine
from tests.conformance.clients import install
from tests.conformance.target import CONF, Target, of_processes

HERE = Path(__file__).resolve().parent
WARMING_ROWS = 500_000
# Rows that a Connect client has not read yet wait in the heap: Spark's bound for them is raised for the fast reader, and the
# slow one gets a smaller result.
CONNECT_CONF = {"spark.driver.maxResultSize": "2g"}
SLOW = "Connect, rows"
SLOW_ROWS = 2_000_000
SQL = (
    "SELECT id, CAST(id % 1000 AS INT) AS k, CAST(id AS DOUBLE) / 7 AS x, concat('row-', id) AS s, "
    "date_add(DATE'2024-01-01', CAST(id % 365 AS INT)) AS d FROM range(0, {rows}, 1, 16)"
)


@dataclass
class Memory:
    """Resident memory of the gateway's two processes, MiB, once a second."""

    python: int
    jvm: int
    samples: list[tuple[float, float, float]] = field(default_factory=list)

    def sample(self, at: float) -> None:
        self.samples.append((at, _resident(self.python), _resident(self.jvm)))


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def _gateway_processes(port: int) -> tuple[int, int]:
    """Python process that listens on the port, and its JVM."""
    ours = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and _parent(p) == os.getpid()]
    for pid in ours:
        if b"sparksql.gateway.main" in Path(f"/proc/{pid}/cmdline").read_bytes() and _listens(pid, port):
            return pid, next(child for child in _descendants(pid) if _is_java(child))
    raise SystemExit(f"no gateway of this program listens on port {port}")


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


def _descendants(pid: int) -> Iterator[int]:
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _parent(process) == pid:
            yield int(process.name)
            yield from _descendants(int(process.name))


def _is_java(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().strip() == "java"


def _listens(pid: int, port: int) -> bool:
    config = next(Path(f"/proc/{pid}/cwd").resolve().glob("config/config.json"), None)
    return config is not None and json.loads(config.read_text()).get("port") == port


@contextmanager
def watched(memory: Memory) -> Iterator[Memory]:
    ended = threading.Event()

    def watch() -> None:
        started = time.monotonic()
        while not ended.wait(1):
            memory.sample(time.monotonic() - started)

    memory.samples.clear()
    memory.sample(0)
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield memory
    ended.set()
    thread.join()


def ways(target: Target, seconds: int) -> dict[str, tuple[list[str | Path], dict[str, str]]]:
    rest = f"https://localhost:{target.rest}"
    limit = str(seconds)
    connect = install.CONNECT_OLD.install() / "bin" / "python"
    impyla = install.IMPYLA.install() / "bin" / "python"
    roots = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(target.certificate)}
    certificate = target.certificate
    thrift = (str(target.thrift), certificate, limit)
    rest_ways = {
        "REST, ARROW pages": "ARROW",
        "REST, JSON pages": "JSON",
        "REST, JSON, quick": "QUICK",
        "REST, JSON, bytes": "BYTES",
    }
    return {
        **{
            name: ([sys.executable, HERE / "read_rest.py", rest, certificate, way, limit], {})
            for name, way in rest_ways.items()
        },
        "Thrift, impyla": ([impyla, HERE / "read_thrift.py", *thrift], {}),
        "Thrift, bytes": ([sys.executable, "-m", "tests.bench.results.read_thrift_bytes", *thrift], {}),
        "Connect, Arrow": ([connect, HERE / "read_connect.py", str(target.connect), "ARROW", limit], roots),
        "Connect, rows": ([connect, HERE / "read_connect.py", str(target.connect), "ROWS", limit], roots),
    }


def measure(target: Target, rows: int, seconds: int) -> None:
    memory = Memory(*_gateway_processes(target.rest))

    def given(count: int) -> str:
        return json.dumps({"token": target.token, "sql": SQL.format(rows=count)})

    print(
        f"{'way':<20}{'rows read':>12}{'ready s':>9}{'read s':>8}{'rows/s':>12}{'in all/s':>12}   Python MiB        JVM MiB"
    )
    shown: dict[str, float] = {}
    for command, more in ways(target, seconds).values():  # so that the first one does not pay for the compiler alone
        _read(command, more, given(WARMING_ROWS), seconds)
    for name, (command, more) in ways(target, seconds).items():
        wanted = min(rows, SLOW_ROWS) if name == SLOW else rows
        with watched(memory):
            done = _read(command, more, given(wanted), seconds)
        if done.returncode != 0:
            print(f"{name:<20} failed: {(done.stderr or done.stdout)[-3000:]}")
            continue
        found = json.loads(done.stdout.strip().splitlines()[-1])
        shown[name] = found["rows"] / max(found["read_seconds"], 0.001)
        overall = found["rows"] / (found["ready_seconds"] + found["read_seconds"])
        part = "" if found["complete"] else " (stopped)"
        print(
            f"{name:<20}{found['rows']:>12,}{found['ready_seconds']:>9}{found['read_seconds']:>8}{shown[name]:>12,.0f}"
            f"{overall:>12,.0f}   {_range(memory, 1):<18}{_range(memory, 2)}{part}",
            flush=True,
        )
        print(f"{'':<20}{_course(memory)}")
    base = shown.get("Thrift, impyla")
    if base:
        print("times Thrift: " + ", ".join(f"{name} {rate / base:.1f}" for name, rate in shown.items()))


def _read(
    command: list[str | Path], more: dict[str, str], given: str, seconds: int
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], input=given, capture_output=True, text=True, check=False,
        env={**os.environ, **more}, timeout=seconds * 4 + 300,
    )  # fmt: skip


def _range(memory: Memory, which: int) -> str:
    values = [sample[which] for sample in memory.samples]
    return f"{values[0]:.0f} -> {values[-1]:.0f}, {max(values):.0f} most"


def _course(memory: Memory, points: int = 8) -> str:
    """A few moments of the way: seconds, Python's and the JVM's MiB."""
    step = max(1, len(memory.samples) // points)
    return "  ".join(f"{at:.0f}s {python:.0f}/{jvm:.0f}" for at, python, jvm in memory.samples[::step])


def main(rows: int, seconds: int) -> None:
    print(f"{machine()}; {rows:,} rows of 5 columns; each way reads for at most {seconds} s")
    with tempfile.TemporaryDirectory() as folder, of_processes(Path(folder), {**CONF, **CONNECT_CONF}) as target:
        measure(target, rows, seconds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000, int(sys.argv[2]) if len(sys.argv) > 2 else 120)
