"""SqlSession: what it adds to a reconcile (`controllers.reconciler`).

The incarnation is in the status before its pod is made, so a crash between the two makes the same pod again, never a second
one.
"""

from __future__ import annotations

import logging
from typing import assert_never

from sparksql.api.conditions import ConditionType, find_condition
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession, SqlSessionStatus
from sparksql.cache.indexes import SESSION
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.reconciler import Again, Controller, Done, Outcome
from sparksql.controllers.session.driver import SessionChildren
from sparksql.controllers.session.gather import SessionGatherer
from sparksql.controllers.session.kept_state import KeptStates
from sparksql.domain.event import Event
from sparksql.domain.session.decide import decide
from sparksql.domain.session.resolve import Resolved
from sparksql.domain.session.snapshot import Command, Decision
from sparksql.domain.violation import Violation
from sparksql.drivers.client import GatewayError
from sparksql.engine.key import Key, log_extra
from sparksql.kube.client import Object

DRIVER_GRACE_SECONDS = 20  # contract: the driver drains on SIGTERM for at most so long

logger = logging.getLogger(__name__)


class SessionController(Controller[SqlSession, SqlSessionStatus, Command]):
    """Gives each session the driver that it is to have."""

    kind = SESSION

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._children = SessionChildren(context)
        self._kept = KeptStates(context)
        self._gatherer = SessionGatherer(context, self._children)

    def parse(self, obj: Object) -> SqlSession:
        """Returns the model of a raw SqlSession. Raises ValueError if the CRD would refuse it."""
        return SqlSession.parse(obj)

    async def decide(self, obj: Object, parsed: SqlSession, refusal: Violation | None) -> Decision:
        """Gathers the facts of the session and decides. Raises ApiError."""
        snapshot = await self._gatherer.gather(parsed, refusal)
        decision = decide(snapshot)
        warm, driver = snapshot.warm, decision.status.driver
        if warm is not None and driver is not None and driver.pod_uid == warm.pod_uid:
            self._children.pools.keep(parsed, warm.pod_uid)
        return decision

    def forget(self, key: Key) -> None:
        """Ends following the session's driver."""
        self._context.drivers.unfollow(key)

    def observe(self, before: SqlSession, status: SqlSessionStatus, events: tuple[Event, ...]) -> None:
        """Logs a change of phase; once the session is Ready, records the seconds since its driver's start."""
        if status.phase is before.status.phase:
            return
        ready = find_condition(status.conditions, ConditionType.READY)
        fields = {"phase": status.phase or "", "reason": ready.reason if ready else ""}
        logger.info("session changed phase", extra=log_extra(_key(before), **fields))
        if status.phase is Phase.READY and status.driver is not None and status.driver.start_time is not None:
            seconds = (self._context.clock() - status.driver.start_time).total_seconds()
            self._context.metrics.started.observe(seconds)

    async def act(self, command: Command, parsed: SqlSession) -> Outcome:
        """Starts, drains or deletes the driver, as `command` says. Raises ApiError, GatewayError."""
        match command:
            case Command.START_DRIVER:
                return await self._start(parsed)
            case Command.DRAIN_DRIVER:
                await self._drain(parsed)
            case Command.KEEP_STATE:
                if parsed.status.kept_state is not None:
                    await self._kept.keep(parsed, parsed.status.kept_state)
            case Command.DELETE_DRIVER:
                driver = parsed.status.driver
                if driver is not None and driver.pod_name is not None:
                    await self._children.delete_pod(parsed, driver, DRIVER_GRACE_SECONDS)
            case other:
                assert_never(other)
        return Done()

    async def _start(self, session: SqlSession) -> Outcome:
        """Makes the driver from the class as it is now, which is what a repetition after a crash does as well."""
        session_class, resolution = self._gatherer.resolve(session)
        if session_class is None or not isinstance(resolution, Resolved):
            return Done()
        violation = await self._children.start_driver(session, session_class, resolution)
        if violation is not None:
            return Again(violation)
        driver = session.status.driver
        is_news = (
            driver is not None and driver.pool_uid is not None and not self._context.drivers.followed_pod(_key(session))
        )
        return Again() if is_news else Done()  # a driver of a pool is followed at once: it is there

    async def _drain(self, session: SqlSession) -> None:
        """A driver that does not answer is asked again, until the deadline of the phase."""
        pod_uid = session.status.driver.pod_uid if session.status.driver else None
        client = self._context.drivers.client(pod_uid or "")
        if client is None or pod_uid is None:
            return
        try:
            self._context.drivers.update_info(pod_uid, await client.drain())
        except GatewayError as error:
            extra = log_extra(_key(session), error=type(error).__name__)
            logger.warning("request to drain the driver failed", extra=extra)


def _key(session: SqlSession) -> Key:
    return Key(SESSION, session.metadata.namespace, session.metadata.name)
