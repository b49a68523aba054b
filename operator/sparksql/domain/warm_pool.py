"""What a class's warm pool needs now: drivers to start, and drivers to take away. Pure.

A driver is of use while it was started with what the class says now, in a namespace that the pool has, and is young enough. One
that is too old is taken away once another one is ready in its place, so that a pool is not empty because all of it has the same
age. One that a session has taken is replaced a little later: on a small machine the start of the next one would take the cores
from the first statements of that session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sparksql.api.session_class import WarmPool

MOST_STARTING = 3
"""Drivers of one pool that start at the same time: each start takes a core for seconds, from sessions that wait for theirs."""
PAUSE_SECONDS = 5.0
"""From the taking of a driver to the start of the next one. A bind and a first statement take one second; a start takes both
cores of a small machine for five."""
MOST_AGES = 2.0  # after so many times its age a driver goes also if nothing has come in its place


@dataclass(frozen=True)
class PoolMember:
    """Describes a driver that no session has.

    `key` is what it was started with; `is_over` tells that it has ended or is on its way out.
    """

    namespace: str
    pod_name: str
    pod_uid: str
    uid: str
    key: str
    created: datetime
    is_ready: bool
    is_over: bool = False


@dataclass(frozen=True)
class PoolPlan:
    """Says what to do: a driver to start for each of `start`, their namespaces, and those to take away.

    `pause` in seconds: until then none is started. `is_limited`: the limits leave no room for all drivers of the pool.
    """

    start: tuple[str, ...] = ()
    remove: tuple[PoolMember, ...] = ()
    ready: int = 0
    starting: int = 0
    pause: float | None = None
    is_limited: bool = False


def plan(
    pool: WarmPool,
    keys: Mapping[str, str],
    members: Iterable[PoolMember],
    room: int | None,
    now: datetime,
    taken: datetime | None = None,
) -> PoolPlan:
    """Returns what the pool needs.

    `keys` are what a driver would be started with, by namespace; a namespace in which none could be is missing. `room` is how
    many drivers the limits leave for the pool, None without limits. `taken` is when a session has last taken one.
    """
    found = sorted(members, key=lambda each: each.created)
    fitting = [each for each in found if not each.is_over and keys.get(each.namespace) == each.key and pool.size > 0]
    kept: list[PoolMember] = []
    start: list[str] = []
    for namespace in keys:
        here = [each for each in fitting if each.namespace == namespace]
        young = [each for each in here if not _is_old(pool, each, now, 1.0)]
        chosen = sorted(young, key=lambda each: (not each.is_ready, each.created))[: pool.size]
        missing_ready = pool.size - sum(each.is_ready for each in chosen)
        old = [each for each in here if each not in young and each.is_ready and not _is_old(pool, each, now, MOST_AGES)]
        kept += chosen + old[-missing_ready:] if missing_ready > 0 else chosen
        start += [namespace] * (pool.size - len(chosen))
    if room is not None:
        kept = sorted(kept, key=lambda each: not each.is_ready)[: max(0, room)]
        start = start[: max(0, room - len(kept))]
    starting = sum(not each.is_ready for each in kept)
    start = start[: max(0, MOST_STARTING - starting)]
    pause = _pause(taken, now) if start else None
    if pause is not None:
        start = []
    remove = tuple(each for each in found if each not in kept and not each.is_over)
    is_limited = room is not None and max(0, room) < pool.size * len(keys)
    return PoolPlan(tuple(start), remove, len(kept) - starting, starting + len(start), pause, is_limited)


def _pause(taken: datetime | None, now: datetime) -> float | None:
    left = 0.0 if taken is None else PAUSE_SECONDS - (now - taken).total_seconds()
    return left if left > 0 else None


def _is_old(pool: WarmPool, member: PoolMember, now: datetime, times: float) -> bool:
    return 0 < pool.max_age_seconds * times <= (now - member.created).total_seconds()
