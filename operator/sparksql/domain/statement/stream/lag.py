"""Growth of the lag of a streaming statement: a memory of a few numbers, kept in its status. Pure.

Lag goes up and down with each batch, and a burst of input is no trouble while it is worked off. So what counts is the
least lag of each period: it tells how near the query came to catching up. The lag grows when that least lag has risen
several periods in a row, is clearly more than where the growth began, and the period that goes on does not undercut it.
One period that does not rise ends the growth.
"""

from __future__ import annotations

from datetime import datetime

from sparksql.api.streaming import LagTrend, StreamingStatus
from sparksql.wire.control import StreamProgress

# Ours. A period is at least so long, and longer when reports are rarer. Between the least lags of four periods lie at
# least two whole ones: three rises mean that the lag has grown for five minutes at least, and are reported after ten to
# twelve.
PERIOD_SECONDS = 150.0
MANY_RISES = 3
# By so much must the lag exceed the one that the growth began with, so that a few files more are no alarm.
LEAST_FACTOR = 1.5
LEAST_GROWTH = 10


def lag_trend(before: StreamingStatus, progress: StreamProgress | None) -> LagTrend | None:
    """Returns the memory of the lag after another report, `progress`.

    A query that was started again has to catch up, so its memory starts fresh.
    """
    if progress is None:
        return before.lag_trend
    trend = before.lag_trend if progress.run_id == before.run_id else None
    moment = progress.last_progress_time
    is_old = trend is not None and before.last_progress_time is not None and moment == before.last_progress_time
    if progress.lag is None or moment is None or is_old:
        return trend
    if trend is None:
        return LagTrend(since=moment, least=progress.lag)
    if (moment - trend.since).total_seconds() < PERIOD_SECONDS:
        return trend.replace(least=min(trend.least, progress.lag))
    return _next_period(trend, moment, progress.lag)


def growth(streaming: StreamingStatus) -> str | None:
    """Returns how the lag grows, for people; None when it does not, or not for long enough to tell."""
    trend = streaming.lag_trend
    if trend is None or trend.rises < MANY_RISES or trend.base is None or trend.least_before is None:
        return None
    reached, base = trend.least_before, trend.base
    if reached < max(base * LEAST_FACTOR, base + LEAST_GROWTH) or trend.least < reached:
        return None
    minutes = trend.rises * PERIOD_SECONDS / 60
    return f"the source grows faster than the query reads: the lag grew from {base} to {reached} in {minutes:g} minutes or more"


def _next_period(trend: LagTrend, moment: datetime, lag: int) -> LagTrend:
    rose = trend.least_before is not None and trend.least > trend.least_before
    return LagTrend(
        since=moment,
        least=lag,
        least_before=trend.least,
        base=trend.base if rose and trend.rises else trend.least_before if rose else None,
        rises=trend.rises + 1 if rose else 0,
    )
