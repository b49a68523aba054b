"""Which statement of this driver goes on from which state, so that a second one is refused before it touches the first.

Spark tells queries by the id in their checkpoint. When a query starts whose id is one of an active query's, Spark stops that
other one without a word; each restart of the two then ends the other. Ids are one when a checkpoint's folder was copied by hand
to where another statement has its own: what the driver itself restores gets an id of its own. Belongs to all threads.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace

from sparksql.gateway.sql.errors import refusal
from sparksql.wire.control import ErrorReason

REMEDY = (
    "Stop one of them, or have this one begin with the state as a query of its own: a SqlSavepoint with source Existing and this "
    "location, named in spec.streaming.startFrom, and another restoreNonce"
)


@dataclass(frozen=True)
class Claim:
    """Tells what one run of a statement goes on from.

    `statement` is its namespace and name. `query_id` is None for a checkpoint that has none yet, until Spark has drawn
    it.
    """

    operation_id: str
    statement: str
    checkpoint: str
    query_id: str | None = None


class Claims:
    """Knows which statement goes on from which state. A claim is held until the query of its run has ended."""

    def __init__(self) -> None:
        self._held: dict[str, Claim] = {}
        self._lock = threading.Lock()

    def take(self, claim: Claim) -> None:
        """Holds a claim. Raises StatementError when another statement holds the same.

        An earlier run of one statement gives way to the next one, as drivers do.
        """
        with self._lock:
            for held in self._held.values():
                if held.statement != claim.statement:
                    _refuse(claim, held)
            self._held[claim.operation_id] = claim

    def identify(self, operation_id: str, query_id: str) -> None:
        """Notes the id that the query of a run has, which Spark has drawn if its checkpoint is new."""
        with self._lock:
            self._held[operation_id] = replace(self._held[operation_id], query_id=query_id)

    def release(self, operation_id: str) -> None:
        """Gives up what an operation has claimed; unknown ones have nothing."""
        with self._lock:
            self._held.pop(operation_id, None)


def query_id_in(metadata: str | None) -> str | None:
    """Returns the query's id by a checkpoint's file of that name; None when there is none, or it cannot be read."""
    try:
        return str(json.loads(metadata or "")["id"])
    except (ValueError, KeyError, TypeError):  # whoever starts the query tells
        return None


def _refuse(claim: Claim, held: Claim) -> None:
    if held.checkpoint.rstrip("/") == claim.checkpoint.rstrip("/"):
        message = f"SqlStatement {held.statement} runs in this session from the same checkpoint, {claim.checkpoint}"
    elif claim.query_id is not None and held.query_id == claim.query_id:
        message = (
            f"SqlStatement {held.statement} runs in this session from another copy of the checkpoint {claim.checkpoint}: both have the "
            f"query id {claim.query_id}, by which Spark would stop one for the other"
        )
    else:
        return
    raise refusal(ErrorReason.INVALID_SPEC, f"{message}. {REMEDY}")
