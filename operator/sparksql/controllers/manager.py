"""All controllers together: watches fill the store, the reconcile loop does the rest, whatever API server answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import aiohttp

from sparksql.cache.executors import stored_as
from sparksql.cache.indexes import BY_OPERATION, CLASS, INDEXES, POD, SAVEPOINT, SESSION, STATEMENT
from sparksql.cache.pod_ends import PodTerminations
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.enqueue import Enqueuer
from sparksql.controllers.reconciler import Reconciler
from sparksql.controllers.savepoint.controller import SavepointController
from sparksql.controllers.session.controller import SessionController
from sparksql.controllers.session_class import SessionClassController
from sparksql.controllers.statement.controller import StatementController
from sparksql.controllers.statement.queue import StatementQueue
from sparksql.drivers.tracker import DriverTracker
from sparksql.engine.loop import Reconcile, ReconcileLoop
from sparksql.engine.queue import WorkQueue
from sparksql.engine.store import Store
from sparksql.kube.client import KubeClient, Object
from sparksql.kube.events import EventRecorder
from sparksql.kube.status import StatusWriter
from sparksql.process.config import OperatorConfig
from sparksql.process.metrics import Metrics

COMPONENT = "spark-sql-operator"


class ControllerManager:
    """Holds what all controllers share. `context` brackets their life, `loop` is their work."""

    def __init__(self, config: OperatorConfig, metrics: Metrics) -> None:
        self.config = config
        self.metrics = metrics
        self.queue = WorkQueue()
        self.store = Store(indexes=INDEXES)
        self.terminations = PodTerminations()

    @contextlib.asynccontextmanager
    async def context(
        self,
        client: KubeClient,
        pod_namespace: str | None,
        front: bytes | None,
        *,
        local_mode: bool = False,
    ) -> AsyncIterator[ControllerContext]:
        """Opens what controllers reach the API server and drivers by, and closes it.

        `front` is the front's key; `local_mode` as in `ControllerContext`.
        """
        events = EventRecorder(client, COMPONENT)
        self.metrics.events_dropped.set_function(lambda: events.dropped)
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        async with aiohttp.ClientSession(connector=connector) as http:
            drivers = DriverTracker(http, self._is_awaited)
            statements = StatementQueue(self.store, drivers, _now)
            enqueuer = Enqueuer(self.queue, self.store, statements.next_in_queue)
            self.store.subscribe(enqueuer.object_changed)
            drivers.subscribe(enqueuer)
            await events.start()
            try:
                yield ControllerContext(
                    config=self.config,
                    client=client,
                    store=self.store,
                    queue=self.queue,
                    status=StatusWriter(client, self.store),
                    events=events,
                    drivers=drivers,
                    terminations=self.terminations,
                    metrics=self.metrics,
                    clock=_now,
                    pod_namespace=pod_namespace,
                    front_key=front,
                    local_mode=local_mode,
                )
            finally:
                await drivers.close()
                await events.stop()

    def loop(self, context: ControllerContext) -> ReconcileLoop:
        """Returns the loop that reconciles what the queue holds."""
        reconcilers: dict[str, Reconcile] = {
            CLASS: Reconciler(context, SessionClassController(context)).reconcile,
            SESSION: Reconciler(context, SessionController(context)).reconcile,
            STATEMENT: Reconciler(context, StatementController(context)).reconcile,
            SAVEPOINT: Reconciler(context, SavepointController(context)).reconcile,
        }
        return ReconcileLoop(self.queue, reconcilers, workers=self.config.workers, observer=self.metrics)

    def take(self, kind: str, change: str | None, obj: Object) -> None:
        """Applies a change of a watched object, as a watch shows it."""
        if kind == POD:
            self.terminations.observe(obj)
        kind, obj = stored_as(kind, obj)
        if change == "DELETED":
            metadata = obj["metadata"]
            self.store.delete(kind, metadata.get("namespace", ""), metadata["name"], metadata["uid"])
        else:
            self.store.apply(kind, obj)

    def _is_awaited(self, operation_id: str) -> bool:
        return bool(self.store.by_index(BY_OPERATION, operation_id))


def _now() -> datetime:
    return datetime.now(UTC)
