"""Statements, sessions, classes and snapshots for tests of the domain: each complete and ordinary until told otherwise.

`fold` does what a controller does with a decision: the status that was decided becomes the object's status.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sparksql.api.conditions import find_condition
from sparksql.api.session import SessionPhase, SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.api.settings import SessionSettings
from sparksql.api.statement import SqlStatement
from sparksql.domain.admission import Turn
from sparksql.domain.dependencies import Met
from sparksql.domain.session import decide as session_decide
from sparksql.domain.session import snapshot as session_snapshot
from sparksql.domain.session.resolve import Resolved, resolve
from sparksql.domain.statement import decision as statement_decision
from sparksql.domain.statement import snapshot as statement_snapshot
from sparksql.domain.statement.snapshot import Driver, Inputs, SessionFacts, Settings
from sparksql.domain.violation import Violation
from sparksql.wire.control import GatewayInfo, GatewayState, OperationState, OperationView

NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
UID = "6f0c2a9e-0000-4000-8000-000000000001"
SQL = "SELECT 1"
POD_NAME, POD_UID, BOOT = "analytics-driver-1", "pod-uid-1", "boot-1"
DRIVER = Driver(POD_NAME, POD_UID, BOOT)
READY = SessionFacts("analytics", SessionPhase.READY, driver=DRIVER)
STARTING = SessionFacts("analytics", SessionPhase.STARTING)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


# --- statements


def statement(status: dict[str, Any] | None = None, *, deleted: datetime | None = None, **spec: Any) -> SqlStatement:
    """A statement of session `analytics`; `spec` uses the API's field names, with `session` it has one of its own."""
    chosen = {} if "session" in spec else {"sessionRef": {"name": "analytics"}}
    metadata = {"name": "daily", "namespace": "team-a", "uid": UID, "generation": 3, "creationTimestamp": NOW}
    if deleted is not None:
        metadata["deletionTimestamp"] = deleted
    body = {"metadata": metadata, "spec": {"sql": SQL, **chosen, **spec}}
    return SqlStatement.parse(body if status is None else {**body, "status": status})


def asked(
    obj: SqlStatement | None = None, session: SessionFacts | None = READY, **facts: Any
) -> statement_snapshot.Snapshot:
    """A snapshot in which nothing hinders the statement: its driver serves and it is its turn."""
    given: dict[str, Any] = {
        "now": NOW,
        "settings": Settings(),
        "dependencies": Met(),
        "turn": Turn(granted=True),
        "inputs": Inputs(SQL),
        **facts,
    }
    return statement_snapshot.Snapshot(statement=obj or statement(), session=session, **given)


def fold(obj: SqlStatement, decision: statement_decision.Decision) -> SqlStatement:
    return obj.replace(status=decision.status)


def spoken(obj: SqlStatement, **spec: Any) -> SqlStatement:
    """The statement after its user has changed the spec (fields by API name)."""
    return obj.replace(spec=obj.spec.parse({**obj.spec.to_dict(), **spec}))


def view(obj: SqlStatement, state: OperationState, **fields: Any) -> OperationView:
    return OperationView(operation_id=obj.status.operation_id or "", boot_id=BOOT, seq=1, state=state, **fields)


def conditions_of(status: Any) -> dict[str, tuple[str, str]]:
    """Condition type -> (status, reason)."""
    return {c.type: (str(c.status), c.reason) for c in status.conditions}


def reason_of(status: Any) -> str:
    ready = find_condition(status.conditions, "Ready")
    return ready.reason if ready else ""


# --- sessions


def session_class(**spec: Any) -> SqlSessionClass:
    return SqlSessionClass.parse(
        {"metadata": {"name": "standard", "uid": "class-uid"}, "spec": {"image": "registry.example/session:1", **spec}}
    )


def session(status: dict[str, Any] | None = None, *, deleted: datetime | None = None, **spec: Any) -> SqlSession:
    metadata = {"name": "analytics", "namespace": "team-a", "uid": UID, "generation": 3, "creationTimestamp": NOW}
    if deleted is not None:
        metadata["deletionTimestamp"] = deleted
    body = {"metadata": metadata, "spec": {"className": "standard", **spec}}
    return SqlSession.parse(body if status is None else {**body, "status": status})


def resolved(obj: SqlSession, klass: SqlSessionClass | None = None) -> Resolved | Violation:
    return resolve(obj, klass or session_class(), {}, SessionSettings())


def regarded(obj: SqlSession | None = None, **facts: Any) -> session_snapshot.Snapshot:
    """A snapshot of a session whose class allows what it asks for."""
    obj = obj or session()
    return session_snapshot.Snapshot(session=obj, **{"now": NOW, "resolution": resolved(obj), **facts})


def settled(obj: SqlSession, decision: session_snapshot.Decision) -> SqlSession:
    return obj.replace(status=decision.status)


def respoken(obj: SqlSession, **spec: Any) -> SqlSession:
    """The session after its user has changed the spec (fields by API name)."""
    return obj.replace(spec=obj.spec.parse({**obj.spec.to_dict(), **spec}))


def removed(obj: Any, at: datetime) -> Any:
    """The object after somebody has deleted it."""
    return obj.replace(metadata=obj.metadata.replace(deletion_timestamp=at))


def pod(obj: SqlSession, **facts: Any) -> session_snapshot.PodFacts:
    """The pod of the session's current driver."""
    driver = obj.status.driver
    assert driver is not None
    assert driver.pod_name is not None
    uid = driver.pod_uid or f"pod-uid-{driver.incarnation}"
    return session_snapshot.PodFacts(driver.pod_name, uid, **{"created": driver.start_time or NOW, **facts})


def gateway(state: GatewayState = GatewayState.READY, **fields: Any) -> GatewayInfo:
    return GatewayInfo(**{"boot_id": BOOT, "state": state, "start_time": NOW, **fields})


def starting(obj: SqlSession | None = None, now: datetime = NOW) -> SqlSession:
    """The session whose driver has just been asked for."""
    obj = obj or session()
    return settled(obj, session_decide.decide(regarded(obj, now=now)))


def ready(obj: SqlSession | None = None, now: datetime = NOW) -> SqlSession:
    """The session whose driver serves since `now`."""
    obj = starting(obj, now)
    return settled(obj, session_decide.decide(regarded(obj, now=now, pod=pod(obj), gateway=gateway())))


def draining(obj: SqlSession, now: datetime = NOW) -> SqlSession:
    """A ready session that has begun to drain for the wish in its spec."""
    facts = {"now": now, "pod": pod(obj), "gateway": gateway()}
    return settled(obj, session_decide.decide(regarded(obj, **facts)))
