"""Dates and timestamps of any year as Spark writes them. Pure.

Python's own have the years 1 to 9999. Beyond, a zone's clock is that of the same day 400 years before or after, and before the
first year it is that of the first.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

_MICROS = 10**6
_DAY = 86_400 * _MICROS
_CYCLE = 146_097 * _DAY  # 400 years of the Gregorian calendar
_EPOCH = datetime(1970, 1, 1)
_FIRST = (datetime(1, 1, 3) - _EPOCH) // timedelta(microseconds=1)
_LAST = (datetime(9999, 12, 29) - _EPOCH) // timedelta(microseconds=1)
_FORM = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z?")


def date_text(days: int) -> str:
    """Returns the date so many days after the first of 1970."""
    year, month, day = str(np.datetime64(days, "D")).rsplit("-", 2)
    sign = "-" if int(year) < 0 else "+" if int(year) > 9999 else ""
    return f"{sign}{abs(int(year)):04}-{month}-{day}"


def timestamp_text(micros: int, zone: ZoneInfo | None = None) -> str:
    """Returns a time in microseconds since 1970 by the clock of a zone, or as it is."""
    local = micros + (0 if zone is None else _offset(micros, zone))
    days, rest = divmod(local, _DAY)
    seconds, fraction = divmod(rest, _MICROS)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    return f"{date_text(days)} {clock.rstrip('0').rstrip('.')}"


def time_text(nanos: int) -> str:
    """Returns a time of the day in nanoseconds."""
    seconds, fraction = divmod(nanos, 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:09}"
    return clock.rstrip("0").rstrip(".")


def interval_text(months: int, days: int, nanos: int) -> str:
    """Returns an interval of the old kind, by its units that are not zero."""
    rest = nanos // 1000
    sign, size = (-1 if rest < 0 else 1), abs(rest)
    years, odd = (abs(months) // 12, abs(months) % 12) if months >= 0 else (-(-months // 12), -(-months % 12))
    seconds = f"{'-' if sign < 0 else ''}{size // _MICROS % 60}.{size % _MICROS:06}".rstrip("0").rstrip(".")
    parts: list[tuple[int | str, str]] = [
        (years, "years"),
        (odd, "months"),
        (days, "days"),
        (sign * (size // (3600 * _MICROS)), "hours"),
        (sign * (size // (60 * _MICROS) % 60), "minutes"),
        (seconds if size % (60 * _MICROS) else 0, "seconds"),
    ]
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 seconds"


def timestamp_micros(text: str) -> int | None:
    """Returns the microseconds since 1970 of a timestamp's text, None if it is none."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    cycles, year_of_cycle = divmod(year, 400)
    days = (date(2000 + year_of_cycle, month, day) - date(2000, 1, 1)).days
    start = (cycles - 5) * _CYCLE + (date(2000, 1, 1) - date(1970, 1, 1)).days * _DAY
    clock = (hour * 60 + minute) * 60 + second
    return start + days * _DAY + clock * _MICROS + int((match[7] or "0").ljust(6, "0")[:6])


def _offset(micros: int, zone: ZoneInfo) -> int:
    if micros < _FIRST:
        micros = _FIRST
    if micros > _LAST:
        micros -= -(-(micros - _LAST) // _CYCLE) * _CYCLE
    moment = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=ZoneInfo("UTC"))
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(microseconds=1)
