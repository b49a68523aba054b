"""A session as its statements and savepoints see it: its phase, and the driver that can work for them now."""

from __future__ import annotations

from sparksql.api.conditions import ConditionStatus, ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase, SqlSession
from sparksql.cache.indexes import SESSION
from sparksql.controllers.context import ControllerContext
from sparksql.domain.session.versions import incompatibility
from sparksql.domain.statement.snapshot import Driver, SessionFacts
from sparksql.engine.key import Key
from sparksql.wire.control import GatewayState


def session_facts(rt: ControllerContext, session: SqlSession) -> SessionFacts:
    """Facts of a session; its driver only while its gateway serves and is the one that the status knows."""
    status = session.status
    key = Key(SESSION, session.metadata.namespace, session.metadata.name)
    driver, known = None, status.driver
    info = rt.drivers.info(key)
    incompatible = incompatibility(info) if status.phase is SessionPhase.READY and info is not None else None
    serves = status.phase is SessionPhase.READY and info is not None and info.state is GatewayState.READY
    if (
        serves
        and incompatible is None
        and info is not None
        and known is not None
        and known.pod_name
        and known.pod_uid
        and known.boot_id
    ):
        same = rt.drivers.followed_pod(key) == known.pod_uid and info.boot_id == known.boot_id
        if same:
            driver = Driver(known.pod_name, known.pod_uid, known.boot_id, known.unconfirmed, info.compares_states)
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    problem = None
    if stalled is not None and stalled.status is ConditionStatus.TRUE:
        problem = (Reason(stalled.reason), stalled.message)
    ready = find_condition(status.conditions, ConditionType.READY)
    queue = ready.message if ready is not None and ready.reason == Reason.WAITING_IN_QUEUE else None
    deleting = session.metadata.deletion_timestamp is not None
    driver = None if deleting else driver
    return SessionFacts(session.metadata.name, status.phase, deleting, driver, problem, queue, incompatible)
