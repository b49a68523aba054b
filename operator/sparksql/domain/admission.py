"""Whose turn it is in a session: priority, then creation time, then name, at most `slots` at once.

Statements are handed to the gateway strictly in that order: the next one goes only when the one before is known to have
arrived. The gateway keeps arrival order where statements exclude each other (session-changing ones, writers of one
path-based table), so a session-changing statement that waits there holds back whatever is admitted later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto


class Place(Enum):
    """Where a contender stands."""

    BLOCKED = auto()  # waits for something else (dependencies, backoff); passed over
    WAITING = auto()  # could be handed over now
    HANDING_OVER = auto()  # intent recorded, arrival not yet confirmed
    ARRIVED = auto()  # the gateway has it


@dataclass(frozen=True)
class Contender:
    """A statement of a session that has not ended."""

    name: str
    priority: int
    created: datetime
    place: Place

    @property
    def order(self) -> tuple[int, datetime, str]:
        return (-self.priority, self.created, self.name)


@dataclass(frozen=True)
class Turn:
    """`granted`, or how many contenders are `ahead` of it (waiting or running)."""

    granted: bool
    ahead: int = 0


def turn(name: str, contenders: Iterable[Contender], slots: int) -> Turn:
    """Turn of the waiting contender `name`."""
    everyone = tuple(contenders)
    taken = [c for c in everyone if c.place in (Place.HANDING_OVER, Place.ARRIVED) and c.name != name]
    waiting = sorted((c for c in everyone if c.place is Place.WAITING or c.name == name), key=lambda c: c.order)
    before_me = next(i for i, c in enumerate(waiting) if c.name == name)
    in_transit = any(c.place is Place.HANDING_OVER for c in taken)
    granted = before_me == 0 and len(taken) < slots and not in_transit
    return Turn(granted, ahead=before_me + len(taken))


def next_in_line(contenders: Iterable[Contender]) -> str | None:
    """Name of the waiting contender whose turn comes next."""
    waiting = [c for c in contenders if c.place is Place.WAITING]
    return min(waiting, key=lambda c: c.order).name if waiting else None


def exceeds_queue(name: str, contenders: Sequence[Contender], limit: int) -> bool:
    """Whether `name` is beyond the `limit` of statements that may wait in its session. The oldest ones keep their place."""
    queued = sorted(
        (c for c in contenders if c.place in (Place.WAITING, Place.BLOCKED)), key=lambda c: (c.created, c.name)
    )
    return name in {c.name for c in queued[limit:]}
