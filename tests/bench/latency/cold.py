"""A cold session, create to first row, by phase. Needs the cluster with the chart installed and KUBECONFIG.

Usage: python -m tests.bench.latency.cold [ROUNDS] [CLASS]. The default class of the tests' installation has a JVM without its
optimising compiler; name another one for figures of a user's. A round makes a session and a statement that needs an executor, and watches both and the pods.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import uuid
from datetime import datetime

from sparksql.api.names import API_VERSION
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.resources import NAMESPACES, PODS, SESSIONS, STATEMENTS
from tests.bench.latency.common import Object, Stopwatch, machine
from tests.support.watching import Watcher, watching

SQL = "SELECT sum(id) AS s FROM range(0, 1000, 1, 2)"


async def watch_pods(watcher: Watcher, namespace: str, clock: Stopwatch) -> None:
    async for _, pod in watcher.watch(PODS, namespace, timeout_seconds=300):
        who = "executor" if pod["metadata"]["labels"].get("spark-role") == "executor" else "driver"
        clock.mark(f"{who} pod made")
        conditions = {c["type"]: c["status"] for c in pod.get("status", {}).get("conditions", ())}
        if conditions.get("PodScheduled") == "True":
            clock.mark(f"{who} scheduled")
        if any(c.get("state", {}).get("running") for c in pod.get("status", {}).get("containerStatuses", ())):
            clock.mark(f"{who} container started")


async def watch_session(watcher: Watcher, namespace: str, clock: Stopwatch) -> None:
    async for _, session in watcher.watch(SESSIONS, namespace, timeout_seconds=300):
        if session.get("status", {}).get("phase") == "Ready":
            clock.mark("session Ready")


async def round_(client: KubeClient, watcher: Watcher, session: Object) -> Stopwatch:
    namespace = f"bench-{uuid.uuid4().hex[:6]}"
    await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    clock = Stopwatch()
    watches = [asyncio.create_task(w(watcher, namespace, clock)) for w in (watch_pods, watch_session)]
    try:
        for kind, resource, spec in (
            ("SqlSession", SESSIONS, session),
            ("SqlStatement", STATEMENTS, {"sessionRef": {"name": "cold"}, "sql": SQL}),
        ):
            body: Object = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "cold"}, "spec": spec}
            await client.create(resource, namespace, body)
        async for _, statement in watcher.watch(STATEMENTS, namespace, timeout_seconds=180):
            status = statement.get("status", {})
            if status.get("startTime"):
                clock.mark("statement Running")
            if status.get("phase") in ("Finished", "Error", "TimedOut"):
                assert status["phase"] == "Finished", status
                clock.mark("first row")
                break
        return clock
    finally:
        for task in watches:
            task.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
        await client.delete(NAMESPACES, "", namespace)


async def main(rounds: int, session: Object) -> None:
    print(f"machine: {machine()}; {datetime.now().astimezone():%Y-%m-%d %H:%M}")
    async with KubeClient(Credentials.from_kubeconfig()) as client, watching() as watcher:
        clocks = [await round_(client, watcher, session) for _ in range(rounds)]
    for clock in clocks:
        print(clock.table(), "\n")
    print(f"create to first row: median {statistics.median(c.marks['first row'] for c in clocks):.2f} s of {rounds}")


if __name__ == "__main__":
    asyncio.run(
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3, {"className": sys.argv[2]} if len(sys.argv) > 2 else {})
    )
