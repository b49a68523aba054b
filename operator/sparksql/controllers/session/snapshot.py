"""A session as its statements and savepoints see it: its phase, and the driver that can work for them now."""

from __future__ import annotations

from sparksql.api.conditions import ConditionStatus, ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase, SqlSession
from sparksql.cache.indexes import SESSION
from sparksql.controllers.context import ControllerContext
from sparksql.domain.session.executors import executors_awaited
from sparksql.domain.session.versions import incompatibility
from sparksql.domain.statement.snapshot import Driver, SessionFacts
from sparksql.engine.key import Key
from sparksql.wire.control import GatewayInfo, GatewayState


def session_snapshot(context: ControllerContext, session: SqlSession) -> SessionFacts:
    """Returns what work of the session decides by; its driver only while that can take work."""
    metadata, status = session.metadata, session.status
    info = context.drivers.info(Key(SESSION, metadata.namespace, metadata.name))
    incompatible = incompatibility(info) if status.phase is SessionPhase.READY and info is not None else None
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    is_stalled = stalled is not None and stalled.status is ConditionStatus.TRUE
    ready = find_condition(status.conditions, ConditionType.READY)
    return SessionFacts(
        metadata.name,
        status.phase,
        metadata.is_deleting,
        _driver(context, session, info) if info is not None and incompatible is None else None,
        (Reason(stalled.reason), stalled.message) if stalled is not None and is_stalled else None,
        ready.message if ready is not None and ready.reason == Reason.WAITING_IN_QUEUE else None,
        executors_awaited(status),
        context.terminations.executor_failures(status.driver.pod_uid or "", context.clock()) if status.driver else (),
        incompatible,
    )


def _driver(context: ControllerContext, session: SqlSession, info: GatewayInfo) -> Driver | None:
    """The driver, while its gateway serves and is the one that the status names."""
    driver, is_ready = session.status.driver, session.status.phase is SessionPhase.READY
    if session.metadata.is_deleting or not is_ready or info.state is not GatewayState.READY or driver is None:
        return None
    if not (driver.pod_name and driver.pod_uid and driver.boot_id) or info.boot_id != driver.boot_id:
        return None
    if context.drivers.followed_pod(Key(SESSION, session.metadata.namespace, session.metadata.name)) != driver.pod_uid:
        return None
    return Driver(
        driver.pod_name,
        driver.pod_uid,
        driver.boot_id,
        driver.unconfirmed,
        compares_states=info.compares_states,
        previews_states=info.previews_states,
        makes_states=info.makes_states,
        plans_streams=info.plans_streams,
    )
