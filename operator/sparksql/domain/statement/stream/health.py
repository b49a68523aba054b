"""The health of a streaming statement: its conditions Healthy and CheckpointFresh. Pure, and a matter of the clock."""

from __future__ import annotations

from datetime import datetime

from sparksql.api.base import format_time
from sparksql.api.conditions import Condition, ConditionStatus, ConditionType
from sparksql.api.execution import TriggerMode
from sparksql.api.reasons import Reason
from sparksql.api.statement import SqlStatementSpec, SqlStatementStatus
from sparksql.api.statement import StatementPhase as Phase
from sparksql.api.streaming import StreamingStatus, Trigger
from sparksql.domain.statement.stream.lag import growth

LEAST_PROGRESS_TIMEOUT_SECONDS = 60.0  # a query that reports nothing for so long makes no progress
PROGRESS_TIMEOUT_INTERVALS = 10  # or for so many intervals of its trigger, if that is longer
INFERRED_PROGRESS_TIMEOUT_SECONDS = (
    180.0  # or for so long when the driver chooses the interval, of which a minute is the longest
)
MANY_RESTARTS = 3  # so many in a row are not healthy, even if it runs just now


def progress_timeout(spec: SqlStatementSpec) -> float:
    """Returns the seconds without a report after which the query makes no progress."""
    trigger = spec.streaming.trigger if spec.streaming else Trigger()
    if trigger.mode in (TriggerMode.AUTO, TriggerMode.REAL_TIME) and trigger.interval_millis is None:
        return INFERRED_PROGRESS_TIMEOUT_SECONDS
    return max(LEAST_PROGRESS_TIMEOUT_SECONDS, PROGRESS_TIMEOUT_INTERVALS * (trigger.interval_millis or 0) / 1000)


def progress_timeout_left(spec: SqlStatementSpec, status: SqlStatementStatus, now: datetime) -> float | None:
    """Returns the seconds until the lack of a report tells something, at least 0; None while the query does not run."""
    since = _last_report(status)
    if status.phase is not Phase.RUNNING or since is None:
        return None
    return max(0.0, progress_timeout(spec) - (now - since).total_seconds())


def health(spec: SqlStatementSpec, status: SqlStatementStatus, now: datetime) -> tuple[Condition, Condition]:
    """Returns Healthy and CheckpointFresh of a streaming statement with this status."""
    streaming = status.streaming or StreamingStatus()
    left = progress_timeout_left(spec, status, now)
    if left is None:
        message = "the query does not run"
        return _healthy(ConditionStatus.UNKNOWN, Reason.PENDING, message), _fresh(
            ConditionStatus.UNKNOWN, Reason.PENDING, message
        )
    silent = f"no progress since {format_time(_last_report(status) or now)}"
    if left == 0:
        healthy = _healthy(ConditionStatus.FALSE, Reason.NO_PROGRESS, silent)
    elif streaming.restarts >= MANY_RESTARTS:
        message = f"was restarted {streaming.restarts} times in a row"
        healthy = _healthy(ConditionStatus.FALSE, Reason.RESTARTING, message)
    elif growing := growth(streaming):
        healthy = _healthy(ConditionStatus.FALSE, Reason.LAGGING, growing)
    else:
        healthy = _healthy(ConditionStatus.TRUE, Reason.HEALTHY)
    if streaming.committed_batch_id is None:
        return healthy, _fresh(ConditionStatus.UNKNOWN, Reason.PENDING, "no batch is committed yet")
    open_batch = streaming.batch_id is not None and streaming.batch_id > streaming.committed_batch_id
    if left == 0 and open_batch:
        message = f"batch {streaming.batch_id} is not committed, {silent}"
        return healthy, _fresh(ConditionStatus.FALSE, Reason.CHECKPOINT_STALE, message)
    return healthy, _fresh(ConditionStatus.TRUE, Reason.CHECKPOINT_FRESH)


def _last_report(status: SqlStatementStatus) -> datetime | None:
    """Returns when the query last reported.

    The start counts as a report: a query that was restarted has not had the time to say anything.
    """
    reported = status.streaming.last_progress_time if status.streaming else None
    return max((moment for moment in (reported, status.start_time) if moment is not None), default=None)


def _healthy(status: ConditionStatus, reason: Reason, message: str = "") -> Condition:
    return Condition(type=ConditionType.HEALTHY, status=status, reason=reason, message=message)


def _fresh(status: ConditionStatus, reason: Reason, message: str = "") -> Condition:
    return Condition(type=ConditionType.CHECKPOINT_FRESH, status=status, reason=reason, message=message)
