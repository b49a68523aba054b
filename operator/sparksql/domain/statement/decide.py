"""What to do about a statement, from a snapshot. Pure: the whole lifecycle of a batch statement is in this file.

Invariants (each a property test): only legal transitions; an ended phase stays until `runNonce` changes; an end after the
hand-over is decided only from the gateway's own word or from the confirmed end of its pod; nothing is submitted whose
intent (phase Pending, operation id, pod UID, boot id) is not in the status before; each waiting phase names its wake-up.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, assert_never

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.api.statement import RetryReason, SqlStatementStatus, StatementSession
from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain import dependencies
from sparksql.domain.backoff import exponential
from sparksql.domain.note import Note
from sparksql.domain.refusal import Refusal
from sparksql.domain.statement.identity import operation_id, sql_hash
from sparksql.domain.statement.limits import (
    HANDED_OVER_SECONDS,
    boot_id,
    is_closing,
    is_unwanted,
    next_limit,
    queue_left,
    wish,
)
from sparksql.domain.statement.outcome import end_of, seen
from sparksql.domain.statement.phases import is_ended
from sparksql.domain.statement.snapshot import (
    Cancel,
    Command,
    CreateSession,
    Decision,
    DeleteSelf,
    DeleteSession,
    Driver,
    Inputs,
    MissingReference,
    Settings,
    Silence,
    Snapshot,
    Submit,
)
from sparksql.domain.statement.status import advance
from sparksql.wire.control import CancelRequest, Mode, OperationState, OperationView, ResultOptions, SubmitRequest

FINALIZER_SECONDS = 15.0  # deadline of the contract for deleting a statement
REFERENCE_GRACE_SECONDS = 60.0  # a ConfigMap or Secret applied beside the statement may come a little later
MAX_READ_ATTEMPTS = 3  # reads whose driver was lost run again up to this many attempts
MAX_RETRY_BACKOFF_SECONDS = 600.0
AWAITED_SECONDS = 1.0
WAITING_SECONDS = 60.0  # wake-up of a statement that waits for an event
UNREACHABLE_SECONDS = 2.0

TEXT_CHANGED = (
    "spec.sqlFrom: the ConfigMap's text changed after this run was handed over; change runNonce to run the new text"
)


def decide(s: Snapshot) -> Decision:
    """The decision for the statement of snapshot `s`."""
    if s.statement.metadata.deletion_timestamp is not None:
        return _deleting(s)
    match s.statement.status.phase:
        case None:
            return _initialized(_new_run(s, run=1))
        case Phase.FINISHED | Phase.CANCELED | Phase.CLOSED | Phase.ERROR | Phase.TIMED_OUT:
            return _ended(s)
        case Phase.INITIALIZED:
            return _initialized(s)
        case Phase.PENDING | Phase.RUNNING:
            return _handed_over(s)
        case Phase.STOPPED:
            return _stay(s, WAITING_SECONDS)
        case other:
            assert_never(other)


# --- runs and attempts


def _new_run(s: Snapshot, run: int) -> Snapshot:
    """The snapshot with a status as at the start of run `run`."""
    fresh = SqlStatementStatus(
        observed_generation=s.statement.metadata.generation,
        phase=Phase.INITIALIZED,
        run=run,
        attempt=1,
        observed_run_nonce=s.statement.spec.run_nonce,
        submitted_time=s.now,
        met_dependencies=s.statement.status.met_dependencies,
        conditions=s.statement.status.conditions,
    )
    return _with_status(s, fresh)


def _new_attempt(s: Snapshot, reason: Reason, message: str, *, delay: float, failed: int) -> Decision:
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
    )
    return Decision(renewed, note=Note("Warning", reason, message), requeue_after=delay)


def _ended(s: Snapshot) -> Decision:
    status, spec = s.statement.status, s.statement.spec
    if spec.run_nonce != status.observed_run_nonce:
        # Accepted first and handed over in the next pass: only then is it in the session's line like all others.
        renewed = _new_run(s, run=status.run + 1).statement
        accepted = advance(renewed, s.now, Phase.INITIALIZED, Reason.PENDING, f"run {status.run + 1} is accepted")
        return Decision(accepted, requeue_after=0.0)
    commands: tuple[Command, ...] = (DeleteSession(),) if spec.session is not None else ()
    ttl = spec.ttl_seconds_after_finished
    if ttl is None or status.completion_time is None:
        return _stay(s, None, *commands)
    left = ttl - (s.now - status.completion_time).total_seconds()
    if left > 0:
        return _stay(s, left, *commands)
    if s.awaited:  # gone too early, it would be waited for again
        return _stay(s, AWAITED_SECONDS, *commands)
    return _stay(s, WAITING_SECONDS, *commands, DeleteSelf())


# --- waiting for a driver


def _initialized(s: Snapshot) -> Decision:
    spec = s.statement.spec
    if spec.desired_state is not DesiredState.RUNNING:
        return _end(s, Phase.CANCELED, Reason.CANCELED_BY_USER, "canceled before it was handed to a driver")
    if spec.streaming is not None:
        return _end(
            s, Phase.ERROR, Reason.NOT_IMPLEMENTED, "spec.streaming: streaming statements are not implemented yet"
        )
    if isinstance(s.settings, Refusal):
        return _end(s, Phase.ERROR, s.settings.reason, s.settings.message)
    if s.session is not None and s.session.is_closing and spec.session is None:
        return _end(s, Phase.CLOSED, Reason.SESSION_CLOSED, f"session {s.session.name} is closed")
    if s.queue_full:
        message = "the session's queue is full (maxQueuedStatements); raise it, or apply fewer statements at a time"
        return _end(s, Phase.ERROR, Reason.LIMIT_EXCEEDED, message)
    match s.dependencies:
        case dependencies.Cycle(path):
            return _end(s, Phase.ERROR, Reason.DEPENDENCY_CYCLE, f"spec.dependsOn is a cycle: {' -> '.join(path)}")
        case dependencies.Failed(name, phase):
            return _end(s, Phase.ERROR, Reason.DEPENDENCY_FAILED, f"{name} ended in {phase}")
        case dependencies.Unmet(met, waiting, missing):
            names = ", ".join((*waiting, *(f"{m} (does not exist)" for m in missing)))
            return _wait(s, Reason.WAITING_FOR_DEPENDENCIES, f"waits for {names}", met_dependencies=met)
        case dependencies.Met(met):
            return _waiting_for_turn(s, met)
        case other:
            assert_never(other)


def _waiting_for_turn(s: Snapshot, met: tuple[str, ...]) -> Decision:
    due = s.statement.status.next_attempt_time
    if due is not None and due > s.now:
        left = (due - s.now).total_seconds()
        return _wait(s, Reason.RETRYING, "waits before the next attempt", wake=left, met_dependencies=met)
    if s.session is None or s.session.driver is None:
        return _without_driver(s, met)
    if not isinstance(s.settings, Settings):
        return _wait(s, Reason.SESSION_NOT_READY, "waits for the session's class", met_dependencies=met)
    if not s.turn.granted:
        message = f"{s.turn.ahead} statements ahead in session {s.session.name}"
        return _wait(s, Reason.QUEUED_BEHIND_STATEMENTS, message, met_dependencies=met)
    match s.inputs:
        case Refusal(reason, message):
            return _end(s, Phase.ERROR, reason, message)
        case MissingReference(message):
            return _missing_reference(s, message, met)
        case Inputs() as inputs:
            return _hand_over(s, s.session.driver, s.settings, inputs, met)
        case None:
            return _stay(s, UNREACHABLE_SECONDS)
        case other:
            assert_never(other)


def _without_driver(s: Snapshot, met: tuple[str, ...]) -> Decision:
    spec, session = s.statement.spec, s.session
    if spec.session is not None and (session is None or session.deleting):
        commands = (CreateSession(),) if session is None else ()
        return _wait(s, Reason.SESSION_NOT_READY, "waits for its own session", *commands, met_dependencies=met)
    if session is None:
        name = spec.session_ref.name if spec.session_ref else ""
        return _wait(s, Reason.SESSION_NOT_READY, f"session {name} does not exist", met_dependencies=met)
    if spec.session is not None and session.problem is not None:
        return _dedicated_failed(s, *session.problem)
    if spec.session is not None and session.phase is SessionPhase.CLOSED:
        return _end(s, Phase.CLOSED, Reason.SESSION_CLOSED, "its own session was closed")
    message = f"session {session.name} is {session.phase or 'new'}"
    return _wait(s, Reason.SESSION_NOT_READY, message, met_dependencies=met)


def _dedicated_failed(s: Snapshot, reason: Reason, message: str) -> Decision:
    shown: Reason
    match reason:
        case Reason.NOT_ALLOWED | Reason.LIMIT_EXCEEDED:
            shown = reason
        case Reason.CLASS_NOT_FOUND | Reason.INIT_FAILED:
            shown = Reason.INVALID_SPEC
        case _:
            shown = Reason.SESSION_LOST
    return _end(s, Phase.ERROR, shown, f"its own session cannot start: {reason}: {message}")


def _missing_reference(s: Snapshot, message: str, met: tuple[str, ...]) -> Decision:
    since = s.statement.status.submitted_time or s.now
    if (s.now - since).total_seconds() > REFERENCE_GRACE_SECONDS:
        return _end(s, Phase.ERROR, Reason.INVALID_SPEC, message)
    return _wait(s, Reason.WAITING_FOR_SOURCE, message, wake=2.0, met_dependencies=met)


def _hand_over(s: Snapshot, driver: Driver, settings: Settings, inputs: Inputs, met: tuple[str, ...]) -> Decision:
    """Record the intent; the submit that goes with it is sent only after the status is written."""
    status, metadata = s.statement.status, s.statement.metadata
    hindrance = _hindrance(s)
    if hindrance is not None:
        return _end(s, Phase.ERROR, hindrance.reason, hindrance.message)
    operation = operation_id(metadata.uid, status.run, status.attempt)
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
    )
    request = _request(s, driver.boot_id, settings, inputs)
    return Decision(pending, (Submit(operation, request),), requeue_after=queue_left(s) or HANDED_OVER_SECONDS)


def _request(s: Snapshot, boot_id: str, settings: Settings, inputs: Inputs) -> SubmitRequest:
    spec, metadata = s.statement.spec, s.statement.metadata
    return SubmitRequest(
        boot_id=boot_id,
        namespace=metadata.namespace,
        name=metadata.name,
        sql=inputs.sql,
        mode=Mode(spec.mode),
        parameters=inputs.parameters,
        conf=dict(settings.conf),
        execution_seconds=settings.execution_seconds,
        result=ResultOptions(
            max_rows=spec.result.max_rows,
            preview_rows=settings.preview_rows,
            retention_seconds=spec.result.retention_seconds,
        ),
    )


# --- handed over: only the gateway, or the end of its pod, decides


def _handed_over(s: Snapshot) -> Decision:
    match s.operation:
        case OperationView() as view:
            return _follow(s, view)
        case Silence.DRIVER_GONE:
            return _driver_gone(s, "the driver is gone")
        case Silence.UNREACHABLE:
            return _stay(s, UNREACHABLE_SECONDS)
        case Silence.UNKNOWN:
            return _not_arrived(s)
        case None:
            return _stay(s, UNREACHABLE_SECONDS)
        case other:
            assert_never(other)


def _not_arrived(s: Snapshot) -> Decision:
    """The gateway answers but does not know the operation: the intent was recorded, the submit never arrived."""
    status = s.statement.status
    if status.phase is Phase.RUNNING:
        return _driver_gone(s, "the driver does not know the statement any more")
    wanted = wish(s)
    if wanted is not None:
        return _cancel(s, wanted)
    if _hindrance(s) is not None:
        return _cancel(s, CancelRequest(boot_id=boot_id(s), reason="it cannot be submitted any more"))
    if isinstance(s.inputs, Inputs) and isinstance(s.settings, Settings) and status.operation_id:
        return _stay(s, HANDED_OVER_SECONDS, Submit(status.operation_id, _request(s, boot_id(s), s.settings, s.inputs)))
    return _stay(s, UNREACHABLE_SECONDS)


def _hindrance(s: Snapshot) -> Refusal | None:
    """Why the text of this run may not be submitted: policy, references, or another text than the one recorded."""
    if isinstance(s.settings, Refusal):
        return s.settings
    known = s.statement.status.sql_hash
    match s.inputs:
        case Refusal() as refusal:
            return refusal
        case MissingReference(message):
            return Refusal(Reason.INVALID_SPEC, message)
        case Inputs(sql) if known is not None and sql_hash(sql) != known:
            return Refusal(Reason.INVALID_SPEC, TEXT_CHANGED)
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
                return _end(s, Phase.ERROR, hindrance.reason, hindrance.message, **seen(view))
            return _finish(s, view)
        case _:
            return _finish(s, view)


def _in_progress(s: Snapshot, view: OperationView) -> Decision:
    status = s.statement.status
    running = view.state is OperationState.RUNNING or status.phase is Phase.RUNNING
    phase, reason = (Phase.RUNNING, Reason.RUNNING) if running else (Phase.PENDING, Reason.SUBMITTED)
    message = "" if running else "waits in the driver for statements that exclude it"
    following = advance(s.statement, s.now, phase, reason, message, **seen(view))
    note = (
        Note("Normal", Reason.RUNNING, f"attempt {status.attempt} runs")
        if running and status.phase is Phase.PENDING
        else None
    )
    wanted = wish(s)
    commands: tuple[Command, ...] = (Cancel(view.operation_id, wanted),) if wanted is not None else ()
    return Decision(following, commands, note=note, requeue_after=UNREACHABLE_SECONDS if wanted else next_limit(s))


def _finish(s: Snapshot, view: OperationView) -> Decision:
    end = end_of(view)
    spec, status = s.statement.spec, s.statement.status
    retried = {reason.value for reason in spec.retry.on}
    if end.reason.value in retried and status.failed_attempts < spec.retry.limit and not is_unwanted(s):
        return _retry(s, end.reason, end.message)
    return _end(s, end.phase, end.reason, end.message, **seen(view))


def _driver_gone(s: Snapshot, what: str, view: OperationView | None = None) -> Decision:
    """The outcome is unknown: reads run again, everything else ends, unless `retry` says otherwise."""
    status, spec = s.statement.status, s.statement.spec
    known = seen(view) if view else {}
    if is_closing(s):
        return _end(s, Phase.CLOSED, Reason.SESSION_CLOSED, f"{what} and its session is closed", **known)
    if spec.desired_state is not DesiredState.RUNNING:
        return _end(s, Phase.CANCELED, Reason.CANCELED_BY_USER, f"{what}; canceled, outcome unknown", **known)
    if view is not None and view.start_time is None:
        message = f"{what} before the statement began; it is handed over again"
        return _new_attempt(s, Reason.SESSION_NOT_READY, message, delay=0.0, failed=status.failed_attempts)
    if status.failed_attempts < spec.retry.limit and RetryReason.SESSION_LOST in spec.retry.on:
        return _retry(s, Reason.SESSION_LOST, what)
    if known.get("read_only", status.read_only) and status.attempt < MAX_READ_ATTEMPTS:
        message = f"{what}; a read runs again (attempt {status.attempt + 1})"
        return _new_attempt(s, Reason.SESSION_LOST, message, delay=0.0, failed=status.failed_attempts)
    message = f"{what} while the statement was {status.phase}; outcome unknown. Check its target before you run it again (runNonce)"
    return _end(s, Phase.ERROR, Reason.SESSION_LOST, message, **known)


def _retry(s: Snapshot, reason: Reason, message: str) -> Decision:
    failed = s.statement.status.failed_attempts + 1
    delay = exponential(failed, s.statement.spec.retry.backoff_seconds, MAX_RETRY_BACKOFF_SECONDS)
    return _new_attempt(
        s, reason, f"{message}; attempt {s.statement.status.attempt + 1} in {delay:g} s", delay=delay, failed=failed
    )


def _cancel(s: Snapshot, request: CancelRequest) -> Decision:
    return _stay(s, UNREACHABLE_SECONDS, Cancel(s.statement.status.operation_id or "", request))


# --- deletion


def _deleting(s: Snapshot) -> Decision:
    """End what runs, then let go; after the deadline let go all the same."""
    metadata, status = s.statement.metadata, s.statement.status
    deleted = metadata.deletion_timestamp or s.now
    commands: tuple[Command, ...] = (DeleteSession(),) if s.statement.spec.session is not None else ()
    settled = status.phase not in (Phase.PENDING, Phase.RUNNING) or s.namespace_terminating
    match s.operation:
        case OperationView(state=state) if state.is_terminal:
            settled = True
        case Silence.DRIVER_GONE:
            settled = True
        case _:
            pass
    if settled:
        return Decision(status, commands, finalizer=False)
    left = FINALIZER_SECONDS - (s.now - deleted).total_seconds()
    if left <= 0:
        note = Note(
            "Warning", Reason.FINALIZER_DEADLINE, "deleted without the driver's word that the statement has ended"
        )
        return Decision(status, commands, finalizer=False, note=note)
    wanted = wish(s)
    cancel: tuple[Command, ...] = (Cancel(status.operation_id, wanted),) if wanted and status.operation_id else ()
    return Decision(status, cancel, requeue_after=min(1.0, left))


# --- shapes of a decision


def _with_status(s: Snapshot, status: SqlStatementStatus) -> Snapshot:
    return replace(s, statement=s.statement.replace(status=status))


def _stay(s: Snapshot, wake: float | None, *commands: Command) -> Decision:
    status = s.statement.status.replace(observed_generation=s.statement.metadata.generation)
    return Decision(status, commands, requeue_after=wake)


def _wait(
    s: Snapshot, reason: Reason, message: str, *commands: Command, wake: float = WAITING_SECONDS, **updates: Any
) -> Decision:
    """Stay Initialized for `reason`, unless the queue timeout has passed."""
    left = queue_left(s)
    if left == 0:
        return _end(s, Phase.TIMED_OUT, Reason.QUEUE_TIMEOUT, f"queue timeout: {message}", **updates)
    status = advance(s.statement, s.now, Phase.INITIALIZED, reason, message, **updates)
    return Decision(status, commands, requeue_after=min(wake, left + 0.05) if left is not None else wake)


def _end(s: Snapshot, phase: Phase, reason: Reason, message: str, **updates: Any) -> Decision:
    if is_ended(s.statement.status.phase):
        return _stay(s, None)
    status = advance(s.statement, s.now, phase, reason, message, next_attempt_time=None, **updates)
    commands: tuple[Command, ...] = (DeleteSession(),) if s.statement.spec.session is not None else ()
    wanted = phase in (Phase.FINISHED, Phase.CANCELED)
    note = Note("Normal" if wanted else "Warning", reason, message)
    spec = s.statement.spec
    goes_on = spec.ttl_seconds_after_finished is not None or spec.run_nonce != status.observed_run_nonce
    return Decision(status, commands, note=note, requeue_after=0.0 if goes_on else None)
