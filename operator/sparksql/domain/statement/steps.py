"""The steps that decisions about a statement are made of: no change, wait, follow, end, cancel, try again. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, Unpack

from sparksql.api.reasons import Reason
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.backoff import exponential
from sparksql.domain.event import Event
from sparksql.domain.public_text import compose
from sparksql.domain.statement.deadlines import next_deadline, queue_left
from sparksql.domain.statement.decision import Cancel, Command, Decision, DeleteSession
from sparksql.domain.statement.outcome import queue_timeout, view_update
from sparksql.domain.statement.phases import is_ended
from sparksql.domain.statement.snapshot import Snapshot
from sparksql.domain.statement.status import StatusUpdate, restated, with_phase
from sparksql.domain.statement.stream.status import suspended
from sparksql.wire.control import CancelRequest, OperationState, OperationView

WAITING_SECONDS = 60.0  # wake-up of a statement that waits for an event
UNREACHABLE_SECONDS = 2.0  # and of one whose driver does not answer now
MAX_RETRY_BACKOFF_SECONDS = 600.0


def no_change(s: Snapshot, wake: float | None, *commands: Command) -> Decision:
    """Keeps the phase; nothing but the commands happens. Looks again after `wake` seconds."""
    return Decision(restated(s.statement, s.now), commands, requeue_after=wake)


def wait(
    s: Snapshot,
    reason: Reason,
    message: str,
    *commands: Command,
    wake: float = WAITING_SECONDS,
    **update: Unpack[StatusUpdate],
) -> Decision:
    """Stays Initialized for `reason` and looks again after `wake` seconds; ends when the queue timeout has passed."""
    left = queue_left(s)
    if left == 0:
        return end(
            s,
            Phase.TIMED_OUT,
            Reason.QUEUE_TIMEOUT,
            compose("{timeout} ({message})", timeout=queue_timeout(s.settings), message=message),
            **update,
        )
    status = with_phase(s.statement, s.now, Phase.INITIALIZED, reason, message, **update)
    return Decision(status, commands, requeue_after=min(wake, left + 0.05) if left is not None else wake)


def is_running(s: Snapshot, view: OperationView) -> bool:
    """Tells whether an operation that has not ended runs; once it was seen to run, it waits no more."""
    return view.state is OperationState.RUNNING or s.statement.status.phase is Phase.RUNNING


def follow_operation(
    s: Snapshot,
    view: OperationView,
    cancellation: CancelRequest | None,
    reason: Reason,
    message: str,
    *,
    stalled: bool = False,
    **update: Unpack[StatusUpdate],
) -> Decision:
    """Takes in what the driver says of an operation that has not ended: Pending or Running.

    Asks the driver to end it if `cancellation` is due.
    """
    before = s.statement.status
    phase = Phase.RUNNING if is_running(s, view) else Phase.PENDING
    fields: StatusUpdate = {**view_update(view), **update}
    status = with_phase(s.statement, s.now, phase, reason, message, stalled=stalled, **fields)
    begins = phase is Phase.RUNNING and before.phase is Phase.PENDING
    events = (
        (Event.of("Normal", Reason.RUNNING, compose("attempt {number} runs", number=before.attempt)),) if begins else ()
    )
    if cancellation is None:
        return Decision(status, events=events, requeue_after=next_deadline(s))
    return Decision(
        status, (Cancel(view.operation_id, cancellation),), events=events, requeue_after=UNREACHABLE_SECONDS
    )


def end(s: Snapshot, phase: Phase, reason: Reason, message: str, **update: Unpack[StatusUpdate]) -> Decision:
    """Enters an ended phase; the dedicated session goes with it."""
    if is_ended(s.statement.status.phase):
        return no_change(s, None)
    streaming = s.statement.status.streaming
    if streaming is not None:
        update.setdefault("streaming", suspended(streaming))
    fields: StatusUpdate = {"next_attempt_time": None, **update}
    status = with_phase(s.statement, s.now, phase, reason, message, **fields)
    commands: tuple[Command, ...] = (DeleteSession(),) if s.statement.spec.session is not None else ()
    is_asked_for = phase in (Phase.FINISHED, Phase.CANCELED)
    event = Event.of("Normal" if is_asked_for else "Warning", reason, message)
    spec = s.statement.spec
    continues = spec.ttl_seconds_after_finished is not None or spec.run_nonce != status.observed_run_nonce
    return Decision(status, commands, events=(event,), requeue_after=0.0 if continues else None)


def cancel(s: Snapshot, request: CancelRequest) -> Decision:
    """Asks the gateway to end the operation; its answer, not this request, becomes the phase."""
    return no_change(s, UNREACHABLE_SECONDS, Cancel(s.statement.status.operation_id or "", request))


def new_attempt(
    s: Snapshot,
    reason: Reason,
    message: str,
    *,
    delay: float,
    failed: int,
    type_: Literal["Normal", "Warning"] = "Warning",
    **update: Unpack[StatusUpdate],
) -> Decision:
    """Goes back to Initialized for the next attempt, after `delay` seconds.

    `failed` attempts count against `retry.limit`.
    """
    fields: StatusUpdate = {
        "attempt": s.statement.status.attempt + 1,
        "failed_attempts": failed,
        "next_attempt_time": s.now + timedelta(seconds=delay) if delay else None,
        "submitted_time": s.now,
        "operation_id": None,
        "session": None,
        "start_time": None,
        "progress": None,
        "result": None,
        "error": None,
        **update,
    }
    status = with_phase(s.statement, s.now, Phase.INITIALIZED, reason, message, **fields)
    return Decision(status, events=(Event.of(type_, reason, message),), requeue_after=delay)


def retry(s: Snapshot, reason: Reason, message: str) -> Decision:
    """Begins the next attempt that `spec.retry` grants, after its back-off."""
    failed = s.statement.status.failed_attempts + 1
    delay = exponential(failed, s.statement.spec.retry.backoff_seconds, MAX_RETRY_BACKOFF_SECONDS)
    attempt = s.statement.status.attempt + 1
    notice = compose("{cause}; attempt {number} in {delay:g} s", cause=message, number=attempt, delay=delay)
    return new_attempt(s, reason, notice, delay=delay, failed=failed)
