"""Indexes of the store and keys of related objects: pure readings of raw objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sparksql.cache.views import ObjectView, SavepointView, SessionView, StatementView
from sparksql.domain.ownership import CLASS_OWNER, SESSION_OWNER, driver_of, owner_name, owner_uid
from sparksql.engine.key import Key
from sparksql.engine.store import Index

Object = dict[str, Any]

STATEMENT, SESSION, CLASS, SAVEPOINT = "SqlStatement", "SqlSession", "SqlSessionClass", "SqlSavepoint"
POD, NAMESPACE = "Pod", "Namespace"
EXECUTOR = "Executor"  # a pod that a driver has made

LIVE_BY_SESSION = "live statements by session"
BY_OPERATION = "statements by operation"
BY_DEPENDENCY = "statements by dependency"
SESSIONS_BY_NAMESPACE = "sessions by namespace"
SESSIONS_OVER_LIMIT = "sessions that a limit refuses"
STATEMENTS_BY_NAMESPACE = "statements by namespace"
SAVEPOINTS_BY_STATEMENT = "savepoints by statement"
OPEN_SAVEPOINTS_BY_NAMESPACE = "open savepoints by namespace"
POOL_BY_CLASS = "pods that name a class as their owner, by its UID"
STATEMENTS_BY_SAVEPOINT = "statements by the savepoint they start from"
EXECUTORS_BY_DRIVER = "executors by the UID of the driver's pod"
BY_LOST_DRIVER = "statements by lost driver"


def scoped(namespace: str, name: str) -> str:
    """Returns the index value of a name in a namespace."""
    return f"{namespace}/{name}"


def key_of(kind: str, obj: Object) -> Key:
    """Returns the key of a raw object."""
    view = ObjectView(obj)
    return Key(kind, view.namespace, view.name)


def _by_namespace(obj: Object) -> Iterable[str]:
    yield ObjectView(obj).namespace


def _live_by_session(obj: Object) -> Iterable[str]:
    statement = StatementView(obj)
    if not statement.has_ended:
        yield scoped(statement.namespace, statement.session_name)


def _by_operation(obj: Object) -> Iterable[str]:
    statement = StatementView(obj)
    if statement.operation_id and statement.is_handed_over:
        yield statement.operation_id


def _by_lost_driver(obj: Object) -> Iterable[str]:
    statement = StatementView(obj)
    return [scoped(statement.namespace, pod) for pod in statement.lost_drivers]


def _by_dependency(obj: Object) -> Iterable[str]:
    statement = StatementView(obj)
    return [scoped(statement.namespace, name) for name in statement.depends_on]


def _by_savepoint(obj: Object) -> Iterable[str]:
    statement = StatementView(obj)
    if statement.start_from is not None:
        yield scoped(statement.namespace, statement.start_from)


def _by_saved_statement(obj: Object) -> Iterable[str]:
    savepoint = SavepointView(obj)
    yield scoped(savepoint.namespace, savepoint.statement_name)


def _open_by_namespace(obj: Object) -> Iterable[str]:
    """Those that something else may set in motion: not over, or on their way out."""
    savepoint = SavepointView(obj)
    if not savepoint.is_over or savepoint.is_deleting:
        yield savepoint.namespace


def _over_limit(obj: Object) -> Iterable[str]:
    if SessionView(obj).is_over_limit:
        yield ""


def _by_pool(obj: Object) -> Iterable[str]:
    if (owner := owner_uid(obj, CLASS_OWNER)) is not None:
        yield owner


def _by_driver(obj: Object) -> Iterable[str]:
    if (owner := driver_of(obj)) is not None:
        yield owner["uid"]


INDEXES: Mapping[str, Index] = {
    LIVE_BY_SESSION: (STATEMENT, _live_by_session),
    BY_OPERATION: (STATEMENT, _by_operation),
    BY_DEPENDENCY: (STATEMENT, _by_dependency),
    BY_LOST_DRIVER: (STATEMENT, _by_lost_driver),
    SESSIONS_BY_NAMESPACE: (SESSION, _by_namespace),
    SESSIONS_OVER_LIMIT: (SESSION, _over_limit),
    STATEMENTS_BY_NAMESPACE: (STATEMENT, _by_namespace),
    STATEMENTS_BY_SAVEPOINT: (STATEMENT, _by_savepoint),
    SAVEPOINTS_BY_STATEMENT: (SAVEPOINT, _by_saved_statement),
    OPEN_SAVEPOINTS_BY_NAMESPACE: (SAVEPOINT, _open_by_namespace),
    POOL_BY_CLASS: (POD, _by_pool),
    EXECUTORS_BY_DRIVER: (EXECUTOR, _by_driver),
}


def session_key_of_pod(pod: Object) -> Key | None:
    """Returns the session that a driver pod names as its owner; one of a warm pool has none. For wake-ups only."""
    name = owner_name(pod, SESSION_OWNER)
    return Key(SESSION, ObjectView(pod).namespace, name) if name else None


def class_key_of_pod(pod: Object) -> Key | None:
    """Returns the class that the driver pod of a warm pool names as its owner. For wake-ups only."""
    name = owner_name(pod, CLASS_OWNER)
    return Key(CLASS, "", name) if name else None
