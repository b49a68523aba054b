"""The steps that decisions about a session are made of: no change, wait, settle, drain, lose a driver. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Literal, Unpack

from sparksql.api.conditions import Condition
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.domain.backoff import exponential
from sparksql.domain.conditions import ready_reason
from sparksql.domain.event import Event
from sparksql.domain.public_text import ClusterReason, Message, Name, PublicText, compose
from sparksql.domain.session.counters import client_counts, closed_sessions, closed_sessions_events, statement_counts
from sparksql.domain.session.desired import phase_age, state_lost_conditions, wants_restart
from sparksql.domain.session.snapshot import Command, Decision, PodFacts, Snapshot
from sparksql.domain.session.status import StatusUpdate, restated, with_phase

POLL_SECONDS = 5.0  # wake-up while something else makes progress; its watch usually comes first
RESTART_BACKOFF_SECONDS = 1.0
MAX_RESTART_BACKOFF_SECONDS = 60.0
START_BACKOFF_SECONDS = 30.0
MAX_START_BACKOFF_SECONDS = 300.0
STATE_LOST = compose("what statements have set in the session is lost; see status").public
STABLE_SECONDS = 600.0  # a driver that stayed up this long makes earlier restarts forgotten


def no_change(s: Snapshot) -> Decision:
    """Decides nothing until somebody changes something; a driver left over by an unclean end is swept."""
    left_over = s.pod is not None and s.pod.ended is None and not s.is_pod_given_up
    commands = (Command.DELETE_DRIVER,) if left_over else ()
    return Decision(restated(s.session, s.now), commands, requeue_after=POLL_SECONDS if left_over else None)


def wait(
    s: Snapshot,
    phase: Phase,
    reason: Reason,
    message: str,
    *commands: Command,
    wake: float = POLL_SECONDS,
    stalled: bool = False,
    extra: tuple[Condition, ...] = (),
    **update: Unpack[StatusUpdate],
) -> Decision:
    """Keeps or enters `phase` for `reason`, and looks again after `wake` seconds."""
    status = with_phase(s.session, s.now, phase, reason, message, stalled=stalled, extra=extra, **update)
    return Decision(status, commands, requeue_after=wake)


def settle(
    s: Snapshot, phase: Phase, reason: Reason, message: str, *commands: Command, event: PublicText | None = None
) -> Decision:
    """Enters a phase that lasts until somebody changes something. `event` is what its Event shows instead."""
    status = with_phase(
        s.session,
        s.now,
        phase,
        reason,
        message,
        statements=statement_counts(s),
        failed_starts=0,
        next_start_time=None,
    )
    type_: Literal["Normal", "Warning"] = "Warning" if phase is Phase.FAILED else "Normal"
    events = new_events(s, type_, reason, message)
    return Decision(
        status, commands, events=events if event is None else tuple(replace(each, message=event) for each in events)
    )


def drain(s: Snapshot, reason: Reason, message: str) -> Decision:
    """Begins to end the driver; running statements may end first."""
    closed = closed_sessions(s)
    notice = f"{message}; {closed} end with the driver" if closed else message
    statements, clients = statement_counts(s), client_counts(s)
    status = with_phase(s.session, s.now, Phase.DRAINING, reason, notice, statements=statements, clients=clients)
    return Decision(status, events=(Event.of("Normal", reason, message), *closed_sessions_events(s)), requeue_after=0.0)


def lost(s: Snapshot, reason: Reason, message: str, *commands: Command) -> Decision:
    """Gives up a driver that is gone or useless: another one is started, a bounded number of times.

    One that the cluster took away for its own ends, which another node may well do again, does not count. Neither does one
    that had statements in its hands: these count it, each up to its own bound.
    """
    uncounted = _uncounted(s)
    restarts = s.session.status.restarts + (uncounted is None)
    if phase_age(s) > STABLE_SECONDS and s.session.status.phase is Phase.READY:
        restarts = int(uncounted is None)
    if restarts > s.max_restarts:
        return settle(
            s,
            Phase.FAILED,
            Reason.MAX_RESTARTS_EXCEEDED,
            compose(
                "gave up after {restarts} restarts; the last loss was {reason}: {cause}. Find its cause, then change "
                "restartNonce to try again",
                restarts=s.max_restarts,
                reason=reason,
                cause=message,
            ),
            *commands,
        )
    delay = exponential(max(restarts, 1), RESTART_BACKOFF_SECONDS, MAX_RESTART_BACKOFF_SECONDS)
    closed = closed_sessions(s)
    status = with_phase(
        s.session,
        s.now,
        Phase.PENDING,
        reason,
        f"{message}; {closed} ended with it" if closed else message,
        restarts=restarts,
        failed_starts=0,
        next_start_time=s.now + timedelta(seconds=delay),
        extra=state_lost_conditions(s),
    )
    which = (
        compose("restart {number}", number=restarts) if uncounted is None else compose("{why}; restart", why=uncounted)
    )
    notice = compose("{cause}; {which} in {delay:g} s", cause=message, which=which, delay=delay)
    event = Event.of("Warning", reason, notice)
    events = (event, *closed_sessions_events(s), *state_lost_events(s))
    return Decision(status, commands, events=events, requeue_after=delay)


def start_failed(s: Snapshot, phase: Phase, reason: Reason, message: str, *commands: Command) -> Decision:
    """Gives one start up, and waits in `phase`, Stalled, for the next one.

    Starts are repeated without end. Their cause is in the cluster (no node, no image, a quota, a webhook) and goes without a
    change of the session. The pauses grow, so that a cause that stays costs little.
    """
    failed = s.session.status.failed_starts + 1
    delay = exponential(failed, START_BACKOFF_SECONDS, MAX_START_BACKOFF_SECONDS)
    due = s.now + timedelta(seconds=delay)
    notice = compose(
        "{cause}; start {number} was given up, the next one is at {due:%Y-%m-%dT%H:%M:%SZ}",
        cause=message,
        number=failed,
        due=due,
    )
    status = with_phase(
        s.session,
        s.now,
        phase,
        reason,
        notice,
        stalled=True,
        statements=statement_counts(s),
        failed_starts=failed,
        next_start_time=due,
    )
    return Decision(status, commands, events=(Event.of("Warning", reason, notice),), requeue_after=delay)


def start_pause(s: Snapshot) -> float | None:
    """Returns the seconds until the start that follows a failed one; None if it is due, or the session has changed since."""
    status, spec = s.session.status, s.session.spec
    is_changed = spec.restart_nonce != status.observed_restart_nonce or wants_restart(s)
    if not status.failed_starts or status.next_start_time is None or is_changed:
        return None
    left = (status.next_start_time - s.now).total_seconds()
    return left if left > 0 else None


def pause(s: Snapshot, left: float) -> Decision:
    """Waits `left` seconds for the next start. The status keeps the cause; the pod of the last start is deleted."""
    commands = (Command.DELETE_DRIVER,) if s.pod is not None and not s.is_pod_given_up else ()
    return Decision(restated(s.session, s.now), commands, requeue_after=left)


def _uncounted(s: Snapshot) -> Message | None:
    """Why the loss of a driver does not count towards giving the session up; None if it does."""
    if s.pod_end is not None and s.pod_end.disruption is not None:
        return compose("evicted or preempted, not counted")
    return compose("counted by the statements that it ran") if s.in_hand else None


def vanished(s: Snapshot) -> Message:
    """Says what became of a driver whose pod is gone."""
    if s.pod_end is None:
        return compose("the driver pod disappeared without a termination status")
    if not s.pod_end.disruption:
        return compose("the driver pod no longer exists")
    return compose("the driver pod no longer exists: {reason}", reason=ClusterReason(s.pod_end.disruption))


def outlived(s: Snapshot, pod: PodFacts) -> Message:
    """Says what became of a driver that is waited for no more."""
    return compose(
        "pod {name} is still there {late:g} s after its grace period, its node does not end it; it may still run, and is waited "
        "for no more",
        name=Name((pod.name,)),
        late=s.deadlines.termination_seconds,
    )


def new_events(s: Snapshot, type_: Literal["Normal", "Warning"], reason: Reason, message: str) -> tuple[Event, ...]:
    """Returns an Event, unless this is already what the status says."""
    known = ready_reason(s.session.status.conditions) == reason and s.session.status.message == message
    return () if known else (Event.of(type_, reason, message),)


def state_lost_events(s: Snapshot) -> tuple[Event, ...]:
    """Returns an Event for each condition that says that session state went with the driver."""
    return tuple(Event("Warning", Reason.SESSION_STATE_LOST, STATE_LOST) for _ in state_lost_conditions(s))
