"""What to do about a session, from a snapshot. Pure: with `starting` this is the whole life of a session.

Invariants (property tests): a new driver is started only when the pod before it is gone, or given up after its deadline and then
named to the next one as unconfirmed; its incarnation only grows and is in the status before the pod is made; Closed is final;
each waiting phase has a deadline with its own reason, but for the wait in a queue, whose length is the queue's to say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.settings import IdleAction
from sparksql.domain.conditions import ready_reason
from sparksql.domain.event import Event
from sparksql.domain.public_text import Message, compose
from sparksql.domain.session.counters import (
    bounded_statements,
    client_statements,
    counted,
    is_used,
    may_grow,
    statement_counts,
)
from sparksql.domain.session.desired import (
    driver_spec_hash,
    hibernated_conditions,
    idle_action,
    idle_left,
    kept_state,
    lifetime_left,
    phase_age,
    state_lost_conditions,
    wake_wish,
    wants_restart,
    wants_stop,
)
from sparksql.domain.session.executors import MISSING_SECONDS, executor_events, executors_status
from sparksql.domain.session.local_mode import with_fields_not_applied
from sparksql.domain.session.resolve import Resolved
from sparksql.domain.session.snapshot import Command, Decision, PodFacts, Snapshot
from sparksql.domain.session.starting import pending, ready_conditions, starting
from sparksql.domain.session.status import StatusUpdate, with_phase
from sparksql.domain.session.steps import (
    POLL_SECONDS,
    STABLE_SECONDS,
    drain,
    lost,
    no_change,
    outlived,
    settle,
    state_lost_events,
    vanished,
    wait,
)
from sparksql.domain.session.versions import skew_events
from sparksql.wire.control import GatewayState

FINALIZER_SECONDS = 30.0  # deadline of the contract for deleting a session
ACTIVITY_SECONDS = 60.0
ARRIVAL_SECONDS = 2.0  # a statement is handed over within one write of its status, by whom has seen the session Ready
# Reasons of starts that are repeated: the cause is the cluster's.
_CURABLE = frozenset(
    {
        Reason.UNSCHEDULABLE,
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_NOT_STARTED,
        Reason.QUOTA_EXCEEDED,
        Reason.FAILED_CREATE,
    }
)


def decide(s: Snapshot) -> Decision:
    """Returns the decision for the session of snapshot `s`, with the counters of what uses it."""
    decision = _decide(s)
    return counted(s, with_fields_not_applied(s, _placed(s, decision))) if decision.finalizer else decision


def _placed(s: Snapshot, decision: Decision) -> Decision:
    """The decision with what the status tells of the session's surroundings: its class, and the front before it."""
    status, taken = decision.status, s.session.spec.class_name
    if isinstance(s.resolution, Resolved):
        taken = s.resolution.effective.class_name
    if status.phase is Phase.CLOSED or (status.class_name, status.front) == (taken, s.front):
        return decision  # Closed is final, and has its last class
    return replace(decision, status=status.replace(class_name=taken, front=s.front))


def _decide(s: Snapshot) -> Decision:
    if s.session.metadata.deletion_timestamp is not None:
        return _deleting(s)
    match s.session.status.phase:
        case None | Phase.PENDING:
            return pending(s)
        case Phase.STARTING:
            return starting(s)
        case Phase.READY:
            return _ready(s)
        case Phase.DRAINING:
            return _draining(s)
        case Phase.HIBERNATED:
            return _hibernated(s)
        case Phase.STOPPED:
            return no_change(s) if wants_stop(s) else pending(s)
        case Phase.FAILED:
            return _failed(s)
        case Phase.CLOSED:
            return no_change(s)
        case other:
            assert_never(other)


def _ready(s: Snapshot) -> Decision:
    status, pod = s.session.status, s.pod
    if pod is None:
        return lost(s, Reason.DRIVER_LOST, vanished(s))
    if pod.ended is not None:
        return lost(s, Reason.DRIVER_LOST, compose("the driver ended: {end}", end=pod.ended))
    if s.is_pod_given_up:
        return lost(s, Reason.DRIVER_LOST, outlived(s, pod))
    if pod.deleting:
        return wait(
            s, Phase.READY, Reason.DRIVER_TERMINATING, "the driver pod is being deleted", extra=ready_conditions(s)
        )
    if wants_stop(s):
        return drain(s, Reason.STOPPED, compose("stopped by desiredState"))
    if s.session.spec.restart_nonce != status.observed_restart_nonce:
        return drain(s, Reason.RESTART_REQUESTED, compose("restartNonce changed"))
    if wants_restart(s):
        return drain(s, Reason.SPEC_CHANGED, compose("the spec changed"))
    if lifetime_left(s) == 0:
        return drain(s, Reason.MAX_LIFETIME_REACHED, compose("maxLifetimeSeconds has passed"))
    idle = idle_left(s)
    if idle == 0 and wake_wish(s) == status.observed_wake:
        unused = compose("idle.timeoutSeconds has passed without a statement or a client")
        hibernates = idle_action(s) is IdleAction.HIBERNATE
        return drain(s, Reason.HIBERNATING if hibernates else Reason.IDLE_TIMEOUT, unused)
    return _serving(s, idle)


def _serving(s: Snapshot, idle: float | None) -> Decision:
    status = s.session.status
    update: StatusUpdate = {}
    if wake_wish(s) != status.observed_wake:
        update["observed_wake"], update["last_activity_time"] = wake_wish(s), s.now
    since = (s.now - status.last_activity_time).total_seconds() if status.last_activity_time else ACTIVITY_SECONDS
    if since >= ACTIVITY_SECONDS and is_used(s):
        update["last_activity_time"] = s.now
    if status.restarts and phase_age(s) > STABLE_SECONDS:
        update["restarts"] = 0
    wakes = [ACTIVITY_SECONDS, *(w for w in (idle, lifetime_left(s)) if w is not None)]
    executors = update["executors"] = executors_status(s)
    if executors.ready < executors.wanted:
        wakes.append(MISSING_SECONDS)
    following = with_phase(s.session, s.now, Phase.READY, Reason.READY, extra=ready_conditions(s), **update)
    events = (*skew_events(s), *executor_events(s))
    return Decision(following, events=events, requeue_after=max(0.1, min(wakes)))


def _draining(s: Snapshot) -> Decision:
    """Wait for running statements up to a deadline, then for the pod to be gone, then go where the reason leads."""
    reason = ready_reason(s.session.status.conditions)
    pod = s.pod
    if pod is not None and not s.is_pod_given_up:
        left = s.deadlines.drain_seconds - phase_age(s)
        is_in_use = bounded_statements(s) or client_statements(s) or may_grow(s)
        if is_in_use and left > 0 and not pod.deleting and pod.ended is None:
            return _waiting_for_statements(s, Reason(reason), left)
        return _ending(s, Reason(reason), pod, left)
    match reason:
        case Reason.STOPPED if wants_stop(s):
            return settle(s, Phase.STOPPED, Reason.STOPPED, compose("stopped by desiredState"))
        case Reason.IDLE_TIMEOUT | Reason.MAX_LIFETIME_REACHED:
            return settle(
                s, Phase.CLOSED, Reason(reason), s.session.status.message or "", event=compose("closed").public
            )
        case Reason.HIBERNATING:
            return _falls_asleep(s)
        case _:
            extra = state_lost_conditions(s)
            status = with_phase(
                s.session,
                s.now,
                Phase.PENDING,
                Reason.DRIVER_RESTARTING,
                "restarts",
                extra=extra,
                restarts=0,
                failed_starts=0,
                next_start_time=None,
            )
            return Decision(status, events=state_lost_events(s), requeue_after=0.0)


def _ending(s: Snapshot, reason: Reason, pod: PodFacts, left: float) -> Decision:
    """Ends the driver. One that hibernates first takes nothing new, so that nobody's statement dies with it.

    Then a moment passes in which a statement arrives that was on its way, and what the driver holds is kept.
    """
    gateway, message = s.gateway, f"waits for pod {pod.name} to end"
    if reason is not Reason.HIBERNATING or pod.deleting or pod.ended is not None or left <= 0:
        return wait(s, Phase.DRAINING, reason, message, Command.DELETE_DRIVER, wake=1.0)
    if gateway is None or gateway.state is not GatewayState.DRAINING:
        told = "waits for the driver to accept no new work and to report what it has"
        return wait(s, Phase.DRAINING, reason, told, Command.DRAIN_DRIVER, wake=1.0)
    still = ARRIVAL_SECONDS - phase_age(s)
    if still > 0 or gateway.pending + gateway.running > gateway.streams:
        return wait(s, Phase.DRAINING, reason, "waits for statements that were being submitted", wake=max(0.1, still))
    kept = kept_state(s)
    commands = (Command.DELETE_DRIVER,) if kept is None else (Command.KEEP_STATE, Command.DELETE_DRIVER)
    return wait(s, Phase.DRAINING, reason, message, *commands, wake=1.0, kept_state=kept)


def _falls_asleep(s: Snapshot) -> Decision:
    """The driver is gone: hibernate, and say so if what it held went with it, as when it ended before that could be kept."""
    kept, driver = s.session.status.kept_state, s.session.status.driver
    lost = state_lost_conditions(s) if kept is None else ()
    if driver is not None and s.pod_end is not None:
        driver = driver.replace(boot_id=None)  # seen to end: nothing of it is to be waited for, however late the wake
    status = with_phase(
        s.session,
        s.now,
        Phase.HIBERNATED,
        Reason.HIBERNATED,
        "the next statement wakes it",
        extra=(*hibernated_conditions(kept), *lost),
        driver=driver,
        statements=statement_counts(s),
        restarts=0,
        next_start_time=None,
    )
    return Decision(status, events=state_lost_events(s) if lost else (), requeue_after=0.0)


def _hibernated(s: Snapshot) -> Decision:
    """Without a driver until somebody wants one: a statement, a savepoint, a person, or a changed rule about idle sessions."""
    if wants_stop(s):
        return settle(s, Phase.STOPPED, Reason.STOPPED, compose("stopped by desiredState"))
    if lifetime_left(s) == 0:
        return settle(s, Phase.CLOSED, Reason.MAX_LIFETIME_REACHED, compose("maxLifetimeSeconds has passed"))
    if idle_action(s) is IdleAction.CLOSE and not s.queued:
        return settle(s, Phase.CLOSED, Reason.IDLE_TIMEOUT, compose("idle.action is Close now, and it was not used"))
    why = _waked_by(s)
    if why is None:
        sleeping, left = no_change(s), lifetime_left(s)
        is_due = sleeping.requeue_after is None and left is not None
        return replace(sleeping, requeue_after=min(ACTIVITY_SECONDS, left or 0.0)) if is_due else sleeping
    message = compose("wakes for {why}", why=why)
    status = with_phase(s.session, s.now, Phase.PENDING, Reason.WAKING, message)
    return Decision(status, events=(Event.of("Normal", Reason.WAKING, message),), requeue_after=0.0)


def _waked_by(s: Snapshot) -> Message | None:
    """What a session that hibernates wakes for, None if it sleeps on."""
    status, spec = s.session.status, s.session.spec
    if s.queued or s.running:
        return compose("a statement")
    if s.savepoints:
        return compose("a savepoint")
    if wake_wish(s) != status.observed_wake:
        return compose("a client")
    if spec.restart_nonce != status.observed_restart_nonce:
        return compose("restartNonce, which has changed")
    if isinstance(s.resolution, Resolved) and idle_action(s) is None:
        return compose("idle.timeoutSeconds, which is 0 now")
    return None


def _waiting_for_statements(s: Snapshot, reason: Reason, left: float) -> Decision:
    """Clients go on while objects run; then the driver takes nothing new, so that they come to an end as well."""
    of_objects, of_clients = bounded_statements(s), client_statements(s)
    message = f"waits for {of_objects + of_clients} running statements"
    if of_clients:
        message += f", {of_clients} of them from clients"
    commands = () if of_objects else (Command.DRAIN_DRIVER,)
    return wait(s, Phase.DRAINING, reason, message, *commands, wake=min(POLL_SECONDS, left + 0.05))


def _failed(s: Snapshot) -> Decision:
    """The spec must change: that, or another restartNonce, starts it again.

    A session that an earlier version of the operator has given up for the cluster's refusal starts again by itself.
    """
    status, spec = s.session.status, s.session.spec
    is_curable = ready_reason(status.conditions) in _CURABLE
    if wants_stop(s):
        return settle(s, Phase.STOPPED, Reason.STOPPED, compose("stopped by desiredState"), Command.DELETE_DRIVER)
    is_changed = spec.restart_nonce != status.observed_restart_nonce or driver_spec_hash(spec) != status.config_hash
    if is_changed or is_curable:
        renewed = with_phase(
            s.session, s.now, Phase.PENDING, Reason.DRIVER_RESTARTING, "starts again", restarts=0, next_start_time=None
        )
        return Decision(renewed, requeue_after=0.0)
    return no_change(s)


def _deleting(s: Snapshot) -> Decision:
    """Statements end first (each closes by itself), then the driver; after the deadline let go all the same."""
    deleted = s.session.metadata.deletion_timestamp or s.now
    gone = s.pod is None or s.pod.ended is not None
    is_named = s.running or s.queued or s.resting
    if s.namespace_terminating or (gone and not is_named):
        return Decision(s.session.status, finalizer=False)
    left = FINALIZER_SECONDS - (s.now - deleted).total_seconds()
    if left <= 0:
        event = Event.of(
            "Warning", Reason.FINALIZER_DEADLINE, compose("finalizer removed before the driver pod's end was confirmed")
        )
        return Decision(s.session.status, (Command.DELETE_DRIVER,), finalizer=False, events=(event,))
    status = with_phase(s.session, s.now, Phase.DRAINING, Reason.DELETING, "is being deleted")
    statements_first = s.running and left > FINALIZER_SECONDS / 2
    commands = () if gone or statements_first else (Command.DELETE_DRIVER,)
    return Decision(status, commands, requeue_after=min(0.5, left))
