"""Kubernetes Events about our objects: for people, never for decisions, so they may be late or dropped and never hurt.

Callers hand over an event without waiting. One background task writes them. An event that repeats within ten minutes
only raises the count of the one that is there, and an object that has a lot to say is held to client-go's rate.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from sparksql.domain.public_text import PublicText
from sparksql.kube.client import KubeClient, Object
from sparksql.kube.errors import ApiError, NotFound
from sparksql.kube.resources import EVENTS

logger = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]

# Defaults of client-go's EventCorrelator (tools/record/events_cache.go): spam burst and refill, cache size, window.
BURST = 25
REFILL_SECONDS = 300.0
REPEAT_SECONDS = 600.0
REMEMBERED = 4096
QUEUED = 1000
MESSAGE_BYTES = 1024  # the limit of events.k8s.io/v1, kept here so that every reader copes
STOP_SECONDS = 2.0


@dataclass(frozen=True)
class _Emission:
    """One call of `emit`: a reference to the object (`involvedObject`) and what to say of it; `at` in epoch seconds."""

    involved: Object
    type: EventType
    reason: str
    message: str
    at: float

    @property
    def namespace(self) -> str:
        return self.involved.get("namespace") or "default"  # where events of cluster-scoped objects go

    @property
    def identity(self) -> tuple[str, ...]:
        return self.involved["uid"], self.type, self.reason, self.message


@dataclass(frozen=True)
class _Written:
    """An Event that exists, as far as we know."""

    name: str
    count: int
    at: float


@dataclass
class _Bucket:
    """Tokens left to one object, as of `at`."""

    tokens: float
    at: float


class EventRecorder:
    """Records events as `component`. `clock` gives epoch seconds. `start` and `stop` bracket its life."""

    def __init__(self, client: KubeClient, component: str, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._component = component
        self._clock = clock
        self._queue: asyncio.Queue[_Emission] = asyncio.Queue(QUEUED)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._written: OrderedDict[tuple[str, ...], _Written] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0
        """Events not recorded since the start: over the rate, with the queue full, or refused by the API server."""

    def emit(self, obj: Object, type_: EventType, reason: str, message: PublicText) -> None:
        """Hands over an event about the object, with a condition reason. Never blocks, never raises."""
        meta = obj["metadata"]
        involved = {
            "apiVersion": obj.get("apiVersion"),
            "kind": obj.get("kind"),
            "namespace": meta.get("namespace"),
            "name": meta["name"],
            "uid": meta["uid"],
            "resourceVersion": meta.get("resourceVersion"),
        }
        present = {field: value for field, value in involved.items() if value is not None}
        emission = _Emission(present, type_, reason, _shortened(message.text), self._clock())
        if not self._allowed(meta["uid"], emission.at):
            self.dropped += 1
            return
        try:
            self._queue.put_nowait(emission)
        except asyncio.QueueFull:
            self.dropped += 1

    async def start(self) -> None:
        """Begins to write Events, in a task of its own."""
        self._task = asyncio.create_task(self._run(), name="event-recorder")

    async def stop(self) -> None:
        """Writes what is queued, for at most two seconds, then ends."""
        if self._task is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._queue.join()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._task = None

    async def _run(self) -> None:
        while True:
            emission = await self._queue.get()
            try:
                await self._record(emission)
            except Exception as error:
                self.dropped += 1
                cause = str(error) if isinstance(error, ApiError) else type(error).__name__
                fields = {"namespace": emission.namespace, "name": emission.involved["name"], "error": cause}
                logger.debug("event not recorded", extra={"fields": fields})
            finally:
                self._queue.task_done()

    async def _record(self, emission: _Emission) -> None:
        previous = self._written.get(emission.identity)
        if previous is not None and emission.at - previous.at < REPEAT_SECONDS:
            repeated = _Written(previous.name, previous.count + 1, emission.at)
            body: Object = {"count": repeated.count, "lastTimestamp": _timestamp(emission.at)}
            with suppress(NotFound):  # events live for an hour by default, or less: then it is a new one
                await self._client.patch_merge(EVENTS, emission.namespace, previous.name, body)
                self._remember(emission.identity, repeated)
                return
        name = f"{emission.involved['name']}.{uuid.uuid4().hex[:16]}"
        await self._client.create(EVENTS, emission.namespace, self._event(emission, name))
        self._remember(emission.identity, _Written(name, 1, emission.at))

    def _event(self, emission: _Emission, name: str) -> Object:
        when = _timestamp(emission.at)
        return {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {"name": name, "namespace": emission.namespace},
            "involvedObject": emission.involved,
            "type": emission.type,
            "reason": emission.reason,
            "message": emission.message,
            "count": 1,
            "firstTimestamp": when,
            "lastTimestamp": when,
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }

    def _remember(self, identity: tuple[str, ...], written: _Written) -> None:
        self._written[identity] = written
        self._written.move_to_end(identity)
        if len(self._written) > REMEMBERED:
            self._written.popitem(last=False)

    def _allowed(self, uid: str, now: float) -> bool:
        bucket = self._buckets.setdefault(uid, _Bucket(BURST, now))
        self._buckets.move_to_end(uid)
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        bucket.tokens = min(BURST, bucket.tokens + max(0.0, now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


def _shortened(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= MESSAGE_BYTES:
        return message
    return encoded[: MESSAGE_BYTES - 3].decode(errors="ignore") + "..."


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
