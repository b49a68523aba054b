"""Identity of an attempt and of a statement's text."""

from __future__ import annotations

import hashlib
import uuid

OPERATION_NAMESPACE = uuid.UUID("6f0c1a52-3d6b-5e0c-9c58-0b7a2f3c8d11")


def operation_id(uid: str, run: int, attempt: int) -> str:
    """Returns the uuid5 of (UID, run, attempt).

    The same attempt always has the same id, so a gateway can refuse to run it twice.
    """
    return str(uuid.uuid5(OPERATION_NAMESPACE, f"{uid}/{run}/{attempt}"))


def sql_hash(sql: str) -> str:
    """Returns the fingerprint of a statement's text; kept in status so that a later attempt cannot run another text."""
    return hashlib.sha256(sql.encode()).hexdigest()[:32]
