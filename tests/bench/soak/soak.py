"""Many sessions of clients at once for a while: wrong results, illegal transitions and leaks would show.

Usage: python -m tests.bench.soak.soak [--sessions 200] [--seconds 1200]. Starts a gateway with Spark in local mode and plays clients against its REST
API: queries with known answers, settings and views that only their session may see, results of many pages, failing
statements, cancels, timeouts, statements and sessions closed under way, connections that vanish. Prints a table of what
threads and memory do meanwhile, and at the end what is left; exits with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from sparksql.gateway.operations.register import TRANSITIONS
from sparksql.wire.control import OperationState
from tests.support.client_session import TERMINAL, RestSession, open_rest
from tests.support.process import TOKEN, GatewayProcess, driver_config, start_gateway, wait_until_listening

LONG = "SELECT count(*) FROM range(1000000000000) a JOIN range(1000000)"
SAMPLE_SECONDS = 30
SETTINGS = {
    "spark.sql.gateway.session.idle-timeout": "30s",
    "spark.sql.gateway.session.check-interval": "5s",
    "spark.sql.gateway.operation.idle-timeout": "60s",
    "spark.sql.gateway.worker.threads.min": "4",
    "spark.sql.gateway.worker.threads.keepalive-time": "20s",
}
# Memory fills up to what the load needs before it is level: the last quarter of the time is held against the second one.
LEAK_FACTOR = 1.1
QUIET_SECONDS = 75  # Spark keeps idle threads for a minute


@dataclass
class Tally:
    """What the clients did and saw."""

    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Player:
    """One client after another, each with a session of its own."""

    def __init__(self, gateway: GatewayProcess, number: int, tally: Tally) -> None:
        self.gateway = gateway
        self.random = random.Random(number)
        self.tally = tally

    async def play(self, until: float) -> None:
        while time.monotonic() < until:
            connector = aiohttp.TCPConnector(ssl=self.gateway.client_tls(), limit=0)
            headers = {"Authorization": f"Bearer {TOKEN}"}
            timeout = aiohttp.ClientTimeout(total=300)
            async with aiohttp.ClientSession(
                self.gateway.url, connector=connector, headers=headers, timeout=timeout
            ) as http:
                try:
                    await self._one_session(http, until)
                except (aiohttp.ClientError, AssertionError, TimeoutError) as problem:
                    self.tally.wrong.append(f"{type(problem).__name__}: {problem}"[:300])

    async def _one_session(self, http: aiohttp.ClientSession, until: float) -> None:
        secret = str(self.random.randrange(10**9))
        session = await open_rest(http, name="soak", **{"spark.sql.session.timeZone": "UTC"})
        await session.rows(f"CREATE TEMPORARY VIEW own AS SELECT {secret} AS secret")
        steps = (
            self._query, self._view, self._pages, self._failure, self._cancel, self._timeout, self._close_running,
            self._setting, self._vanish,
        )  # fmt: skip
        for _ in range(self.random.randrange(3, 12)):
            if time.monotonic() > until:
                break
            step = self.random.choice(steps)
            self.tally.done[step.__name__.strip("_")] += 1
            if not await step(session, secret):
                return  # the connection goes, and the session expires
            await asyncio.sleep(self.random.random() * 2)
        if self.random.random() < 0.7:
            self.tally.done["close"] += 1
            await session.close()

    def _expect(self, what: str, seen: object, expected: object) -> None:
        if seen != expected:
            self.tally.wrong.append(f"{what}: {seen!r} instead of {expected!r}"[:300])

    async def _query(self, session: RestSession, secret: str) -> bool:
        number = self.random.randrange(1, 1000)
        rows = await session.rows(f"SELECT sum(id) AS s, count(*) AS n FROM range({number})")
        self._expect("sum", rows, [[number * (number - 1) // 2, number]])
        return True

    async def _view(self, session: RestSession, secret: str) -> bool:
        self._expect("view", await session.rows("SELECT secret FROM own"), [[int(secret)]])
        return True

    async def _setting(self, session: RestSession, secret: str) -> bool:
        key = "spark.sql.shuffle.partitions"
        value = str(self.random.randrange(1, 9))
        await session.rows(f"SET '{key}' = '{value}'")
        self._expect("setting", await session.rows(f"SET {key}"), [[key, value]])
        return True

    async def _pages(self, session: RestSession, secret: str) -> bool:
        rows = await session.rows("SELECT id, id * 2 AS twice FROM range(12000)")
        self._expect("pages", (len(rows), sum(row[1] for row in rows)), (12000, 12000 * 11999))
        return True

    async def _failure(self, session: RestSession, secret: str) -> bool:
        self._expect("failure", "NO_SUCH" in await session.error("SELECT * FROM NO_SUCH"), True)
        return True

    async def _cancel(self, session: RestSession, secret: str) -> bool:
        operation = await session.submit(LONG)
        await asyncio.sleep(self.random.random())
        await session.cancel(operation)
        self._expect("cancel", await self._end(session, operation), "CANCELED")
        return True

    async def _timeout(self, session: RestSession, secret: str) -> bool:
        operation = await session.submit(LONG, timeout_ms=self.random.randrange(100, 600))
        self._expect("timeout", await self._end(session, operation), "TIMEOUT")
        return True

    async def _close_running(self, session: RestSession, secret: str) -> bool:
        operation = await session.submit(LONG)
        await asyncio.sleep(self.random.random())
        await session.close_operation(operation)
        return True

    async def _vanish(self, session: RestSession, secret: str) -> bool:
        await session.submit("SELECT count(*) FROM range(3000000)")
        return False

    async def _end(self, session: RestSession, operation: str) -> str:
        deadline = time.monotonic() + 240
        while (status := await session.status(operation)) not in TERMINAL:
            assert time.monotonic() < deadline, f"{operation} stays {status}"
            await asyncio.sleep(0.2)
        return status


@dataclass(frozen=True)
class Sample:
    """Memory in MiB and numbers of threads of both processes, and what the gateway counts."""

    python_mib: float
    python_threads: int
    jvm_mib: float
    jvm_threads: int
    sessions: int
    operations: int

    def line(self, seconds: float) -> str:
        return (
            f"{seconds:8.0f}{self.python_mib:12.0f}{self.python_threads:10d}{self.jvm_mib:10.0f}{self.jvm_threads:10d}"
            f"{self.sessions:10d}{self.operations:12d}"
        )


HEAD = (
    f"{'seconds':>8}{'python MiB':>12}{'threads':>10}{'jvm MiB':>10}{'threads':>10}{'sessions':>10}{'operations':>12}"
)


def _process(pid: int) -> tuple[float, int]:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(fields["VmRSS"].split()[0]) / 1024, int(fields["Threads"])


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


async def _get(http: aiohttp.ClientSession, path: str) -> Any:
    async with http.get(path) as response:
        return await response.json()


async def sample(gateway: GatewayProcess, http: aiohttp.ClientSession) -> Sample:
    seen = await _get(http, "/control/v1/clients")
    pid = gateway.process.pid
    return Sample(*_process(pid), *_process(_child(pid)), len(seen["sessions"]), len(seen["operations"]))


async def running_jobs(gateway: GatewayProcess) -> int:
    root = f"http://127.0.0.1:{gateway.ui_port}/api/v1/applications"
    async with aiohttp.ClientSession() as http:
        application = (await _get(http, root))[0]["id"]
        return len(await _get(http, f"{root}/{application}/jobs?status=running"))


def illegal_transitions(log: Path) -> tuple[int, list[str]]:
    """Statements in the audit log, and each step of one that the state machine does not know."""
    states: dict[str, OperationState] = {}
    found: list[str] = []
    for line in log.read_text(errors="replace").splitlines():
        if '"event": "statement"' not in line:
            continue
        entry = json.loads(line)
        operation, state = entry["operation_id"], OperationState(entry["state"])
        before = states.get(operation)
        legal = state is OperationState.PENDING if before is None else state in TRANSITIONS[before]
        if not legal:
            found.append(f"{operation}: {before} -> {state}")
        states[operation] = state
    found += [f"{operation}: left in {state}" for operation, state in states.items() if not state.is_terminal]
    return len(states), found


async def soak(gateway: GatewayProcess, sessions: int, seconds: float) -> list[str]:
    """Plays, prints, and returns what was wrong."""
    tally, began = Tally(), time.monotonic()
    connector = aiohttp.TCPConnector(ssl=gateway.client_tls())
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(gateway.url, connector=connector, headers=headers) as http:
        while (await _get(http, "/control/v1/info"))["state"] != "Ready":
            await asyncio.sleep(0.5)
        print(HEAD)
        players = [Player(gateway, number, tally) for number in range(sessions)]
        warm = [asyncio.create_task(player.play(time.monotonic() + min(60.0, seconds / 4))) for player in players]
        await asyncio.gather(*warm)
        first = await _until_idle(gateway, http)
        print(first.line(time.monotonic() - began), " idle, after the warm-up", flush=True)
        under_load: list[Sample] = []
        until = time.monotonic() + seconds
        tasks = [asyncio.create_task(player.play(until)) for player in players]
        while any(not task.done() for task in tasks):
            await asyncio.wait(tasks, timeout=SAMPLE_SECONDS)
            with contextlib.suppress(aiohttp.ClientError):
                under_load.append(await sample(gateway, http))
                print(under_load[-1].line(time.monotonic() - began), flush=True)
        last = await _until_idle(gateway, http)
        print(last.line(time.monotonic() - began), " idle, at the end")
    jobs = await running_jobs(gateway)
    count, illegal = illegal_transitions(gateway.folder / "log")
    print(f"{count} statements; steps: {dict(sorted(tally.done.items()))}; running jobs at the end: {jobs}")
    wrong = [*tally.wrong, *illegal]
    if last.sessions or last.operations or jobs:
        wrong.append(f"left: {last.sessions} sessions, {last.operations} operations, {jobs} running jobs")
    if last.python_threads > first.python_threads + 4 or last.jvm_threads > first.jvm_threads + 12:
        wrong.append(f"threads grew: {first} -> {last}")
    return wrong + _grown(under_load)


def _grown(samples: list[Sample]) -> list[str]:
    """Memory that has grown from the second quarter of the samples to the last one."""
    quarter = max(1, len(samples) // 4)
    before, after = samples[quarter : 2 * quarter], samples[-quarter:]
    found: list[str] = []
    for what, of in (("Python", lambda s: s.python_mib), ("JVM", lambda s: s.jvm_mib)):
        early, late = (statistics.mean(map(of, part or samples)) for part in (before, after))
        print(f"{what}: {early:.0f} MiB in the second quarter of the time, {late:.0f} in the last")
        if late > early * LEAK_FACTOR:
            found.append(f"memory of {what} grew: {early:.0f} -> {late:.0f} MiB")
    return found


async def _until_idle(gateway: GatewayProcess, http: aiohttp.ClientSession) -> Sample:
    """What is there once every session has expired and idle threads have gone."""
    deadline = time.monotonic() + 120
    while (seen := await sample(gateway, http)).sessions or seen.operations:
        if time.monotonic() > deadline:
            return seen
        await asyncio.sleep(1)
    await asyncio.sleep(QUIET_SECONDS)
    return await sample(gateway, http)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        config = driver_config(
            folder,
            spark_conf=SETTINGS,
            max_concurrent_statements=8,
            clients={"maxQueued": 100_000},
        )
        gateway = start_gateway(folder, config)
        try:
            wait_until_listening(gateway)
            wrong = asyncio.run(soak(gateway, arguments.sessions, arguments.seconds))
            for problem in Counter(wrong).most_common(30):
                print("WRONG", problem)
            print("nothing wrong" if not wrong else f"{len(wrong)} things wrong")
            if wrong:
                print(gateway.log_tail(3000))
            return 1 if wrong else 0
        finally:
            gateway.stop()


if __name__ == "__main__":
    sys.exit(main())
