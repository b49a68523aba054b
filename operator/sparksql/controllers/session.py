"""SqlSession: gather -> decide -> act -> status.

The incarnation is in the status before its pod is made, so a crash between the two makes the same pod again, never a second
one. A pod is called gone only after a live read.
"""

from __future__ import annotations

import logging

from sparksql.api.conditions import ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.controllers.classes import find_class
from sparksql.controllers.gateway_client import GatewayRefused, GatewayUnreachable
from sparksql.controllers.indexes import (
    LIVE_BY_SESSION,
    NAMESPACE,
    SESSION,
    SESSIONS_BY_NAMESPACE,
    is_stream,
    phase_of,
    scoped,
)
from sparksql.controllers.pods import read_pod
from sparksql.controllers.runtime import Runtime
from sparksql.controllers.session_children import Refused, SessionChildren
from sparksql.domain.refusal import Refusal
from sparksql.domain.session.decide import decide
from sparksql.domain.session.resolve import Resolved, resolve
from sparksql.domain.session.snapshot import Command, Deadlines, Decision, PodEnd, PodFacts, Snapshot
from sparksql.domain.statement.phases import HANDED_OVER
from sparksql.engine.errors import Transient
from sparksql.engine.key import Key
from sparksql.kube.client import Object
from sparksql.kube.errors import ApiError, Conflict, NotFound
from sparksql.kube.finalizers import add_finalizer, remove_finalizer
from sparksql.wire.control import GatewayInfo

DRIVER_GRACE_SECONDS = 20  # contract: the driver drains on SIGTERM for at most so long
MAX_PASSES = 4

logger = logging.getLogger(__name__)


class SessionController:
    def __init__(self, runtime: Runtime) -> None:
        self._rt = runtime
        self._children = SessionChildren(runtime)

    async def reconcile(self, key: Key) -> float | None:
        """Seconds until the next look, None when only a change can make a difference."""
        obj = self._rt.store.get(SESSION, key.namespace, key.name)
        if obj is None:
            self._rt.gateways.unlink(key)
            return None
        obstacle: Refusal | None = None
        for _ in range(MAX_PASSES):
            try:
                return await self._pass(key, obj, obstacle)
            except Refused as refused:
                obstacle = refused.refusal
                obj = self._rt.store.get(SESSION, key.namespace, key.name)
            except (Conflict, NotFound):
                obj = await self._rt.status.refresh(SESSION, key.namespace, key.name)
            except ApiError as error:
                raise Transient(error) from error
            if obj is None:
                return None
        return 0.5

    async def _pass(self, key: Key, obj: Object, obstacle: Refusal | None) -> float | None:
        session = SqlSession.parse(obj)
        klass, resolution = self._resolution(session)
        snapshot = await self._gather(key, session, resolution, obstacle)
        decision = decide(snapshot)
        if decision.finalizer and session.metadata.deletion_timestamp is None:
            obj = await add_finalizer(self._rt.client, self._rt.store, SESSION, obj)
        obj = await self._rt.status.write(SESSION, obj, decision.status.to_dict())
        self._announce(key, obj, session, decision)
        for command in decision.commands:
            await self._act(command, SqlSession.parse(obj), klass, resolution)
        if not decision.finalizer:
            await remove_finalizer(self._rt.client, self._rt.store, SESSION, obj)
            self._rt.gateways.unlink(key)
            return None
        return decision.requeue_after

    async def _act(
        self, command: Command, session: SqlSession, klass: SqlSessionClass | None, resolution: Resolved | Refusal
    ) -> None:
        match command:
            case Command.START_DRIVER:
                if klass is not None and isinstance(resolution, Resolved):
                    await self._children.start_driver(session, klass, resolution)
            case Command.DRAIN_DRIVER:
                await self._drain(session)
            case Command.DELETE_DRIVER:
                driver = session.status.driver
                if driver is not None and driver.pod_name is not None:
                    await self._children.delete_pod(session, driver.pod_name, DRIVER_GRACE_SECONDS)

    async def _drain(self, session: SqlSession) -> None:
        """A driver that does not answer is asked again, until the deadline of the phase."""
        pod_uid = session.status.driver.pod_uid if session.status.driver else None
        client = self._rt.gateways.client(pod_uid or "")
        if client is None or pod_uid is None:
            return
        try:
            self._rt.gateways.heard(pod_uid, await client.drain())
        except (GatewayUnreachable, GatewayRefused) as error:
            fields = {"namespace": session.metadata.namespace, "name": session.metadata.name}
            logger.warning("driver was not told to drain", extra={"fields": {**fields, "error": type(error).__name__}})

    # --- gather

    def _resolution(self, session: SqlSession) -> tuple[SqlSessionClass | None, Resolved | Refusal]:
        klass = find_class(self._rt.store, session.spec.class_name)
        if isinstance(klass, Refusal):
            return None, klass
        namespace = self._rt.store.get(NAMESPACE, "", session.metadata.namespace)
        labels = (namespace or {}).get("metadata", {}).get("labels") or {}
        return klass, resolve(session, klass, labels, self._rt.config.defaults)

    async def _gather(
        self, key: Key, session: SqlSession, resolution: Resolved | Refusal, obstacle: Refusal | None
    ) -> Snapshot:
        pod = await self._pod(session)
        gateway = self._last_word(key, session, pod)
        await self._follow(key, session, pod)
        running, queued, streams = self._counts(key, deleting=session.metadata.is_deleting)
        deadlines = self._rt.config.deadlines
        return Snapshot(
            now=self._rt.clock(),
            session=session,
            resolution=resolution,
            pod=pod,
            gateway=gateway,
            pod_end=self._pod_end(session),
            running=running,
            queued=queued,
            streams=streams,
            over_session_limit=self._is_over_limit(session, resolution),
            namespace_terminating=self._is_terminating(key.namespace),
            obstacle=obstacle,
            deadlines=Deadlines(
                deadlines.scheduling_seconds,
                deadlines.image_pull_seconds,
                deadlines.driver_start_seconds,
                deadlines.drain_seconds,
            ),
            max_restarts=self._rt.config.max_driver_restarts,
        )

    async def _pod(self, session: SqlSession) -> PodFacts | None:
        driver = session.status.driver
        if driver is None or driver.pod_name is None:
            return None
        return await read_pod(self._rt, session.metadata.namespace, driver.pod_name, driver.pod_uid)

    def _pod_end(self, session: SqlSession) -> PodEnd | None:
        driver = session.status.driver
        return self._rt.ended_pods.end_of(driver.pod_uid) if driver is not None and driver.pod_uid is not None else None

    def _last_word(self, key: Key, session: SqlSession, pod: PodFacts | None) -> GatewayInfo | None:
        """What the driver of `status.driver` last said of itself: asked before a dead one is let go."""
        driver = session.status.driver
        uid = pod.uid if pod is not None else driver.pod_uid if driver is not None else None
        return self._rt.gateways.info(key) if uid is not None and self._rt.gateways.linked_pod(key) == uid else None

    async def _follow(self, key: Key, session: SqlSession, pod: PodFacts | None) -> None:
        """Keep the event stream of a living driver open; let go of it once its pod is gone."""
        if pod is None:
            self._rt.gateways.unlink(key)
            return
        if pod.ip is None or pod.ended is not None or self._rt.gateways.linked_pod(key) == pod.uid:
            return
        address = await self._children.address(session, pod.ip, pod.uid)
        if address is not None:
            self._rt.gateways.link(key, address)

    def _counts(self, key: Key, *, deleting: bool) -> tuple[int, int, int]:
        """Statements handed over, those that wait or are Stopped, and of the first those that stream.

        A statement waits for another session of its own when that is deleted.
        """
        live = self._rt.store.by_index(LIVE_BY_SESSION, scoped(key.namespace, key.name))
        running = [s for s in live if phase_of(s) in HANDED_OVER]
        queued = [s for s in live if phase_of(s) not in HANDED_OVER and not (deleting and s["spec"].get("session"))]
        return len(running), len(queued), sum(is_stream(s) for s in running)

    def _is_over_limit(self, session: SqlSession, resolution: Resolved | Refusal) -> bool:
        """Whether as many older sessions of the class as it allows are there already; closed ones do not count."""
        if isinstance(resolution, Refusal):
            return False
        klass = find_class(self._rt.store, session.spec.class_name)
        limit = None if isinstance(klass, Refusal) else klass.spec.limits.sessions_per_namespace
        if limit is None:
            return False
        closed = (Phase.CLOSED, Phase.FAILED, Phase.STOPPED)
        same = [
            s
            for s in self._rt.store.by_index(SESSIONS_BY_NAMESPACE, session.metadata.namespace)
            if s["spec"].get("className") in (session.spec.class_name, resolution.effective.class_name)
            and (phase_of(s) not in closed or s["metadata"]["name"] == session.metadata.name)
        ]
        same.sort(key=lambda s: (s["metadata"]["creationTimestamp"], s["metadata"]["name"]))
        return session.metadata.name in [s["metadata"]["name"] for s in same[limit:]]

    def _is_terminating(self, namespace: str) -> bool:
        obj = self._rt.store.get(NAMESPACE, "", namespace)
        return obj is not None and obj["metadata"].get("deletionTimestamp") is not None

    # --- tell

    def _announce(self, key: Key, obj: Object, before: SqlSession, decision: Decision) -> None:
        status = decision.status
        for note in decision.notes:
            self._rt.events.emit(obj, note.type, note.reason, note.message)
            if note.reason is Reason.FINALIZER_DEADLINE:
                self._rt.metrics.orphans.labels(SESSION).inc()
        if status.phase is before.status.phase:
            return
        ready = find_condition(status.conditions, ConditionType.READY)
        fields = {"kind": SESSION, "namespace": key.namespace, "name": key.name}
        fields |= {"phase": status.phase or "", "reason": ready.reason if ready else ""}
        logger.info("session changed phase", extra={"fields": fields})
        if status.phase is Phase.READY and status.driver is not None and status.driver.start_time is not None:
            self._rt.metrics.started.observe((self._rt.clock() - status.driver.start_time).total_seconds())
