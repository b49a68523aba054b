"""Sessions and the snapshots to decide on: their class allows what they ask for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sparksql.api.session import SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.api.settings import SessionSettings
from sparksql.domain.session.decide import decide
from sparksql.domain.session.resolve import Resolved, resolve
from sparksql.domain.session.snapshot import PodFacts, Snapshot
from sparksql.domain.violation import Violation
from sparksql.wire.control import GatewayInfo, GatewayState
from tests.unit.domain.builders.classes import session_class
from tests.unit.domain.builders.objects import NOW, with_status

SESSION_UID = "6f0c2a9e-0000-4000-8000-000000000001"
BOOT = "boot-1"


def session(status: dict[str, Any] | None = None, *, deleted: datetime | None = None, **spec: Any) -> SqlSession:
    """Session `analytics`; `spec` uses the API's field names."""
    metadata = {
        "name": "analytics",
        "namespace": "team-a",
        "uid": SESSION_UID,
        "generation": 3,
        "creationTimestamp": NOW,
    }
    if deleted is not None:
        metadata["deletionTimestamp"] = deleted
    body = {"metadata": metadata, "spec": {"className": "standard", **spec}}
    return SqlSession.parse(body if status is None else {**body, "status": status})


def resolved(obj: SqlSession, klass: SqlSessionClass | None = None) -> Resolved | Violation:
    return resolve(obj, klass or session_class(), {}, SessionSettings())


def session_snapshot(obj: SqlSession | None = None, **facts: Any) -> Snapshot:
    """A session whose class allows what it asks for."""
    obj = obj or session()
    return Snapshot(session=obj, **{"now": NOW, "resolution": resolved(obj), **facts})


def pod(obj: SqlSession, **facts: Any) -> PodFacts:
    """The pod of the session's current driver."""
    driver = obj.status.driver
    assert driver is not None
    assert driver.pod_name is not None
    uid = driver.pod_uid or f"pod-uid-{driver.incarnation}"
    return PodFacts(driver.pod_name, uid, **{"created": driver.start_time or NOW, **facts})


def gateway(state: GatewayState = GatewayState.READY, **fields: Any) -> GatewayInfo:
    return GatewayInfo(**{"boot_id": BOOT, "state": state, "start_time": NOW, **fields})


def starting(obj: SqlSession | None = None, now: datetime = NOW) -> SqlSession:
    """The session whose driver has just been asked for."""
    obj = obj or session()
    return with_status(obj, decide(session_snapshot(obj, now=now)))


def ready(obj: SqlSession | None = None, now: datetime = NOW) -> SqlSession:
    """The session whose driver serves since `now`."""
    obj = starting(obj, now)
    return with_status(obj, decide(session_snapshot(obj, now=now, pod=pod(obj), gateway=gateway())))


def draining(obj: SqlSession, now: datetime = NOW) -> SqlSession:
    """A ready session that has begun to drain for the wish in its spec."""
    facts = {"now": now, "pod": pod(obj), "gateway": gateway()}
    return with_status(obj, decide(session_snapshot(obj, **facts)))
