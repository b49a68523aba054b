"""SqlSavepoints as a statement sees them, read from the store. Pure."""

from __future__ import annotations

import re

from sparksql.api.names import ANNOTATION_TRIGGER
from sparksql.api.savepoint import SavepointSource, SavepointTrigger, SqlSavepoint
from sparksql.api.statement import SqlStatement
from sparksql.cache.indexes import SAVEPOINT, SAVEPOINTS_BY_STATEMENT, scoped
from sparksql.domain.statement.snapshot import Inputs, SavepointFacts
from sparksql.domain.statement.stream.spec import is_stream
from sparksql.engine.store import Store
from sparksql.wire.savepoints import STATE_FUNCTION

_NAMES = re.compile(r"[a-z0-9][a-z0-9.-]*")


def savepoints_of(store: Store, statement: SqlStatement) -> tuple[SavepointFacts, ...]:
    """Returns the savepoints that name a streaming statement, none for any other."""
    if not is_stream(statement.spec):
        return ()
    objects = store.by_index(SAVEPOINTS_BY_STATEMENT, scoped(statement.metadata.namespace, statement.metadata.name))
    return tuple(_snapshot(SqlSavepoint.parse(obj)) for obj in objects)


def start_of(store: Store, statement: SqlStatement) -> SavepointFacts | None:
    """Returns the savepoint that a statement's `startFrom` names, None if there is no such object."""
    streaming = statement.spec.streaming
    if streaming is None or streaming.start_from is None:
        return None
    obj = store.get(SAVEPOINT, statement.metadata.namespace, streaming.start_from.savepoint_ref.name)
    return _snapshot(SqlSavepoint.parse(obj)) if obj is not None else None


def named_in(store: Store, namespace: str, inputs: Inputs) -> tuple[SavepointFacts, ...] | None:
    """Returns the savepoints of a namespace that a text or its parameters may name; None if it calls no `savepoint_state`.

    The text is not parsed, a word of it that is a savepoint's name is enough: its driver takes those that the calls name.
    """
    if STATE_FUNCTION not in inputs.sql.lower():
        return None
    texts = (inputs.sql, *(parameter.value for parameter in inputs.parameters))
    names = sorted({name for text in texts for name in _NAMES.findall(text)})
    objects = (store.get(SAVEPOINT, namespace, name) for name in names)
    return tuple(_snapshot(SqlSavepoint.parse(obj)) for obj in objects if obj is not None)


def trigger_of(savepoint: SqlSavepoint) -> SavepointTrigger:
    """Returns why it was made: the operator marks its own."""
    annotation = savepoint.metadata.annotations.get(ANNOTATION_TRIGGER, "")
    triggers = {trigger.value: trigger for trigger in SavepointTrigger}
    return savepoint.status.trigger or triggers.get(annotation, SavepointTrigger.MANUAL)


def _snapshot(savepoint: SqlSavepoint) -> SavepointFacts:
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
        adopted=savepoint.spec.source is not SavepointSource.COPY,
        message=status.message or "",
        statement=savepoint.spec.statement_ref.name,
    )
