"""Handles that the front has given to clients before this driver was Ready, and what became of those that it does not keep.

The client does not wait for the request that begins what its handle stands for. What that request is refused with is told to
whoever asks for the handle, its client alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sparksql.gateway.sessions.callers import current
from sparksql.gateway.sessions.model import ClientError, Problem
from sparksql.wire.front import prefix_of

MOST_KEPT = 1000
_HANDLE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def checked(promised: str, prefix: str) -> str:
    """Returns a handle that was promised, if it leads to the driver of that prefix. Raises ClientError INVALID."""
    if not _HANDLE.fullmatch(promised) or prefix_of(promised) != prefix:
        raise ClientError(Problem.INVALID, f"{promised!r} is no handle of this driver")
    return promised


class BrokenPromises:
    """What the requests behind promised handles were refused with; the oldest are forgotten when there are many."""

    def __init__(self) -> None:
        self._refused: dict[str, tuple[str | None, ClientError]] = {}

    @contextmanager
    def recorded(self, promised: str | None) -> Iterator[None]:
        """Keeps what the block is refused with, if a handle was promised for it; a driver that is not Ready is asked again."""
        try:
            yield
        except ClientError as refused:
            if promised is not None and refused.problem is not Problem.NOT_READY:
                self.add(promised, refused)
            raise

    def add(self, handle: str, refused: ClientError) -> None:
        """Keeps why the caller's handle stands for nothing."""
        self._refused[handle] = current.get().user, refused
        while len(self._refused) > MOST_KEPT:
            del self._refused[next(iter(self._refused))]

    def check(self, handle: str) -> None:
        """Raises what the request behind the handle was refused with, if it was and the caller may know."""
        owner, refused = self._refused.get(handle, (None, None))
        if refused is not None and current.get().may_use(owner):
            raise ClientError(refused.problem, str(refused))
