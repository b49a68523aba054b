"""Dates and timestamps of every year, by the clocks of every zone."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.results.pages import page_json
from sparksql.gateway.results.times import date_texts, timestamp_texts
from sparksql.wire.control import ResultPage

EPOCH = dt.date(1970, 1, 1)
FAR = [  # as Spark 4.1 casts them to STRING
    (2932896, "9999-12-31"), (2932897, "+10000-01-01"), (3789615, "+12345-08-13"), (364522683, "+999999-03-18"), (2147483647, "+5881580-07-11"),
    (-719528, "0000-01-01"), (-719529, "-0001-12-31"), (-4371222, "-9998-01-01"), (-2147483648, "-5877641-06-23"),
]  # fmt: skip


def test_days_in_far_years_are_written_with_signs() -> None:
    days = pa.array([0, None, *(day for day, _ in FAR)], pa.int32()).cast(pa.date32())
    assert date_texts(days).to_pylist() == ["1970-01-01", None, *(text for _, text in FAR)]


@given(st.lists(st.none() | st.dates(), max_size=5))
def test_days_of_four_digit_years_are_written_as_in_python(days: list[dt.date | None]) -> None:
    assert date_texts(pa.array(days, pa.date32())).to_pylist() == [day and day.isoformat() for day in days]


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5), st.integers(0, 86_399_999_999))
def test_timestamps_have_the_date_of_their_day_and_six_digits(days: list[int], rest: int) -> None:
    days = [day // 22 for day in days]  # so many fit into microseconds of 64 bits
    dates = date_texts(pa.array(days, pa.int32()).cast(pa.date32())).to_pylist()
    shown = timestamp_texts(pa.array([day * 86_400_000_000 + rest for day in days], pa.timestamp("us")))
    clock = (dt.datetime.min + dt.timedelta(microseconds=rest)).strftime("%H:%M:%S.%f")
    assert shown.to_pylist() == [f"{date} {clock}" for date in dates]


@given(
    zone=st.sampled_from(["America/New_York", "Europe/Berlin", "Australia/Sydney", "Asia/Tokyo"]),
    instant=st.datetimes(dt.datetime(1900, 1, 2), dt.datetime(9999, 12, 30)),
    cycles=st.integers(0, 20),
)
def test_clocks_follow_the_rules_of_their_zone_in_all_years_to_come(
    zone: str, instant: dt.datetime, cycles: int
) -> None:
    local = instant.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    days = 146_097 * cycles if instant.year > 2400 else 0  # 400 years, after which the calendar and its rules repeat
    micros = ((instant - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)) + days * 86_400_000_000
    [shown] = timestamp_texts(pa.array([micros], pa.timestamp("us", zone))).to_pylist()
    year = local.year + 400 * (days // 146_097)
    assert shown == f"{'+' if year > 9999 else ''}{year:04d}-{local.strftime('%m-%d %H:%M:%S.%f')}"


NEW_YEAR_10000 = 253402300800000000


@pytest.mark.parametrize(("zone", "shown"), [(None, "+10000-01-01 00:00:00"), ("-05:00", "9999-12-31 19:00:00")])
def test_rows_hold_far_timestamps_alone_and_within_others(zone: str | None, shown: str) -> None:
    kind = pa.timestamp("us", zone)
    far = pa.array([None, NEW_YEAR_10000], pa.int64()).cast(kind)
    offsets = pa.array([0, 1, 2], pa.int32())
    table = pa.table(
        {
            "flat": far,
            "list": pa.ListArray.from_arrays(offsets, far),
            "map": pa.MapArray.from_arrays(offsets, pa.array([NEW_YEAR_10000] * 2, pa.int64()).cast(kind), far),
            "row": pa.StructArray.from_arrays([far], ["t"]),
        }
    )
    expected = (shown, [shown], {shown: shown}, {"t": shown})
    assert rows(table) == [(None, [None], {shown: None}, {"t": None}), expected]
    assert rows(table.slice(1)) == [expected]


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    page = json.loads(page_json(ResultPage(columns=(), rows=()), table))
    return [tuple(row) for row in page["rows"]]
