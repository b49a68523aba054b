"""Overhead of a warm statement: apply to Finished as a watch sees it, against the same SQL given to the same driver directly.

Needs the cluster with the chart installed and KUBECONFIG. Usage: python -m tests.bench.latency.warm [ROUNDS]. The two ways take turns, so that whatever
else the machine does disturbs both alike.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sys
import time
import uuid

import aiohttp

from sparksql.api.names import API_VERSION, child_base, gateway_server_name
from sparksql.drivers.client import Address, GatewayClient
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.resources import NAMESPACES, PODS, SECRETS, SESSIONS, STATEMENTS
from sparksql.kube.tls import ssl_context
from sparksql.wire.control import SubmitRequest
from tests.bench.latency.common import Object, machine, quantiles
from tests.support.watching import Watcher, watching

SQL = "SELECT 1"
WARM_UP = 20


async def phase_of_session(client: KubeClient, namespace: str, name: str, seconds: float = 180) -> Object:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        session = await client.get(SESSIONS, namespace, name)
        if session.get("status", {}).get("phase") == "Ready":
            return session
        await asyncio.sleep(0.2)
    raise SystemExit(f"session not Ready after {seconds} s: {session.get('status')}")


class Finishes:
    """Times at which a watch showed statements as ended."""

    def __init__(self, watcher: Watcher, namespace: str) -> None:
        self._watcher, self._namespace = watcher, namespace
        self._waiting: dict[str, asyncio.Future[float]] = {}

    def expect(self, name: str) -> asyncio.Future[float]:
        self._waiting[name] = asyncio.get_running_loop().create_future()
        return self._waiting[name]

    async def follow(self) -> None:
        async for _, obj in self._watcher.watch(STATEMENTS, self._namespace, timeout_seconds=3600):
            future = self._waiting.get(obj["metadata"]["name"])
            if obj.get("status", {}).get("phase") == "Finished" and future is not None and not future.done():
                future.set_result(time.perf_counter())


async def by_resource(client: KubeClient, finishes: Finishes, namespace: str) -> float:
    name = f"s-{uuid.uuid4().hex[:10]}"
    body = {
        "apiVersion": API_VERSION,
        "kind": "SqlStatement",
        "metadata": {"name": name},
        "spec": {"sessionRef": {"name": "bench"}, "sql": SQL},
    }
    ended = finishes.expect(name)
    started = time.perf_counter()
    await client.create(STATEMENTS, namespace, body)
    return (await asyncio.wait_for(ended, 60) - started) * 1000


async def directly(gateway: GatewayClient, boot_id: str, ends: dict[str, asyncio.Future[float]]) -> float:
    operation = str(uuid.uuid4())
    ended = ends[operation] = asyncio.get_running_loop().create_future()
    started = time.perf_counter()
    await gateway.submit(operation, SubmitRequest(boot_id=boot_id, namespace="bench", name="direct", sql=SQL))
    return (await asyncio.wait_for(ended, 60) - started) * 1000


async def follow_gateway(gateway: GatewayClient, ends: dict[str, asyncio.Future[float]]) -> None:
    async for event in gateway.events(0):
        if event.operation is not None and event.operation.state.is_terminal:
            future = ends.get(event.operation.operation_id)
            if future is not None and not future.done():
                future.set_result(time.perf_counter())


async def main(rounds: int) -> None:
    print(f"machine: {machine()}")
    namespace = f"bench-{uuid.uuid4().hex[:6]}"
    async with (
        KubeClient(Credentials.from_kubeconfig()) as client,
        watching() as watcher,
        aiohttp.ClientSession() as http,
    ):
        await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        tasks: list[asyncio.Task[None]] = []
        try:
            session = {"apiVersion": API_VERSION, "kind": "SqlSession", "metadata": {"name": "bench"}, "spec": {}}
            await client.create(SESSIONS, namespace, session)
            ready = await phase_of_session(client, namespace, "bench")
            gateway = await _gateway(client, http, ready)
            ends: dict[str, asyncio.Future[float]] = {}
            finishes = Finishes(watcher, namespace)
            tasks += [asyncio.create_task(finishes.follow()), asyncio.create_task(follow_gateway(gateway, ends))]
            boot_id = (await gateway.info()).boot_id
            resource, direct = [], []
            for i in range(WARM_UP + rounds):
                a = await by_resource(client, finishes, namespace)
                b = await directly(gateway, boot_id, ends)
                if i >= WARM_UP:
                    resource.append(a)
                    direct.append(b)
            print(f"apply to Finished, seen by a watch:  {quantiles(resource)}")
            print(f"same SQL, same driver, directly:     {quantiles(direct)}")
            print(
                f"overhead (pairs):                    {quantiles([a - b for a, b in zip(resource, direct, strict=True)])}"
            )
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
            await client.delete(NAMESPACES, "", namespace)


async def _gateway(client: KubeClient, http: aiohttp.ClientSession, session: Object) -> GatewayClient:
    meta, driver = session["metadata"], session["status"]["driver"]
    pod = await client.get(PODS, meta["namespace"], driver["podName"])
    secret = await client.get(SECRETS, meta["namespace"], child_base(meta["name"], meta["uid"]))
    token, cert = (base64.b64decode(secret["data"][key]).decode() for key in ("token", "tls.crt"))
    server = gateway_server_name(meta["name"], meta["uid"], meta["namespace"])
    address = Address(driver["podUID"], pod["status"]["podIP"], 8443, server, token, ssl_context(cert))
    return GatewayClient(http, address)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
