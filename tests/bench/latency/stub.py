"""The operator alone: statements a second through the resources; memory, restart and latency at many statements. No Spark.

A real API server and etcd; drivers and gateways are the scripted ones of the integration tests, in this same process, and so
share its core: the rates are lower bounds. The operator is a process of its own. Usage: python -m tests.bench.latency.stub [throughput|scale]...
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.resources import EVENTS, NAMESPACES, STATEMENTS
from tests.bench.latency.common import ROOT, Object, machine, quantiles
from tests.integration.operator.environment import Environment
from tests.support import apiserver as servers
from tests.support.crds import install_crds
from tests.support.ports import free_port
from tests.support.watching import watching

SESSIONS = 20
THROUGHPUT_STATEMENTS = 2000
FLOOR_STATEMENTS = 1000
SCALE = (0, 1000, 10_000)  # with the 20 that the operator ended itself
LATENCY_STATEMENTS = 100


@contextlib.asynccontextmanager
async def operator(kubeconfig: Path, namespace: str) -> AsyncIterator[tuple[int, int]]:
    """The operator process: its pid and HTTP port."""
    port = free_port()
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write(f"watchNamespaces: [{namespace}]\nhttpPort: {port}\nlogLevel: warning\n")
        config.flush()
        env = os.environ | {
            "KUBECONFIG": str(kubeconfig),
            "SPARKSQL_OPERATOR_CONFIG": config.name,
            "SPARKSQL_HTTP_HOST": "127.0.0.1",
        }
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "sparksql.operator", env=env, cwd=ROOT)
        try:
            yield process.pid, port
        finally:
            process.terminate()
            await process.wait()


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"operator {pid} is gone")


def _metric(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
    return 0.0


def _is_at_rest(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
            return _metric(port, "sparksql_queue_depth") == 0
    except OSError:
        return False


async def steady(port: int, started: float, seconds: float = 120) -> float:
    """Seconds from `started` until the operator is ready and nothing is due, three looks in a row."""
    quiet = 0
    while time.monotonic() - started < seconds:
        quiet = quiet + 1 if await asyncio.to_thread(_is_at_rest, port) else 0
        if quiet == 3:
            return time.monotonic() - started
        await asyncio.sleep(0.1)
    raise SystemExit("the operator does not come to rest")


async def create(env: Environment, count: int, prefix: str) -> None:
    limit = asyncio.Semaphore(32)

    async def one(i: int) -> None:
        async with limit:
            await env.create_statement(f"{prefix}-{i}", "SELECT 1", session=f"s{i % SESSIONS}")

    await asyncio.gather(*(one(i) for i in range(count)))


async def latency(env: Environment, prefix: str) -> list[float]:
    """Milliseconds from create to Finished as a watch sees it, one statement after the other."""
    ends: dict[str, asyncio.Future[float]] = {}

    async def follow() -> None:
        async for _, obj in env.watcher.watch(STATEMENTS, env.namespace, timeout_seconds=600):
            end = ends.get(obj["metadata"]["name"])
            if obj.get("status", {}).get("phase") == "Finished" and end is not None and not end.done():
                end.set_result(time.perf_counter())

    following = asyncio.create_task(follow())
    millis = []
    try:
        for i in range(LATENCY_STATEMENTS):
            name = f"{prefix}-{i}"
            ends[name] = asyncio.get_running_loop().create_future()
            started = time.perf_counter()
            await env.create_statement(name, "SELECT 1", session=f"s{i % SESSIONS}")
            millis.append((await asyncio.wait_for(ends[name], 60) - started) * 1000)
    finally:
        following.cancel()
    return millis


async def all_ended(env: Environment, count: int, seconds: float = 600) -> None:
    """By a watch: listing thousands of objects again and again would be most of what the machine does."""
    finished: set[str] = set()

    async def follow() -> None:
        async for _, obj in env.watcher.watch(STATEMENTS, env.namespace, timeout_seconds=int(seconds)):
            if obj.get("status", {}).get("phase") == "Finished":
                finished.add(obj["metadata"]["name"])
            if len(finished) >= count:
                return

    if count:
        await asyncio.wait_for(follow(), seconds)


async def sessions(env: Environment) -> None:
    await env.create_class()
    for i in range(SESSIONS):
        await env.create_session(f"s{i}")
    for i in range(SESSIONS):
        await env.session_ready(f"s{i}", seconds=60)


async def throughput(env: Environment, kubeconfig: Path) -> None:
    async with operator(kubeconfig, env.namespace):
        await sessions(env)
        started = time.monotonic()
        await asyncio.gather(create(env, THROUGHPUT_STATEMENTS, "t"), all_ended(env, THROUGHPUT_STATEMENTS))
        seconds = time.monotonic() - started
    rate = THROUGHPUT_STATEMENTS / seconds
    print(
        f"throughput: {THROUGHPUT_STATEMENTS} statements over {SESSIONS} sessions in {seconds:.1f} s = {rate:.0f}/s, create to Finished"
    )
    floor = await writes_alone(env, await env.client.get(STATEMENTS, env.namespace, "t-0"))
    print(f"            the same writes without an operator: {floor:.0f}/s, {floor / rate:.2f} times as many")


async def writes_alone(env: Environment, pattern: Object) -> float:
    """Statements a second when this process alone makes the writes that one of a queue takes, with nobody who reads them.

    They are: the object, its finalizer, the status of who waits, is handed over and has ended, and an Event.
    """
    limit, namespace = asyncio.Semaphore(32), f"{env.namespace}-alone"
    await env.client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    finalizers = {"metadata": {"finalizers": pattern["metadata"]["finalizers"]}}

    async def one(i: int) -> None:
        name = f"w-{i}"
        body = {key: pattern[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": name}}
        event = {
            "metadata": {"name": name},
            "involvedObject": {"kind": pattern["kind"], "name": name, "namespace": namespace},
            "type": "Normal",
            "reason": "Finished",
            "message": "1 row",
        }
        async with limit:
            await env.client.create(STATEMENTS, namespace, body)
            await env.client.patch_merge(STATEMENTS, namespace, name, finalizers)
            for phase in ("Initialized", "Pending", "Finished"):
                status = {"status": pattern["status"] | {"phase": phase}}
                await env.client.patch_merge(STATEMENTS, namespace, name, status, "status")
            await env.client.create(EVENTS, namespace, event)

    started = time.monotonic()
    await asyncio.gather(*(one(i) for i in range(FLOOR_STATEMENTS)))
    return FLOOR_STATEMENTS / (time.monotonic() - started)


async def create_ended(env: Environment, count: int, prefix: str, pattern: Object) -> None:
    """Statements as the operator left them: finalizer and the status of `pattern`, which it ended itself."""
    limit = asyncio.Semaphore(32)
    finalizers = pattern["metadata"]["finalizers"]

    async def one(i: int) -> None:
        body = {
            "apiVersion": pattern["apiVersion"],
            "kind": pattern["kind"],
            "metadata": {"name": f"{prefix}-{i}", "finalizers": finalizers},
            "spec": {"sessionRef": {"name": f"s{i % SESSIONS}"}, "sql": "SELECT 1"},
        }
        async with limit:
            await env.client.create(STATEMENTS, env.namespace, body)
            status = {"status": pattern["status"]}
            await env.client.patch_merge(STATEMENTS, env.namespace, f"{prefix}-{i}", status, "status")

    await asyncio.gather(*(one(i) for i in range(count)))


async def scale(env: Environment, kubeconfig: Path) -> None:
    async with operator(kubeconfig, env.namespace):
        await sessions(env)
        await asyncio.gather(create(env, SESSIONS, "first"), all_ended(env, SESSIONS))
    pattern = await env.client.get(STATEMENTS, env.namespace, "first-0")
    made = SESSIONS
    for total in SCALE:
        await create_ended(env, max(0, total - made), f"n{total}", pattern)
        made = max(made, total)
        started = time.monotonic()
        async with operator(kubeconfig, env.namespace) as (pid, port):
            rest = await steady(port, started)
            print(f"{made:>6} ended statements: restart to steady {rest:.1f} s, resident {resident_mib(pid):.0f} MiB")
            first, *others = await latency(env, f"q{total}")
            print(f"       create to Finished, seen by a watch: at once {first:.0f} ms, then {quantiles(others)}")


async def main(names: list[str]) -> None:
    print(f"machine: {machine()}")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(servers.running_apiserver(folder))
        install_crds(server)
        for name in names or ["throughput", "scale"]:
            namespace = server.namespace()
            credentials = Credentials.from_kubeconfig(server.kubeconfig)
            async with (
                KubeClient(credentials) as client,
                watching(server.kubeconfig) as watcher,
                Environment(client, watcher, namespace, credentials).running() as env,
            ):
                await {"throughput": throughput, "scale": scale}[name](env, server.kubeconfig)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
