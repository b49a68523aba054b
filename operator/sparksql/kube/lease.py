"""Leader election by a Lease, so that one operator at a time is active.

The rules are those of client-go: a lease is judged expired by how long it has been seen unchanged on our own monotonic
clock, never by comparing clocks of two machines; every write is guarded by the resourceVersion that was read. The
holder gives up at the renew deadline, before anybody else may take over: when `hold` raises, the process has to end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sparksql.kube.client import KubeClient, Object
from sparksql.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from sparksql.kube.resources import LEASES

logger = logging.getLogger(__name__)


class LeaseLost(Exception):
    """The lease is not ours any more, or could not be renewed in time."""


class LeaseElector:
    """Stands as one candidate for the Lease `namespace/name`. `identity` is unique to the process, e.g. pod name and UID.

    Durations in seconds; defaults as in client-go: others wait for `lease_seconds` after the last renewal they saw, the
    holder gives up after `renew_deadline` without one, and both try each `retry_seconds`.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_seconds: int = 15,
        renew_deadline: float = 10.0,
        retry_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not retry_seconds < renew_deadline < lease_seconds:
            raise ValueError("a lease needs retry_seconds < renew_deadline < lease_seconds")
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lease_seconds = lease_seconds
        self._renew_deadline = renew_deadline
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._now = now
        self._seen_version = ""
        self._seen_at = 0.0
        self._held = False
        self._renewed_at = 0.0

    async def acquire(self) -> None:
        """Returns once the lease is ours. Failures of the API server are waited out."""
        while True:
            if await self._attempt(self._renew_deadline):
                logger.info("lease acquired", extra=self._fields())
                return
            await asyncio.sleep(self._retry_seconds)

    async def hold(self) -> None:
        """Renews the lease for as long as it lasts; raises LeaseLost at the deadline or when another holds it."""
        while True:
            left = self._renewed_at + self._renew_deadline - self._clock()
            if left <= 0:
                raise LeaseLost(f"not renewed for {self._renew_deadline:g} s")
            pause = min(self._retry_seconds, left)
            await asyncio.sleep(pause)
            await self._attempt(left - pause)

    async def release(self) -> None:
        """Lets go at once, if the lease still is ours, so that nobody need wait for it. Never raises ApiError."""
        try:
            lease = await self._client.get(LEASES, self._namespace, self._name)
            if lease["spec"].get("holderIdentity") == self._identity:
                await self._write(lease, self._spec(lease["spec"]) | {"holderIdentity": "", "leaseDurationSeconds": 1})
                logger.info("lease released", extra=self._fields())
        except ApiError as error:
            logger.warning("lease not released", extra=self._fields(error=str(error)))

    async def _attempt(self, seconds: float) -> bool:
        """One try to take or renew the lease within `seconds`. LeaseLost when we held it and another does now."""
        started = self._clock()
        try:
            async with asyncio.timeout(seconds):
                held = await self._take()
        except (AlreadyExists, Conflict):
            held = False  # another was faster; the next try sees who
        except (ApiError, TimeoutError) as error:
            fields = self._fields(error=f"{type(error).__name__}: {error}")
            logger.warning("lease could not be read or written", extra=fields)
            held = False
        if held:
            self._held, self._renewed_at = True, started
        return held

    async def _take(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._namespace, self._name)
        except NotFound:
            meta = {"name": self._name, "namespace": self._namespace}
            lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": meta, "spec": self._spec({})}
            self._see(await self._client.create(LEASES, self._namespace, lease))
            return True
        self._see(lease)
        spec = lease["spec"]
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self._identity):
            if self._held:
                raise LeaseLost(f"held by {holder}")
            if self._clock() < self._seen_at + spec.get("leaseDurationSeconds", self._lease_seconds):
                return False
        self._see(await self._write(lease, self._spec(spec)))
        return True

    def _see(self, lease: Object) -> None:
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen_version:
            self._seen_version, self._seen_at = version, self._clock()

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        """The Lease's spec with us as the holder, renewed now; `before` is the spec that it replaces."""
        now = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        renewal = before.get("holderIdentity") == self._identity
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._lease_seconds,
            "acquireTime": before.get("acquireTime", now) if renewal else now,
            "renewTime": now,
            "leaseTransitions": before.get("leaseTransitions", 0) + (0 if renewal or not before else 1),
        }

    async def _write(self, lease: Object, spec: dict[str, Any]) -> Object:
        return await self._client.replace(LEASES, self._namespace, self._name, {**lease, "spec": spec})

    def _fields(self, **more: str) -> dict[str, dict[str, str]]:
        return {"fields": {"namespace": self._namespace, "name": self._name, "identity": self._identity, **more}}
