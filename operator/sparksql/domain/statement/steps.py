"""The steps that decisions about a statement are made of: stay, wait, end, cancel, try again. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from sparksql.api.reasons import Reason
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.backoff import exponential
from sparksql.domain.event import Event
from sparksql.domain.statement.deadlines import queue_left
from sparksql.domain.statement.decision import Cancel, Command, Decision, DeleteSession
from sparksql.domain.statement.phases import is_ended
from sparksql.domain.statement.snapshot import Snapshot
from sparksql.domain.statement.status import advance, restated
from sparksql.domain.statement.stream.spec import at_rest
from sparksql.wire.control import CancelRequest

WAITING_SECONDS = 60.0  # wake-up of a statement that waits for an event
UNREACHABLE_SECONDS = 2.0  # and of one whose driver does not answer now
MAX_RETRY_BACKOFF_SECONDS = 600.0


def stay(s: Snapshot, wake: float | None, *commands: Command) -> Decision:
    """Keep the phase; nothing but the commands happens."""
    return Decision(restated(s.statement, s.now), commands, requeue_after=wake)


def wait(
    s: Snapshot, reason: Reason, message: str, *commands: Command, wake: float = WAITING_SECONDS, **updates: Any
) -> Decision:
    """Stay Initialized for `reason`, unless the queue timeout has passed."""
    left = queue_left(s)
    if left == 0:
        return end(s, Phase.TIMED_OUT, Reason.QUEUE_TIMEOUT, f"queue timeout: {message}", **updates)
    status = advance(s.statement, s.now, Phase.INITIALIZED, reason, message, **updates)
    return Decision(status, commands, requeue_after=min(wake, left + 0.05) if left is not None else wake)


def end(s: Snapshot, phase: Phase, reason: Reason, message: str, **updates: Any) -> Decision:
    """An ended phase; the dedicated session goes with it."""
    if is_ended(s.statement.status.phase):
        return stay(s, None)
    streaming = s.statement.status.streaming
    if streaming is not None:
        updates.setdefault("streaming", at_rest(streaming))
    status = advance(s.statement, s.now, phase, reason, message, next_attempt_time=None, **updates)
    commands: tuple[Command, ...] = (DeleteSession(),) if s.statement.spec.session is not None else ()
    wanted = phase in (Phase.FINISHED, Phase.CANCELED)
    event = Event("Normal" if wanted else "Warning", reason, message)
    spec = s.statement.spec
    goes_on = spec.ttl_seconds_after_finished is not None or spec.run_nonce != status.observed_run_nonce
    return Decision(status, commands, events=(event,), requeue_after=0.0 if goes_on else None)


def cancel(s: Snapshot, request: CancelRequest) -> Decision:
    """Ask the gateway to end it; its answer, not this wish, becomes the phase."""
    return stay(s, UNREACHABLE_SECONDS, Cancel(s.statement.status.operation_id or "", request))


def new_attempt(
    s: Snapshot,
    reason: Reason,
    message: str,
    *,
    delay: float,
    failed: int,
    type_: Literal["Normal", "Warning"] = "Warning",
    **updates: Any,
) -> Decision:
    """Back to Initialized for the next attempt, after `delay` seconds; `failed` attempts count against `retry.limit`."""
    status = s.statement.status
    renewed = advance(
        s.statement,
        s.now,
        Phase.INITIALIZED,
        reason,
        message,
        attempt=status.attempt + 1,
        failed_attempts=failed,
        next_attempt_time=s.now + timedelta(seconds=delay) if delay else None,
        submitted_time=s.now,
        operation_id=None,
        session=None,
        start_time=None,
        progress=None,
        result=None,
        error=None,
        **updates,
    )
    return Decision(renewed, events=(Event(type_, reason, message),), requeue_after=delay)


def retry(s: Snapshot, reason: Reason, message: str) -> Decision:
    """The next attempt that `spec.retry` grants, after its back-off."""
    failed = s.statement.status.failed_attempts + 1
    delay = exponential(failed, s.statement.spec.retry.backoff_seconds, MAX_RETRY_BACKOFF_SECONDS)
    return new_attempt(
        s, reason, f"{message}; attempt {s.statement.status.attempt + 1} in {delay:g} s", delay=delay, failed=failed
    )
