"""Whose turn it is in a session: priority, then creation time, then name, at most `slots` at once.

Statements are handed to the gateway strictly in that order: the next one goes only when the one before is known to have
arrived. The gateway keeps arrival order where statements exclude each other (session-changing ones, writers of one
path-based table), so a session-changing statement that waits there holds back whatever is admitted later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never


class QueueState(Enum):
    """Names where a contender stands."""

    BLOCKED = auto()  # waits for something else (dependencies, backoff); passed over
    WAITING = auto()  # could be handed over now
    HANDING_OVER = auto()  # intent recorded, arrival not yet confirmed
    ARRIVED = auto()  # the gateway has it


@dataclass(frozen=True)
class QueueEntry:
    """A statement of a session that has not ended. `created` is the API server's RFC 3339 text, whose order is that of time."""

    name: str
    created: str
    place: QueueState


@dataclass(frozen=True)
class Turn:
    """`granted`, or how many contenders are `ahead` of it (waiting or running)."""

    granted: bool
    ahead: int = 0


def order(priority: int, created: str, name: str) -> tuple[int, str, str]:
    """Returns the sort key of a line: priority, then creation time, then name."""
    return (-priority, created, name)


def turn(name: str, line: Iterable[QueueEntry], slots: int) -> Turn:
    """Returns the turn of the waiting contender `name` in a line that is in order."""
    waiting, taken, in_transit, found = 0, 0, False, False
    for entry in line:
        if entry.name == name:
            found = True
            continue
        match entry.place:
            case QueueState.WAITING:
                waiting += not found
            case QueueState.HANDING_OVER:
                taken, in_transit = taken + 1, True
            case QueueState.ARRIVED:
                taken += 1
            case QueueState.BLOCKED:
                pass
            case other:
                assert_never(other)
    return Turn(granted=not waiting and taken < slots and not in_transit, ahead=waiting + taken)


def next_in_queue(line: Iterable[QueueEntry]) -> str | None:
    """Returns the name of the first waiting contender of a line that is in order; nobody behind it is looked at."""
    return next((c.name for c in line if c.place is QueueState.WAITING), None)


def exceeds_queue(name: str, contenders: Sequence[QueueEntry], limit: int) -> bool:
    """Tells whether `name` is beyond the `limit` of statements that may wait in its session. The oldest ones keep their place."""
    if len(contenders) <= limit:
        return False
    queued = sorted((c.created, c.name) for c in contenders if c.place in (QueueState.WAITING, QueueState.BLOCKED))
    return name in {name for _, name in queued[limit:]}
