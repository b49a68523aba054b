"""Identity of an attempt, of a statement's text, and of the session that it runs in."""

from __future__ import annotations

import hashlib
import uuid

from sparksql.api.names import dedicated_session_name
from sparksql.api.statement import SqlStatement

OPERATION_NAMESPACE = uuid.UUID("6f0c1a52-3d6b-5e0c-9c58-0b7a2f3c8d11")


def operation_id(uid: str, run: int, attempt: int) -> str:
    """Returns the uuid5 of (UID, run, attempt).

    The same attempt always has the same id, so a gateway can refuse to run it twice.
    """
    return str(uuid.uuid5(OPERATION_NAMESPACE, f"{uid}/{run}/{attempt}"))


def sql_hash(sql: str) -> str:
    """Returns the fingerprint of a statement's text; kept in status so that a later attempt cannot run another text."""
    return hashlib.sha256(sql.encode()).hexdigest()[:32]


def session_name(statement: SqlStatement) -> str:
    """Returns the name of the session that a statement runs in: that of `sessionRef`, or of its dedicated one."""
    ref, metadata = statement.spec.session_ref, statement.metadata
    return ref.name if ref is not None else dedicated_session_name(metadata.name, metadata.uid)
