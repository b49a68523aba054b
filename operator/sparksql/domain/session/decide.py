"""What to do about a session, from a snapshot. Pure: the whole lifecycle of a session is in this file.

Invariants (property tests): a new driver is started only when the pod before it is gone; its incarnation only
grows and is in the status before the pod is made; Closed is final; each waiting phase has a deadline with its own reason.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal, assert_never

from sparksql.api.conditions import Condition
from sparksql.api.names import driver_pod_name
from sparksql.api.reasons import Reason
from sparksql.api.session import DriverStatus, SqlSessionStatus, StatementCounts
from sparksql.api.session import SessionPhase as Phase
from sparksql.domain.backoff import exponential
from sparksql.domain.note import Note
from sparksql.domain.refusal import Refusal
from sparksql.domain.session.snapshot import Command, Decision, PodFacts, Snapshot
from sparksql.domain.session.status import advance, reason_of
from sparksql.domain.session.wishes import (
    driver_spec_hash,
    idle_conditions,
    idle_left,
    lifetime_left,
    phase_age,
    state_lost_conditions,
    wants_restart,
    wants_stop,
)
from sparksql.wire.control import GatewayState

FINALIZER_SECONDS = 30.0  # deadline of the contract for deleting a session
RESTART_BACKOFF_SECONDS = 1.0
MAX_RESTART_BACKOFF_SECONDS = 60.0
STABLE_SECONDS = 600.0  # a driver that stayed up this long makes earlier restarts forgotten
COUNTER_SECONDS = 5.0  # counters are written at most this often
ACTIVITY_SECONDS = 60.0
POLL_SECONDS = 5.0  # wake-up while something else makes progress; its watch usually comes first
STALLED_SECONDS = 30.0

# Reasons that a person must look at; they heal by themselves when the cause goes.
_STALLED = frozenset(
    {
        Reason.CLASS_NOT_FOUND,
        Reason.NOT_ALLOWED,
        Reason.LIMIT_EXCEEDED,
        Reason.NOT_IMPLEMENTED,
        Reason.INVALID_SPEC,
        Reason.STORAGE_NOT_READY,
        Reason.INIT_SOURCE_NOT_FOUND,
        Reason.CHILD_CONFLICT,
    }
)


def decide(s: Snapshot) -> Decision:
    """The decision for the session of snapshot `s`."""
    if s.session.metadata.deletion_timestamp is not None:
        return _deleting(s)
    match s.session.status.phase:
        case None | Phase.PENDING | Phase.HIBERNATED:
            return _pending(s)
        case Phase.STARTING:
            return _starting(s)
        case Phase.READY:
            return _ready(s)
        case Phase.DRAINING:
            return _draining(s)
        case Phase.STOPPED:
            return _stay(s) if wants_stop(s) else _pending(s)
        case Phase.FAILED:
            return _failed(s)
        case Phase.CLOSED:
            return _stay(s)
        case other:
            assert_never(other)


# --- no driver


def _pending(s: Snapshot) -> Decision:
    status = s.session.status
    if wants_stop(s):
        return _settle(s, Phase.STOPPED, Reason.STOPPED, "stopped by desiredState")
    if s.namespace_terminating:
        return _wait(s, Phase.PENDING, Reason.NAMESPACE_TERMINATING, "the namespace is being deleted")
    refusal = s.obstacle or (s.resolution if isinstance(s.resolution, Refusal) else None)
    if refusal is None and s.over_session_limit:
        refusal = Refusal(
            Reason.LIMIT_EXCEEDED,
            "the class's sessionsPerNamespace is used up; delete a session or use an existing one",
        )
    if refusal is not None:
        return _refused(s, refusal)
    if s.pod is not None:
        return _wait(
            s,
            Phase.PENDING,
            Reason.DRIVER_TERMINATING,
            f"waits for pod {s.pod.name} to end",
            Command.DELETE_DRIVER,
            wake=1.0,
        )
    if status.next_start_time is not None and status.next_start_time > s.now:
        left = (status.next_start_time - s.now).total_seconds()
        return _wait(
            s, Phase.PENDING, Reason.DRIVER_RESTARTING, f"restart {status.restarts} comes after a pause", wake=left
        )
    return _start(s)


def _refused(s: Snapshot, refusal: Refusal) -> Decision:
    if refusal.reason in _STALLED:
        status = advance(s.session, s.now, Phase.PENDING, refusal.reason, refusal.message, stalled=True)
        return Decision(
            status, notes=_news(s, "Warning", refusal.reason, refusal.message), requeue_after=STALLED_SECONDS
        )
    if refusal.reason is not Reason.NAMESPACE_TERMINATING and phase_age(s) > s.deadlines.scheduling:
        return _settle(s, Phase.FAILED, refusal.reason, refusal.message)
    return _wait(s, s.session.status.phase or Phase.PENDING, refusal.reason, refusal.message)


def _start(s: Snapshot) -> Decision:
    session = s.session
    incarnation = (session.status.driver.incarnation if session.status.driver else 0) + 1
    driver = DriverStatus(
        pod_name=driver_pod_name(session.metadata.name, session.metadata.uid, incarnation),
        incarnation=incarnation,
        start_time=s.now,
    )
    status = advance(
        session,
        s.now,
        Phase.STARTING,
        Reason.DRIVER_STARTING,
        f"starts driver {driver.pod_name}",
        driver=driver,
        config_hash=driver_spec_hash(session.spec),
        observed_restart_nonce=session.spec.restart_nonce,
        next_start_time=None,
        statements=_counts(s),
    )
    return Decision(
        status,
        (Command.START_DRIVER,),
        notes=(Note("Normal", Reason.DRIVER_STARTING, f"incarnation {incarnation}"),),
        requeue_after=POLL_SECONDS,
    )


# --- a driver on its way


def _starting(s: Snapshot) -> Decision:
    if wants_stop(s):
        return _drain(s, Reason.STOPPED, "stopped by desiredState")
    if wants_restart(s):
        return _drain(s, Reason.SPEC_CHANGED, "the spec changed while the driver was starting")
    if s.obstacle is not None:
        return _refused(s, s.obstacle) if s.obstacle.reason not in _STALLED else _refused_start(s, s.obstacle)
    driver, pod = s.session.status.driver, s.pod
    if s.gateway is not None and s.gateway.state is GatewayState.INIT_FAILED:
        return _init_failed(s)
    if pod is None and driver is not None and driver.pod_uid is None:
        if isinstance(s.resolution, Refusal):
            return _refused_start(s, s.resolution)
        if s.namespace_terminating:
            return _wait(s, Phase.STARTING, Reason.NAMESPACE_TERMINATING, "the namespace is being deleted")
        return Decision(s.session.status, (Command.START_DRIVER,), requeue_after=POLL_SECONDS)
    if pod is None:
        return _lost(s, Reason.DRIVER_LOST, "the driver pod is gone")
    if pod.ended is not None:
        return _lost(s, Reason.DRIVER_LOST, f"the driver ended while starting: {pod.ended}")
    if pod.ready and s.gateway is not None and s.gateway.state is GatewayState.READY:
        return _became_ready(s, pod)
    return _waiting_for_pod(s, pod)


def _refused_start(s: Snapshot, refusal: Refusal) -> Decision:
    status = advance(s.session, s.now, Phase.PENDING, refusal.reason, refusal.message, stalled=True)
    return Decision(status, notes=_news(s, "Warning", refusal.reason, refusal.message), requeue_after=STALLED_SECONDS)


def _waiting_for_pod(s: Snapshot, pod: PodFacts) -> Decision:
    known = _with_pod(s, pod)
    age = (s.now - pod.created).total_seconds()
    if pod.unschedulable is not None:
        if age > s.deadlines.scheduling:
            return _settle(s, Phase.FAILED, Reason.UNSCHEDULABLE, pod.unschedulable, Command.DELETE_DRIVER)
        return _wait(s, Phase.STARTING, Reason.UNSCHEDULABLE, pod.unschedulable, driver=known)
    if pod.image_problem is not None:
        if age > s.deadlines.image_pull:
            return _settle(s, Phase.FAILED, Reason.IMAGE_PULL_FAILED, pod.image_problem, Command.DELETE_DRIVER)
        return _wait(s, Phase.STARTING, Reason.IMAGE_PULL_FAILED, pod.image_problem, driver=known)
    begun = pod.started or pod.created
    limit = s.deadlines.driver_start + (0 if pod.started else s.deadlines.image_pull)
    if (s.now - begun).total_seconds() > limit:
        message = f"the driver was not ready {limit:g} s after its start; see the logs of pod {pod.name}"
        return _lost(s, Reason.DRIVER_NOT_READY, message, Command.DELETE_DRIVER)
    return _wait(s, Phase.STARTING, Reason.DRIVER_STARTING, "waits for the driver to be ready", driver=known)


def _init_failed(s: Snapshot) -> Decision:
    failure = s.gateway.init_failure if s.gateway else None
    message = "an init statement failed"
    if failure is not None:
        message = (
            f"spec.init: statement {failure.position} failed: {failure.error.message} (statement: {failure.statement})"
        )
    return _settle(s, Phase.FAILED, Reason.INIT_FAILED, message, Command.DELETE_DRIVER)


def _became_ready(s: Snapshot, pod: PodFacts) -> Decision:
    gateway, driver = s.gateway, s.session.status.driver
    assert gateway is not None and driver is not None
    ready = driver.replace(
        pod_uid=pod.uid,
        boot_id=gateway.boot_id,
        spark_version=gateway.spark_version,
        spark_application_id=gateway.spark_application_id,
    )
    status = advance(
        s.session,
        s.now,
        Phase.READY,
        Reason.READY,
        driver=ready,
        statements=_counts(s),
        last_activity_time=s.now,
        extra=idle_conditions(s),
    )
    return Decision(
        status, notes=(Note("Normal", Reason.READY, f"driver {pod.name} is ready"),), requeue_after=COUNTER_SECONDS
    )


# --- a driver that serves


def _ready(s: Snapshot) -> Decision:
    status, pod = s.session.status, s.pod
    if pod is None:
        return _lost(s, Reason.DRIVER_LOST, "the driver pod is gone")
    if pod.ended is not None:
        return _lost(s, Reason.DRIVER_LOST, f"the driver ended: {pod.ended}")
    if pod.deleting:
        return _wait(
            s, Phase.READY, Reason.DRIVER_TERMINATING, "the driver pod is being deleted", extra=idle_conditions(s)
        )
    if wants_stop(s):
        return _drain(s, Reason.STOPPED, "stopped by desiredState")
    if s.session.spec.restart_nonce != status.observed_restart_nonce:
        return _drain(s, Reason.RESTART_REQUESTED, "restartNonce changed")
    if wants_restart(s):
        return _drain(s, Reason.SPEC_CHANGED, "the spec changed")
    if lifetime_left(s) == 0:
        return _drain(s, Reason.MAX_LIFETIME_REACHED, "maxLifetimeSeconds has passed")
    idle = idle_left(s)
    if idle == 0:
        return _drain(s, Reason.IDLE_TIMEOUT, "idle.timeoutSeconds has passed without a statement")
    return _serving(s, idle)


def _serving(s: Snapshot, idle: float | None) -> Decision:
    status, counts = s.session.status, _counts(s)
    updates: dict[str, Any] = {}
    since = (s.now - status.last_activity_time).total_seconds() if status.last_activity_time else COUNTER_SECONDS
    changed = counts != (status.statements or StatementCounts())
    busy = bool(s.running or s.queued)
    if since >= (COUNTER_SECONDS if changed else ACTIVITY_SECONDS) and (changed or busy):
        updates |= {"statements": counts, "last_activity_time": s.now}
    if status.restarts and phase_age(s) > STABLE_SECONDS:
        updates["restarts"] = 0
    wakes = [ACTIVITY_SECONDS, *(w for w in (idle, lifetime_left(s)) if w is not None)]
    if changed and "statements" not in updates:
        wakes.append(COUNTER_SECONDS - since)
    following = advance(s.session, s.now, Phase.READY, Reason.READY, extra=idle_conditions(s), **updates)
    return Decision(following, requeue_after=max(0.1, min(wakes)))


# --- a driver on its way out


def _drain(s: Snapshot, reason: Reason, message: str) -> Decision:
    status = advance(s.session, s.now, Phase.DRAINING, reason, message, statements=_counts(s))
    return Decision(status, notes=(Note("Normal", reason, message),), requeue_after=0.0)


def _draining(s: Snapshot) -> Decision:
    """Wait for running statements up to a deadline, then for the pod to be gone, then go where the reason leads."""
    reason = reason_of(s.session.status)
    pod = s.pod
    if pod is not None:
        waited = phase_age(s)
        if s.running and waited < s.deadlines.drain and not pod.deleting and pod.ended is None:
            message = f"waits for {s.running} running statements"
            return _wait(
                s, Phase.DRAINING, Reason(reason), message, wake=min(POLL_SECONDS, s.deadlines.drain - waited + 0.05)
            )
        return _wait(
            s, Phase.DRAINING, Reason(reason), f"waits for pod {pod.name} to end", Command.DELETE_DRIVER, wake=1.0
        )
    match reason:
        case Reason.STOPPED if wants_stop(s):
            return _settle(s, Phase.STOPPED, Reason.STOPPED, "stopped by desiredState")
        case Reason.IDLE_TIMEOUT | Reason.MAX_LIFETIME_REACHED:
            return _settle(s, Phase.CLOSED, Reason(reason), s.session.status.message or "")
        case _:
            extra = state_lost_conditions(s)
            status = advance(
                s.session, s.now, Phase.PENDING, Reason.DRIVER_RESTARTING, "restarts", extra=extra, restarts=0
            )
            return Decision(status, notes=_state_lost_notes(s), requeue_after=0.0)


def _lost(s: Snapshot, reason: Reason, message: str, *commands: Command) -> Decision:
    """The driver is gone or useless: start another one, a bounded number of times."""
    restarts = s.session.status.restarts + 1
    if phase_age(s) > STABLE_SECONDS and s.session.status.phase is Phase.READY:
        restarts = 1
    if restarts > s.max_restarts:
        return _settle(
            s,
            Phase.FAILED,
            reason,
            f"{message}; gave up after {s.max_restarts} restarts. Change restartNonce to try again",
            *commands,
        )
    delay = exponential(restarts, RESTART_BACKOFF_SECONDS, MAX_RESTART_BACKOFF_SECONDS)
    status = advance(
        s.session,
        s.now,
        Phase.PENDING,
        reason,
        message,
        restarts=restarts,
        next_start_time=s.now + timedelta(seconds=delay),
        extra=state_lost_conditions(s),
    )
    note = Note("Warning", reason, f"{message}; restart {restarts} in {delay:g} s")
    return Decision(status, commands, notes=(note, *_state_lost_notes(s)), requeue_after=delay)


def _failed(s: Snapshot) -> Decision:
    """A person must act: a changed spec or restartNonce starts it again."""
    status, spec = s.session.status, s.session.spec
    if wants_stop(s):
        return _settle(s, Phase.STOPPED, Reason.STOPPED, "stopped by desiredState", Command.DELETE_DRIVER)
    if spec.restart_nonce != status.observed_restart_nonce or driver_spec_hash(spec) != status.config_hash:
        renewed = advance(
            s.session, s.now, Phase.PENDING, Reason.DRIVER_RESTARTING, "starts again", restarts=0, next_start_time=None
        )
        return Decision(renewed, requeue_after=0.0)
    return _stay(s)


def _deleting(s: Snapshot) -> Decision:
    """Statements end first (each closes by itself), then the driver; after the deadline let go all the same."""
    deleted = s.session.metadata.deletion_timestamp or s.now
    gone = s.pod is None or s.pod.ended is not None
    if s.namespace_terminating or (gone and not s.running and not s.queued):
        return Decision(s.session.status, finalizer=False)
    left = FINALIZER_SECONDS - (s.now - deleted).total_seconds()
    if left <= 0:
        note = Note("Warning", Reason.FINALIZER_DEADLINE, "let go before the driver pod was confirmed gone")
        return Decision(s.session.status, (Command.DELETE_DRIVER,), finalizer=False, notes=(note,))
    status = advance(s.session, s.now, Phase.DRAINING, Reason.DELETING, "is being deleted")
    statements_first = s.running and left > FINALIZER_SECONDS / 2
    commands = () if gone or statements_first else (Command.DELETE_DRIVER,)
    return Decision(status, commands, requeue_after=min(0.5, left))


# --- parts of a status


def _counts(s: Snapshot) -> StatementCounts:
    return StatementCounts(running=s.running, queued=s.queued)


def _with_pod(s: Snapshot, pod: PodFacts) -> DriverStatus | None:
    driver = s.session.status.driver
    return driver.replace(pod_uid=pod.uid) if driver is not None else None


def _news(s: Snapshot, type_: Literal["Normal", "Warning"], reason: Reason, message: str) -> tuple[Note, ...]:
    """A note, unless this is already what the status says."""
    known = reason_of(s.session.status) == reason and s.session.status.message == message
    return () if known else (Note(type_, reason, message),)


def _state_lost_notes(s: Snapshot) -> tuple[Note, ...]:
    return tuple(Note("Warning", Reason.SESSION_STATE_LOST, c.message) for c in state_lost_conditions(s))


# --- shapes of a decision


def _stay(s: Snapshot) -> Decision:
    """Nothing to decide until somebody changes something; a driver left over by an unclean end is swept."""
    status = s.session.status.replace(observed_generation=s.session.metadata.generation)
    left_over = s.pod is not None and s.pod.ended is None
    commands = (Command.DELETE_DRIVER,) if left_over else ()
    return Decision(status, commands, requeue_after=POLL_SECONDS if left_over else None)


def _wait(
    s: Snapshot,
    phase: Phase,
    reason: Reason,
    message: str,
    *commands: Command,
    wake: float = POLL_SECONDS,
    extra: tuple[Condition, ...] = (),
    **updates: Any,
) -> Decision:
    status: SqlSessionStatus = advance(s.session, s.now, phase, reason, message, extra=extra, **updates)
    return Decision(status, commands, requeue_after=wake)


def _settle(s: Snapshot, phase: Phase, reason: Reason, message: str, *commands: Command) -> Decision:
    """A phase that lasts until somebody changes something."""
    status = advance(s.session, s.now, phase, reason, message, statements=_counts(s), next_start_time=None)
    type_: Literal["Normal", "Warning"] = "Warning" if phase is Phase.FAILED else "Normal"
    return Decision(status, commands, notes=_news(s, type_, reason, message))
