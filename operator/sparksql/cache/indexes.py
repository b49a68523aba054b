"""Indexes of the store and keys of related objects: pure readings of raw objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sparksql.api.execution import StatementMode
from sparksql.api.names import LABEL_SESSION, dedicated_session_name
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase
from sparksql.api.session import SessionDesiredState, SessionPhase
from sparksql.api.statement import StatementPhase
from sparksql.domain.session.session_limits import SessionQueueEntry
from sparksql.domain.statement.phases import ENDED
from sparksql.engine.key import Key
from sparksql.engine.store import Index

Object = dict[str, Any]

STATEMENT, SESSION, CLASS, SAVEPOINT = "SqlStatement", "SqlSession", "SqlSessionClass", "SqlSavepoint"
POD, NAMESPACE = "Pod", "Namespace"

LIVE_BY_SESSION = "live statements by session"
BY_OPERATION = "statements by operation"
BY_DEPENDENCY = "statements by dependency"
SESSIONS_BY_NAMESPACE = "sessions by namespace"
SESSIONS_OVER_LIMIT = "sessions that a limit refuses"
STATEMENTS_BY_NAMESPACE = "statements by namespace"
SAVEPOINTS_BY_STATEMENT = "savepoints by statement"
OPEN_SAVEPOINTS_BY_NAMESPACE = "open savepoints by namespace"
STATEMENTS_BY_SAVEPOINT = "statements by the savepoint they start from"


def phase_of(obj: Object) -> str | None:
    phase: str | None = obj.get("status", {}).get("phase")
    return phase


def has_ended(obj: Object) -> bool:
    phase = phase_of(obj)
    return phase is not None and phase in {p.value for p in ENDED}


def is_stream(statement: Object) -> bool:
    """As `domain.statement.streaming.is_stream`, of a raw object."""
    spec = statement["spec"]
    return spec.get("streaming") is not None and spec.get("mode", StatementMode.EXECUTE) == StatementMode.EXECUTE


def has_committed(statement: Object | None) -> bool:
    """Whether a streaming statement has committed a batch in its current run."""
    streaming = (statement or {}).get("status", {}).get("streaming", {})
    return streaming.get("committedBatchId") is not None


def session_name_of(statement: Object) -> str:
    """Name of the session that a statement uses: the one it names or the one it owns."""
    spec, metadata = statement["spec"], statement["metadata"]
    ref = spec.get("sessionRef")
    return str(ref["name"]) if ref else dedicated_session_name(metadata["name"], metadata["uid"])


def scoped(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def key_of(kind: str, obj: Object) -> Key:
    return Key(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _live_by_session(obj: Object) -> Iterable[str]:
    if not has_ended(obj):
        yield scoped(obj["metadata"]["namespace"], session_name_of(obj))


def _by_operation(obj: Object) -> Iterable[str]:
    status = obj.get("status", {})
    if status.get("operationId") and status.get("phase") in (StatementPhase.PENDING, StatementPhase.RUNNING):
        yield status["operationId"]


def _by_dependency(obj: Object) -> Iterable[str]:
    return [scoped(obj["metadata"]["namespace"], d["name"]) for d in obj["spec"].get("dependsOn", ())]


def _by_namespace(obj: Object) -> Iterable[str]:
    yield obj["metadata"]["namespace"]


def start_name(statement: Object | None) -> str | None:
    """Name of the savepoint that a statement's `startFrom` names."""
    streaming = (statement or {}).get("spec", {}).get("streaming") or {}
    start = streaming.get("startFrom")
    return str(start["savepointRef"]["name"]) if start else None


def _by_savepoint(obj: Object) -> Iterable[str]:
    name = start_name(obj)
    if name is not None:
        yield scoped(obj["metadata"]["namespace"], name)


def _by_saved_statement(obj: Object) -> Iterable[str]:
    yield scoped(obj["metadata"]["namespace"], obj["spec"]["statementRef"]["name"])


def _open_by_namespace(obj: Object) -> Iterable[str]:
    """Those that something else may set in motion: not over, or on their way out."""
    if not is_over(obj) or obj["metadata"].get("deletionTimestamp"):
        yield obj["metadata"]["namespace"]


def is_over(savepoint: Object) -> bool:
    phase = phase_of(savepoint)
    return phase is not None and SavepointPhase(phase).is_terminal


def contender(session: Object, unnamed: str, *, refused: bool) -> SessionQueueEntry:
    """A session as limits of sessions see it; `unnamed` is the class of those that name none, `refused` tells that it may not
    start as its spec is, whatever place there is."""
    metadata, spec, phase = session["metadata"], session["spec"], phase_of(session)
    return SessionQueueEntry(
        namespace=metadata["namespace"],
        name=metadata["name"],
        created=metadata["creationTimestamp"],
        class_name=spec.get("className") or unnamed,
        phase=SessionPhase(phase) if phase is not None else None,
        held_up=_is_stalled(session) and (refused or not is_over_limit(session)),
        wanted=spec.get("desiredState", SessionDesiredState.RUNNING) == SessionDesiredState.RUNNING
        and not metadata.get("deletionTimestamp"),
    )


def is_over_limit(session: Object) -> bool:
    """Whether a limit keeps it from starting: of sessions, or of what one session asks for."""
    return (
        phase_of(session) == SessionPhase.PENDING
        and _condition(session, "Ready").get("reason") == Reason.LIMIT_EXCEEDED
    )


def _over_limit(obj: Object) -> Iterable[str]:
    if is_over_limit(obj):
        yield ""


def _is_stalled(obj: Object) -> bool:
    return _condition(obj, "Stalled").get("status") == "True"


def _condition(obj: Object, type_: str) -> Object:
    found = (c for c in obj.get("status", {}).get("conditions", ()) if c.get("type") == type_)
    return next(found, {})


INDEXES: Mapping[str, Index] = {
    LIVE_BY_SESSION: (STATEMENT, _live_by_session),
    BY_OPERATION: (STATEMENT, _by_operation),
    BY_DEPENDENCY: (STATEMENT, _by_dependency),
    SESSIONS_BY_NAMESPACE: (SESSION, _by_namespace),
    SESSIONS_OVER_LIMIT: (SESSION, _over_limit),
    STATEMENTS_BY_NAMESPACE: (STATEMENT, _by_namespace),
    STATEMENTS_BY_SAVEPOINT: (STATEMENT, _by_savepoint),
    SAVEPOINTS_BY_STATEMENT: (SAVEPOINT, _by_saved_statement),
    OPEN_SAVEPOINTS_BY_NAMESPACE: (SAVEPOINT, _open_by_namespace),
}


def session_key_of_pod(pod: Object) -> Key | None:
    name = pod["metadata"].get("labels", {}).get(LABEL_SESSION)
    return Key(SESSION, pod["metadata"]["namespace"], name) if name else None
