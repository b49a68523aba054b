"""The process of the front: watches of sessions and classes feed a directory, and three ports serve clients by it.

Order of the start: the first listing, the ports, readiness. On SIGTERM it takes no new client, lets those that are there go on
for a while, and ends. A part that ends by itself ends the process: Kubernetes restarts it, and it has nothing to lose.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from sparksql.front import config as configuration
from sparksql.front.certificates import Certificates
from sparksql.front.config import FrontConfig
from sparksql.front.connect import ConnectFront
from sparksql.front.directory import CLASS, SESSION, WATCHED, Directory
from sparksql.front.limits import FrontLimits
from sparksql.front.metrics import FrontMetrics
from sparksql.front.model import SessionKey
from sparksql.front.rest import RestFront
from sparksql.front.reviews import Reviews
from sparksql.front.sessions import FrontSessions
from sparksql.front.thrift import ThriftFront
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials, find_credentials
from sparksql.kube.errors import ApiError
from sparksql.kube.resources import BY_KIND
from sparksql.process import logs
from sparksql.process.watches import watch
from sparksql.protocols.budget import Budget
from sparksql.protocols.http_limits import BoundedSite, make_runner
from sparksql.protocols.slots import SlotLimits, Slots

log = logging.getLogger("sparksql.front")

LIST_RETRY_SECONDS = 2.0
LEAVE_SECONDS = 3.0  # not ready any more, and still listening: until Services send nobody here
NO_NAMESPACE = "default"  # of a front that does not run as a pod (development)
RELIST_SECONDS = 300.0  # a full comparison, which catches what a watch has missed
REFRESH_SECONDS = 30.0  # of certificates and of channels that nobody uses
_ENOUGH_LISTINGS = 3  # that may fail in a row before the process is to be restarted


@dataclass(frozen=True)
class FrontPorts:
    """Where a front listens."""

    rest: int
    thrift: int
    connect: int
    http: int


class Front:
    """One front. `run` serves until it is cancelled or a part of it ends; `credentials` say which cluster."""

    def __init__(self, config: FrontConfig, credentials: Credentials) -> None:
        self._config = config
        self._credentials = credentials
        self._directory = Directory()
        self._metrics = FrontMetrics()
        self._limits = FrontLimits(connections=config.max_connections, hold_seconds=config.hold_seconds)
        self._budget = Budget.of()
        self._slots = Slots(SlotLimits.of_users(config.max_connections))
        self._failed_listings = 0
        self._is_leaving = False
        self.ports: asyncio.Future[FrontPorts] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serves. Raises what the start raises, such as OSError for a port that is taken."""
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(KubeClient(self._credentials))
            # Answers go on as they came, packed or not.
            http = await stack.enter_async_context(
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60), auto_decompress=False
                )
            )
            reviews = Reviews(client, self._config.review_seconds)
            key = self._config.key_file.read_bytes()
            own_namespace = self._credentials.pod_namespace or NO_NAMESPACE
            sessions = FrontSessions(
                client, reviews, self._directory, key, self._config.default_namespace, own_namespace
            )
            probes = await stack.enter_async_context(self._probes())
            await self._first_listing(client)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch(sessions), name="watches")
                group.create_task(self._relist(client), name="listing")
                async with self._serving(sessions, reviews, http, probes, group):
                    await asyncio.Event().wait()

    @contextlib.asynccontextmanager
    async def _serving(
        self,
        sessions: FrontSessions,
        reviews: Reviews,
        http: aiohttp.ClientSession,
        probes: int,
        group: asyncio.TaskGroup,
    ) -> AsyncIterator[None]:
        config = self._config
        certificates = None if config.tls_directory is None else Certificates(config.tls_directory)
        tls = None if certificates is None else certificates.context
        parts = (sessions, reviews, self._limits, self._metrics)
        thrift = ThriftFront(*parts, self._budget, self._slots)
        connect = ConnectFront(*parts, self._budget, self._slots)
        rest = RestFront(*parts, self._budget, http)
        runner = make_runner(rest.application())
        await runner.setup()
        site = BoundedSite(runner, config.address, config.ports.rest, tls, self._slots)
        await site.start()
        try:
            ports = FrontPorts(
                rest=site.port,
                thrift=await thrift.listen(config.address, config.ports.thrift, tls),
                connect=await connect.listen(
                    config.address, config.ports.connect, None if certificates is None else certificates.credentials()
                ),
                http=probes,
            )
            group.create_task(self._refresh(certificates, connect), name="refresh")
            self.ports.set_result(ports)
            log.info("front listens", extra={"fields": vars(ports)})
            yield
        finally:
            self._is_leaving = True
            await asyncio.sleep(LEAVE_SECONDS if config.drain_seconds else 0)
            await asyncio.gather(thrift.close(config.drain_seconds), connect.close(config.drain_seconds))
            await runner.cleanup()

    async def _watch(self, sessions: FrontSessions) -> None:
        cleaning: set[asyncio.Task[None]] = set()

        def take(kind: str, change: str | None, obj: Mapping[str, Any]) -> None:
            entry = self._directory.take(kind, change, obj)
            if entry is not None and entry.is_of_connection:
                task = asyncio.create_task(sessions.clean(entry))
                cleaning.add(task)
                task.add_done_callback(cleaning.discard)

        await watch(WATCHED, self._config.watch_namespaces, self._credentials, take)

    async def _relist(self, client: KubeClient) -> None:
        while True:
            await asyncio.sleep(RELIST_SECONDS)
            try:
                await self._list(client)
                self._failed_listings = 0
            except ApiError as error:
                self._failed_listings += 1
                log.warning("a listing failed", extra={"fields": {"error": str(error)}})

    async def _first_listing(self, client: KubeClient) -> None:
        while True:
            try:
                return await self._list(client)
            except ApiError as error:
                log.warning("the first listing failed, will retry", extra={"fields": {"error": str(error)}})
                await asyncio.sleep(max(LIST_RETRY_SECONDS, error.retry_after))

    async def _list(self, client: KubeClient) -> None:
        before = self._directory.keys
        listed: set[SessionKey] = set()
        for namespace in self._config.watch_namespaces or ("",):
            for obj in (await client.list(BY_KIND[SESSION], namespace)).items:
                self._directory.take(SESSION, None, obj)
                listed.add(SessionKey(obj["metadata"]["namespace"], obj["metadata"]["name"]))
        for obj in (await client.list(BY_KIND[CLASS])).items:
            self._directory.take(CLASS, None, obj)
        self._directory.drop(before - listed)

    async def _refresh(self, certificates: Certificates | None, connect: ConnectFront) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            await connect.tidy()
            if certificates is not None and certificates.refresh():
                await connect.renew(certificates.credentials())
                log.info("a new certificate is used")

    @contextlib.asynccontextmanager
    async def _probes(self) -> AsyncIterator[int]:
        async def healthz(_: web.Request) -> web.Response:
            is_blind = self._failed_listings >= _ENOUGH_LISTINGS
            return web.Response(status=503 if is_blind else 200, text="sessions cannot be listed" if is_blind else "ok")

        async def readyz(_: web.Request) -> web.Response:
            if self._is_leaving or not self.ports.done():
                return web.Response(status=503, text="leaving" if self._is_leaving else "starting")
            return web.Response(text="ok")

        async def metrics(_: web.Request) -> web.Response:
            body = generate_latest(self._metrics.registry)
            return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

        app = web.Application()
        app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, self._config.address, self._config.ports.http)
        await site.start()
        try:
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()


async def _main(config: FrontConfig) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await Front(config, find_credentials()).run()


def main() -> None:
    """Runs the front as its configuration says, until it ends."""
    config = configuration.load()
    logs.configure(config.log_level)
    asyncio.run(_main(config))


if __name__ == "__main__":
    main()
