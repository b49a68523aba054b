"""Who refers to a savepoint: what retention keeps for, and what a deletion waits for. Pure readings of statements.

A statement refers to a savepoint by `startFrom` (the first start, a restore, the way back after an upgrade), by
`status.streaming.restoredFrom` (what its state began with) and by `status.streaming.lastSavepoint` (of its own: taken last, so
also the one that an upgrade or a stop took). It does so until it is gone, ended or not: `runNonce` may start it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparksql.api.savepoint import SqlSavepoint
from sparksql.api.statement import SqlStatement
from sparksql.domain.statement.stream.spec import streaming_of


def used_by(savepoint: SqlSavepoint, statements: Iterable[SqlStatement]) -> tuple[str, ...]:
    """Returns the names of the statements that refer to `savepoint`, sorted; `statements` are all of its namespace."""
    return tuple(sorted(s.metadata.name for s in statements if _refers(s, savepoint)))


def referenced(savepoints: Iterable[SqlSavepoint], statements: Sequence[SqlStatement]) -> frozenset[str]:
    """Returns the names of the savepoints that somebody refers to, as `retention.evaluate` wants them."""
    return frozenset(savepoint.metadata.name for savepoint in savepoints if used_by(savepoint, statements))


def _refers(statement: SqlStatement, savepoint: SqlSavepoint) -> bool:
    streaming, spec, name = streaming_of(statement), statement.spec.streaming, savepoint.metadata.name
    if statement.metadata.namespace != savepoint.metadata.namespace:
        return False
    if spec is not None and spec.start_from is not None and spec.start_from.savepoint_ref.name == name:
        return True
    is_own = savepoint.spec.statement_ref.name == statement.metadata.name
    if is_own and streaming.last_savepoint is not None and streaming.last_savepoint.name == name:
        return True
    location = savepoint.status.location or savepoint.spec.location
    if location is None or streaming.restored_from is None:
        return False
    return streaming.restored_from.rstrip("/") == location.rstrip("/")
