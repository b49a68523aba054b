"""Everything a decision about a session needs, read in one place. A pod is called gone only after a live read."""

from __future__ import annotations

from dataclasses import replace

from sparksql.api.conditions import ConditionStatus, ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.api.statement import StatementPhase
from sparksql.cache.classes import find_class
from sparksql.cache.indexes import (
    BY_LOST_DRIVER,
    EXECUTORS_BY_DRIVER,
    LIVE_BY_SESSION,
    OPEN_SAVEPOINTS_BY_NAMESPACE,
    SESSION,
    STATEMENT,
    scoped,
)
from sparksql.cache.models import session_of
from sparksql.cache.namespaces import is_terminating, labels_of
from sparksql.cache.views import SavepointView, SessionView, StatementView
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.session.driver import SessionChildren
from sparksql.controllers.session.executors import ExecutorChecks
from sparksql.controllers.session.pod_events import PodEvents
from sparksql.controllers.session.pods import pod_snapshot, read_pod
from sparksql.domain.session import session_limits
from sparksql.domain.session.local_mode import fields_not_applied
from sparksql.domain.session.resolve import Resolved, resolve
from sparksql.domain.session.snapshot import ExecutorFailure, PodEnd, PodFacts, Snapshot, WarmDriver
from sparksql.domain.session.warm import misfits, pool_resolution
from sparksql.domain.violation import Violation
from sparksql.engine.key import Key
from sparksql.engine.store import Store
from sparksql.kube.client import Object
from sparksql.wire.control import GatewayInfo

# Reasons that come up while the children are made, and stay until somebody acts.
_WITH_DRIVER = frozenset({Phase.STARTING, Phase.READY, Phase.DRAINING})
_START_BLOCKERS = frozenset({Reason.STORAGE_NOT_READY, Reason.INIT_SOURCE_NOT_FOUND, Reason.CHILD_CONFLICT})


class SessionGatherer:
    """Reads snapshots of sessions, and follows their drivers meanwhile: what these say is part of a snapshot."""

    def __init__(self, context: ControllerContext, children: SessionChildren) -> None:
        self._context = context
        self._children = children
        self._pod_events = PodEvents(context)
        self._checks = ExecutorChecks(context)

    async def gather(self, session: SqlSession, refusal: Violation | None) -> Snapshot:
        """Returns the snapshot of a session. `refusal` is what has just kept its driver from being made. Raises ApiError."""
        namespace = session.metadata.namespace
        session_class, resolution = self.resolve(session)
        pod = await self._pod(session)
        gateway = self._last_info(session, pod)
        await self._follow(session, pod)
        snapshot = Snapshot(
            now=self._context.clock(),
            session=session,
            resolution=resolution,
            pod=pod,
            gateway=gateway,
            warm=None,
            executor_refusal=None,
            pool_misfits=self._pool_misfits(session, session_class, resolution),
            pod_end=self._pod_end(session),
            **self._counts(session),
            limit_violation=self._limit_violation(session, session_class),
            namespace_terminating=is_terminating(self._context.store, namespace),
            start_blocker=refusal or await self._start_blocker(session, resolution),
            deadlines=self._context.config.deadlines,
            max_restarts=self._context.config.max_driver_restarts,
            front=self._context.front_host,
            not_applied=fields_not_applied(session, session_class) if self._context.local_mode else (),
            executors=await self._executors(session),
            executor_failures=self._executor_failures(session),
        )
        snapshot = replace(snapshot, executor_refusal=await self._checks.refusal(snapshot))
        # After all that is awaited, so that no other decision comes in between.
        return replace(snapshot, warm=self._warm(session, session_class, resolution))

    def resolve(self, session: SqlSession) -> tuple[SqlSessionClass | None, Resolved | Violation]:
        """Returns the session's class, and what a driver of the session is made from.

        The class is None if there is none. A Violation says why there cannot be a driver.
        """
        session_class = find_class(self._context.store, session.spec.class_name)
        if isinstance(session_class, Violation):
            return None, session_class
        labels = labels_of(self._context.store, session.metadata.namespace)
        return session_class, resolve(session, session_class, labels, self._context.config.defaults)

    def _warm(
        self, session: SqlSession, session_class: SqlSessionClass | None, resolution: Resolved | Violation
    ) -> WarmDriver | None:
        """A driver of the class's pool, for a session that is about to get one."""
        if session_class is None or not isinstance(resolution, Resolved) or session.status.phase in _WITH_DRIVER:
            return None
        return self._children.pools.find(session, session_class, resolution.effective)

    def _pool_misfits(
        self, session: SqlSession, session_class: SqlSessionClass | None, resolution: Resolved | Violation
    ) -> tuple[str, ...]:
        namespace = session.metadata.namespace
        if session_class is None or not isinstance(resolution, Resolved):
            return ()
        if not session_class.spec.warm_pool.size or namespace not in session_class.spec.warm_pool.namespaces:
            return ()
        labels = labels_of(self._context.store, namespace)
        pool = pool_resolution(session_class, namespace, "", labels, self._context.config.defaults)
        return misfits(resolution, pool) if isinstance(pool, Resolved) else ()

    async def _start_blocker(self, session: SqlSession, resolution: Resolved | Violation) -> Violation | None:
        """What kept the last driver from being made, if it still does."""
        stalled = find_condition(session.status.conditions, ConditionType.STALLED)
        is_stalled = stalled is not None and stalled.status is ConditionStatus.TRUE
        if stalled is None or not is_stalled or stalled.reason not in _START_BLOCKERS:
            return None
        waits = session.status.phase is Phase.PENDING and not session.metadata.is_deleting
        if not waits or isinstance(resolution, Violation):
            return None
        return await self._children.start_blocker(session, resolution)

    async def _pod(self, session: SqlSession) -> PodFacts | None:
        driver = session.status.driver
        if driver is None or driver.pod_name is None:
            return None
        metadata = session.metadata
        pod = await read_pod(self._context, metadata.namespace, driver.pod_name, driver.pod_uid, metadata.uid)
        return None if pod is None else await self._pod_events.explained(metadata.namespace, pod)

    def _pod_end(self, session: SqlSession) -> PodEnd | None:
        driver = session.status.driver
        if driver is None or driver.pod_uid is None:
            return None
        return self._context.terminations.end_of(driver.pod_uid)

    async def _executors(self, session: SqlSession) -> tuple[PodFacts, ...]:
        """The pods of the driver's executors; the Events of one that waits speak for all."""
        driver = session.status.driver
        if driver is None or driver.pod_uid is None:
            return ()
        stored = self._context.store.by_index(EXECUTORS_BY_DRIVER, driver.pod_uid)
        pods = sorted((pod_snapshot(each) for each in stored), key=lambda pod: (pod.started is not None, pod.created))
        if session.status.phase is not Phase.READY or not pods or pods[0].started is not None:
            return tuple(pods)
        return (await self._pod_events.explained(session.metadata.namespace, pods[0]), *pods[1:])

    def _executor_failures(self, session: SqlSession) -> tuple[ExecutorFailure, ...]:
        driver = session.status.driver
        if driver is None or driver.pod_uid is None:
            return ()
        return self._context.terminations.executor_failures(driver.pod_uid, self._context.clock())

    def _last_info(self, session: SqlSession, pod: PodFacts | None) -> GatewayInfo | None:
        """What the driver of `status.driver` last said of itself: asked before a dead one is let go."""
        driver, key = session.status.driver, _key(session)
        uid = pod.uid if pod is not None else driver.pod_uid if driver is not None else None
        is_followed = uid is not None and self._context.drivers.followed_pod(key) == uid
        return self._context.drivers.info(key) if is_followed else None

    async def _follow(self, session: SqlSession, pod: PodFacts | None) -> None:
        """Keeps the event stream of a living driver open; lets go of it once its pod is gone."""
        drivers, key = self._context.drivers, _key(session)
        if pod is None:
            drivers.unfollow(key)
            return
        if pod.ip is None or pod.ended is not None or drivers.followed_pod(key) == pod.uid:
            return
        address = await self._children.address(session, pod.ip, pod.uid)
        if address is not None:
            drivers.follow(key, address)

    def _counts(self, session: SqlSession) -> dict[str, int]:
        """The snapshot's counts of statements and savepoints.

        A statement waits for another session of its own when that is deleted.
        """
        metadata = session.metadata
        objects = self._context.store.by_index(LIVE_BY_SESSION, scoped(metadata.namespace, metadata.name))
        live = [StatementView(obj) for obj in objects]
        held = [each for each in live if not (metadata.is_deleting and each.owns_session)]
        running = [each for each in live if each.is_handed_over]
        stopped = [each for each in held if each.phase == StatementPhase.STOPPED]
        return {
            "running": len(running),
            "queued": sum(not each.is_handed_over and each.phase != StatementPhase.STOPPED for each in held),
            "streams": sum(each.is_stream for each in running),
            "resting": len(stopped),
            "in_hand": in_hand(self._context.store, session),
            "savepoints": self._savepoints(metadata.namespace, metadata.name),
        }

    def _savepoints(self, namespace: str, session: str) -> int:
        """Counts the savepoints that the session's driver makes, or that wait for one."""
        savepoints = map(SavepointView, self._context.store.by_index(OPEN_SAVEPOINTS_BY_NAMESPACE, namespace))
        return sum(each.needs_driver and self._session_of(each) == session for each in savepoints)

    def _session_of(self, savepoint: SavepointView) -> str | None:
        statement = self._context.store.get(STATEMENT, savepoint.namespace, savepoint.statement_name)
        return StatementView(statement).session_name if statement is not None else None

    def _limit_violation(self, session: SqlSession, session_class: SqlSessionClass | None) -> Violation | None:
        """The limit of sessions that leaves none for this one; asked only of one that has no driver yet."""
        if session_class is None or session.status.phase in (Phase.STARTING, Phase.READY, Phase.DRAINING):
            return None
        limits, most = session_class.spec.limits, self._context.config.limits.sessions
        bounds = session_limits.SessionLimits(most or None, limits.sessions, limits.sessions_per_namespace)
        if bounds == session_limits.SessionLimits():
            return None
        default = find_class(self._context.store, None)
        unnamed = "" if isinstance(default, Violation) else default.metadata.name
        entries = [self._queue_entry(obj, unnamed) for obj in self._context.store.list(SESSION)]
        identity = (session.metadata.namespace, session.metadata.name)
        own = next((entry for entry in entries if (entry.namespace, entry.name) == identity), None)
        return session_limits.limit_violation(own, entries, bounds) if own is not None else None

    def _queue_entry(self, obj: Object, unnamed: str) -> session_limits.SessionQueueEntry:
        """A session as limits of sessions see it; `unnamed` is the class of those that name none."""
        view = SessionView(obj)
        return session_limits.SessionQueueEntry(
            namespace=view.namespace,
            name=view.name,
            created=view.created,
            class_name=view.class_name or unnamed,
            phase=Phase(view.phase) if view.phase is not None else None,
            held_up=view.is_stalled and (not view.is_over_limit or self._is_too_large(obj)),
            wanted=view.is_wanted,
        )

    def _is_too_large(self, obj: Object) -> bool:
        """Whether a session over a limit asks for too much itself, so that it waits for no place."""
        return isinstance(self.resolve(session_of(obj))[1], Violation)


def in_hand(store: Store, session: SqlSession) -> int:
    """Counts the statements that the session's driver has in its hands, or had: one may have noted the loss first."""
    driver, metadata = session.status.driver, session.metadata
    if driver is None or driver.pod_name is None:
        return 0
    live = map(StatementView, store.by_index(LIVE_BY_SESSION, scoped(metadata.namespace, metadata.name)))
    bereft = store.by_index(BY_LOST_DRIVER, scoped(metadata.namespace, driver.pod_name))
    return len(bereft) + sum(each.is_handed_over and each.pod_uid == driver.pod_uid for each in live)


def _key(session: SqlSession) -> Key:
    return Key(SESSION, session.metadata.namespace, session.metadata.name)
