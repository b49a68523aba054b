"""SqlSession: gather -> decide -> status -> act.

The incarnation is in the status before its pod is made, so a crash between the two makes the same pod again, never a second
one. A pod is called gone only after a live read.
"""

from __future__ import annotations

import logging

from sparksql.api.conditions import ConditionStatus, ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.api.statement import StatementPhase
from sparksql.cache.classes import find_class
from sparksql.cache.indexes import (
    LIVE_BY_SESSION,
    NAMESPACE,
    SAVEPOINTS_BY_STATEMENT,
    SESSION,
    contender,
    is_over_limit,
    is_stream,
    phase_of,
    scoped,
)
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.session.driver import Refused, SessionChildren
from sparksql.controllers.session.pods import read_pod
from sparksql.domain.session import session_limits
from sparksql.domain.session.decide import decide
from sparksql.domain.session.resolve import Resolved, resolve
from sparksql.domain.session.snapshot import Command, Decision, PodEnd, PodFacts, Snapshot
from sparksql.domain.statement.phases import HANDED_OVER
from sparksql.domain.violation import Violation
from sparksql.drivers.client import GatewayRefused, GatewayUnreachable
from sparksql.engine.key import Key
from sparksql.kube.client import Object
from sparksql.kube.errors import Conflict, NotFound
from sparksql.kube.finalizers import add_finalizer, remove_finalizer
from sparksql.wire.control import GatewayInfo

DRIVER_GRACE_SECONDS = 20  # contract: the driver drains on SIGTERM for at most so long
MAX_PASSES = 4
# Refusals that come up while the children are made, and stay until somebody acts.
_OBSTACLES = frozenset({Reason.STORAGE_NOT_READY, Reason.INIT_SOURCE_NOT_FOUND, Reason.CHILD_CONFLICT})

logger = logging.getLogger(__name__)


class SessionController:
    def __init__(self, runtime: ControllerContext) -> None:
        self._rt = runtime
        self._children = SessionChildren(runtime)

    async def reconcile(self, key: Key) -> float | None:
        """Seconds until the next look, None when only a change can make a difference."""
        obj = self._rt.store.get(SESSION, key.namespace, key.name)
        if obj is None:
            self._rt.drivers.unfollow(key)
            return None
        obstacle: Violation | None = None
        for _ in range(MAX_PASSES):
            try:
                return await self._pass(key, obj, obstacle)
            except Refused as refused:
                obstacle = refused.violation
                obj = self._rt.store.get(SESSION, key.namespace, key.name)
            except (Conflict, NotFound):
                obj = await self._rt.status.refresh(SESSION, key.namespace, key.name)
            if obj is None:
                return None
        return 0.5

    async def _pass(self, key: Key, obj: Object, obstacle: Violation | None) -> float | None:
        session = SqlSession.parse(obj)
        session_class, resolution = self._resolution(session)
        snapshot = await self._gather(key, session, session_class, resolution, obstacle)
        decision = decide(snapshot)
        if decision.finalizer and session.metadata.deletion_timestamp is None:
            obj = await add_finalizer(self._rt.client, self._rt.store, SESSION, obj)
        obj = await self._rt.status.write(SESSION, obj, decision.status.to_dict())
        self._announce(key, obj, session, decision)
        for command in decision.commands:
            await self._act(command, SqlSession.parse(obj), session_class, resolution)
        if not decision.finalizer:
            await remove_finalizer(self._rt.client, self._rt.store, SESSION, obj)
            self._rt.drivers.unfollow(key)
            return None
        return decision.requeue_after

    async def _act(
        self,
        command: Command,
        session: SqlSession,
        session_class: SqlSessionClass | None,
        resolution: Resolved | Violation,
    ) -> None:
        match command:
            case Command.START_DRIVER:
                if session_class is not None and isinstance(resolution, Resolved):
                    await self._children.start_driver(session, session_class, resolution)
            case Command.DRAIN_DRIVER:
                await self._drain(session)
            case Command.DELETE_DRIVER:
                driver = session.status.driver
                if driver is not None and driver.pod_name is not None:
                    await self._children.delete_pod(session, driver, DRIVER_GRACE_SECONDS)

    async def _drain(self, session: SqlSession) -> None:
        """A driver that does not answer is asked again, until the deadline of the phase."""
        pod_uid = session.status.driver.pod_uid if session.status.driver else None
        client = self._rt.drivers.client(pod_uid or "")
        if client is None or pod_uid is None:
            return
        try:
            self._rt.drivers.update_info(pod_uid, await client.drain())
        except (GatewayUnreachable, GatewayRefused) as error:
            fields = {"namespace": session.metadata.namespace, "name": session.metadata.name}
            logger.warning("driver was not told to drain", extra={"fields": {**fields, "error": type(error).__name__}})

    # --- gather

    def _resolution(self, session: SqlSession) -> tuple[SqlSessionClass | None, Resolved | Violation]:
        session_class = find_class(self._rt.store, session.spec.class_name)
        if isinstance(session_class, Violation):
            return None, session_class
        namespace = self._rt.store.get(NAMESPACE, "", session.metadata.namespace)
        labels = (namespace or {}).get("metadata", {}).get("labels") or {}
        return session_class, resolve(session, session_class, labels, self._rt.config.defaults)

    async def _gather(
        self,
        key: Key,
        session: SqlSession,
        session_class: SqlSessionClass | None,
        resolution: Resolved | Violation,
        obstacle: Violation | None,
    ) -> Snapshot:
        pod = await self._pod(session)
        gateway = self._last_word(key, session, pod)
        await self._follow(key, session, pod)
        return Snapshot(
            now=self._rt.clock(),
            session=session,
            resolution=resolution,
            pod=pod,
            gateway=gateway,
            pod_end=self._pod_end(session),
            **self._counts(key, deleting=session.metadata.is_deleting),
            limit_violation=self._limit_violation(session, session_class),
            namespace_terminating=self._is_terminating(key.namespace),
            start_blocker=obstacle or await self._standing_obstacle(session, resolution),
            deadlines=self._rt.config.deadlines,
            max_restarts=self._rt.config.max_driver_restarts,
        )

    async def _standing_obstacle(self, session: SqlSession, resolution: Resolved | Violation) -> Violation | None:
        """What refused the last driver, if it still does."""
        stalled = find_condition(session.status.conditions, ConditionType.STALLED)
        was_refused = stalled is not None and stalled.status is ConditionStatus.TRUE and stalled.reason in _OBSTACLES
        waits = session.status.phase is Phase.PENDING and not session.metadata.is_deleting
        if not (was_refused and waits and isinstance(resolution, Resolved)):
            return None
        return await self._children.obstacle(session, resolution)

    async def _pod(self, session: SqlSession) -> PodFacts | None:
        driver = session.status.driver
        if driver is None or driver.pod_name is None:
            return None
        metadata = session.metadata
        return await read_pod(self._rt, metadata.namespace, driver.pod_name, driver.pod_uid, metadata.uid)

    def _pod_end(self, session: SqlSession) -> PodEnd | None:
        driver = session.status.driver
        return (
            self._rt.terminations.end_of(driver.pod_uid) if driver is not None and driver.pod_uid is not None else None
        )

    def _last_word(self, key: Key, session: SqlSession, pod: PodFacts | None) -> GatewayInfo | None:
        """What the driver of `status.driver` last said of itself: asked before a dead one is let go."""
        driver = session.status.driver
        uid = pod.uid if pod is not None else driver.pod_uid if driver is not None else None
        return self._rt.drivers.info(key) if uid is not None and self._rt.drivers.followed_pod(key) == uid else None

    async def _follow(self, key: Key, session: SqlSession, pod: PodFacts | None) -> None:
        """Keep the event stream of a living driver open; let go of it once its pod is gone."""
        if pod is None:
            self._rt.drivers.unfollow(key)
            return
        if pod.ip is None or pod.ended is not None or self._rt.drivers.followed_pod(key) == pod.uid:
            return
        address = await self._children.address(session, pod.ip, pod.uid)
        if address is not None:
            self._rt.drivers.follow(key, address)

    def _counts(self, key: Key, *, deleting: bool) -> dict[str, int]:
        """The snapshot's counts of statements and savepoints.

        A statement waits for another session of its own when that is deleted.
        """
        live = self._rt.store.by_index(LIVE_BY_SESSION, scoped(key.namespace, key.name))
        named = [s for s in live if not (deleting and s["spec"].get("session"))]
        running = [s for s in live if phase_of(s) in HANDED_OVER]
        resting = [s for s in named if phase_of(s) == StatementPhase.STOPPED]
        return {
            "running": len(running),
            "queued": len([s for s in named if phase_of(s) not in (*HANDED_OVER, StatementPhase.STOPPED)]),
            "streams": sum(is_stream(s) for s in running),
            "resting": len(resting),
            "savepoints": sum(self._is_saved(key.namespace, s) for s in resting),
        }

    def _is_saved(self, namespace: str, statement: Object) -> bool:
        """Whether a savepoint of the stream is made just now."""
        own = self._rt.store.by_index(SAVEPOINTS_BY_STATEMENT, scoped(namespace, statement["metadata"]["name"]))
        return any(phase_of(savepoint) == SavepointPhase.IN_PROGRESS for savepoint in own)

    def _limit_violation(self, session: SqlSession, session_class: SqlSessionClass | None) -> Violation | None:
        """The limit of sessions that leaves none for this one; asked only of one that has no driver yet."""
        if session_class is None or session.status.phase in (Phase.STARTING, Phase.READY, Phase.DRAINING):
            return None
        limits, most = session_class.spec.limits, self._rt.config.limits.sessions
        bounds = session_limits.SessionLimits(most or None, limits.sessions, limits.sessions_per_namespace)
        if bounds == session_limits.SessionLimits():
            return None
        default = find_class(self._rt.store, None)
        unnamed = "" if isinstance(default, Violation) else default.metadata.name
        others = [contender(obj, unnamed, refused=self._is_refused(obj)) for obj in self._rt.store.list(SESSION)]
        own = (session.metadata.namespace, session.metadata.name)
        asking = next((each for each in others if (each.namespace, each.name) == own), None)
        return session_limits.limit_violation(asking, others, bounds) if asking is not None else None

    def _is_refused(self, obj: Object) -> bool:
        """Whether a session over a limit asks for too much itself, so that it waits for no place."""
        return is_over_limit(obj) and isinstance(self._resolution(SqlSession.parse(obj))[1], Violation)

    def _is_terminating(self, namespace: str) -> bool:
        obj = self._rt.store.get(NAMESPACE, "", namespace)
        return obj is not None and obj["metadata"].get("deletionTimestamp") is not None

    # --- tell

    def _announce(self, key: Key, obj: Object, before: SqlSession, decision: Decision) -> None:
        status = decision.status
        for event in decision.events:
            self._rt.events.emit(obj, event.type, event.reason, event.message)
            if event.reason is Reason.FINALIZER_DEADLINE:
                self._rt.metrics.orphans.labels(SESSION).inc()
        if status.phase is before.status.phase:
            return
        ready = find_condition(status.conditions, ConditionType.READY)
        fields = {"kind": SESSION, "namespace": key.namespace, "name": key.name}
        fields |= {"phase": status.phase or "", "reason": ready.reason if ready else ""}
        logger.info("session changed phase", extra={"fields": fields})
        if status.phase is Phase.READY and status.driver is not None and status.driver.start_time is not None:
            self._rt.metrics.started.observe((self._rt.clock() - status.driver.start_time).total_seconds())
