"""An instance at work: its store, the operator's controllers over it, and the processes of its pods."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sparksql.api.session import SessionPhase
from sparksql.controllers.enqueue import WATCHED
from sparksql.controllers.manager import ControllerManager
from sparksql.controllers.resync import Resync
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import NAMESPACES, SESSION_CLASSES, SESSIONS, Resource
from sparksql.local.client import LocalClient
from sparksql.local.defaults import DEFAULT_NAMESPACE, default_class
from sparksql.local.instance import Instance
from sparksql.local.objects.store import ObjectStore
from sparksql.local.pods.java import class_path_environment
from sparksql.local.pods.kubelet import Kubelet
from sparksql.logs import JsonFormatter
from sparksql.process.config import OperatorConfig
from sparksql.process.metrics import Metrics

_SETTLE_SECONDS = 5.0
_WITH_DRIVER = (SessionPhase.READY, SessionPhase.STARTING, SessionPhase.DRAINING)

Object = dict[str, Any]


@contextlib.contextmanager
def opened(instance: Instance) -> Iterator[ObjectStore]:
    """Holds the instance and opens its store, with what every instance has. Raises InstanceError."""
    with (
        instance.held(),
        contextlib.closing(ObjectStore(instance.database)) as store,
        _log(instance.logs / "sparksql.log"),
    ):
        _make_missing(store, NAMESPACES, {"metadata": {"name": DEFAULT_NAMESPACE}})
        _make_missing(store, SESSION_CLASSES, default_class(instance))
        store.collect_orphans()
        yield store


@contextlib.contextmanager
def _log(file: Path) -> Iterator[None]:
    """Writes what the operator logs to a file: the terminal belongs to the command."""
    handler = logging.FileHandler(file, delay=True, encoding="utf-8")
    handler.setFormatter(JsonFormatter(lambda record: getattr(record, "fields", {})))
    logger = logging.getLogger("sparksql")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


def _make_missing(store: ObjectStore, resource: Resource, body: Object) -> None:
    try:
        store.get(resource, "", body["metadata"]["name"])
    except NotFound:
        store.create(resource, "", body)


@contextlib.asynccontextmanager
async def running(store: ObjectStore, instance: Instance, *, pods: bool = True) -> AsyncIterator[None]:
    """Runs controllers and pods within the block, and ends all in order: pods first, so that controllers see their ends.

    Without `pods` none is started: what the controllers alone can do takes place. Raises StillRunningError and InstanceError.
    """
    manager = ControllerManager(OperatorConfig(), Metrics())
    kubelet = Kubelet(store, instance, class_path_environment(instance) if pods else {})
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(kubelet.close)
        context = await stack.enter_async_context(manager.context(LocalClient(store), None, None, local_mode=True))
        await Resync(context).once()
        stack.callback(store.watch(partial(_take, manager)))
        if pods:
            await kubelet.start()
        reconciling = asyncio.create_task(manager.loop(context).run(), name="reconcile")
        stack.push_async_callback(_cancelled, reconciling)
        yield
        if pods:
            await kubelet.stop()
            await _settled(store)


async def _settled(store: ObjectStore) -> None:
    """Waits until no session takes a pod for its driver that is gone, so that the next run does not have to find out."""

    def is_settled() -> bool:
        sessions = store.list(SESSIONS).items
        return all((each.get("status") or {}).get("phase") not in _WITH_DRIVER for each in sessions)

    await until(store, is_settled, _SETTLE_SECONDS)


async def until(store: ObjectStore, holds: Callable[[], bool], seconds: float) -> bool:
    """Waits until something holds of the store's objects, for so long at most; returns whether it does."""
    changed = asyncio.Event()
    stop = store.watch(lambda *_: changed.set())
    try:
        async with asyncio.timeout(seconds):
            while not holds():
                changed.clear()
                await changed.wait()
    except TimeoutError:
        return False
    finally:
        stop()
    return True


def _take(manager: ControllerManager, kind: str, change: str, obj: Object) -> None:
    if kind in WATCHED:
        manager.take(kind, change, obj)


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
