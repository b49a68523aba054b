"""A statement in the hands of a driver: Pending and Running. Pure.

From the intent on only the gateway's word, or the confirmed end of its pod, decides. What these mean for a streaming
statement is in `stream.run`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import assert_never

from sparksql.api.reasons import Reason
from sparksql.api.statement import RetryReason
from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.public_text import Message, Name, compose
from sparksql.domain.statement.blockers import submission_blocker
from sparksql.domain.statement.comparison import fit_message
from sparksql.domain.statement.deadlines import (
    HANDED_OVER_SECONDS,
    boot_id,
    brief_left,
    cancellation_due,
    is_closing,
    is_unwanted,
    next_deadline,
)
from sparksql.domain.statement.decision import Decision, NeedsInputs, Submit
from sparksql.domain.statement.executors import awaited_executors, end_beside_executors
from sparksql.domain.statement.loss import may_end_drivers, told_count, with_loss
from sparksql.domain.statement.outcome import view_update
from sparksql.domain.statement.snapshot import Inputs, Refusal, Settings, Snapshot, Unobserved
from sparksql.domain.statement.status import StatusUpdate, with_phase
from sparksql.domain.statement.steps import (
    UNREACHABLE_SECONDS,
    cancel,
    end,
    follow_operation,
    is_running,
    new_attempt,
    no_change,
    retry,
)
from sparksql.domain.statement.stream import run
from sparksql.domain.statement.stream.changes import takes_in_change
from sparksql.domain.statement.stream.facts import StreamFacts, Waiting
from sparksql.domain.statement.stream.steps import give_up
from sparksql.domain.statement.submission import submit_request
from sparksql.domain.violation import Violation
from sparksql.wire.control import CancelRequest, OperationState, OperationView

REFUSED_SECONDS = 60.0  # a driver that answers a hand-over with an error may be replaced meanwhile


def handed_over(s: Snapshot, facts: StreamFacts) -> Decision | NeedsInputs:
    """Decides about a statement that is Pending or Running."""
    s = with_loss(s)
    if s.inputs is None and facts.change is not None:
        return NeedsInputs()
    match s.operation:
        case Unobserved.UNKNOWN | OperationView(state=OperationState.CANCELED) if s.inputs is None:
            return NeedsInputs()  # it is submitted once more; or was ended, maybe for its text
        case Unobserved.UNKNOWN if s.statement.status.phase is not Phase.RUNNING:
            return _submit_again(s, facts)
        case Unobserved.UNREACHABLE | None:
            return run.out_of_reach(s, facts) if facts.is_stream else no_change(s, UNREACHABLE_SECONDS)
        case _:
            return run.follow(s, facts) if facts.is_stream else _follow(s)


def _submit_again(s: Snapshot, facts: StreamFacts) -> Decision:
    """Submits the statement once more, or asks to end it.

    The intent was recorded, and the gateway does not know the operation.
    """
    status = s.statement.status
    cancellation = cancellation_due(s, takes_in_change=takes_in_change(s, facts))
    if cancellation is not None:
        return cancel(s, cancellation)
    if (
        submission_blocker(s) is not None
        or facts.change is not None
        or isinstance(facts.restore_source, Waiting | Violation)
    ):
        return cancel(s, CancelRequest(boot_id=boot_id(s), reason="it cannot be submitted any more"))
    if s.refusal is not None and (s.now - s.refusal.since).total_seconds() >= REFUSED_SECONDS:
        return give_up(s, facts, _refused(s.refusal))
    if isinstance(s.inputs, Inputs) and isinstance(s.settings, Settings) and status.operation_id:
        request = submit_request(s, boot_id(s), s.settings, s.inputs, status.streaming)
        submit = Submit(status.operation_id, request)
        return no_change(s, HANDED_OVER_SECONDS, submit) if s.refusal is None else _try_again(s, s.refusal, submit)
    return no_change(s, UNREACHABLE_SECONDS)


def _try_again(s: Snapshot, refusal: Refusal, submit: Submit) -> Decision:
    """Submits to a driver that has refused it, and names the end of that in the message."""
    until = refusal.since + timedelta(seconds=REFUSED_SECONDS)
    message = f"the driver does not take it: {refusal.message}; tried again until {until:%H:%M:%S} UTC"
    status = with_phase(s.statement, s.now, Phase.PENDING, Reason.DRIVER_REFUSED, message)
    return Decision(status, (submit,), requeue_after=UNREACHABLE_SECONDS)


def _refused(refusal: Refusal) -> Violation:
    message = (
        f"the driver did not take it within {REFUSED_SECONDS:g} s: {refusal.message}; it did not run. "
        "Restart the session (spec.restartNonce) if its driver is of another version, or shorten the text and its parameters"
    )
    return Violation(Reason.DRIVER_REFUSED, message)


def _follow(s: Snapshot) -> Decision:
    match s.operation:
        case OperationView(state=OperationState.PENDING | OperationState.RUNNING) as view:
            return _in_progress(s, view)
        case OperationView(state=OperationState.CLOSED) as view if not is_closing(s):
            return _driver_gone(s, compose("the driver was shut down"), view)
        case OperationView(state=OperationState.CANCELED, start_time=None) as view if cancellation_due(s) is None:
            blocker = submission_blocker(s)
            if blocker is not None:
                return end(s, Phase.ERROR, blocker.reason, blocker.message, **view_update(view))
            return _finish(s, view)
        case OperationView() as view:
            return _finish(s, view)
        case Unobserved.UNKNOWN:
            return _driver_gone(s, compose("the driver no longer has the statement"))
        case Unobserved.DRIVER_GONE | Unobserved.UNREACHABLE | None:  # of the last two `handed_over` decides
            return _driver_gone(s, compose("the driver no longer exists"))
        case other:
            assert_never(other)


def _in_progress(s: Snapshot, view: OperationView) -> Decision:
    cancellation = cancellation_due(s)
    if is_running(s, view):
        if cancellation is None and (left := brief_left(s, view)):
            return no_change(s, min(left, next_deadline(s)))
        return follow_operation(s, view, cancellation, Reason.RUNNING, awaited_executors(s))
    message = "waits in the driver for statements that exclude it"
    return follow_operation(s, view, cancellation, Reason.SUBMITTED, message)


def _finish(s: Snapshot, view: OperationView) -> Decision:
    outcome = end_beside_executors(s, view)
    if outcome.phase is Phase.FINISHED:
        return end(s, outcome.phase, outcome.reason, fit_message(s, view), **view_update(view))
    spec, status = s.statement.spec, s.statement.status
    retry_reasons = {reason.value for reason in spec.retry.on}
    if outcome.reason.value in retry_reasons and status.failed_attempts < spec.retry.limit and not is_unwanted(s):
        return retry(s, outcome.reason, outcome.message)
    return end(s, outcome.phase, outcome.reason, outcome.message, **view_update(view))


def _driver_gone(s: Snapshot, what: Message, view: OperationView | None = None) -> Decision:
    """Decides without knowing the outcome: `retry` decides first, then reads run again until they have lost too many drivers."""
    status, spec = s.statement.status, s.statement.spec
    known: StatusUpdate = view_update(view) if view else {}
    if is_closing(s):
        return end(
            s, Phase.CLOSED, Reason.SESSION_CLOSED, compose("{what} and its session is closed", what=what), **known
        )
    if spec.desired_state is not DesiredState.RUNNING:
        return end(
            s, Phase.CANCELED, Reason.CANCELED_BY_USER, compose("{what}; canceled, outcome unknown", what=what), **known
        )
    if view is not None and view.start_time is None:
        message = compose("{what} before the statement began; it is handed over again", what=what)
        return new_attempt(s, Reason.SESSION_NOT_READY, message, delay=0.0, failed=status.failed_attempts)
    is_read = bool(known.get("read_only", status.read_only))
    if status.failed_attempts < spec.retry.limit and RetryReason.SESSION_LOST in spec.retry.on:
        return retry(s, Reason.SESSION_LOST, what)
    if may_end_drivers(s):
        return end(s, Phase.ERROR, Reason.SESSION_LOST, _last_loss(s, what, is_read=is_read), **known)
    if is_read:
        message = compose(
            "{what}; a read runs again (attempt {number}; {count})",
            what=what,
            number=status.attempt + 1,
            count=told_count(s),
        )
        return new_attempt(s, Reason.SESSION_LOST, message, delay=0.0, failed=status.failed_attempts)
    assert status.phase is not None
    message = compose(
        "{what} while the statement was {phase}; outcome unknown. Check its target before you run it again (runNonce)",
        what=what,
        phase=status.phase,
    )
    return end(s, Phase.ERROR, Reason.SESSION_LOST, message, **known)


def _last_loss(s: Snapshot, what: Message, *, is_read: bool) -> Message:
    """The message of a statement that ends because it lost too many drivers."""
    pods = s.statement.status.lost_drivers
    effect = compose("It is a read and has changed nothing" if is_read else "Its outcome is unknown: check its target")
    return compose(
        "{what}: {count} drivers were lost while the statement ran ({pods}). It may be the cause, so it does "
        "not run again. {effect}. Look for the cause in the session's Events (DriverLost) and in the logs of these pods "
        "before you run it again (runNonce)",
        what=what,
        count=len(pods),
        pods=Name(tuple(pods)),
        effect=effect,
    )
