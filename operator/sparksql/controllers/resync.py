"""The listing that makes the operator level-triggered: what a watch missed, a listing shows.

It runs once before the workers start (so that absence means something from the first decision on) and then periodically.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from sparksql.api.names import DRIVER_APP_NAME, LABEL_NAME
from sparksql.cache.indexes import POD, SAVEPOINT, SESSION, STATEMENT, has_ended, key_of
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.enqueue import WATCHED
from sparksql.kube.errors import ApiError
from sparksql.kube.resources import BY_KIND

RETRY_SECONDS = 2.0
PAGE_SIZE = 500

logger = logging.getLogger(__name__)


class Resync:
    def __init__(self, runtime: ControllerContext) -> None:
        self._rt = runtime

    async def once(self) -> int:
        """List every watched kind and take in what is new: how many objects the watches had not shown. Raises ApiError."""
        unseen = 0
        namespaces = self._rt.config.watch_namespaces or ("",)
        for kind in WATCHED:
            first = not self._rt.store.synced(kind)
            listed, version = [], ""
            for namespace in namespaces if BY_KIND[kind].namespaced else ("",):
                selector = f"{LABEL_NAME}={DRIVER_APP_NAME}" if kind == POD else ""
                page = await self._rt.client.list(
                    BY_KIND[kind], namespace, label_selector=selector, page_size=PAGE_SIZE
                )
                listed += page.items
                version = version or page.resource_version
            drift = self._rt.store.replace(kind, listed, version)
            if drift and not first:
                unseen += len(drift)
                self._rt.metrics.resync_drift.labels(kind).inc(len(drift))
        self._wake_the_living()
        self._count()
        return unseen

    async def forever(self, clean: Callable[[], None]) -> None:
        """List again and again; `clean` is called after a listing that showed nothing new: the watches are alive."""
        while True:
            await asyncio.sleep(self._rt.config.resync_seconds)
            try:
                if await self.once() == 0:
                    clean()
            except ApiError as error:
                logger.warning("listing failed, will retry", extra={"fields": {"error": str(error)}})

    def _wake_the_living(self) -> None:
        for kind in WATCHED:
            for obj in self._rt.store.list(kind):
                if kind not in (POD, "Namespace") and not (kind == STATEMENT and has_ended(obj)):
                    self._rt.queue.add(key_of(kind, obj))

    def _count(self) -> None:
        store = self._rt.store
        self._rt.metrics.count(store.list(STATEMENT), store.list(SESSION), store.list(SAVEPOINT))
