"""Wall clocks of instants in Spark's session time zone.

Arrow knows the names of the zone database and `+09:00`; Spark accepts more spellings, and an image may have the zone
database only as Python's package. What neither knows is refused, because a clock in another zone would be a wrong result.
Arrow has no summer time after 2037, where the list of changes in the zone database ends and its rules begin: Python reads these.
"""

from __future__ import annotations

import datetime
import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_UNIVERSAL = frozenset({"Z", "UTC", "GMT", "UT", "UCT", "Etc/UTC"})
_MICROS = 1_000_000
_RULES_BEGIN = 2_145_916_800  # seconds of 2038-01-01
# The calendar repeats after 400 years, weekdays included, and so do the rules. Python knows the years 1 to 9999.
_CYCLE = 146_097 * 86_400
_FIRST = -62_104_060_800  # of the year 2: no zone has a change before it
_LATE = 13_569_465_600  # of the year 2400


class UnknownZoneError(Exception):
    """The session's time zone is none that is known here; the message names it and the remedy."""


def wall_clock(instants: pa.Array) -> pa.Array:
    """Returns timestamps without a zone: those of instants as clocks show them in their zone, others as they are.

    Raises UnknownZoneError.
    """
    zone = instants.type.tz
    if zone is None:
        return instants
    offset = _fixed_offset(zone)
    if offset is not None:
        naive = instants.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        return pc.add(naive, offset * _MICROS).cast(pa.timestamp("us"))
    try:
        clocks = pc.local_timestamp(instants)
    except pa.ArrowInvalid:
        return _by_python(instants, zone)
    late = pc.fill_null(pc.greater_equal(instants.cast(pa.int64()), _RULES_BEGIN * _MICROS), False)
    return (
        pc.replace_with_mask(clocks, late, _by_python(instants.filter(late), zone)) if pc.any(late).as_py() else clocks
    )


def _fixed_offset(zone: str) -> int | None:
    """Seconds east of Greenwich of a zone that is an offset."""
    if zone in _UNIVERSAL:
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    return (hours * 3600 + minutes * 60 + seconds) * (-1 if match.group(1) == "-" else 1)


def _by_python(instants: pa.Array, zone: str) -> pa.Array:
    try:
        rules = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UnknownZoneError(
            f"the session's time zone {zone!r} is not known here: SET spark.sql.session.timeZone to the name of a "
            "region such as Asia/Tokyo, or to an offset such as +09:00"
        ) from None
    micros = instants.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).dictionary_encode()
    clocks = [value + _offset_at(value, rules) for value in micros.dictionary.to_pylist()]
    return pa.array(clocks, pa.timestamp("us")).take(micros.indices)


def _offset_at(micros: int, rules: ZoneInfo) -> int:
    seconds = max(micros // _MICROS, _FIRST)
    if seconds > _LATE:
        seconds = _LATE + (seconds - _LATE) % _CYCLE
    offset = datetime.datetime.fromtimestamp(seconds, rules).utcoffset() or datetime.timedelta()
    return int(offset.total_seconds()) * _MICROS
