"""The schedule of periodic savepoints: when the next one is due, and what it is called. Pure.

A schedule has slots: with `intervalSeconds` at that distance from `since`, with `cron` where its fields match the wall
clock of `timezone`. A slot is due at its time plus a jitter that depends on the statement and the slot only, and is
shorter than the distance to the next slot: due times have the order of their slots, and whoever asks again is told the
same.

When clocks change, cron does what Debian's does. A time of day that is skipped in spring comes at the first minute
after the gap; one that comes twice in autumn counts once, the first time. Expressions whose minute or hour begins with
`*` follow elapsed time: they miss what is skipped and match both times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from sparksql.api.names import MAX_NAME_LENGTH
from sparksql.api.reasons import Reason
from sparksql.api.streaming import SavepointSchedule
from sparksql.domain.violation import Violation

ON_TIME_SECONDS = 300.0  # a slot is missed from then on: an upgrade of the operator or a new driver takes less
FIELD = "spec.streaming.savepoints.schedule"
CRON_FIELDS = 5
_ANY_TIME = datetime(2024, 1, 1, tzinfo=UTC)  # whether an expression matches at all does not depend on it


def violation(schedule: SavepointSchedule) -> Violation | None:
    """Returns why the schedule cannot be followed, if it cannot: field, value and remedy."""
    if schedule.cron is None:
        return None
    problem = _cron_problem(schedule.cron)
    if problem is not None:
        remedy = "write five fields: minute, hour, day of month, month, day of week, for instance '0 * * * *'"
        return Violation(Reason.INVALID_SPEC, f"{FIELD}.cron: {schedule.cron!r}: {problem}; {remedy}")
    if _zone(schedule.timezone) is None:
        remedy = "use a name of the IANA data base, for instance 'Europe/Berlin' or 'UTC'"
        return Violation(Reason.INVALID_SPEC, f"{FIELD}.timezone: {schedule.timezone!r} is no time zone; {remedy}")
    return None


def next_due(
    schedule: SavepointSchedule, *, last: datetime | None, since: datetime, now: datetime, uid: str
) -> datetime | None:
    """Returns when a savepoint is due after `last`, in UTC and whole seconds; None if never.

    `last` is the due time of the newest periodic one, or any moment later. A time that is not after `now` means: at
    once. Of several missed ones that is the newest, so that one savepoint makes up for all of them; without `catchUp`
    missed ones are left out. `since` is when the schedule began, and stays: the statement's creation, say. A schedule
    is never due while it is paused, refused, or matches no day.
    """
    if schedule.paused or violation(schedule) is not None:
        return None
    # Two times of one zone with changes of the clock would compare by the clock.
    since, now = since.astimezone(UTC), now.astimezone(UTC)
    floor = since if last is None else max(last.astimezone(UTC), since)
    on_time = now - timedelta(seconds=ON_TIME_SECONDS)
    newest = _newest(schedule, floor if schedule.catch_up else max(floor, on_time), since, now, uid)
    return newest or next(_due_times(schedule, max(floor, now), since, uid), None)


def savepoint_name(statement: str, due: datetime) -> str:
    """Returns the name of the periodic savepoint that is due then: a second try to create it finds the first one."""
    suffix = f"-{due.astimezone(UTC):%Y%m%d-%H%M%S}"
    room = MAX_NAME_LENGTH - len(suffix)
    if len(statement) > room:
        fingerprint = hashlib.sha256(statement.encode()).hexdigest()[:8]
        statement = f"{statement[: room - 9]}-{fingerprint}"
    return f"{statement}{suffix}"


def _newest(schedule: SavepointSchedule, floor: datetime, since: datetime, now: datetime, uid: str) -> datetime | None:
    """Returns the last due time after `floor` and not after `now`."""
    lookback = ON_TIME_SECONDS  # mostly enough; then four times as far, and so on: schedules run forwards only
    while True:
        start = max(floor, now - timedelta(seconds=lookback))
        newest = None
        for due in _due_times(schedule, start, since, uid):
            if due > now:
                break
            newest = due
        if newest is not None or start == floor:
            return newest
        lookback *= 4


def _due_times(schedule: SavepointSchedule, after: datetime, since: datetime, uid: str) -> Iterator[datetime]:
    """Yields due times later than `after`, in order."""
    first = after - timedelta(seconds=schedule.jitter_seconds)  # an earlier slot can be due no more
    slots = _slots(schedule, first - timedelta(seconds=1), since)
    slot = next(slots, None)
    while slot is not None:
        following = next(slots, None)
        room = int((following - slot).total_seconds()) - 1 if following is not None else schedule.jitter_seconds
        due = slot + timedelta(seconds=_jitter(uid, slot, min(schedule.jitter_seconds, room)))
        if due > after:
            yield due
        slot = following


def _jitter(uid: str, slot: datetime, most: int) -> int:
    """Returns 0 to `most` seconds, spread evenly over statements and over slots."""
    digest = hashlib.sha256(f"{uid}/{slot.timestamp():.0f}".encode()).digest()
    return int.from_bytes(digest[:8]) % (most + 1)


def _slots(schedule: SavepointSchedule, after: datetime, since: datetime) -> Iterator[datetime]:
    """Yields slots later than `after`, in order, in UTC and whole seconds.

    In the hour that comes twice, one before it may come first.
    """
    if schedule.cron is not None:
        zone = _zone(schedule.timezone)
        return _cron_slots(schedule.cron, zone, after) if zone is not None else iter(())
    return _interval_slots(schedule.interval_seconds or 1, after, since.replace(microsecond=0))


def _interval_slots(seconds: int, after: datetime, origin: datetime) -> Iterator[datetime]:
    interval = timedelta(seconds=seconds)
    number = max(0, (after - origin) // interval)
    while True:
        number += 1
        yield origin + number * interval


def _cron_slots(cron: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    try:
        for local in CronSim(cron, after.astimezone(zone)):
            yield local.astimezone(UTC)
    except CronSimError:
        return


def _cron_problem(cron: str) -> str | None:
    count = len(cron.split())
    if count != CRON_FIELDS:
        return f"has {count} fields"
    try:
        match = next(CronSim(cron, _ANY_TIME), None)
    except CronSimError as error:
        return str(error)
    return None if match is not None else "matches no day"


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; not a plain name, or a file of something else; a folder
        return None
