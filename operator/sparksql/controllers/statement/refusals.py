"""Which attempts their drivers do not take, and since when. In memory: after a restart of the operator the time begins anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sparksql.domain.statement.snapshot import Refusal
from sparksql.engine.key import Key


class Refusals:
    """Remembers for each statement the refusal of its present attempt."""

    def __init__(self) -> None:
        self._refused: dict[Key, tuple[str, Refusal]] = {}

    def note(self, statement: Key, operation_id: str, message: str, now: datetime) -> None:
        """Remembers the driver's words; of an attempt that it has refused before, the time is that of the first refusal."""
        known = self.of(statement, operation_id)
        refusal = Refusal(now, message) if known is None else replace(known, message=message)
        self._refused[statement] = (operation_id, refusal)

    def of(self, statement: Key, operation_id: str | None) -> Refusal | None:
        """Returns the refusal of this very attempt, None if its driver has not refused it."""
        known = self._refused.get(statement)
        return known[1] if known is not None and known[0] == operation_id else None

    def forget(self, statement: Key) -> None:
        """Drops what is remembered of the statement: its driver has taken it, or it is gone."""
        self._refused.pop(statement, None)
