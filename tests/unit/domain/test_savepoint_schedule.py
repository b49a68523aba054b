"""When periodic savepoints are due: by example across changes of the clock, and what always holds as properties."""

from __future__ import annotations

import re
from bisect import bisect_right
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksql.api.fields import DNS_LABEL
from sparksql.api.streaming import SavepointSchedule
from sparksql.domain.statement.stream.schedule import ON_TIME_SECONDS, next_due, savepoint_name, violation

UID = "5f0c2a9e-0000-4000-8000-000000000001"
SINCE = datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def every(seconds: int, **fields: object) -> SavepointSchedule:
    return SavepointSchedule.parse({"intervalSeconds": seconds, **fields})


def cron(text: str, **fields: object) -> SavepointSchedule:
    return SavepointSchedule.parse({"cron": text, **fields})


def due(
    schedule: SavepointSchedule, now: datetime, *, last: datetime | None = None, since: datetime = SINCE, uid: str = UID
) -> datetime | None:
    return next_due(schedule, last=last, since=since, now=now, uid=uid)


def times(schedule: SavepointSchedule, since: datetime, count: int) -> list[datetime]:
    """The first due times after `since`, if each savepoint is taken when it is due."""
    found: list[datetime] = []
    for _ in range(count):
        following = due(schedule, found[-1] if found else since, last=found[-1] if found else None, since=since)
        assert following is not None
        found.append(following)
    return found


def test_an_interval_is_counted_from_the_beginning() -> None:
    expected = [SINCE + timedelta(hours=n) for n in (1, 2, 3)]
    assert times(every(3600), SINCE, 3) == expected
    late = expected[0] + timedelta(seconds=42)  # the savepoint was made somewhat later: no drift
    assert due(every(3600), late, last=late) == expected[1]


def test_cron_schedule_is_due_at_the_given_times_in_its_timezone() -> None:
    assert times(cron("30 6 * * MON"), SINCE, 2) == [at("2026-01-05T06:30:00Z"), at("2026-01-12T06:30:00Z")]
    assert times(cron("0 0 1 * *", timezone="Europe/Berlin"), SINCE, 2) == [
        at("2026-01-31T23:00:00Z"),
        at("2026-02-28T23:00:00Z"),
    ]


def test_paused_savepoint_schedule_is_never_due() -> None:
    assert due(every(60, paused=True), SINCE + timedelta(days=1)) is None
    assert due(cron("* * * * *", paused=True, catchUp=True), SINCE + timedelta(days=1)) is None


def test_schedule_with_an_impossible_or_invalid_cron_is_never_due() -> None:
    assert due(cron("0 0 30 2 *"), SINCE) is None
    assert due(cron("every day at noon"), SINCE) is None


# Spring in Berlin: on 29 March 2026 clocks go from 02:00 to 03:00. Autumn: on 25 October 2026 from 03:00 back to 02:00.
@pytest.mark.parametrize(
    ("text", "since", "expected"),
    [
        # A time of day that is skipped comes right after the gap, once.
        (
            "30 2 * * *",
            "2026-03-27T12:00:00+01:00",
            ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
        ),
        ("0 2,3 * * *", "2026-03-28T12:00:00+01:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]),
        ("0 3 * * *", "2026-03-28T12:00:00+01:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T03:00:00+02:00"]),
        # One that comes twice counts once, the first time.
        (
            "30 2 * * *",
            "2026-10-23T12:00:00+02:00",
            ["2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
        ),
        ("30 2 * * *", "2026-10-25T02:15:00+01:00", ["2026-10-26T02:30:00+01:00"]),  # begins in the second of the two
        # Each hour, whatever the clock says.
        (
            "0 * * * *",
            "2026-03-29T00:30:00+01:00",
            ["2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"],
        ),
        (
            "0 * * * *",
            "2026-10-25T01:30:00+02:00",
            ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"],
        ),
        ("*/30 2 * * *", "2026-03-28T12:00:00+01:00", ["2026-03-30T02:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
    ],
)
def test_cron_schedule_follows_changes_of_the_clock(text: str, since: str, expected: list[str]) -> None:
    schedule = cron(text, timezone="Europe/Berlin")
    assert times(schedule, at(since), len(expected)) == [at(time) for time in expected]


def test_schedule_on_leap_days_skips_years_without_such_a_day() -> None:
    assert times(cron("0 12 29 2 *"), SINCE, 3) == [at(f"{year}-02-29T12:00:00Z") for year in (2028, 2032, 2036)]
    assert times(cron("0 12 L 2 *"), at("2027-01-01T00:00:00Z"), 2) == [
        at("2027-02-28T12:00:00Z"),
        at("2028-02-29T12:00:00Z"),
    ]
    assert due(cron("0 12 29 2 *"), at("2096-03-01T00:00:00Z")) == at("2104-02-29T12:00:00Z")  # 2100 has none
    assert times(every(86_400), at("2028-02-28T06:00:00Z"), 2) == [
        at("2028-02-29T06:00:00Z"),
        at("2028-03-01T06:00:00Z"),
    ]


@pytest.mark.parametrize("schedule", [every(3600), cron("0 * * * *")])
def test_missed_savepoints_are_skipped_until_the_next_due_time(schedule: SavepointSchedule) -> None:
    start = at("2026-01-01T00:00:00Z")
    back = at("2026-01-01T05:20:00Z")
    assert due(schedule, back, last=at("2026-01-01T01:00:00Z"), since=start) == at("2026-01-01T06:00:00Z")


@pytest.mark.parametrize("fields", [{"intervalSeconds": 3600}, {"cron": "0 * * * *"}])
def test_or_made_up_for_once(fields: dict[str, object]) -> None:
    schedule, start = SavepointSchedule.parse({**fields, "catchUp": True}), at("2026-01-01T00:00:00Z")
    back = at("2026-01-01T05:20:00Z")
    first = due(schedule, back, last=at("2026-01-01T01:00:00Z"), since=start)
    assert first == at("2026-01-01T05:00:00Z")
    assert due(schedule, back, last=first, since=start) == at("2026-01-01T06:00:00Z")
    assert due(schedule, back, last=None, since=start) == first  # none was ever taken


def test_a_slot_is_on_time_for_some_minutes() -> None:
    slot, last = at("2026-01-01T05:00:00Z"), at("2026-01-01T04:00:00Z")
    for late, expected in ((0, 5), (ON_TIME_SECONDS - 1, 5), (ON_TIME_SECONDS, 6)):
        now = slot + timedelta(seconds=late)
        assert due(cron("0 * * * *"), now, last=last) == at(f"2026-01-01T{expected:02}:00:00Z")


def test_jitter_spreads_statements() -> None:
    schedule = cron("0 3 * * *", jitterSeconds=600)
    found = {due(schedule, SINCE, uid=str(number)) for number in range(50)}
    assert len(found) > 30
    regular = at("2026-01-01T03:00:00Z")
    assert all(time is not None and regular <= time <= regular + timedelta(seconds=600) for time in found)


def test_a_slot_whose_jitter_is_not_over_is_still_to_come() -> None:
    schedule = cron("0 3 * * *", jitterSeconds=3600)
    expected = due(schedule, SINCE)
    assert expected is not None and expected > at("2026-01-01T03:01:00Z")
    assert due(schedule, at("2026-01-01T03:00:30Z"), since=at("2026-01-01T03:00:20Z")) == expected


schedules = st.one_of(
    st.builds(every, st.integers(1, 200_000), jitterSeconds=st.integers(0, 3600), catchUp=st.booleans()),
    st.builds(
        cron,
        st.sampled_from(
            [
                "0 * * * *",
                "*/15 * * * *",
                "30 2 * * *",
                "0 2,3 * * *",
                "59 23 * * SUN",
                "0 0 29 2 *",
                "*/30 2 * * *",
                "5 */2 * * *",
                "15 1-3 * * *",
                "0 0 L * *",
            ]
        ),
        timezone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]),
        jitterSeconds=st.sampled_from([0, 0, 1, 30, 600, 3600]),
        catchUp=st.booleans(),
    ),
)
MOMENTS = (at("2026-03-29T00:30:00Z"), at("2026-10-25T00:30:00Z"), at("2028-02-28T23:00:00Z"), SINCE)
zones = st.sampled_from([UTC, BERLIN, timezone(timedelta(hours=-8))])
moments = st.builds(
    lambda base, seconds, zone: (base + timedelta(seconds=seconds)).astimezone(zone),
    st.sampled_from(MOMENTS),
    st.one_of(st.integers(-7200, 7200), st.integers(0, 40 * 86_400), st.floats(0, 7200)),
    zones,
)


@settings(deadline=None)
@given(schedules, moments, st.none() | moments, moments)
def test_due_time_is_always_later_than_the_last_savepoint(
    schedule: SavepointSchedule, since: datetime, last: datetime | None, now: datetime
) -> None:
    found = due(schedule, now, last=last, since=since)
    assert found is not None and found.tzinfo is UTC and found.microsecond == 0
    assert found > since
    assert last is None or found > last
    assert found == due(schedule, now, last=last, since=since)
    early = (now - found).total_seconds()
    assert schedule.catch_up or early < ON_TIME_SECONDS


@settings(deadline=None)
@given(schedules, moments, st.none() | moments, moments, st.integers(0, 10 * 86_400))
def test_due_time_never_moves_earlier_as_time_passes(
    schedule: SavepointSchedule, since: datetime, last: datetime | None, now: datetime, later: int
) -> None:
    first = due(schedule, now, last=last, since=since)
    second = due(schedule, now.astimezone(UTC) + timedelta(seconds=later), last=last, since=since)
    assert first is not None and second is not None and first <= second


@settings(deadline=None)
@given(schedules, moments, moments, st.floats(0, 1))
def test_due_time_stays_the_same_until_it_is_reached(
    schedule: SavepointSchedule, since: datetime, now: datetime, part: float
) -> None:
    found = due(schedule, now, since=since)
    assert found is not None
    if found > now:
        for moment in (found - (found - now) * part, found, found + timedelta(seconds=0.9)):
            assert due(schedule, moment, since=since) == found


@settings(deadline=None, max_examples=50)
@given(schedules, moments)
def test_each_schedule_slot_is_due_once_in_order_and_within_its_jitter(
    schedule: SavepointSchedule, since: datetime
) -> None:
    jitter = timedelta(seconds=schedule.jitter_seconds)
    dues = times(schedule, since, 6)
    # Intervals are counted from `since`; a slot of a calendar may lie before it, and its due time after it.
    begin = since if schedule.cron is None else since.astimezone(UTC) - jitter - timedelta(seconds=1)
    slots = times(schedule.replace(jitter_seconds=0), begin, 6 + 3700 // 900)
    numbers = [bisect_right(slots, time) - 1 for time in dues]
    assert numbers[0] >= 0
    assert numbers == list(range(numbers[0], numbers[0] + 6))
    assert all(time - slots[number] <= jitter for number, time in zip(numbers, dues, strict=True))


@settings(deadline=None)
@given(schedules, moments, moments, st.integers(0, 86_400))
def test_catching_up_takes_a_single_savepoint_for_all_missed_times(
    schedule: SavepointSchedule, since: datetime, now: datetime, away: int
) -> None:
    schedule = schedule.replace(catch_up=True)
    now = max(now, since).astimezone(UTC) + timedelta(seconds=away)
    first = due(schedule, now, since=since)
    assert first is not None
    if first <= now:
        second = due(schedule, now, last=first, since=since)
        assert second is not None and second > now


@pytest.mark.parametrize(
    ("schedule", "parts"),
    [
        (cron("* * * *     "), ("schedule.cron", "'* * * *     '", "4 fields", "write five fields")),
        (cron("0 0 * * * *"), ("schedule.cron", "6 fields", "write five fields")),
        (cron("61 * * * *"), ("schedule.cron", "'61 * * * *'", "minute", "write five fields")),
        (cron("0 24 * * *"), ("schedule.cron", "hour")),
        (cron("0 0 30 2 *"), ("schedule.cron", "day-of-month")),
        (cron("@daily     "), ("schedule.cron", "1 fields")),
        (cron("*/0 * * * *"), ("schedule.cron", "minute")),
        (cron("5-1 * * * *"), ("schedule.cron", "minute")),
        (cron("² * * * * "), ("schedule.cron", "minute")),
        (cron("0 * * * *", timezone="Europe/Berlinn"), ("schedule.timezone", "'Europe/Berlinn'", "IANA")),
        (cron("0 * * * *", timezone="Europe"), ("schedule.timezone", "'Europe'")),
        (cron("0 * * * *", timezone="../../etc/passwd"), ("schedule.timezone", "IANA")),
        (cron("0 * * * *", timezone="/etc/localtime"), ("schedule.timezone", "IANA")),
        (cron("0 * * * *", timezone="a\0b"), ("schedule.timezone", "IANA")),
    ],
)
def test_schedule_with_an_invalid_cron_or_timezone_is_refused_and_never_due(
    schedule: SavepointSchedule, parts: tuple[str, ...]
) -> None:
    refused = violation(schedule)
    assert refused is not None and refused.reason == "InvalidSpec"
    for part in parts:
        assert part in refused.message
    assert due(schedule, SINCE) is None


@pytest.mark.parametrize(
    "schedule",
    [
        every(60, timezone="nowhere"),  # not used
        cron("0 * * * *"),
        cron("*/5 8-18 * * MON-FRI", timezone="America/Sao_Paulo"),
        cron("0 0 29 2 *"),
        cron("0 0 * 2 MON#5"),
        cron("0 0 l * 7"),
    ],
)
def test_valid_savepoint_schedule_is_accepted_and_has_a_due_time(schedule: SavepointSchedule) -> None:
    assert violation(schedule) is None
    assert due(schedule, SINCE) is not None


@given(st.text("0123456789*,-/#LWabc² ", min_size=9, max_size=20))
def test_any_text_is_followed_or_refused(text: str) -> None:
    schedule = cron(text)
    assert (due(schedule, SINCE) is None) is (violation(schedule) is not None)


def test_savepoint_name_carries_the_utc_time() -> None:
    assert savepoint_name("orders-stream", at("2026-03-29T03:00:00+02:00")) == "orders-stream-20260329-010000"


labels = st.from_regex(DNS_LABEL, fullmatch=True).filter(lambda text: len(text) <= 50 and "\n" not in text)


@given(labels, labels, moments, moments)
def test_names_tell_statements_and_times_apart(one: str, two: str, first: datetime, second: datetime) -> None:
    name = savepoint_name(one, first)
    assert len(name) <= 50
    assert re.fullmatch(DNS_LABEL, name)
    assert name == savepoint_name(one, first.astimezone(UTC))
    same = one == two and int(first.timestamp()) == int(second.timestamp())
    assert (name == savepoint_name(two, second)) is same


def test_long_names_stay_apart() -> None:
    names = {savepoint_name("a" * 45 + end, SINCE) for end in ("", "b", "c", "-d")}
    assert len(names) == 4
