"""A growing lag: what raises the alarm, what must not, and that the memory of it outlives the operator."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.streaming import StreamingStatus
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.stream.lag import (
    LEAST_FACTOR,
    LEAST_GROWTH,
    MANY_RISES,
    PERIOD_SECONDS,
    growth,
    lag_trend,
)
from sparksql.wire.control import StreamProgress
from tests.unit.domain.builders.conditions import UNDER_WAY
from tests.unit.domain.builders.objects import NOW, ago, with_status
from tests.unit.domain.builders.streams import health, running, shown, stream, stream_snapshot, streaming_of, telling

EVERY = 50  # seconds between the reports of the tables: three in each period
LAGS = st.integers(0, 1_000_000)


def reports(lags: Iterable[int | None], *, every: float = EVERY, run_id: str = "r") -> list[StreamProgress]:
    return [
        StreamProgress(query_id="q", run_id=run_id, lag=lag, last_progress_time=NOW + timedelta(seconds=every * number))
        for number, lag in enumerate(lags)
    ]


def after(seen: Iterable[StreamProgress], before: StreamingStatus | None = None) -> list[StreamingStatus]:
    """The status after each report; each goes through what the API server keeps of it."""

    def following(status: StreamingStatus, report: StreamProgress) -> StreamingStatus:
        changes = {"run_id": report.run_id, "last_progress_time": report.last_progress_time}
        changed = status.replace(**changes, lag_trend=lag_trend(status, report))
        return StreamingStatus.parse(changed.to_dict())

    return list(accumulate(seen, following, initial=before or StreamingStatus()))[1:]


def lagging(lags: Iterable[int | None], *, every: float = EVERY) -> list[bool]:
    return [growth(status) is not None for status in after(reports(lags, every=every))]


NEVER: dict[str, list[int | None]] = {
    "nothing waits": [0] * 60,
    "not told": [None] * 60,
    "the same": [5000] * 60,
    "backlog that is worked off": [*range(60_000, 0, -1000)],
    "burst that is worked off": [*[0] * 10, 100_000, *range(99_000, 39_000, -1000)],
    "burst over minutes": [*[0] * 10, 30_000, 60_000, 90_000, 120_000, *range(119_000, 69_000, -1000)],
    "teeth that are caught up": [0, 4000, 9000] * 20,
    "teeth that are not": [1000, 5000, 9000] * 20,
    "a few files": [number // 8 for number in range(60)],
    "little, measured by what waits": [100_000 + number * 100 for number in range(60)],
    "up to another level": [*range(0, 300, 50), *[300] * 54],
}


@pytest.mark.parametrize("lags", NEVER.values(), ids=NEVER)
def test_lag_without_a_growing_trend_raises_no_alarm(lags: list[int | None]) -> None:
    assert not any(lagging(lags))


GROWING: dict[str, list[int | None]] = {
    "steadily": [number * 100 for number in range(60)],
    "from a backlog": [2000 + number * 200 for number in range(60)],
    "in teeth": [number // 3 * 300 + (0, 900, 1800)[number % 3] for number in range(60)],
    "where some reports do not tell": [None if number % 3 == 1 else number * 100 for number in range(60)],
}


@pytest.mark.parametrize("lags", GROWING.values(), ids=GROWING)
def test_alarm_is_raised_once_and_stays(lags: list[int | None]) -> None:
    told = lagging(lags)
    first = told.index(True)
    assert (MANY_RISES + 1) * PERIOD_SECONDS <= first * EVERY <= (MANY_RISES + 2) * PERIOD_SECONDS
    assert all(told[first:])


def test_alarm_ends_with_the_first_report_of_less() -> None:
    *_, last = after(reports(number * 100 for number in range(40)))
    assert growth(last) is not None
    trend = last.lag_trend
    assert trend is not None and trend.least_before is not None
    better = StreamProgress(
        query_id="q",
        run_id="r",
        lag=trend.least_before - 1,
        last_progress_time=(last.last_progress_time or NOW) + timedelta(seconds=1),
    )
    assert growth(after([better], last)[-1]) is None


def test_slow_batches_make_longer_periods() -> None:
    told = lagging([number * 1000 for number in range(20)], every=1200)
    assert told.index(True) == MANY_RISES + 1


def test_lag_trend_begins_anew_when_the_query_starts_again() -> None:
    *_, last = after(reports(number * 100 for number in range(40)))
    again = StreamProgress(query_id="q", run_id="other", last_progress_time=last.last_progress_time, lag=9000)
    assert last.lag_trend is not None
    trend = after([again], last)[-1].lag_trend
    assert trend is not None and (trend.least, trend.rises) == (9000, 0)
    not_yet = StreamProgress(query_id="q", run_id="another")
    assert after([not_yet], last)[-1].lag_trend is None


@given(st.lists(LAGS, min_size=1, max_size=80), st.floats(1, 400))
def test_lag_that_does_not_grow_raises_no_alarm(lags: list[int], every: float) -> None:
    assert not any(lagging(sorted(lags, reverse=True), every=every))


@given(st.lists(LAGS, min_size=1, max_size=80), st.floats(1, 400))
def test_alarm_means_that_more_waits_than_ten_minutes_ago(lags: list[int], every: float) -> None:
    """Whatever the lag does: five minutes and more before, it was clearly less at least once, and now it is not."""
    for place, told in enumerate(lagging(lags, every=every)):
        if told:
            long_ago = [lag for number, lag in enumerate(lags) if (place - number) * every >= 2 * PERIOD_SECONDS]
            assert lags[place] >= max(LEAST_FACTOR * min(long_ago), min(long_ago) + LEAST_GROWTH)


@given(st.integers(1, 1000), st.integers(0, 6), st.floats(10, 150), st.data())
def test_steadily_growing_lag_raises_the_alarm_despite_small_noise(
    step: int, backlog: int, every: float, data: st.DataObject
) -> None:
    """Noise that is less than what a period adds does not hide a growth; `backlog` is what waits before, in periods."""
    per_period = step * 100
    noise = data.draw(st.lists(st.integers(0, step * 10), min_size=1, max_size=20))
    count = int(PERIOD_SECONDS * (2 * backlog + MANY_RISES + 4) / every) + 2
    lags = [
        int(per_period * (backlog + number * every / PERIOD_SECONDS)) + noise[number % len(noise)]
        for number in range(count)
    ]
    assert lagging(lags, every=every)[-1]


@given(st.lists(LAGS, min_size=1, max_size=30))
def test_report_that_is_seen_twice_counts_once(lags: list[int]) -> None:
    once, twice = reports(lags), [report for report in reports(lags) for _ in range(2)]
    assert after(once)[-1] == after(twice)[-1]


def test_statement_with_a_growing_lag_is_neither_healthy_nor_ready() -> None:
    trend = {"since": "2026-01-01T00:00:00Z", "least": 900, "leastBefore": 800, "base": 100, "rises": 4}
    of = stream(running(streaming={"runId": "r", "lagTrend": trend}, startTime=ago(900)))
    told = {"lag": 950, "last_progress_time": ago(5)}
    decision = decide(stream_snapshot(of, operation=telling(told=told, start_time=ago(900))))
    assert health(decision) == (("False", "Lagging"), ("True", "CheckpointFresh"))
    assert shown(decision) == UNDER_WAY
    ready = decision.status.conditions[0]
    assert ready.reason == "Lagging" and "from 100 to 900" in ready.message
    again = decide(stream_snapshot(with_status(of, decision), operation=telling(told=told, start_time=ago(900))))
    assert again.status == decision.status
    assert streaming_of(again).lag_trend == streaming_of(decision).lag_trend
