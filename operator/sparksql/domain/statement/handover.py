"""A statement on its way to a driver and in its hands: Pending and Running. Pure.

The intent is written first; from then on only the gateway's word, or the confirmed end of its pod, decides. What these mean
for a streaming statement is in `stream.run`.
"""

from __future__ import annotations

from typing import Any, assert_never

from sparksql.api.reasons import Reason
from sparksql.api.statement import RetryReason, StatementSession
from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.event import Event
from sparksql.domain.statement.comparison import fitting, state_of
from sparksql.domain.statement.deadlines import (
    HANDED_OVER_SECONDS,
    boot_id,
    is_closing,
    is_unwanted,
    next_limit,
    queue_left,
    wish,
)
from sparksql.domain.statement.decision import Cancel, Command, Decision, NeedsInputs, Submit
from sparksql.domain.statement.identity import operation_id, sql_hash
from sparksql.domain.statement.outcome import end_of, seen
from sparksql.domain.statement.snapshot import Driver, Inputs, MissingReference, Settings, Snapshot, Unobserved
from sparksql.domain.statement.status import advance
from sparksql.domain.statement.steps import UNREACHABLE_SECONDS, cancel, end, new_attempt, retry, stay
from sparksql.domain.statement.stream import run as stream_run
from sparksql.domain.statement.stream.spec import change, is_stream
from sparksql.domain.statement.submission import begun, request
from sparksql.domain.violation import Violation
from sparksql.wire.control import CancelRequest, OperationState, OperationView

MAX_READ_ATTEMPTS = 3  # reads whose driver was lost run again up to this many attempts

TEXT_CHANGED = (
    "spec.sqlFrom: the ConfigMap's text changed after this run was handed over; change runNonce to run the new text"
)


def hand_over(s: Snapshot, driver: Driver, settings: Settings, inputs: Inputs, met: tuple[str, ...]) -> Decision:
    """Record the intent; the submit that goes with it is sent only after the status is written."""
    status, metadata = s.statement.status, s.statement.metadata
    hindrance = _hindrance(s)
    if hindrance is not None:
        return end(s, Phase.ERROR, hindrance.reason, hindrance.message)
    operation = operation_id(metadata.uid, status.run, status.attempt)
    updates: dict[str, Any] = {}
    streaming = begun(s, settings) if is_stream(s.statement.spec) else None
    if streaming is not None:
        updates["streaming"] = streaming
    ref = StatementSession(
        name=s.session.name if s.session else "",
        pod_name=driver.pod_name,
        pod_uid=driver.pod_uid,
        boot_id=driver.boot_id,
    )
    pending = advance(
        s.statement,
        s.now,
        Phase.PENDING,
        Reason.SUBMITTED,
        f"handed to driver {driver.pod_name}",
        operation_id=operation,
        session=ref,
        sql_hash=sql_hash(inputs.sql),
        met_dependencies=met,
        next_attempt_time=None,
        **updates,
    )
    submitted = request(s, driver.boot_id, settings, inputs, streaming)
    return Decision(pending, (Submit(operation, submitted),), requeue_after=queue_left(s) or HANDED_OVER_SECONDS)


def handed_over(s: Snapshot) -> Decision | NeedsInputs:
    """The decision for a statement that is Pending or Running."""
    streams = is_stream(s.statement.spec)
    if s.inputs is None and change(s) is not None:
        return NeedsInputs()
    match s.operation:
        case Unobserved.UNKNOWN | OperationView(state=OperationState.CANCELED) if s.inputs is None:
            return NeedsInputs()  # it is submitted once more; or was ended, maybe for its text
        case OperationView() as view:
            return stream_run.follow(s, view) if streams else _follow(s, view)
        case Unobserved.DRIVER_GONE:
            return _lost(s, "the driver is gone")
        case Unobserved.UNREACHABLE | None:
            return stream_run.out_of_reach(s) if streams else stay(s, UNREACHABLE_SECONDS)
        case Unobserved.UNKNOWN:
            return _not_arrived(s)
        case other:
            assert_never(other)


def _lost(s: Snapshot, what: str) -> Decision:
    return stream_run.driver_gone(s, what) if is_stream(s.statement.spec) else _driver_gone(s, what)


def _not_arrived(s: Snapshot) -> Decision:
    """The gateway answers but does not know the operation: the intent was recorded, the submit never arrived."""
    status = s.statement.status
    if status.phase is Phase.RUNNING:
        return _lost(s, "the driver does not know the statement any more")
    wanted = wish(s)
    if wanted is not None:
        return cancel(s, wanted)
    if _hindrance(s) is not None or change(s) is not None:
        return cancel(s, CancelRequest(boot_id=boot_id(s), reason="it cannot be submitted any more"))
    if isinstance(s.inputs, Inputs) and isinstance(s.settings, Settings) and status.operation_id:
        submitted = request(s, boot_id(s), s.settings, s.inputs, status.streaming)
        return stay(s, HANDED_OVER_SECONDS, Submit(status.operation_id, submitted))
    return stay(s, UNREACHABLE_SECONDS)


def _hindrance(s: Snapshot) -> Violation | None:
    """Why the text of this run may not be submitted: policy, references, or another text than the one recorded."""
    if isinstance(s.settings, Violation):
        return s.settings
    known, state = s.statement.status.sql_hash, state_of(s)
    if isinstance(state, Violation):
        return state
    if isinstance(state, MissingReference):
        return Violation(Reason.INVALID_SPEC, state.message)
    match s.inputs:
        case Violation() as violation:
            return violation
        case MissingReference(message):
            return Violation(Reason.INVALID_SPEC, message)
        case Inputs(sql) if known is not None and sql_hash(sql) != known:
            return Violation(Reason.INVALID_SPEC, TEXT_CHANGED)
        case _:
            return None


def _follow(s: Snapshot, view: OperationView) -> Decision:
    match view.state:
        case OperationState.PENDING | OperationState.RUNNING:
            return _in_progress(s, view)
        case OperationState.CLOSED if not is_closing(s):
            return _driver_gone(s, "the driver was shut down", view)
        case OperationState.CANCELED if wish(s) is None and view.start_time is None:
            hindrance = _hindrance(s)
            if hindrance is not None:
                return end(s, Phase.ERROR, hindrance.reason, hindrance.message, **seen(view))
            return _finish(s, view)
        case _:
            return _finish(s, view)


def _in_progress(s: Snapshot, view: OperationView) -> Decision:
    status = s.statement.status
    running = view.state is OperationState.RUNNING or status.phase is Phase.RUNNING
    phase, reason = (Phase.RUNNING, Reason.RUNNING) if running else (Phase.PENDING, Reason.SUBMITTED)
    message = "" if running else "waits in the driver for statements that exclude it"
    following = advance(s.statement, s.now, phase, reason, message, **seen(view))
    begins = running and status.phase is Phase.PENDING
    events = (Event("Normal", Reason.RUNNING, f"attempt {status.attempt} runs"),) if begins else ()
    wanted = wish(s)
    commands: tuple[Command, ...] = (Cancel(view.operation_id, wanted),) if wanted is not None else ()
    return Decision(following, commands, events=events, requeue_after=UNREACHABLE_SECONDS if wanted else next_limit(s))


def _finish(s: Snapshot, view: OperationView) -> Decision:
    outcome = end_of(view)
    if outcome.phase is Phase.FINISHED:
        return end(s, outcome.phase, outcome.reason, fitting(s), **seen(view))
    spec, status = s.statement.spec, s.statement.status
    retried = {reason.value for reason in spec.retry.on}
    if outcome.reason.value in retried and status.failed_attempts < spec.retry.limit and not is_unwanted(s):
        return retry(s, outcome.reason, outcome.message)
    return end(s, outcome.phase, outcome.reason, outcome.message, **seen(view))


def _driver_gone(s: Snapshot, what: str, view: OperationView | None = None) -> Decision:
    """The outcome is unknown: reads run again, everything else ends, unless `retry` says otherwise."""
    status, spec = s.statement.status, s.statement.spec
    known = seen(view) if view else {}
    if is_closing(s):
        return end(s, Phase.CLOSED, Reason.SESSION_CLOSED, f"{what} and its session is closed", **known)
    if spec.desired_state is not DesiredState.RUNNING:
        return end(s, Phase.CANCELED, Reason.CANCELED_BY_USER, f"{what}; canceled, outcome unknown", **known)
    if view is not None and view.start_time is None:
        message = f"{what} before the statement began; it is handed over again"
        return new_attempt(s, Reason.SESSION_NOT_READY, message, delay=0.0, failed=status.failed_attempts)
    if status.failed_attempts < spec.retry.limit and RetryReason.SESSION_LOST in spec.retry.on:
        return retry(s, Reason.SESSION_LOST, what)
    if known.get("read_only", status.read_only) and status.attempt < MAX_READ_ATTEMPTS:
        message = f"{what}; a read runs again (attempt {status.attempt + 1})"
        return new_attempt(s, Reason.SESSION_LOST, message, delay=0.0, failed=status.failed_attempts)
    message = f"{what} while the statement was {status.phase}; outcome unknown. Check its target before you run it again (runNonce)"
    return end(s, Phase.ERROR, Reason.SESSION_LOST, message, **known)
