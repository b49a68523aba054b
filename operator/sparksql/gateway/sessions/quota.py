"""How many bytes of results may be kept: for one session of a client, and for all of them together."""

from __future__ import annotations

import threading


class Quota:
    """Bytes by session and operation; a limit of 0 is none. Safe to use from several threads."""

    def __init__(self, per_session: int, in_all: int) -> None:
        self._per_session = per_session
        self._in_all = in_all
        self._lock = threading.Lock()
        self._taken: dict[str, dict[str, int]] = {}

    @property
    def total(self) -> int:
        """Returns the bytes that are taken in all."""
        with self._lock:
            return self._sum()

    def take(self, session: str, operation: str, size: int) -> bool:
        """Takes room for one result; False, and nothing taken, when it does not fit."""
        with self._lock:
            own = self._taken.get(session, {})
            too_much = 0 < self._per_session < sum(own.values()) + size or 0 < self._in_all < self._sum() + size
            if size > 0 and too_much:
                return False
            self._taken.setdefault(session, {})[operation] = size
            return True

    def free(self, session: str, operation: str) -> None:
        """Gives back the room of a result; unknown ones take none."""
        with self._lock:
            self._taken.get(session, {}).pop(operation, None)
            if not self._taken.get(session, {}):
                self._taken.pop(session, None)

    def _sum(self) -> int:
        return sum(size for own in self._taken.values() for size in own.values())
