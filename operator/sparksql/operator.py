"""The operator process: kopf's watches feed the store, the reconcile loop does the rest.

kopf is used for its watches alone (`on.event`): no handlers that write, no annotations, no finalizers of its own, no peering.
Start-up order: lease, listing, watches, workers. Losing the lease, or any part that ends, ends the process: Kubernetes
restarts it, and a restart is always safe.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import aiohttp
import kopf
from aiohttp import web

from sparksql.api.names import DRIVER_APP_NAME, GROUP, LABEL_NAME
from sparksql.controllers import config as configuration
from sparksql.controllers import logs
from sparksql.controllers.api_errors import retried
from sparksql.controllers.classes import ClassController
from sparksql.controllers.config import OperatorConfig
from sparksql.controllers.ended_pods import EndedPods
from sparksql.controllers.gateways import Gateways
from sparksql.controllers.http import Health, application
from sparksql.controllers.indexes import (
    BY_OPERATION,
    CLASS,
    INDEXES,
    LIVE_BY_SESSION,
    OPEN_SAVEPOINTS_BY_NAMESPACE,
    POD,
    SAVEPOINT,
    SESSION,
    STATEMENT,
    key_of,
    scoped,
)
from sparksql.controllers.lineup import Lineup
from sparksql.controllers.metrics import Metrics
from sparksql.controllers.resync import Resync
from sparksql.controllers.runtime import Runtime
from sparksql.controllers.savepoint import SavepointController
from sparksql.controllers.session import SessionController
from sparksql.controllers.statement import StatementController
from sparksql.controllers.wakeups import WATCHED, WakingStore
from sparksql.engine.key import Key
from sparksql.engine.loop import Reconcile, ReconcileLoop
from sparksql.engine.queue import MOST_BACKOFF_SECONDS, WorkQueue
from sparksql.kube.client import KubeClient, Object
from sparksql.kube.credentials import Credentials, CredentialsError
from sparksql.kube.errors import ApiError
from sparksql.kube.events import EventRecorder
from sparksql.kube.lease import LeaseElector
from sparksql.kube.resources import BY_KIND
from sparksql.kube.status import StatusWriter

COMPONENT = "spark-sql-operator"
SWITCH_SECONDS = 0.0005
START_RETRY_SECONDS = 2.0
LEFT_SECONDS = 5.0  # for what kopf leaves behind, which ends at once when it is asked to

logger = logging.getLogger(__name__)


class Operator:
    """One operator. `run` works until it is cancelled or a part of it ends; `credentials` say which cluster."""

    def __init__(self, config: OperatorConfig, credentials: Credentials) -> None:
        self.config = config
        self.credentials = credentials
        self.metrics = Metrics()
        self.queue = WorkQueue()
        self.store = WakingStore(self.queue, indexes=INDEXES)
        self.ended_pods = EndedPods()
        self._proven_at = time.monotonic()
        self.health = Health(self.queue, config.stale_watch_seconds, lambda: time.monotonic() - self._proven_at)

    async def run(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(KubeClient(self.credentials, observer=self.metrics.requested))
            await stack.enter_async_context(_http_server(self))
            async with asyncio.TaskGroup() as group:
                lease = await self._lead(client, stack)
                if lease is not None:
                    group.create_task(lease.hold(), name="lease")
                runtime = await stack.enter_async_context(self._runtime(client))
                resync = Resync(runtime)
                await self._first_listing(resync)
                self._prove()
                group.create_task(self._watch(), name="watches")
                group.create_task(resync.forever(self._prove), name="resync")
                self.health.started = True
                logger.info("operator started")
                await self._loop(runtime).run()

    async def _lead(self, client: KubeClient, stack: contextlib.AsyncExitStack) -> LeaseElector | None:
        """Wait until this replica may act; None where no lease is wanted (one operator, tests)."""
        wanted = self.config.lease
        if not wanted.namespace:
            return None
        identity = f"{os.environ.get('HOSTNAME') or socket.gethostname()}-{os.getpid()}"
        lease = LeaseElector(client, wanted.namespace, wanted.name, identity)
        self.health.standby = True
        await lease.acquire()
        self.health.standby = False
        stack.push_async_callback(lease.release)
        return lease

    @contextlib.asynccontextmanager
    async def _runtime(self, client: KubeClient) -> AsyncIterator[Runtime]:
        events = EventRecorder(client, COMPONENT)
        self.metrics.events_dropped.set_function(lambda: events.dropped)
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        async with aiohttp.ClientSession(connector=connector) as http:
            gateways = Gateways(http, self.queue, self._wanted, self._gateway_changed)
            await events.start()
            try:
                yield Runtime(
                    config=self.config,
                    client=client,
                    store=self.store,
                    queue=self.queue,
                    status=StatusWriter(client, self.store),
                    events=events,
                    gateways=gateways,
                    ended_pods=self.ended_pods,
                    metrics=self.metrics,
                    clock=lambda: datetime.now(UTC),
                    pod_namespace=self.credentials.pod_namespace,
                )
            finally:
                await gateways.close()
                await events.stop()

    def _wanted(self, operation_id: str) -> Key | None:
        found = self.store.by_index(BY_OPERATION, operation_id)
        return key_of(STATEMENT, found[0]) if found else None

    def _gateway_changed(self, session: Key) -> None:
        self.queue.add(session)
        for statement in self.store.by_index(LIVE_BY_SESSION, scoped(session.namespace, session.name)):
            self.queue.add(key_of(STATEMENT, statement))
        for savepoint in self.store.by_index(OPEN_SAVEPOINTS_BY_NAMESPACE, session.namespace):
            self.queue.add(key_of(SAVEPOINT, savepoint))

    async def _first_listing(self, resync: Resync) -> None:
        while True:
            try:
                await resync.once()
                return
            except ApiError as error:
                logger.warning("first listing failed, will retry", extra={"fields": {"error": str(error)}})
                await asyncio.sleep(max(START_RETRY_SECONDS, min(error.retry_after, MOST_BACKOFF_SECONDS)))

    def _loop(self, runtime: Runtime) -> ReconcileLoop:
        lineup = Lineup(self.store, runtime.gateways, runtime.clock)
        self.store.next_in_line = lineup.next_in_line
        reconcilers: dict[str, Reconcile] = {
            CLASS: ClassController(runtime).reconcile,
            SESSION: SessionController(runtime).reconcile,
            STATEMENT: StatementController(runtime, lineup).reconcile,
            SAVEPOINT: SavepointController(runtime).reconcile,
        }
        guarded = {kind: retried(reconcile) for kind, reconcile in reconcilers.items()}
        return ReconcileLoop(self.queue, guarded, workers=self.config.workers, observer=self.metrics)

    # --- watches

    def _prove(self) -> None:
        self._proven_at = time.monotonic()

    async def _watch(self) -> None:
        """kopf in a thread and a loop of its own: it takes signals away from a loop and cancels all of its tasks at the end."""
        here, there = asyncio.get_running_loop(), asyncio.new_event_loop()
        namespaces = self.config.watch_namespaces
        watching = there.create_task(
            kopf.operator(
                registry=self._registry(here),
                settings=_settings(),
                standalone=True,
                # Without one, kopf makes it of the user's name, and a pod's user need not have one.
                identity=cast(Any, COMPONENT),
                clusterwide=not namespaces,
                namespaces=namespaces,
            )
        )
        thread = here.run_in_executor(None, _run_to_its_end, there, watching)
        try:
            await asyncio.shield(thread)
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                there.call_soon_threadsafe(watching.cancel)
            await asyncio.wait([thread])
        raise RuntimeError("the watches ended")

    def _registry(self, loop: asyncio.AbstractEventLoop) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        for kind in WATCHED:
            resource = BY_KIND[kind]
            kopf.on.event(resource.group, resource.version, resource.plural, id=kind, registry=registry)(
                self._handler(kind, loop)
            )
        kopf.on.login(registry=registry)(self._login)
        return registry

    def _handler(self, kind: str, loop: asyncio.AbstractEventLoop) -> Callable[..., Awaitable[None]]:
        async def seen(event: Any, **_: Any) -> None:
            loop.call_soon_threadsafe(self._take, kind, event["type"], dict(event["object"]))

        return seen

    def _take(self, kind: str, change: str | None, obj: Object) -> None:
        self._prove()
        if kind == POD:
            self.ended_pods.observe(obj)
        if change == "DELETED":
            metadata = obj["metadata"]
            self.store.delete(kind, metadata.get("namespace", ""), metadata["name"], metadata["uid"])
        else:
            self.store.apply(kind, obj)

    async def _login(self, **_: Any) -> kopf.ConnectionInfo:
        own = self.credentials
        return kopf.ConnectionInfo(
            server=own.server,
            ca_path=own.ca_path if own.ca_data is None else None,
            ca_data=own.ca_data,
            certificate_path=own.client_cert_path if own.client_cert_data is None else None,
            certificate_data=own.client_cert_data,
            private_key_path=own.client_key_path if own.client_key_data is None else None,
            private_key_data=own.client_key_data,
            token=own.token_path.read_text().strip() if own.token_path is not None else own.token,
            insecure=own.insecure,
            default_namespace=own.namespace,
        )


def _run_to_its_end(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    with contextlib.closing(loop):
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        # kopf leaves tasks behind when it is cancelled as it starts; they must not outlive their loop.
        if left := asyncio.all_tasks(loop):
            for each in left:
                each.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=LEFT_SECONDS))


class _NoDiffs(kopf.DiffBaseStorage):
    """kopf copies every object deeply to find out what changed, for handlers that we do not have."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return cast(kopf.BodyEssence, {})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        pass


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.posting.enabled = False
    # kopf takes its own finalizer off every object that none of its handlers needs it for: it must never be ours.
    settings.persistence.finalizer = f"{GROUP}/kopf-has-none"
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.watching.label_selectors["", "v1", "pods"] = f"{LABEL_NAME}={DRIVER_APP_NAME}"
    settings.watching.chunk_size = 500
    # One worker for each object that was ever listed lives this long: at a start that is all of them.
    settings.queueing.idle_timeout = 0.2
    return settings


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


def find_credentials() -> Credentials:
    """Those of the pod, or of the kubeconfig outside one. Raises CredentialsError."""
    try:
        return Credentials.from_in_cluster()
    except CredentialsError:
        return Credentials.from_kubeconfig(Path(os.environ["KUBECONFIG"]) if os.environ.get("KUBECONFIG") else None)


async def _main(config: OperatorConfig) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await Operator(config, find_credentials()).run()


def main() -> None:
    # Watches have a thread of their own: by default one thread makes the other wait 5 ms for the interpreter.
    sys.setswitchinterval(SWITCH_SECONDS)
    config = configuration.load()
    logs.configure(config.log_level)
    asyncio.run(_main(config))


if __name__ == "__main__":
    main()
