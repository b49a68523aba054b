"""Objects of every kind in every phase, as the operator's own decisions about conditions write them, and what tools must say of each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sparksql.api.base import ApiObject
from sparksql.api.conditions import merge_conditions
from sparksql.api.names import API_VERSION
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase, SqlSavepoint, SqlSavepointStatus
from sparksql.api.session import SessionPhase, SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.api.statement import SqlStatement, StatementPhase
from sparksql.domain import session_class as classes
from sparksql.domain.conditions import savepoint_standing, stated
from sparksql.domain.session import status as sessions
from sparksql.domain.statement import status as statements

Object = dict[str, Any]
NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
METADATA = {"name": "one", "namespace": "team-a", "uid": "u", "generation": 3, "creationTimestamp": NOW.isoformat()}
CURRENT, IN_PROGRESS, FAILED = ("Current", "Healthy"), ("InProgress", "Progressing"), ("Failed", "Degraded")


@dataclass(frozen=True)
class Case:
    """An object, and what kstatus and Argo CD must call it."""

    name: str
    object: Object
    kstatus: str
    argo: str


def cases() -> list[Case]:
    found = [*_statements(), *_streams(), *_sessions(), *_savepoints(), *_classes()]
    return [Case(name, obj, *verdict) for name, obj, verdict in (*found, *_unseen(found))]


def _document(obj: ApiObject, status: Any) -> Object:
    body = obj.replace(status=status).to_dict()
    return {"apiVersion": API_VERSION, "kind": obj.KIND, **body}


def _statement(desired: str = "Running", **spec: Any) -> SqlStatement:
    body = {"sql": "SELECT 1", "sessionRef": {"name": "s"}, "desiredState": desired, **spec}
    return SqlStatement.parse({"metadata": METADATA, "spec": body, "status": {"run": 1, "attempt": 1}})


def _statements() -> list[tuple[str, Object, tuple[str, str]]]:
    verdicts = {
        StatementPhase.INITIALIZED: IN_PROGRESS,
        StatementPhase.PENDING: IN_PROGRESS,
        StatementPhase.RUNNING: IN_PROGRESS,
        StatementPhase.FINISHED: CURRENT,
        StatementPhase.CANCELED: FAILED,
        StatementPhase.CLOSED: FAILED,
        StatementPhase.ERROR: FAILED,
        StatementPhase.TIMED_OUT: FAILED,
    }
    made = [(f"statement {phase}", _advanced(_statement(), phase), verdict) for phase, verdict in verdicts.items()]
    return [*made, ("statement Canceled by wish", _advanced(_statement("Canceled"), StatementPhase.CANCELED), CURRENT)]


def _advanced(obj: SqlStatement, phase: StatementPhase, reason: Reason = Reason.PENDING, **updates: Any) -> Object:
    return _document(obj, statements.with_phase(obj, NOW, phase, reason, "why", **updates))


def _streams() -> list[tuple[str, Object, tuple[str, str]]]:
    runs, rests = _statement(streaming={}), _statement("Stopped", streaming={})
    at_work = {"reason": Reason.RUNNING, "start_time": NOW - timedelta(seconds=1)}
    silent = {"reason": Reason.RUNNING, "start_time": NOW - timedelta(days=1)}
    canceled = _statement("Canceled", streaming={})
    return [
        ("stream Initialized", _advanced(runs, StatementPhase.INITIALIZED), IN_PROGRESS),
        ("stream Pending", _advanced(runs, StatementPhase.PENDING), IN_PROGRESS),
        ("stream Running well", _advanced(runs, StatementPhase.RUNNING, **at_work), CURRENT),
        ("stream Running badly", _advanced(runs, StatementPhase.RUNNING, **silent), IN_PROGRESS),
        ("stream being stopped", _advanced(rests, StatementPhase.RUNNING, Reason.CANCELING), IN_PROGRESS),
        ("stream Stopped by wish", _advanced(rests, StatementPhase.STOPPED, Reason.STOPPED_BY_USER), CURRENT),
        ("stream about to go on", _advanced(runs, StatementPhase.STOPPED, Reason.STOPPED_BY_USER), IN_PROGRESS),
        (
            "stream that a change does not fit",
            _advanced(runs, StatementPhase.RUNNING, Reason.STATE_INCOMPATIBLE, stalled=True),
            FAILED,
        ),
        ("stream parked", _advanced(runs, StatementPhase.STOPPED, Reason.STATE_INCOMPATIBLE, stalled=True), FAILED),
        ("stream Canceled by wish", _advanced(canceled, StatementPhase.CANCELED), CURRENT),
        ("stream Error", _advanced(runs, StatementPhase.ERROR), FAILED),
    ]


def _sessions() -> list[tuple[str, Object, tuple[str, str]]]:
    obj = SqlSession.parse({"metadata": METADATA, "spec": {}})
    verdicts = {
        SessionPhase.PENDING: IN_PROGRESS,
        SessionPhase.STARTING: IN_PROGRESS,
        SessionPhase.DRAINING: IN_PROGRESS,
        SessionPhase.READY: CURRENT,
        SessionPhase.HIBERNATED: CURRENT,
        SessionPhase.STOPPED: CURRENT,
        SessionPhase.CLOSED: CURRENT,
        SessionPhase.FAILED: FAILED,
    }
    made = [
        (f"session {phase}", _document(obj, sessions.with_phase(obj, NOW, phase, Reason.PENDING, "why")), verdict)
        for phase, verdict in verdicts.items()
    ]
    refused = sessions.with_phase(obj, NOW, SessionPhase.PENDING, Reason.CLASS_NOT_FOUND, "why", stalled=True)
    # It heals by itself, so kstatus goes on waiting; Argo CD shows it to a person at once.
    return [*made, ("session that needs a person", _document(obj, refused), (IN_PROGRESS[0], FAILED[1]))]


def _savepoints() -> list[tuple[str, Object, tuple[str, str]]]:
    obj = SqlSavepoint.parse({"metadata": METADATA, "spec": {"statementRef": {"name": "st"}}})
    verdicts = {
        SavepointPhase.PENDING: IN_PROGRESS,
        SavepointPhase.IN_PROGRESS: IN_PROGRESS,
        SavepointPhase.COMPLETED: CURRENT,
        SavepointPhase.FAILED: FAILED,
        SavepointPhase.ABANDONED: FAILED,
    }
    found = []
    for phase, verdict in verdicts.items():
        standing, work = savepoint_standing(phase)
        conditions = merge_conditions((), stated(standing, Reason.PENDING, "why", work), generation=3, now=NOW)
        status = SqlSavepointStatus(observed_generation=3, phase=phase, conditions=conditions)
        found.append((f"savepoint {phase}", _document(obj, status), verdict))
    return found


def _classes() -> list[tuple[str, Object, tuple[str, str]]]:
    plain = SqlSessionClass.parse({"metadata": METADATA, "spec": {"image": "i"}})
    pooled = SqlSessionClass.parse(
        {"metadata": METADATA, "spec": {"image": "i", "warmPool": {"size": 1, "namespaces": ["a"]}}}
    )
    situation = classes.PoolSituation()
    return [
        ("class", _document(plain, classes.decide(plain, NOW, situation).status), CURRENT),
        (
            "class with a pool that is being filled",
            _document(pooled, classes.decide(pooled, NOW, situation).status),
            CURRENT,
        ),
    ]


def _unseen(found: list[tuple[str, Object, tuple[str, str]]]) -> list[tuple[str, Object, tuple[str, str]]]:
    """Objects that the operator has not looked at: new ones, and each of the above with a newer spec."""
    by_kind = {obj["kind"]: obj for _, obj, _ in found}
    new = [(f"new {kind}", {**obj, "status": {"observedGeneration": -1}}, IN_PROGRESS) for kind, obj in by_kind.items()]
    changed = [
        (f"{name}, changed since", {**obj, "metadata": {**obj["metadata"], "generation": 4}}, IN_PROGRESS)
        for name, obj, _ in found
    ]
    return [*new, *changed]
