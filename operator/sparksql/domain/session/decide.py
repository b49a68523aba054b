"""What to do about a session, from a snapshot. Pure: with `starting` this is the whole life of a session.

Invariants (property tests): a new driver is started only when the pod before it is gone, or given up after its deadline and then
named to the next one as unconfirmed; its incarnation only grows and is in the status before the pod is made; Closed is final;
each waiting phase has a deadline with its own reason, but for the wait in a queue, whose length is the queue's to say.
"""

from __future__ import annotations

from typing import assert_never

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.domain.conditions import ready_reason
from sparksql.domain.event import Event
from sparksql.domain.session.counters import bounded_statements, client_statements, counted, is_used, may_grow
from sparksql.domain.session.desired import (
    driver_spec_hash,
    idle_left,
    lifetime_left,
    phase_age,
    state_lost_conditions,
    wants_restart,
    wants_stop,
)
from sparksql.domain.session.snapshot import Command, Decision, Snapshot
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

FINALIZER_SECONDS = 30.0  # deadline of the contract for deleting a session
ACTIVITY_SECONDS = 60.0


def decide(s: Snapshot) -> Decision:
    """Returns the decision for the session of snapshot `s`, with the counters of what uses it."""
    decision = _decide(s)
    return counted(s, decision) if decision.finalizer else decision


def _decide(s: Snapshot) -> Decision:
    if s.session.metadata.deletion_timestamp is not None:
        return _deleting(s)
    match s.session.status.phase:
        case None | Phase.PENDING | Phase.HIBERNATED:
            return pending(s)
        case Phase.STARTING:
            return starting(s)
        case Phase.READY:
            return _ready(s)
        case Phase.DRAINING:
            return _draining(s)
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
        return lost(s, Reason.DRIVER_LOST, f"the driver ended: {pod.ended}")
    if s.is_pod_given_up:
        return lost(s, Reason.DRIVER_LOST, outlived(s, pod))
    if pod.deleting:
        return wait(
            s, Phase.READY, Reason.DRIVER_TERMINATING, "the driver pod is being deleted", extra=ready_conditions(s)
        )
    if wants_stop(s):
        return drain(s, Reason.STOPPED, "stopped by desiredState")
    if s.session.spec.restart_nonce != status.observed_restart_nonce:
        return drain(s, Reason.RESTART_REQUESTED, "restartNonce changed")
    if wants_restart(s):
        return drain(s, Reason.SPEC_CHANGED, "the spec changed")
    if lifetime_left(s) == 0:
        return drain(s, Reason.MAX_LIFETIME_REACHED, "maxLifetimeSeconds has passed")
    idle = idle_left(s)
    if idle == 0:
        return drain(s, Reason.IDLE_TIMEOUT, "idle.timeoutSeconds has passed without a statement or a client")
    return _serving(s, idle)


def _serving(s: Snapshot, idle: float | None) -> Decision:
    status = s.session.status
    update: StatusUpdate = {}
    since = (s.now - status.last_activity_time).total_seconds() if status.last_activity_time else ACTIVITY_SECONDS
    if since >= ACTIVITY_SECONDS and is_used(s):
        update["last_activity_time"] = s.now
    if status.restarts and phase_age(s) > STABLE_SECONDS:
        update["restarts"] = 0
    wakes = [ACTIVITY_SECONDS, *(w for w in (idle, lifetime_left(s)) if w is not None)]
    following = with_phase(s.session, s.now, Phase.READY, Reason.READY, extra=ready_conditions(s), **update)
    return Decision(following, events=skew_events(s), requeue_after=max(0.1, min(wakes)))


def _draining(s: Snapshot) -> Decision:
    """Wait for running statements up to a deadline, then for the pod to be gone, then go where the reason leads."""
    reason = ready_reason(s.session.status.conditions)
    pod = s.pod
    if pod is not None and not s.is_pod_given_up:
        left = s.deadlines.drain_seconds - phase_age(s)
        is_in_use = bounded_statements(s) or client_statements(s) or may_grow(s)
        if is_in_use and left > 0 and not pod.deleting and pod.ended is None:
            return _waiting_for_statements(s, Reason(reason), left)
        return wait(
            s, Phase.DRAINING, Reason(reason), f"waits for pod {pod.name} to end", Command.DELETE_DRIVER, wake=1.0
        )
    match reason:
        case Reason.STOPPED if wants_stop(s):
            return settle(s, Phase.STOPPED, Reason.STOPPED, "stopped by desiredState")
        case Reason.IDLE_TIMEOUT | Reason.MAX_LIFETIME_REACHED:
            return settle(s, Phase.CLOSED, Reason(reason), s.session.status.message or "")
        case _:
            extra = state_lost_conditions(s)
            status = with_phase(
                s.session, s.now, Phase.PENDING, Reason.DRIVER_RESTARTING, "restarts", extra=extra, restarts=0
            )
            return Decision(status, events=state_lost_events(s), requeue_after=0.0)


def _waiting_for_statements(s: Snapshot, reason: Reason, left: float) -> Decision:
    """Clients go on while objects run; then the driver takes nothing new, so that they come to an end as well."""
    of_objects, of_clients = bounded_statements(s), client_statements(s)
    message = f"waits for {of_objects + of_clients} running statements"
    if of_clients:
        message += f", {of_clients} of them from clients"
    commands = () if of_objects else (Command.DRAIN_DRIVER,)
    return wait(s, Phase.DRAINING, reason, message, *commands, wake=min(POLL_SECONDS, left + 0.05))


def _failed(s: Snapshot) -> Decision:
    """A person must act: a changed spec or restartNonce starts it again."""
    status, spec = s.session.status, s.session.spec
    if wants_stop(s):
        return settle(s, Phase.STOPPED, Reason.STOPPED, "stopped by desiredState", Command.DELETE_DRIVER)
    if spec.restart_nonce != status.observed_restart_nonce or driver_spec_hash(spec) != status.config_hash:
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
        event = Event("Warning", Reason.FINALIZER_DEADLINE, "let go before the driver pod was confirmed gone")
        return Decision(s.session.status, (Command.DELETE_DRIVER,), finalizer=False, events=(event,))
    status = with_phase(s.session, s.now, Phase.DRAINING, Reason.DELETING, "is being deleted")
    statements_first = s.running and left > FINALIZER_SECONDS / 2
    commands = () if gone or statements_first else (Command.DELETE_DRIVER,)
    return Decision(status, commands, requeue_after=min(0.5, left))
