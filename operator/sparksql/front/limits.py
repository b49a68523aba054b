"""Bounds of the front's connections and waits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FrontLimits:
    """Bounds what clients may take of a replica.

    `hold_seconds` is how long a connection waits for a session that starts or wakes, `connect_hold_seconds` the same for a
    request of Connect, whose clients come again by themselves. `connections` are those of all users and protocols
    together (`protocols.slots` says who makes room for whom). A connection of HiveServer2 opens a session within
    `opening_seconds`. `allowed_seconds` is how often it is asked whether the user
    of an open connection may still have it. `promises` are requests that wait here for a session to start while their clients go
    on; their bytes are of the budget.
    """

    connections: int = 1000
    hold_seconds: float = 180.0
    connect_hold_seconds: float = 20.0
    negotiation_seconds: float = 10.0
    frame_seconds: float = 60.0
    opening_seconds: float = 60.0
    allowed_seconds: float = 60.0
    dial_seconds: float = 5.0
    promises: int = 2000
    answer_seconds: float = 660.0  # a statement that is waited for in one request; clients themselves wait 300 to 600 s
