"""Dates and timestamps of Arrow as the texts that Spark's cast to STRING prints, in any year.

Arrow writes the years that its own calendar has, and no sign before the others of five digits. Those outside 0 to 9999, few
of many, are written one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from sparksql.gateway.results.zones import wall_clock

_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # the calendar repeats
_EPOCH = date(1970, 1, 1)
_FIRST_DAY = (date(1, 1, 1) - _EPOCH).days - 366  # of the year 0
_LAST_DAY = (date.max - _EPOCH).days  # of the year 9999
_CENTURY = date(2000, 1, 1)
_DAY_MICROS = 86_400_000_000


def date_texts(dates: pa.Array) -> pa.Array:
    """Returns dates as texts: `2026-01-31`, `+12345-01-31`, `-0001-01-31`. NULL stays NULL."""
    return _texts(dates, dates.cast(pa.int32()), (_FIRST_DAY, _LAST_DAY), _date)


def timestamp_texts(timestamps: pa.Array) -> pa.Array:
    """Returns timestamps by the clock of their zone, with a fraction of six digits: `2026-01-31 10:00:00.500000`.

    Raises UnknownZoneError.
    """
    clocks = wall_clock(timestamps).cast(pa.timestamp("us"))
    bounds = _FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS - 1
    return _texts(clocks, clocks.cast(pa.int64()), bounds, _timestamp)


def without_zeros(numbers: pa.Array) -> pa.Array:
    """Returns texts that have a fraction each without the zeros at its end, and without the point where nothing else is left."""
    return pc.utf8_rtrim(pc.utf8_rtrim(numbers, "0"), ".")


def _texts(times: pa.Array, numbers: pa.Array, bounds: tuple[int, int], write: Callable[[int], str]) -> pa.Array:
    """The texts of times by their numbers, of which those outside the bounds are written one by one."""
    shown = times.cast(pa.string())
    far = pc.fill_null(pc.or_(pc.less(numbers, bounds[0]), pc.greater(numbers, bounds[1])), False)
    if not pc.any(far).as_py():
        return shown
    written = pa.array([write(number) for number in numbers.filter(far).to_pylist()], pa.string())
    return pc.replace_with_mask(shown, far, written)


def _date(day: int) -> str:
    cycles, days = divmod(day - (_CENTURY - _EPOCH).days, _CYCLE_DAYS)
    near = _CENTURY + timedelta(days)
    year = near.year + cycles * _CYCLE_YEARS
    return f"{_year(year)}-{near:%m-%d}"


def _timestamp(micros: int) -> str:
    day, rest = divmod(micros, _DAY_MICROS)
    clock = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=rest)
    return f"{_date(day)} {clock:%H:%M:%S.%f}"


def _year(year: int) -> str:
    return f"+{year}" if year > date.max.year else f"{year:05d}" if year < 0 else f"{year:04d}"
