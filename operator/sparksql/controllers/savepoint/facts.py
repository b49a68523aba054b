"""SqlSavepoints as a statement sees them, read from the store, and as the operator makes them: pure."""

from __future__ import annotations

from sparksql.api.names import ANNOTATION_TRIGGER, API_VERSION
from sparksql.api.savepoint import ReclaimPolicy, SavepointSource, SavepointTrigger, SqlSavepoint
from sparksql.api.statement import SqlStatement
from sparksql.cache.indexes import SAVEPOINT, SAVEPOINTS_BY_STATEMENT, scoped
from sparksql.domain.statement.snapshot import SavepointFacts
from sparksql.domain.statement.stream.spec import is_stream
from sparksql.engine.store import Object, Store


def savepoints_of(store: Store, statement: SqlStatement) -> tuple[SavepointFacts, ...]:
    """The savepoints that name a streaming statement."""
    if not is_stream(statement.spec):
        return ()
    named = store.by_index(SAVEPOINTS_BY_STATEMENT, scoped(statement.metadata.namespace, statement.metadata.name))
    return tuple(_facts(SqlSavepoint.parse(obj)) for obj in named)


def start_of(store: Store, statement: SqlStatement) -> SavepointFacts | None:
    """The savepoint that a statement's `startFrom` names, if there is one."""
    streaming = statement.spec.streaming
    if streaming is None or streaming.start_from is None:
        return None
    found = store.get(SAVEPOINT, statement.metadata.namespace, streaming.start_from.savepoint_ref.name)
    return _facts(SqlSavepoint.parse(found)) if found is not None else None


def trigger_of(savepoint: SqlSavepoint) -> SavepointTrigger:
    """Why it was made: the operator marks its own."""
    marked = savepoint.metadata.annotations.get(ANNOTATION_TRIGGER, "")
    known = {trigger.value: trigger for trigger in SavepointTrigger}
    return savepoint.status.trigger or known.get(marked, SavepointTrigger.MANUAL)


def savepoint_body(name: str, namespace: str, statement: str, trigger: SavepointTrigger) -> Object:
    """A SqlSavepoint that the operator makes of a statement: its data go with it."""
    return {
        "apiVersion": API_VERSION,
        "kind": SAVEPOINT,
        "metadata": {"name": name, "namespace": namespace, "annotations": {ANNOTATION_TRIGGER: trigger.value}},
        "spec": {"statementRef": {"name": statement}, "reclaimPolicy": ReclaimPolicy.DELETE.value},
    }


def _facts(savepoint: SqlSavepoint) -> SavepointFacts:
    metadata, status = savepoint.metadata, savepoint.status
    assert metadata.creation_timestamp is not None
    return SavepointFacts(
        name=metadata.name,
        phase=status.phase,
        created=metadata.creation_timestamp,
        trigger=trigger_of(savepoint),
        location=status.location,
        ended=status.completion_time,
        deleting=metadata.is_deleting,
        pinned=savepoint.spec.pinned,
        adopted=savepoint.spec.source is SavepointSource.EXISTING,
        message=status.message or "",
    )
