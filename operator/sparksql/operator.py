"""The operator process: watches feed the store, the reconcile loop does the rest. Here it is put together.

Start-up order: lease, listing, watches, workers. Losing the lease, or any part that ends, ends the process: Kubernetes
restarts it, and a restart is always safe.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from aiohttp import web

from sparksql.controllers.enqueue import WATCHED
from sparksql.controllers.manager import ControllerManager
from sparksql.controllers.resync import Resync
from sparksql.engine.queue import MOST_BACKOFF_SECONDS
from sparksql.kube.client import KubeClient, Object
from sparksql.kube.credentials import Credentials, find_credentials
from sparksql.kube.errors import ApiError
from sparksql.kube.front_secret import FrontSecretError, front_key
from sparksql.kube.lease import LeaseElector
from sparksql.process import config as configuration
from sparksql.process import logs
from sparksql.process.config import OperatorConfig
from sparksql.process.metrics import Metrics
from sparksql.process.probes import Health, application
from sparksql.process.watches import watch

SWITCH_SECONDS = 0.0005
# A listing makes hundreds of thousands of containers that stay: Python's own 700, 10, 10 walk through them again and again.
# Measured at 10,000 ended statements: a start takes 10 instead of 14 s of CPU, memory stays as it is.
GC_THRESHOLDS = (10_000, 20, 50)
START_RETRY_SECONDS = 2.0
FRONT_SECONDS = 20.0  # new rights are known everywhere within seconds

logger = logging.getLogger("sparksql.operator")

T = TypeVar("T")


class Operator:
    """Runs one operator. `run` works until it is cancelled or a part of it ends; `credentials` say which cluster."""

    def __init__(self, config: OperatorConfig, credentials: Credentials) -> None:
        self.config = config
        self.credentials = credentials
        self.metrics = Metrics()
        self.manager = ControllerManager(config, self.metrics)
        self._proven_at = time.monotonic()
        self.health = Health(self.manager.queue, config.stale_watch_seconds, lambda: time.monotonic() - self._proven_at)

    async def run(self) -> None:
        """Waits for the Lease if there is one, lists all that is watched, then watches and reconciles until a part of it ends."""
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(KubeClient(self.credentials, observer=self.metrics.requested))
            await stack.enter_async_context(_http_server(self))
            async with asyncio.TaskGroup() as group:
                lease = await self._lead(client, stack)
                if lease is not None:
                    group.create_task(lease.hold(), name="lease")
                front = await self._front_key(client)
                opened = self.manager.context(client, self.credentials.pod_namespace, front)
                context = await stack.enter_async_context(opened)
                resync = Resync(context)
                await _retried("the first listing", resync.once)
                self._prove()
                watching = watch(WATCHED, self.config.watch_namespaces, self.credentials, self._take)
                group.create_task(watching, name="watches")
                group.create_task(resync.forever(self._prove), name="resync")
                self.health.started = True
                logger.info("operator started")
                await self.manager.loop(context).run()

    async def _lead(self, client: KubeClient, stack: contextlib.AsyncExitStack) -> LeaseElector | None:
        """Waits until this replica may act; returns None where no lease is asked for (one operator, tests)."""
        config = self.config.lease
        if not config.namespace:
            return None
        identity = f"{os.environ.get('HOSTNAME') or socket.gethostname()}-{os.getpid()}"
        lease = LeaseElector(client, config.namespace, config.name, identity)
        self.health.standby = True
        await lease.acquire()
        self.health.standby = False
        stack.push_async_callback(lease.release)
        return lease

    async def _front_key(self, client: KubeClient) -> bytes | None:
        """Returns the front's key, None without a front, and where its Secret cannot be used: sessions must not wait for that."""
        front, namespace = self.config.front, self.credentials.pod_namespace
        if not front.enabled or namespace is None:
            return None
        try:
            return await _retried(
                "the front's Secret", lambda: front_key(client, namespace, front.name, _now()), FRONT_SECONDS
            )
        except (ApiError, FrontSecretError) as refused:
            logger.error("drivers will not know the front", extra={"fields": {"error": str(refused)}})
            return None

    # --- watches

    def _prove(self) -> None:
        self._proven_at = time.monotonic()

    def _take(self, kind: str, change: str | None, obj: Object) -> None:
        self._prove()
        self.manager.take(kind, change, obj)


async def _retried(what: str, step: Callable[[], Awaitable[T]], seconds: float = math.inf) -> T:
    """Does a step of the start until the API server lets it, for so long at most. Raises the last ApiError then."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await step()
        except ApiError as error:
            if time.monotonic() >= deadline:
                raise
            logger.warning("%s failed, will retry", what, extra={"fields": {"error": str(error)}})
            await asyncio.sleep(max(START_RETRY_SECONDS, min(error.retry_after, MOST_BACKOFF_SECONDS)))


def _now() -> datetime:
    return datetime.now(UTC)


@contextlib.asynccontextmanager
async def _http_server(operator: Operator) -> AsyncIterator[None]:
    runner = web.AppRunner(application(operator.health, operator.metrics), access_log=None)
    await runner.setup()
    # Probes and scrapes come from outside the pod, so it listens on all of the pod's addresses.
    host = os.environ.get("SPARKSQL_HTTP_HOST", "0.0.0.0")  # noqa: S104
    try:
        await web.TCPSite(runner, host, operator.config.http_port).start()
        yield
    finally:
        await runner.cleanup()


async def _main(config: OperatorConfig) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await Operator(config, find_credentials()).run()


def main() -> None:
    """Runs the operator as its configuration says, until it ends."""
    # Watches have a thread of their own: by default one thread makes the other wait 5 ms for the interpreter.
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*GC_THRESHOLDS)
    config = configuration.load()
    logs.configure(config.log_level)
    asyncio.run(_main(config))


if __name__ == "__main__":
    main()
