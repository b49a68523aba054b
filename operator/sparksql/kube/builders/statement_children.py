"""The objects of our own kinds that the operator makes for a statement: its dedicated session, and savepoints of it."""

from __future__ import annotations

from typing import Any

from sparksql.api.names import ANNOTATION_TRIGGER, API_VERSION, FINALIZER, dedicated_session_name
from sparksql.api.savepoint import ReclaimPolicy, SavepointTrigger, SqlSavepoint
from sparksql.api.session import SqlSession
from sparksql.api.statement import SqlStatement


def dedicated_session(statement: SqlStatement) -> dict[str, Any]:
    """Returns the SqlSession that `spec.session` of the statement describes. The statement owns it: both go together."""
    metadata, template = statement.metadata, statement.spec.session
    assert template is not None
    owner = {
        "apiVersion": API_VERSION,
        "kind": SqlStatement.KIND,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": SqlSession.KIND,
        "metadata": {
            "name": dedicated_session_name(metadata.name, metadata.uid),
            "namespace": metadata.namespace,
            "ownerReferences": [owner],
            "finalizers": [FINALIZER],  # at once, which saves the write that would put it on
        },
        "spec": template.to_dict(),
    }


def savepoint_of(statement: SqlStatement, name: str, trigger: SavepointTrigger) -> dict[str, Any]:
    """Returns a SqlSavepoint of the statement, marked with why it is made. Its data go with it."""
    metadata = statement.metadata
    return {
        "apiVersion": API_VERSION,
        "kind": SqlSavepoint.KIND,
        "metadata": {
            "name": name,
            "namespace": metadata.namespace,
            "annotations": {ANNOTATION_TRIGGER: trigger.value},
            "finalizers": [FINALIZER],
        },
        "spec": {"statementRef": {"name": metadata.name}, "reclaimPolicy": ReclaimPolicy.DELETE.value},
    }
