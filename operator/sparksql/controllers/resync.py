"""The listing that makes the operator level-triggered: what a watch missed, a listing shows.

It runs once before the workers start (so that absence means something from the first decision on) and then periodically.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from sparksql.cache.executors import POD_SELECTOR, stored_as
from sparksql.cache.indexes import EXECUTOR, NAMESPACE, POD, SAVEPOINT, SESSION, STATEMENT, key_of
from sparksql.cache.views import StatementView
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.enqueue import WATCHED
from sparksql.engine.key import Key
from sparksql.engine.store import Object
from sparksql.kube.errors import ApiError
from sparksql.kube.resources import BY_KIND

RETRY_SECONDS = 2.0
PAGE_SIZE = 500

logger = logging.getLogger(__name__)


class Resync:
    """Lists all watched kinds, at the start and then again and again."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def once(self) -> int:
        """Lists every watched kind and takes in what is new. Raises ApiError.

        Returns how many objects the watches had not shown.
        """
        unseen = 0
        namespaces = self._context.config.watch_namespaces or ("",)
        for kind in WATCHED:
            first = not self._context.store.synced(kind)
            drift = await self._list(kind, namespaces if BY_KIND[kind].namespaced else ("",))
            if drift and not first:
                unseen += drift
                self._context.metrics.resync_drift.labels(kind).inc(drift)
        self._enqueue_live()
        self._count()
        return unseen

    async def _list(self, kind: str, namespaces: Sequence[str]) -> int:
        """Takes in all objects of a kind; returns how many changed, appeared or vanished by it."""
        store, news = self._context.store, 0

        def take(obj: Object) -> Key:
            nonlocal news
            kept_as, kept = stored_as(kind, obj)
            news += store.apply(kept_as, kept)
            return key_of(kept_as, kept)

        listed: set[Key] = set()
        version = ""
        selector = POD_SELECTOR if kind == POD else ""
        for namespace in namespaces:
            listing = await self._context.client.list_as(take, BY_KIND[kind], namespace, selector, PAGE_SIZE)
            listed.update(listing.items)
            version = version or listing.resource_version
        vanished = store.retain(EXECUTOR, listed, version) if kind == POD else 0
        return news + vanished + store.retain(kind, listed, version)

    async def forever(self, on_no_drift: Callable[[], None]) -> None:
        """Lists every `resync_seconds`; calls `on_no_drift` after a listing that showed nothing new: the watches are alive."""
        while True:
            await asyncio.sleep(self._context.config.resync_seconds)
            try:
                if await self.once() == 0:
                    on_no_drift()
            except ApiError as error:
                logger.warning("listing failed, will retry", extra={"fields": {"error": str(error)}})

    def _enqueue_live(self) -> None:
        for kind in WATCHED:
            for obj in self._context.store.list(kind):
                if kind not in (POD, NAMESPACE) and not (kind == STATEMENT and StatementView(obj).has_ended):
                    self._context.queue.add(key_of(kind, obj))

    def _count(self) -> None:
        store = self._context.store
        self._context.metrics.count(store.list(STATEMENT), store.list(SESSION), store.list(SAVEPOINT))
